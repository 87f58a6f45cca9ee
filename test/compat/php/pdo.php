<?php
// PDO as frameworks use it: emulated and native prepares, transactions, unbuffered reads, rowsets.
require __DIR__ . '/steps.php';

function connect(array $options = [], ?string $database = null): PDO
{
    $dsn = 'mysql:host=' . setting('HOST') . ';port=' . setting('PORT') . ';charset=utf8mb4;dbname=' . ($database ?? setting('DATABASE'));
    if (setting('TLS')) {
        // Only an authority makes the driver use TLS; it is not asked about the certificate.
        $options += [PDO::MYSQL_ATTR_SSL_CA => '/dev/null', PDO::MYSQL_ATTR_SSL_VERIFY_SERVER_CERT => false];
    }
    return new PDO($dsn, setting('USER'), setting('PASSWORD'), $options + [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
}

function error(PDOException $error): void
{
    say($error->getCode(), $error->errorInfo, $error->getMessage());
}

$steps = [];
foreach (['emulated' => true, 'native' => false] as $kind => $emulated) {
    $options = [PDO::ATTR_EMULATE_PREPARES => $emulated];
    $steps["values_$kind"] = function () use ($options) {
        $pdo = connect($options);
        $pdo->exec('DROP TABLE IF EXISTS everything');
        $pdo->exec(VALUES_TABLE);
        $insert = $pdo->prepare('INSERT INTO everything (tiny, big, dec_, dbl, txt, bin, moment, doc, nothing) VALUES (?,?,?,?,?,?,?,?,?)');
        say($insert->execute(values()), $insert->rowCount(), $pdo->lastInsertId());
        $select = $pdo->prepare('SELECT * FROM everything WHERE id = :id AND txt = :text');
        $select->execute(['id' => 1, 'text' => values()[4]]);
        say($select->fetchAll(PDO::FETCH_ASSOC));
        for ($column = 0; $column < $select->columnCount(); $column++) {
            say($select->getColumnMeta($column));
        }
    };
    $steps["errors_$kind"] = function () use ($options) {
        $pdo = connect($options);
        foreach (['SELECT * FROM not_there', 'SELEC', "INSERT INTO everything (id) VALUES (1)", 'CALL no_such_routine()'] as $statement) {
            try {
                $pdo->prepare($statement)->execute();
                say($statement, 'no error');
            } catch (PDOException $error) {
                error($error);
            }
        }
    };
    $steps["procedures_$kind"] = function () use ($options) {
        $pdo = connect($options);
        $pdo->exec('DROP PROCEDURE IF EXISTS several');
        $pdo->exec('CREATE PROCEDURE several(IN n INT) BEGIN SELECT n; SELECT n + 1, "ü🧵"; END');
        $call = $pdo->prepare('CALL several(?)');
        $call->execute([21]);
        do {
            if ($call->columnCount()) {
                say($call->fetchAll(PDO::FETCH_NUM));
            }
        } while ($call->nextRowset());
        unset($call);
        say($pdo->query("SELECT 'alive'")->fetchColumn());
    };
    $steps["many_statements_$kind"] = function () use ($options) {
        $pdo = connect($options);
        $pdo->exec('CREATE TABLE IF NOT EXISTS item (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))');
        $insert = $pdo->prepare('INSERT INTO item (name) VALUES (:name)');
        $read = $pdo->prepare('SELECT name FROM item WHERE id = :id');
        $wrong = 0;
        for ($number = 0; $number < 200; $number++) {
            $insert->execute(['name' => "n$number"]);
            $read->execute(['id' => $pdo->lastInsertId()]);
            $wrong += $read->fetchAll(PDO::FETCH_COLUMN) !== ["n$number"];
        }
        say('wrong', $wrong);
    };
}

run($steps + [
    'transactions' => function () {
        $pdo = connect();
        $pdo->exec('CREATE TABLE account (id INT PRIMARY KEY, balance INT)');
        $pdo->beginTransaction();
        $pdo->exec('INSERT INTO account VALUES (1, 100), (2, 0)');
        say($pdo->inTransaction(), connect()->query('/*ms=master*/ SELECT COUNT(*) FROM account')->fetchColumn());
        $pdo->commit();
        say($pdo->inTransaction(), $pdo->query('SELECT COUNT(*) FROM account')->fetchColumn());
        $pdo->beginTransaction();
        say($pdo->exec('DELETE FROM account'));
        $pdo->rollBack();
        say($pdo->query('SELECT COUNT(*) FROM account')->fetchColumn());
        $pdo->setAttribute(PDO::ATTR_AUTOCOMMIT, 0);
        say($pdo->getAttribute(PDO::ATTR_AUTOCOMMIT), $pdo->query('SELECT @@autocommit')->fetchColumn());
        $pdo->exec('UPDATE account SET balance = 5');
        $pdo->setAttribute(PDO::ATTR_AUTOCOMMIT, 1);
        say($pdo->query('SELECT SUM(balance) FROM account')->fetchColumn());
        $pdo->beginTransaction();
        $pdo->exec('CREATE TABLE commits_implicitly (n INT)');
        say($pdo->inTransaction());
    },
    'unbuffered' => function () {
        $pdo = connect([PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => false, PDO::ATTR_EMULATE_PREPARES => false]);
        $sum = 0;
        foreach ($pdo->query('SELECT seq, REPEAT("x", 100) FROM compat_numbers.seq_1_to_20000') as $row) {
            $sum += $row[0];
        }
        say($sum);
        $rows = $pdo->query('SELECT seq FROM compat_numbers.seq_1_to_100');
        say($rows->fetch(PDO::FETCH_NUM));
        try {
            $pdo->query('SELECT 1');
        } catch (PDOException $error) {
            error($error);
        }
        $rows->closeCursor();
        say($pdo->query("SELECT 'alive'")->fetchColumn());
    },
    'rowsets' => function () {
        $pdo = connect([PDO::ATTR_EMULATE_PREPARES => true]);
        $rows = $pdo->query('SELECT 1; SELECT 2, 3; SET @z = 9; SELECT @z');
        do {
            say($rows->columnCount() ? $rows->fetchAll(PDO::FETCH_NUM) : $rows->rowCount());
        } while ($rows->nextRowset());
        unset($rows);
        $single = connect([PDO::MYSQL_ATTR_MULTI_STATEMENTS => false, PDO::ATTR_EMULATE_PREPARES => true]);
        try {
            $single->query('SELECT 1; SELECT 2');
        } catch (PDOException $error) {
            error($error);
        }
    },
    'attributes' => function () {
        $pdo = connect([PDO::MYSQL_ATTR_INIT_COMMAND => "SET SESSION sql_mode = 'ANSI_QUOTES', @from_init = 7",
            PDO::MYSQL_ATTR_FOUND_ROWS => true]);
        say($pdo->query('SELECT @@sql_mode, @from_init')->fetch(PDO::FETCH_NUM));
        say($pdo->exec('UPDATE account SET balance = balance'));
        say($pdo->getAttribute(PDO::ATTR_SERVER_VERSION), $pdo->getAttribute(PDO::ATTR_CLIENT_VERSION) !== '');
        say($pdo->query('SELECT * FROM "account" ORDER BY id')->fetchAll(PDO::FETCH_KEY_PAIR));
        say($pdo->quote("it's ü\\"));
    },
    'persistent' => function () {
        for ($round = 0; $round < 3; $round++) {
            $pdo = connect([PDO::ATTR_PERSISTENT => true]);
            say($pdo->query('SELECT COUNT(*) FROM account')->fetchColumn());
            unset($pdo);
        }
    },
    'load_data_local' => function () {
        $path = setting('FOLDER') . '/pdo.csv';
        file_put_contents($path, implode('', array_map(fn ($n) => "$n;\"name; $n\"\n", range(1, 5000))));
        $pdo = connect([PDO::MYSQL_ATTR_LOCAL_INFILE => true]);
        $pdo->exec('CREATE TABLE loaded (n INT, name VARCHAR(20))');
        say($pdo->exec("LOAD DATA LOCAL INFILE '$path' INTO TABLE loaded FIELDS TERMINATED BY ';' OPTIONALLY ENCLOSED BY '\"'"));
        say($pdo->query('SELECT COUNT(*), SUM(n), MAX(name) FROM loaded')->fetch(PDO::FETCH_NUM));
    },
    'wrong_login' => function () {
        try {
            connect([], 'no_such_database');
        } catch (PDOException $error) {
            error($error);
        }
    },
]);
