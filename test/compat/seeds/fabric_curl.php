<?php
// A class of PHP that asks Fabric through PHP's curl and reads the answer with SimpleXML.

require __DIR__ . '/steps.php';

final class FabricByCurl
{
    private $curl;

    public function __construct(string $url)
    {
        $this->curl = curl_init($url);
        curl_setopt($this->curl, CURLOPT_RETURNTRANSFER, true);
        curl_setopt($this->curl, CURLOPT_POST, true);
        curl_setopt($this->curl, CURLOPT_TIMEOUT, 10);
        curl_setopt($this->curl, CURLOPT_HTTPHEADER, ['Content-Type: text/xml']);
    }

    /** The answer's document. A call without parameters has no element for them. */
    private function ask(string $method, array $parameters): SimpleXMLElement
    {
        $call = new SimpleXMLElement('<?xml version="1.0" encoding="iso-8859-1"?><methodCall/>');
        $call->addChild('methodName', $method);
        if ($parameters) {
            $params = $call->addChild('params');
            foreach ($parameters as $parameter) {
                $params->addChild('param')->addChild('value')->addChild('string', htmlspecialchars($parameter));
            }
        }
        curl_setopt($this->curl, CURLOPT_POSTFIELDS, $call->asXML());
        $answer = curl_exec($this->curl);
        same("$method is answered", 200, curl_getinfo($this->curl, CURLINFO_HTTP_CODE));
        return new SimpleXMLElement($answer);
    }

    /** The rows: [true, '', rows], each of them a list of values. */
    private function rows(string $method, array $parameters): array
    {
        $frame = '/methodResponse/params/param/value/array/data/value';
        $answer = $this->ask($method, $parameters);
        list($done) = $answer->xpath("{$frame}[1]/boolean");
        list($why) = $answer->xpath("{$frame}[2]/string");
        if ((string) $done !== '1') {
            throw new RuntimeException((string) $why);
        }
        $rows = [];
        foreach ($answer->xpath("{$frame}[3]/array/data/value/array/data") as $row) {
            $cells = [];
            foreach ($row->value as $value) {
                $cells[] = (string) $value->children()[0];
            }
            $rows[] = $cells;
        }
        return $rows;
    }

    public function getGroups(): array
    {
        return array_column($this->rows('group.lookup_groups', []), 0);
    }

    /** Addresses of the servers of a group that have this role. */
    private function ofRole(string $group, string $role): array
    {
        $rows = $this->rows('group.lookup_servers', [$group]);
        return array_column(array_filter($rows, function ($row) use ($role) {
            return $row[3] === $role;
        }), 1);
    }

    public function getReadWriteServer(string $group): string
    {
        return $this->ofRole($group, 'PRIMARY')[0];
    }

    public function getReadOnlyServers(string $group): array
    {
        return array_values($this->ofRole($group, 'SECONDARY'));
    }

    public function getShardServer(string $table, string $key): string
    {
        return $this->rows('sharding.lookup_servers', [$table, $key, 'LOCAL'])[0][1];
    }
}

$fabric = new FabricByCurl('http://' . getenv('FABRIC') . '/');
same('the groups', ['g1', 'g2', 'g3'], $fabric->getGroups());
same('nobody follows', [], $fabric->getReadOnlyServers('g2'));

// An application that talks to the servers themselves finds its row where Fabric says that it is.
foreach (['10' => 'g3', '30010' => 'g2'] as $id => $group) {
    $address = $fabric->getShardServer('test.fabrictest', (string) $id);
    same("the shard of $id is on $group", $fabric->getReadWriteServer($group), $address);
    list($host, $port) = explode(':', $address);
    $server = new mysqli($host, 'root', '', 'test', (int) $port);
    same("the row $id", (string) $id, value($server, "SELECT id FROM test.fabrictest WHERE id = $id"));
}
try {
    $fabric->getReadWriteServer('nobody');
    same('a group that is not there', 'an error', 'an answer');
} catch (RuntimeException $error) {
    same('a group that is not there', true, strpos($error->getMessage(), 'nobody') !== false);
}
echo "done\n";
