<?php
// What pages about mysqlnd_ms show first: levels, hints, a transaction over groups, the statistics.

require __DIR__ . '/steps.php';

$link = connect('test');

// «Read your writes» and back, in one call each.
same('session', true, mysqlnd_ms_set_qos($link, MYSQLND_MS_QOS_CONSISTENCY_SESSION));
same('eventual', true, mysqlnd_ms_set_qos(
    $link,
    MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL,
    MYSQLND_MS_QOS_OPTION_AGE,
    10
));
same('strong', true, mysqlnd_ms_set_qos($link, MYSQLND_MS_QOS_CONSISTENCY_STRONG));

// A hint is a comment in front of the statement.
$one = value($link, '/*' . MYSQLND_MS_MASTER_SWITCH . '*/SELECT 1');
same('the hint of the primary', '1', $one);
same('and of the last server', '1', value($link, '/*' . MYSQLND_MS_LAST_USED_SWITCH . '*/SELECT 1'));

// A transaction over both shards, under a number of the application's.
$link->query('DELETE FROM test.fabrictest WHERE id IN (11, 30011)');
same('XA begins', true, mysqlnd_ms_xa_begin($link, 7));
$link->query('INSERT INTO test.fabrictest (id) VALUES (11)');
$link->query('INSERT INTO test.fabrictest (id) VALUES (30011)');
same('XA commits', true, mysqlnd_ms_xa_commit($link, 7));
same('both rows', '2', value($link, 'SELECT COUNT(*) FROM test.fabrictest WHERE id IN (11, 30011)'));
same('XA begins again', true, mysqlnd_ms_xa_begin($link, 8));
$link->query('DELETE FROM test.fabrictest WHERE id IN (11, 30011)');
same('XA is rolled back', true, mysqlnd_ms_xa_rollback($link, 8));
same('both are there', '2', value($link, 'SELECT COUNT(*) FROM test.fabrictest WHERE id IN (11, 30011)'));

// A shard is selected under either name of the function.
foreach (['mysqlnd_ms_select_shard', 'mysqlnd_ms_fabric_select_shard'] as $select) {
    $shard = connect('test');
    same($select, true, $select($shard, 'test.fabrictest', 11));
    $rows = value($shard, 'SELECT COUNT(*) FROM test.fabrictest WHERE id IN (11, 30011)');
    same('the shard has its row alone', '1', $rows);
}

// One look-up by a Fabric client is one more in the statistics.
$count = function () use ($link) {
    $rows = $link->query("HEDDLE STATUS LIKE 'fabric_sharding_lookup_servers_success'");
    return (int) $rows->fetch_row()[1];
};
$before = $count();
$body = '<?xml version="1.0"?><methodCall><methodName>sharding.lookup_servers</methodName><params>'
    . '<param><value><string>test.fabrictest</string></value></param>'
    . '<param><value><string>10</string></value></param></params></methodCall>';
$context = stream_context_create(['http' => [
    'method' => 'POST', 'header' => 'Content-type: text/xml', 'content' => $body, 'timeout' => 10,
]]);
file_get_contents('http://' . getenv('FABRIC') . '/RPC2', false, $context);
same('lookup_servers_success', $before + 1, $count());
echo "done\n";
