<?php
// Fabric's quick start: a map of two ranges, whose table was named before it exists.

require __DIR__ . '/steps.php';

$link = connect('test');

// The definition goes to the global group, and from there everywhere.
same('the global group', true, mysqlnd_ms_fabric_select_global($link, 'test.fabrictest'));
$link->query('DROP TABLE IF EXISTS test.fabrictest');
$link->query('CREATE TABLE test.fabrictest (id INT NOT NULL)');

// One row on each shard.
foreach ([10, 30010] as $id) {
    same("the shard of $id", true, mysqlnd_ms_fabric_select_shard($link, 'test.fabrictest', $id));
    $link->query("INSERT INTO test.fabrictest (id) VALUES ($id)");
    same("the row $id", (string) $id, value($link, "SELECT id FROM test.fabrictest WHERE id = $id"));
}

// The loop by which the cost of a look-up was measured.
for ($i = 0; $i < 2000; $i++) {
    $id = $i % 2 ? 10 : 30010;
    same('a shard', true, mysqlnd_ms_fabric_select_shard($link, 'test.fabrictest', $id));
    $link->query("UPDATE test.fabrictest SET id = $id WHERE id = $id");
}

// Without a choice the statement is about all shards.
$all = connect('test');
same('all rows', '2', value($all, 'SELECT COUNT(*) FROM test.fabrictest'));
echo "done\n";
