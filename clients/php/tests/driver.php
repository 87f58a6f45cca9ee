<?php
/**
 * Calls everything in mysqlnd_ms.php over one client library against a farm of one primary and its
 * replicas, and compares. Usage: HOST=… PORT=… API=mysqli|pdo [MODE=silent|strict] php driver.php
 *
 * Prints a line for each check; the exit code is 1 when one failed.
 */

error_reporting(E_ALL);

require __DIR__ . '/../mysqlnd_ms.php';
require __DIR__ . '/../mysqlnd_ms.php';

$warnings = [];
set_error_handler(function ($number, $text) use (&$warnings) {
    $warnings[] = $text;
    return true;
});

$failed = 0;

function same($what, $expected, $got)
{
    global $failed;
    if ($expected === $got) {
        echo "ok   $what\n";
        return;
    }
    $failed++;
    echo "FAIL $what: expected " . var_export($expected, true) . ', got ' . var_export($got, true) . "\n";
}

function holds($what, $condition)
{
    same($what, true, (bool) $condition);
}

/** The call returns false and warns with this text at the end of its warning. */
function warns($what, $text, $got)
{
    global $warnings;
    same("$what returns false", false, $got);
    $last = (string) array_pop($warnings);
    holds("$what warns: $text (got: $last)", $text !== '' && strpos($last, $text) !== false);
    $warnings = [];
}

function strict()
{
    return getenv('MODE') === 'strict';
}

function connect($database = '')
{
    $host = getenv('HOST');
    $port = (int) getenv('PORT');
    if (getenv('API') === 'pdo') {
        $link = new PDO("mysql:host=$host;port=$port" . ($database === '' ? '' : ";dbname=$database"), 'root', '');
        $link->setAttribute(PDO::ATTR_ERRMODE, strict() ? PDO::ERRMODE_EXCEPTION : PDO::ERRMODE_SILENT);
        return $link;
    }
    mysqli_report(strict() ? MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT : MYSQLI_REPORT_OFF);
    return new mysqli($host, 'root', '', $database, $port);
}

/** Runs a statement; its rows, or whether it worked. */
function run($link, $sql)
{
    $result = $link->query($sql);
    if ($result instanceof PDOStatement) {
        return $result->columnCount() ? $result->fetchAll(PDO::FETCH_NUM) : true;
    }
    return $result instanceof mysqli_result ? $result->fetch_all() : $result;
}

function value($link, $sql)
{
    $rows = run($link, $sql);
    return is_array($rows) && $rows ? (string) $rows[0][0] : null;
}

/** Whether something comes true within half a minute. */
function until(callable $comes)
{
    for ($end = microtime(true) + 30; microtime(true) < $end; usleep(10000)) {
        if ($comes()) {
            return true;
        }
    }
    return false;
}

function insertId($link)
{
    return $link instanceof PDO ? (int) $link->lastInsertId() : $link->insert_id;
}

function constants()
{
    $values = [
        'MYSQLND_MS_MASTER_SWITCH' => 'ms=master', 'MYSQLND_MS_SLAVE_SWITCH' => 'ms=slave',
        'MYSQLND_MS_LAST_USED_SWITCH' => 'ms=last_used', 'MYSQLND_MS_ALL_SERVER_SWITCH' => 'ms=all',
        'MYSQLND_MS_QUERY_USE_MASTER' => 0, 'MYSQLND_MS_QUERY_USE_SLAVE' => 1, 'MYSQLND_MS_QUERY_USE_LAST_USED' => 2,
        'MYSQLND_MS_QOS_CONSISTENCY_STRONG' => 0, 'MYSQLND_MS_QOS_CONSISTENCY_SESSION' => 1,
        'MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL' => 2, 'MYSQLND_MS_QOS_OPTION_GTID' => 1, 'MYSQLND_MS_QOS_OPTION_AGE' => 2,
        'MYSQLND_MS_QOS_OPTION_CACHE' => 3, 'MYSQLND_MS_VERSION' => '2.0.0', 'MYSQLND_MS_VERSION_ID' => 20000,
    ];
    foreach ($values as $name => $value) {
        same($name, $value, constant($name));
    }
}

function offline()
{
    global $warnings;
    foreach ([
        ['SELECT 1', 1], [' select 1', 1], ['(SELECT 1)', 1], ['SHOW TABLES', 0], ['INSERT INTO t SELECT 1', 0], ['', 0],
        ['SELECTED', 0], ['/*ms=slave*/ INSERT INTO t VALUES (1)', 1], ['/* ms=master */SELECT 1', 0],
        ['/*MS=LAST_USED*/ SELECT 1', 2], ['/* a */ /*ms=slave*/ /*ms=master*/ SELECT 1', 0], ['/*ms=masterx*/SELECT 1', 1],
        ["-- ms=master\nSELECT 1", 1], ['SELECT /*ms=master*/ 1', 1], ['SET @a = 1', 0],
    ] as list($sql, $where)) {
        same('query_is_select: ' . json_encode($sql), $where, mysqlnd_ms_query_is_select($sql));
    }
    foreach ([
        ['db.tbl', 'db.%', true], ['db.tbl', 'db.t_l', true], ['db.tbl', 'db.t', false], ['db.tbl', '%', true], ['', '', true],
        ['', '_', false], ['a%', 'a\\%', true], ['ab', 'a\\%', false], ['db.tbl', 'DB.tbl', false], ['a.b', 'a_b', true],
    ] as list($text, $wild, $matches)) {
        same("match_wild: $text like $wild", $matches, mysqlnd_ms_match_wild($text, $wild));
    }
    $a = '3e11fa47-71ca-11e1-9e33-c80aa9429562';
    $b = '4e11fa47-71ca-11e1-9e33-c80aa9429562';
    foreach ([
        ["$a:1-5", "$a:3", true], ["$a:1-5", "$a:6", false], ["$a:1-5:7-9", "$a:5-7", false], ["$a:1-5:6-9", "$a:5-7", true],
        ["$a:1-5,$b:1-2", "$b:2", true], ["$a:1-5", "$b:1", false], ['0-1-10', '0-1-9', true], ['0-1-10', '0-2-11', false],
        ['0-1-10,1-1-3', '1-9-3', true], ['0-1-10', '1-1-1', false], ['x', "$a:1", false], ["$a:1-5", '', false],
    ] as list($set, $gtid, $in)) {
        same("check_gtid_in_set: $gtid in $set", $in, mysqlnd_ms_check_gtid_in_set($set, $gtid));
    }
    $functions = [
        'match_wild', 'query_is_select', 'get_stats', 'get_last_used_connection', 'get_last_gtid', 'set_qos',
        'fabric_select_shard', 'fabric_select_global', 'dump_servers', 'dump_fabric_rpc_hosts', 'xa_begin', 'xa_commit',
        'xa_rollback', 'xa_gc', 'set_trx', 'unset_trx', 'check_gtid_in_set',
    ];
    foreach ($functions as $name) {
        holds("mysqlnd_ms_$name is there", function_exists("mysqlnd_ms_$name"));
    }
    warns('get_stats without a connection', 'HEDDLE_HTTP names no router', mysqlnd_ms_get_stats());
    $no = '(mysqlnd_ms) No mysqlnd_ms connection';
    warns('get_last_gtid of nothing', $no, mysqlnd_ms_get_last_gtid(null));
    warns('get_last_used_connection of a text', $no, mysqlnd_ms_get_last_used_connection('myapp'));
    warns('set_qos of an object', $no, mysqlnd_ms_set_qos(new stdClass, MYSQLND_MS_QOS_CONSISTENCY_STRONG));
    warns('dump_servers of nothing', $no, mysqlnd_ms_dump_servers(null));
    same('nothing else was said', [], $warnings);
}

function parameters($link)
{
    global $warnings;
    $strong = MYSQLND_MS_QOS_CONSISTENCY_STRONG;
    $session = MYSQLND_MS_QOS_CONSISTENCY_SESSION;
    $eventual = MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL;
    list($gtid, $age, $cache) = [MYSQLND_MS_QOS_OPTION_GTID, MYSQLND_MS_QOS_OPTION_AGE, MYSQLND_MS_QOS_OPTION_CACHE];
    warns('an unknown level', 'Invalid service level', mysqlnd_ms_set_qos($link, 7));
    warns('an unknown option', 'Invalid option', mysqlnd_ms_set_qos($link, $session, 9, 1));
    warns('a GTID with eventual', 'GTID option value must be used with', mysqlnd_ms_set_qos($link, $eventual, $gtid, 'x'));
    warns('a GTID with strong', 'GTID option value must be used with', mysqlnd_ms_set_qos($link, $strong, $gtid, 'x'));
    warns('no GTID', 'Option value required', mysqlnd_ms_set_qos($link, $session, $gtid));
    warns('a GTID of a list', 'GTID must be a number or a string', mysqlnd_ms_set_qos($link, $session, $gtid, [1]));
    warns('an empty GTID', 'GTID is empty', mysqlnd_ms_set_qos($link, $session, $gtid, ''));
    warns('a GTID that is no token', 'token', mysqlnd_ms_set_qos($link, $session, $gtid, '0-1-100'));
    warns('a GTID with quotes', 'no token', mysqlnd_ms_set_qos($link, $session, $gtid, "' OR '1"));
    warns('an age with session', 'Maximum age option value must be used with', mysqlnd_ms_set_qos($link, $session, $age, 1));
    warns('no age', 'Option value required', mysqlnd_ms_set_qos($link, $eventual, $age));
    warns('a negative age', 'Maximum age must have a positive value', mysqlnd_ms_set_qos($link, $eventual, $age, -1));
    warns('a TTL with session', 'Cache TTL option value must be used with', mysqlnd_ms_set_qos($link, $session, $cache, 5));
    warns('no TTL', 'Option value required', mysqlnd_ms_set_qos($link, $eventual, $cache));
    warns('a TTL of 0', 'Cache TTL must be at least one', mysqlnd_ms_set_qos($link, $eventual, $cache, 0));
    same('nothing has changed', 'client', value($link, 'SELECT @@heddle_consistency'));
    warns('gtrid', 'gtrid must be in the range of 0 - 1000', mysqlnd_ms_xa_begin($link, 1001));
    warns('timeout', 'timeout must be in the range', mysqlnd_ms_xa_begin($link, 1, 101));
    foreach (['commit', 'rollback'] as $name) {
        warns("xa_$name", 'There is no active XA transaction', call_user_func("mysqlnd_ms_xa_$name", $link, 1));
    }
    same('xa_gc', true, mysqlnd_ms_xa_gc($link));
    $hosts = [['url' => 'http://' . getenv('FABRIC') . '/']];
    same('where Fabric is', $hosts, mysqlnd_ms_dump_fabric_rpc_hosts($link));
    $fabric = 'Connection is not configured to use MySQL Fabric';
    warns('a shard', $fabric, mysqlnd_ms_fabric_select_shard($link, 'db.t', 10));
    warns('a global table', $fabric, mysqlnd_ms_fabric_select_global($link, 'db.t'));
    same('set_trx', true, mysqlnd_ms_set_trx($link, true));
    same('unset_trx', true, mysqlnd_ms_unset_trx($link));
    same('nothing else was said', [], $warnings);
}

/** Levels: where reads go then, and what the session is told. */
function levels($link)
{
    $read = 'SELECT COUNT(*) FROM php_ms.t';
    $role = function () use ($link, $read) {
        value($link, $read);
        return (string) run($link, 'HEDDLE PROFILE')[0][3];
    };
    same('session', true, mysqlnd_ms_set_qos($link, MYSQLND_MS_QOS_CONSISTENCY_SESSION));
    same('strong', true, mysqlnd_ms_set_qos($link, MYSQLND_MS_QOS_CONSISTENCY_STRONG));
    same('strong is the setting', 'strong', value($link, 'SELECT @@heddle_consistency'));
    same('a strong read is the primary\'s', 'primary', $role());
    same('eventual', true, mysqlnd_ms_set_qos($link, MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL));
    $age = [MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL, MYSQLND_MS_QOS_OPTION_AGE];
    same('an age', true, mysqlnd_ms_set_qos($link, $age[0], $age[1], 600));
    same('the age is the bound', '600999', value($link, 'SELECT @@heddle_max_lag_ms'));
    // The primary served the read before: a replica must first be seen to have what that one saw.
    $served = until(function () use ($role) {
        return $role() === 'replica';
    });
    holds('an eventual read is a replica\'s', $served);
    same('a huge age', true, mysqlnd_ms_set_qos($link, $age[0], $age[1], 4000000000));
    same('is no bound', '4294967295', value($link, 'SELECT @@heddle_max_lag_ms'));
    same('age 0', true, mysqlnd_ms_set_qos($link, $age[0], $age[1], 0));
    same('is below a second', '999', value($link, 'SELECT @@heddle_max_lag_ms'));
    same('eventual again', true, mysqlnd_ms_set_qos($link, MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL));
    same('has the farm\'s bound', '10000', value($link, 'SELECT @@heddle_max_lag_ms'));
    same('a cache', true, mysqlnd_ms_set_qos($link, $age[0], MYSQLND_MS_QOS_OPTION_CACHE, 600));
    same('has a TTL', '600', value($link, 'SELECT @@heddle_cache_ttl_s'));
    $hits = function () use ($link) {
        return (int) run($link, "HEDDLE STATUS LIKE 'cache_hits'")[0][1];
    };
    $before = $hits();
    holds('answers from it', until(function () use ($link, $read, $hits, $before) {
        value($link, $read);
        return $hits() > $before;
    }));
    same('an age again', true, mysqlnd_ms_set_qos($link, $age[0], $age[1], 5));
    same('has no cache', '0', value($link, 'SELECT @@heddle_cache_ttl_s'));
    run($link, 'BEGIN');
    run($link, 'INSERT INTO php_ms.t (name) VALUES (\'in a transaction\')');
    $refused = 'No change allowed in the middle of a transaction';
    warns('in a transaction', $refused, mysqlnd_ms_set_qos($link, MYSQLND_MS_QOS_CONSISTENCY_STRONG));
    run($link, 'ROLLBACK');
    same('after it', true, mysqlnd_ms_set_qos($link, MYSQLND_MS_QOS_CONSISTENCY_SESSION));
}

/** A write's GTID goes to another connection, whose reads have it then. */
function gtids($link)
{
    for ($round = 0; $round < 20; $round++) {
        run($link, "INSERT INTO php_ms.t (name) VALUES ('round $round')");
        $id = insertId($link);
        $gtid = mysqlnd_ms_get_last_gtid($link);
        if (!is_string($gtid) || insertId($link) !== $id || $id < 1) {
            same("a GTID and the insert id of round $round", [true, $id], [is_string($gtid), insertId($link)]);
            continue;
        }
        $other = connect();
        $set = mysqlnd_ms_set_qos($other, MYSQLND_MS_QOS_CONSISTENCY_SESSION, MYSQLND_MS_QOS_OPTION_GTID, $gtid);
        $name = value($other, "SELECT name FROM php_ms.t WHERE id = $id");
        if ($set !== true || $name !== "round $round") {
            same("another connection reads round $round", [true, "round $round"], [$set, $name]);
        }
    }
    holds('twenty rounds', $round === 20);
}

/** The connection that served, and that to ask leaves the numbers of the last statement alone. */
function connections($link)
{
    $all = mysqlnd_ms_dump_servers($link);
    same('one master', 1, count($all['masters']));
    holds('slaves', count($all['slaves']) >= 1);
    $keys = ['name_from_config', 'hostname', 'user', 'port', 'socket', 'thread_id'];
    same('the keys of a server', $keys, array_keys($all['masters'][0]));
    $master = $all['masters'][0]['port'];
    $slaves = array_column($all['slaves'], 'port');

    value($link, '/*ms=slave*/ SELECT 1 FROM php_ms.t LIMIT 1');
    $used = mysqlnd_ms_get_last_used_connection($link);
    $keys = ['scheme', 'host_info', 'host', 'port', 'socket_or_pipe', 'thread_id', 'last_message', 'errno', 'error', 'sqlstate'];
    same('the keys of a connection', $keys, array_keys($used));
    holds('a slave served', in_array($used['port'], $slaves, true));
    same('its scheme', "tcp://127.0.0.1:{$used['port']}", $used['scheme']);
    same('no error', [0, '', '00000'], [$used['errno'], $used['error'], $used['sqlstate']]);

    run($link, "INSERT INTO php_ms.t (name) VALUES ('a'), ('b')");
    $id = insertId($link);
    $affected = $link instanceof PDO ? 0 : $link->affected_rows;
    $used = mysqlnd_ms_get_last_used_connection($link);
    same('the master served the INSERT', $master, $used['port']);
    holds('its connection has a number', $used['thread_id'] > 0);
    same('the insert id stays', $id, insertId($link));
    if (!$link instanceof PDO) {
        same('affected rows stay', [2, 2], [$affected, $link->affected_rows]);
    }
    same('LAST_INSERT_ID() stays', (string) $id, value($link, 'SELECT LAST_INSERT_ID()'));
    try {
        run($link, 'SELECT no_such_column FROM php_ms.t');
    } catch (Exception $expected) {
        // In strict mode.
    }
    $used = mysqlnd_ms_get_last_used_connection($link);
    same('the error of the last statement', [1054, '42S22'], [$used['errno'], $used['sqlstate']]);

    $fresh = connect();
    $used = mysqlnd_ms_get_last_used_connection($fresh);
    same('before the first statement', ['', 0, 0], [$used['host'], $used['port'], $used['thread_id']]);
}

/** The extension's example: orders on one server and on others, all or nothing. */
function transactions($link)
{
    $orders = function () use ($link) {
        return [value($link, 'SELECT COUNT(*) FROM php_ms.orders'), value($link, 'SELECT COUNT(*) FROM php_ms_two.orders')];
    };
    foreach (['php_ms', 'php_ms_two'] as $database) {
        run($link, "CREATE DATABASE IF NOT EXISTS $database");
        run($link, "CREATE TABLE IF NOT EXISTS $database.orders (order_id INT PRIMARY KEY, item VARCHAR(40))");
        run($link, "DELETE FROM $database.orders");
    }
    same('xa_begin', true, mysqlnd_ms_xa_begin($link, 42));
    run($link, "INSERT INTO php_ms.orders (order_id, item) VALUES (1, 'christmas tree, 1.8m')");
    run($link, "INSERT INTO php_ms_two.orders (order_id, item) VALUES (1, 'christmas tree, 1.8m')");
    warns('a second one', 'global transaction is in the ACTIVE state', mysqlnd_ms_xa_begin($link, 43));
    warns('another number', 'has the gtrid 42', mysqlnd_ms_xa_commit($link, 43));
    $other = connect();
    same('nobody else sees it', '0', value($other, 'SELECT COUNT(*) FROM php_ms_two.orders'));
    same('xa_commit', true, mysqlnd_ms_xa_commit($link, 42));
    same('all of it is there', ['1', '1'], $orders());
    same('xa_begin again', true, mysqlnd_ms_xa_begin($link, 42));
    run($link, "INSERT INTO php_ms.orders (order_id) VALUES (2)");
    run($link, "INSERT INTO php_ms_two.orders (order_id) VALUES (2)");
    same('xa_rollback', true, mysqlnd_ms_xa_rollback($link, 42));
    same('nothing of it is there', ['1', '1'], $orders());
    warns('after the end', 'There is no active XA transaction', mysqlnd_ms_xa_commit($link, 42));
    run($link, 'BEGIN');
    run($link, "INSERT INTO php_ms.orders (order_id) VALUES (3)");
    warns('in a local transaction', 'Some work is done outside global transaction', mysqlnd_ms_xa_begin($link, 42));
    run($link, 'ROLLBACK');
    same('xa_begin before a COMMIT in SQL', true, mysqlnd_ms_xa_begin($link, 7));
    run($link, 'COMMIT');
    warns('ended in SQL', 'has ended already', mysqlnd_ms_xa_commit($link, 7));
    same('another connection', true, mysqlnd_ms_xa_begin($other, 42));
    same('its end', true, mysqlnd_ms_xa_rollback($other, 42));
}

/** The number of the error that a statement ends with; 0 for none. */
function refusal($link, $sql)
{
    try {
        $failed = $link->query($sql) === false;
    } catch (Throwable $error) {
        return $error instanceof PDOException ? (int) $error->errorInfo[1] : (int) $error->getCode();
    }
    return !$failed ? 0 : (int) ($link instanceof PDO ? $link->errorInfo()[1] : $link->errno);
}

/** Shards that are selected: ids below 100 are on g1, the others on g2. */
function shards($link)
{
    global $warnings;
    $table = 'php_shop.orders';
    $count = "SELECT COUNT(*) FROM $table";
    $group = function () use ($link, $count) {
        value($link, $count);
        return (string) run($link, 'HEDDLE PROFILE')[0][2];
    };
    run($link, "DELETE FROM $table");
    run($link, "INSERT INTO $table VALUES (1, 0), (150, 0), (151, 0)");
    foreach ([[1, 'g1'], [150, 'g2'], [99, 'g1'], [100, 'g2']] as list($key, $home)) {
        same("select $key", true, mysqlnd_ms_fabric_select_shard($link, $table, $key));
        same("$key is on $home", $home, $group());
    }
    same('select a global table', true, mysqlnd_ms_fabric_select_global($link, $table));
    same('it is on g1', 'g1', $group());
    // What the application asks of its last statement is what that statement said.
    same('select for an INSERT', true, mysqlnd_ms_fabric_select_shard($link, $table, 7));
    run($link, 'INSERT INTO php_ms.t (name) VALUES (1)');
    $id = insertId($link);
    same('select again', true, mysqlnd_ms_fabric_select_shard($link, $table, 150));
    same('insert_id stays', $id, insertId($link));
    for ($round = 0; $round < 20; $round++) {
        mysqlnd_ms_fabric_select_shard($link, $table, $round % 2 ? 150 : 1);
        run($link, "UPDATE $table SET n = n + 1 WHERE id = " . ($round % 2 ? 150 : 1));
    }
    run($link, "SET heddle_shard_key = ''");
    $rows = run($link, "SELECT id, n FROM $table ORDER BY id");
    same('a loop', '[[1,10],[150,10],[151,0]]', json_encode(array_map(function ($row) {
        return array_map('intval', $row);
    }, $rows)));
    // What is wrong is said by the statement that it is for, and by those behind it.
    foreach ([['nowhere.t', '1', 1235], [$table, 'ten', 1366], [$table, '-1', 1526]] as list($of, $key, $error)) {
        same("select $key of $of", true, mysqlnd_ms_fabric_select_shard($link, $of, $key));
        same("it is refused: $key of $of", [$error, $error], [refusal($link, $count), refusal($link, $count)]);
    }
    same('select once more', true, mysqlnd_ms_fabric_select_shard($link, $table, 1));
    same('a row that lives elsewhere', 1235, refusal($link, "DELETE FROM $table WHERE id = 150"));
    warns('quotes in a key', 'nothing but ASCII', mysqlnd_ms_fabric_select_shard($link, $table, "1'"));
    if ($link instanceof mysqli) {
        // It ends the statements of the connection.
        same('change_user', true, $link->change_user('root', '', 'php_ms'));
        same('select behind it', true, mysqlnd_ms_fabric_select_shard($link, $table, 150));
        same('150 is on g2 behind it', 'g2', $group());
        $link->close();
        warns('a closed connection', '(mysqlnd_ms)', mysqlnd_ms_fabric_select_shard($link, $table, 150));
    }
    same('nothing else was said', [], $warnings);
}

function statistics($link)
{
    // A statement is counted behind its answer, which the test of before may have heard a moment ago.
    do {
        $earlier = mysqlnd_ms_get_stats($link);
        usleep(20000);
        $before = mysqlnd_ms_get_stats($link);
    } while ($before != $earlier);
    same('46 statistics', 46, count($before));
    for ($i = 0; $i < 3; $i++) {
        value($link, '/*' . MYSQLND_MS_SLAVE_SWITCH . '*/ SELECT 1 FROM php_ms.t LIMIT 1');
    }
    value($link, '/*' . MYSQLND_MS_MASTER_SWITCH . '*/ SELECT 1 FROM php_ms.t LIMIT 1');
    value($link, '/*' . MYSQLND_MS_LAST_USED_SWITCH . '*/ SELECT 1 FROM php_ms.t LIMIT 1');
    $after = mysqlnd_ms_get_stats();
    $grew = function ($name) use ($before, $after) {
        return (int) $after[$name] - (int) $before[$name];
    };
    $names = ['use_slave_sql_hint', 'use_master_sql_hint', 'use_last_used_sql_hint', 'use_slave', 'use_master'];
    same('hints are counted', [3, 1, 1, 3, 2], array_map($grew, $names));
    same('values are texts', ['string'], array_unique(array_map('gettype', $after)) === ['use_slave' => 'string'] ? ['string'] : $after);
    same('one primary', '1', $after['pool_masters_total']);
    same('the same names', HeddleMysqlndMs::STATISTICS, array_keys($after));
    putenv('HEDDLE_HTTP=' . getenv('HTTP'));
    $scraped = HeddleMysqlndMs::metrics();
    same('all are in /metrics', HeddleMysqlndMs::STATISTICS, array_keys($scraped));
    holds('with the same meaning', (int) $scraped['use_slave'] >= (int) $after['use_slave']);
}

constants();
offline();
$link = connect();
run($link, 'CREATE DATABASE IF NOT EXISTS php_ms');
run($link, 'CREATE TABLE IF NOT EXISTS php_ms.t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40))');
run($link, "INSERT INTO php_ms.t (name) VALUES ('first')");
$parts = ['parameters', 'transactions', 'levels', 'gtids', 'connections', 'statistics'];
foreach (getenv('ONLY') ? [getenv('ONLY')] : $parts as $part) {
    $part(connect('php_ms'));
    same("$part said nothing else", [], $warnings);
}
echo $failed ? "$failed checks failed\n" : "all checks passed\n";
exit($failed ? 1 : 0);
