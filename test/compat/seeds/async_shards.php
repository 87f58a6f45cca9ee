<?php
// One asynchronous query for each shard; all are under way at once, and whoever is ready is read.

require __DIR__ . '/steps.php';

$links = [];
foreach ([10, 30010] as $id) {
    $link = connect('test');
    same("the shard of $id", true, mysqlnd_ms_fabric_select_shard($link, 'test.fabrictest', $id));
    $link->query("SELECT id, SLEEP(0.05) FROM test.fabrictest WHERE id = $id", MYSQLI_ASYNC);
    $links[] = $link;
}
$found = [];
$open = $links;
while ($open) {
    $read = $error = $reject = $open;
    same('nobody waits for ever', true, mysqli_poll($read, $error, $reject, 30) > 0);
    foreach ($read as $link) {
        $found[] = (int) $link->reap_async_query()->fetch_row()[0];
        $open = array_filter($open, function ($it) use ($link) {
            return $it !== $link;
        });
    }
}
sort($found);
same('a row of each shard', [10, 30010], $found);
echo "done\n";
