<?php
// What mysqlnd_ms's filters decided, decided by the rules of filters.toml: node groups by a comment, a list by the table, a
// callback, a level. PRIMARY and REPLICAS are addresses of the servers.

require __DIR__ . '/steps.php';

/** The server that served the last statement. */
function served(mysqli $link): string
{
    return mysqlnd_ms_get_last_used_connection($link)['host'] . ':' . mysqlnd_ms_get_last_used_connection($link)['port'];
}

/** A connection whose reads may be a while old, and older than those before, as with the extension: the filters alone decide. */
function eventual(): mysqli
{
    $link = connect('test');
    $link->query('SET heddle_monotonic = off');
    $age = [MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL, MYSQLND_MS_QOS_OPTION_AGE, 1000];
    same('eventual', true, mysqlnd_ms_set_qos($link, ...$age));
    return $link;
}

$link = eventual();
$servers = mysqlnd_ms_dump_servers($link);
same('one master', 1, count($servers['masters']));
same('two slaves', 2, count($servers['slaves']));
list($first, $second) = array_map('strval', explode(' ', getenv('REPLICAS')));

// Once both are known to be near enough.
foreach (['A' => $first, 'B' => $second] as $partition => $server) {
    becomes("partition $partition serves", $server, function () use ($link, $partition) {
        value($link, "/*Partition_$partition*/SELECT id FROM test.plain");
        return served($link);
    });
}

// node_groups: the comment in front names the partition.
for ($turn = 0; $turn < 4; $turn++) {
    same('a row', '1', value($link, '/*Partition_A*/SELECT id FROM test.plain'));
    same('partition A', $first, served($link));
    same('a row', '1', value($link, '/*Partition_B*/SELECT id FROM test.plain'));
    same('partition B', $second, served($link));
}

// table: reads of one table have a server of their own, writes the master.
$link->query('INSERT INTO test.reports (id) VALUES (2)');
same('the master', getenv('PRIMARY'), served($link));
for ($turn = 0; $turn < 4; $turn++) {
    value($link, '/*' . MYSQLND_MS_SLAVE_SWITCH . '*/SELECT COUNT(*) FROM test.reports');
    same('the table', $second, served($link));
}

// user: the application's own callback takes turns, starting with the first one.
$other = eventual();
$seen = [];
for ($turn = 0; $turn < 4; $turn++) {
    value($other, 'SELECT id FROM test.picked');
    $seen[] = served($other);
}
same('the callback takes turns', [$first, $second, $first, $second], $seen);
value($other, '/* master, please */SELECT id FROM test.picked');
same('the callback asks for the master', getenv('PRIMARY'), served($other));

// quality_of_service: strong consistency for whatever says so.
value($link, '/*exact*/SELECT id FROM test.plain');
same('strong', getenv('PRIMARY'), served($link));

// A statement for all servers: the master first.
$found = [];
same('all servers', true, $link->multi_query('/*' . MYSQLND_MS_ALL_SERVER_SWITCH . '*/SELECT @@port'));
do {
    $found[] = '127.0.0.1:' . $link->store_result()->fetch_row()[0];
} while ($link->more_results() && $link->next_result());
same('each answers', [getenv('PRIMARY'), $first, $second], $found);
same('and the next statement', '1', value($link, 'SELECT 1'));
echo "done\n";
