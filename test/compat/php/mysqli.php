<?php
// mysqli as applications use it: text, prepared, multi_query, async, change_user, persistent, reset.
require __DIR__ . '/steps.php';

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);

function connect(string $host = '', int $flags = 0, ?string $password = null, ?string $database = null): mysqli
{
    $link = mysqli_init();
    $link->options(MYSQLI_OPT_LOCAL_INFILE, true);
    $link->real_connect($host . setting('HOST'), setting('USER'), $password ?? setting('PASSWORD'), $database ?? setting('DATABASE'),
        (int) setting('PORT'), null, $flags | tls_flags());
    $link->set_charset('utf8mb4');
    return $link;
}

function results(mysqli $link): void
{
    do {
        $result = $link->store_result();
        say($result ? $result->fetch_all() : ['affected' => $link->affected_rows]);
    } while ($link->more_results() && $link->next_result());
}

run([
    'connects' => function () {
        $link = connect();
        say($link->server_info, $link->server_version, $link->protocol_version, $link->character_set_name());
        say($link->query('SELECT DATABASE(), @@autocommit, USER() LIKE "%@%"')->fetch_row());
        say($link->thread_id === (int) $link->query('SELECT CONNECTION_ID()')->fetch_row()[0]);
        say(str_starts_with($link->stat(), 'Uptime'));
        $link->close();
    },
    'values' => function () {
        $link = connect();
        $link->query(VALUES_TABLE);
        $insert = $link->prepare('INSERT INTO everything (tiny, big, dec_, dbl, txt, bin, moment, doc, nothing) VALUES (?,?,?,?,?,?,?,?,?)');
        $insert->execute(values());
        say($insert->affected_rows, $insert->insert_id);
        say($link->query('SELECT * FROM everything')->fetch_assoc());
        $select = $link->prepare('SELECT * FROM everything WHERE txt = ?');
        $select->bind_param('s', $text);
        $text = values()[4];
        $select->execute();
        $result = $select->get_result();
        say($result->fetch_assoc());
        foreach ($result->fetch_fields() as $field) {
            say($field->name, $field->orgtable, $field->db === setting('DATABASE'), $field->charsetnr, $field->length, $field->flags, $field->type, $field->decimals);
        }
    },
    'long_data' => function () {
        $link = connect();
        $link->query('CREATE TABLE blobs (id INT PRIMARY KEY, data LONGBLOB)');
        $insert = $link->prepare('INSERT INTO blobs VALUES (?, ?)');
        $null = null;
        $id = 1;
        $insert->bind_param('ib', $id, $null);
        for ($part = 0; $part < 40; $part++) {
            $insert->send_long_data(1, str_repeat(chr($part), 100_000));
        }
        $insert->execute();
        say($link->query('SELECT LENGTH(data), MD5(data) FROM blobs')->fetch_row());
        $insert->reset();
        $id = 2;
        $insert->send_long_data(1, 'after reset');
        $insert->execute();
        say($link->query('SELECT data FROM blobs WHERE id = 2')->fetch_row());
    },
    'transactions' => function () {
        $link = connect();
        $other = connect();
        $link->query('CREATE TABLE account (id INT PRIMARY KEY, balance INT)');
        $link->begin_transaction();
        $link->query('INSERT INTO account VALUES (1, 100)');
        say($other->query('/*ms=master*/ SELECT * FROM account')->fetch_all());
        $link->commit();
        say($other->query('/*ms=master*/ SELECT * FROM account')->fetch_all());
        $link->autocommit(false);
        $link->query('UPDATE account SET balance = 0');
        say($link->affected_rows);
        $link->rollback();
        say($link->query('SELECT balance FROM account')->fetch_row());
        $link->savepoint('here');
        $link->query('DELETE FROM account');
        $link->query('ROLLBACK TO here');
        $link->autocommit(true);
        say($link->query('SELECT COUNT(*) FROM account')->fetch_row());
        $link->begin_transaction(MYSQLI_TRANS_START_READ_ONLY);
        try {
            $link->query('DELETE FROM account');
        } catch (mysqli_sql_exception $error) {
            say($error->getCode(), $error->getSqlState(), $error->getMessage());
        }
        $link->rollback();
    },
    'errors' => function () {
        $link = connect();
        foreach (['SELECT * FROM not_there', 'SELEC', 'SELECT 1; SELECT 2', 'USE no_such_database', 'INSERT INTO account VALUES (1, 1)'] as $statement) {
            try {
                $link->query($statement);
                say($statement, 'no error');
            } catch (mysqli_sql_exception $error) {
                say($statement, $error->getCode(), $error->getSqlState(), $error->getMessage());
            }
        }
        try {
            $link->prepare('SELECT no_such_column FROM account');
        } catch (mysqli_sql_exception $error) {
            say($error->getCode(), $error->getMessage());
        }
        foreach ([['wrong', null], [null, 'no_such_database']] as [$password, $database]) {
            try {
                connect('', 0, $password, $database);
                say('no error');
            } catch (mysqli_sql_exception $error) {
                say($error->getCode(), $error->getMessage());
            }
        }
    },
    'multi_query' => function () {
        $link = connect();
        $link->multi_query("SELECT 1; CREATE TEMPORARY TABLE t (n INT); INSERT INTO t VALUES (1), (2); SELECT * FROM t; SELECT 'ü' AS x");
        results($link);
        try {
            $link->multi_query('SELECT 1; SELECT * FROM not_there; SELECT 3');
            results($link);
        } catch (mysqli_sql_exception $error) {
            say($error->getCode(), $error->getMessage());
        }
        say($link->query("SELECT 'alive'")->fetch_row());
    },
    'procedures' => function () {
        $link = connect();
        $link->query('CREATE PROCEDURE several(IN n INT, OUT doubled INT) BEGIN SELECT n; SELECT n + 1, "ü🧵"; SET doubled = n * 2; END');
        $link->multi_query('CALL several(21, @doubled); SELECT @doubled');
        results($link);
        $call = $link->prepare('CALL several(?, @d)');
        $call->execute([7]);
        do {
            $result = $call->get_result();
            say($result ? $result->fetch_all() : null);
        } while ($call->more_results() && $call->next_result());
        $call->close();
        say($link->query('SELECT @d')->fetch_row());
    },
    'unbuffered' => function () {
        $link = connect();
        $result = $link->query('SELECT seq, REPEAT("x", 100) FROM compat_numbers.seq_1_to_20000', MYSQLI_USE_RESULT);
        $sum = 0;
        while ($row = $result->fetch_row()) {
            $sum += $row[0];
        }
        say($sum);
        $result = $link->query('SELECT seq FROM compat_numbers.seq_1_to_20000', MYSQLI_USE_RESULT);
        say($result->fetch_row());
        $result->free();
        say($link->query("SELECT 'alive'")->fetch_row());
        $cursor = $link->prepare('SELECT seq FROM compat_numbers.seq_1_to_1000');
        $cursor->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
        $cursor->execute();
        $cursor->bind_result($number);
        $sum = 0;
        while ($cursor->fetch()) {
            $sum += $number;
        }
        say('cursor', $sum);
    },
    'asynchronous' => function () {
        $links = [connect(), connect(), connect()];
        foreach ($links as $number => $link) {
            $link->query("SELECT $number, SLEEP(0.1)", MYSQLI_ASYNC);
        }
        $rows = [];
        for ($left = count($links); $left > 0;) {
            $read = $error = $reject = $links;
            if (mysqli_poll($read, $error, $reject, 5) < 1) {
                break;
            }
            foreach ($read as $link) {
                $rows[] = $link->reap_async_query()->fetch_row();
                $left--;
                $links = array_filter($links, fn ($other) => $other !== $link);
            }
        }
        sort($rows);
        say($rows);
    },
    'change_user_and_persistent' => function () {
        $link = connect();
        $link->query('SET @x = 1, time_zone = "+05:00"');
        $link->query('CREATE TEMPORARY TABLE gone (n INT)');
        $link->change_user(setting('USER'), setting('PASSWORD'), 'information_schema');
        say($link->query('SELECT @x, DATABASE(), @@time_zone = @@global.time_zone')->fetch_row());
        $link->select_db(setting('DATABASE'));
        say($link->query('SELECT DATABASE()')->fetch_row());
        $first = connect('p:');
        $first->query('SET @x = 1');
        $first->close();
        say(connect('p:')->query('SELECT @x')->fetch_row());
        try {
            $link->change_user(setting('USER'), 'wrong', null);
            say('no error');
        } catch (mysqli_sql_exception $error) {
            say($error->getCode());
        }
    },
    'load_data_local' => function () {
        $path = setting('FOLDER') . '/mysqli.csv';
        file_put_contents($path, implode('', array_map(fn ($n) => "$n\tname $n\n", range(1, 5000))));
        $link = connect();
        $link->query('CREATE TABLE loaded (n INT, name VARCHAR(20))');
        $link->query("LOAD DATA LOCAL INFILE '$path' INTO TABLE loaded");
        say($link->affected_rows, $link->info, $link->warning_count);
        say($link->query('SELECT COUNT(*), SUM(n) FROM loaded')->fetch_row());
    },
    'found_rows_and_warnings' => function () {
        $link = connect('', MYSQLI_CLIENT_FOUND_ROWS);
        $link->query('UPDATE account SET balance = balance');
        say($link->affected_rows, $link->info);
        $link->query('SELECT 1/0');
        say($link->warning_count, $link->get_warnings() ? $link->get_warnings()->message : null);
        $link->query('SELECT SQL_CALC_FOUND_ROWS seq FROM compat_numbers.seq_1_to_50 LIMIT 3');
        say($link->query('SELECT FOUND_ROWS()')->fetch_row());
    },
    'kill_query' => function () {
        $link = connect();
        $killer = connect();
        $link->query('SELECT SLEEP(20)', MYSQLI_ASYNC);
        $begin = microtime(true);
        do {
            $killer->query('KILL QUERY ' . $link->thread_id);
            $read = $error = $reject = [$link];
        } while (mysqli_poll($read, $error, $reject, 0, 300_000) < 1 && microtime(true) - $begin < 15);
        try {
            $link->reap_async_query();
        } catch (mysqli_sql_exception $error) {
            // 1317, or SLEEP returns 1: both end the statement early.
        }
        say(microtime(true) - $begin < 15, $link->query("SELECT 'alive'")->fetch_row());
    },
]);
