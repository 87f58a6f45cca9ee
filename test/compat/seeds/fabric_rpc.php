<?php
// A class of PHP that asks Fabric itself, by XML-RPC over a stream, as releases of 1.4.0 were asked.

require __DIR__ . '/steps.php';

final class Fabric
{
    private $url;

    public function __construct(string $url)
    {
        $this->url = $url;
    }

    /** The answer's text; parameters are texts. */
    public function ask(string $method, array $parameters): string
    {
        $values = '';
        foreach ($parameters as $parameter) {
            $values .= '<param><value><string>' . htmlspecialchars($parameter) . '</string></value></param>';
        }
        $body = '<?xml version="1.0" encoding="iso-8859-1"?><methodCall><methodName>' . $method
            . "</methodName><params>$values</params></methodCall>";
        $context = stream_context_create(['http' => [
            'method' => 'POST', 'header' => 'Content-type: text/xml', 'content' => $body, 'timeout' => 10,
        ]]);
        return file_get_contents($this->url, false, $context);
    }

    /** Servers of a group or a shard: address, and whether it takes writes. */
    public function servers(string $answer): array
    {
        // [true, '', [[uuid, address, is primary, status], …]]: PHP reads it here without its extension for XML.
        $text = '<value><string>([^<]*)<\/string><\/value>\s*';
        $row = "/<data>\\s*$text{$text}<value><boolean>([01])<\/boolean><\/value>\\s*$text<\/data>/";
        preg_match_all($row, $answer, $rows, PREG_SET_ORDER);
        $found = [];
        foreach ($rows as [, , $address, $primary]) {
            $found[$address] = $primary === '1';
        }
        return $found;
    }
}

$fabric = new Fabric('http://' . getenv('FABRIC') . '/RPC2');
$group = $fabric->servers($fabric->ask('group.lookup_servers', ['g2']));
same('servers of the group', 1, count($group));
same('one takes writes', [true], array_values($group));
$shard = $fabric->servers($fabric->ask('sharding.lookup_servers', ['test.fabrictest', '30010', 'LOCAL']));
same('the shard is on that group', array_keys($group), array_keys($shard));
echo "done\n";
