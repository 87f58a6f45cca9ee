<?php
// Doctrine DBAL over PDO: schema tools and migrations by comparison, types, prepared statements, nested transactions.
require __DIR__ . '/steps.php';
require 'Doctrine/DBAL/autoload.php';

use Doctrine\DBAL\ArrayParameterType;
use Doctrine\DBAL\Configuration;
use Doctrine\DBAL\Connection;
use Doctrine\DBAL\DriverManager;
use Doctrine\DBAL\Exception;
use Doctrine\DBAL\ParameterType;
use Doctrine\DBAL\Schema\Schema;
use Doctrine\DBAL\TransactionIsolationLevel;

const DRIVERS = ['pdo_mysql', 'mysqli'];

function connect(string $driver, array $more = []): Connection
{
    $options = setting('TLS') && $driver === 'pdo_mysql' ? [PDO::MYSQL_ATTR_SSL_CA => '/dev/null', PDO::MYSQL_ATTR_SSL_VERIFY_SERVER_CERT => false] : [];
    return DriverManager::getConnection($more + ['driver' => $driver, 'host' => setting('HOST'), 'port' => (int) setting('PORT'), 'user' => setting('USER'),
        'password' => setting('PASSWORD'), 'dbname' => setting('DATABASE'), 'charset' => 'utf8mb4', 'driverOptions' => $options], new Configuration());
}

function schema(bool $more = false): Schema
{
    $schema = new Schema();
    $author = $schema->createTable('author');
    $author->addOption('charset', 'utf8mb4')->addColumn('id', 'integer', ['autoincrement' => true]);
    $author->addColumn('name', 'string', ['length' => 60]);
    $author->setPrimaryKey(['id'])->addUniqueIndex(['name'], 'by_name');
    $book = $schema->createTable('book');
    $book->addOption('charset', 'utf8mb4')->addColumn('id', 'bigint', ['autoincrement' => true, 'unsigned' => true]);
    $book->addColumn('author_id', 'integer', ['notnull' => false]);
    foreach (['title' => 'string', 'price' => 'decimal', 'extra' => 'json', 'cover' => 'blob', 'at' => 'datetime', 'day' => 'date', 'sold' => 'boolean', 'ratio' => 'float'] as $name => $type) {
        $book->addColumn($name, $type, ['notnull' => false, 'precision' => 20, 'scale' => 6] + ($type === 'string' ? ['length' => 100] : []));
    }
    $book->setPrimaryKey(['id'])->addForeignKeyConstraint('author', ['author_id'], ['id'], [], 'book_author');
    if ($more) {
        $book->addColumn('pages', 'integer', ['default' => 1]);
        $book->addIndex(['title', 'price'], 'by_title');
        $book->changeColumn('title', ['length' => 120]);
    }
    return $schema;
}

function told(callable $what): void
{
    try {
        $what();
        say('no error');
    } catch (Exception\DriverException $error) {
        say(get_class($error), $error->getCode(), $error->getSQLState(), $error->getPrevious()->getMessage());
    } catch (Throwable $error) {
        say(get_class($error), $error->getMessage());
    }
}

$steps = [];
foreach (DRIVERS as $driver) {
    $steps["migrations_$driver"] = function () use ($driver) {
        $db = connect($driver);
        $manager = $db->createSchemaManager();
        foreach (['book', 'author'] as $table) {
            $db->executeStatement("DROP TABLE IF EXISTS $table");
        }
        foreach (schema()->toSql($db->getDatabasePlatform()) as $statement) {
            $db->executeStatement($statement);
        }
        foreach ([true, true] as $more) {
            $changes = $manager->createComparator()->compareSchemas($manager->introspectSchema(), schema($more));
            $statements = array_filter($db->getDatabasePlatform()->getAlterSchemaSQL($changes), fn ($text) => !str_contains($text, 'DROP TABLE'));
            say(count($statements));
            array_map($db->executeStatement(...), $statements);
        }
        say(array_map(fn ($column) => [$column->getName(), $column->getType()->getName(), $column->getLength(), $column->getDefault()], array_values($manager->listTableColumns('book'))));
        // The server leaves their order open.
        $indexes = array_keys($manager->listTableIndexes('book'));
        sort($indexes);
        say($indexes, array_map(fn ($key) => $key->getName(), $manager->listTableForeignKeys('book')));
    };
    $steps["rows_$driver"] = function () use ($driver) {
        $db = connect($driver);
        $db->insert('author', ['name' => "ü 🧵 $driver"]);
        $author = (int) $db->lastInsertId();
        $cover = str_repeat("\0\xff'\\", 500000);
        $when = new DateTime('1999-12-31 23:59:59');
        say($db->insert('book', ['author_id' => $author, 'title' => "a 'b' \\ ?", 'price' => '-12345678901234.567890', 'extra' => ['a' => [1, null, 'ü']], 'cover' => $cover,
            'at' => $when, 'day' => $when, 'sold' => true, 'ratio' => 0.25], ['extra' => 'json', 'cover' => 'blob', 'at' => 'datetime', 'day' => 'date', 'sold' => 'boolean', 'ratio' => 'float']));
        $row = $db->fetchAssociative('SELECT * FROM book WHERE author_id = :author AND title LIKE :title', ['author' => $author, 'title' => 'a %']);
        say(['cover' => md5($row['cover'])] + array_diff_key($row, ['id' => 0, 'author_id' => 0]));
        $insert = $db->prepare('INSERT INTO book (title, price) VALUES (?, ?)');
        for ($n = 1; $n <= 200; $n++) {
            $insert->bindValue(1, "t$n");
            $insert->bindValue(2, $n, ParameterType::INTEGER);
            $insert->executeStatement();
        }
        $query = $db->createQueryBuilder()->select('author_id', 'COUNT(*) AS n', 'SUM(price) AS total')->from('book')->where('price > :low')->groupBy('author_id')->setParameter('low', 10);
        say($query->fetchAllAssociative());
        say($db->fetchFirstColumn('SELECT title FROM book WHERE title IN (?) ORDER BY id', [['t1', 't7']], [ArrayParameterType::STRING]));
        say($db->update('book', ['price' => 1000], ['title' => 't9']), $db->delete('book', ['price' => 1000]), $db->executeStatement("UPDATE book SET price = price + 1 WHERE title LIKE 't1%'"));
        say(iterator_count($db->iterateAssociative('SELECT * FROM book ORDER BY id')), $db->fetchAllKeyValue('SELECT title, price FROM book ORDER BY price DESC LIMIT 3'));
        $db->executeStatement("DELETE FROM book WHERE title LIKE 't%'");
    };
    $steps["transactions_$driver"] = function () use ($driver) {
        $db = connect($driver);
        $other = connect($driver);
        $db->setNestTransactionsWithSavepoints(true);
        $db->setTransactionIsolation(TransactionIsolationLevel::READ_COMMITTED);
        $db->transactional(function (Connection $db) use ($other, $driver) {
            $db->insert('author', ['name' => "kept $driver"]);
            told(fn () => $db->transactional(function (Connection $db) use ($driver) {
                $db->insert('author', ['name' => "inner $driver"]);
                throw new RuntimeException('inner only');
            }));
            say($db->fetchOne('SELECT name FROM author WHERE name = ? FOR UPDATE', ["kept $driver"]), $other->fetchOne('SELECT COUNT(*) FROM author WHERE name = ?', ["kept $driver"]));
        });
        told(fn () => $db->transactional(function (Connection $db) use ($driver) {
            $db->insert('author', ['name' => "lost $driver"]);
            throw new RuntimeException('roll back');
        }));
        say($db->fetchFirstColumn('SELECT name FROM author ORDER BY id'));
        $wrong = 0;
        for ($n = 0; $n < 50; $n++) {
            $db->insert('author', ['name' => "w$n $driver"]);
            $wrong += (int) $other->fetchOne('SELECT COUNT(*) FROM author WHERE name = ?', ["w$n $driver"]) !== 1;
        }
        say('wrong', $wrong);
    };
    $steps["errors_$driver"] = function () use ($driver) {
        $db = connect($driver);
        told(fn () => $db->insert('author', ['name' => "kept $driver"]));
        told(fn () => $db->executeStatement('SELEC'));
        told(fn () => $db->fetchOne('SELECT * FROM not_there'));
        told(fn () => $db->insert('book', ['author_id' => 4711]));
        told(fn () => $db->insert('author', ['name' => null]));
        told(fn () => $db->executeStatement('SELECT nothing FROM book'));
        told(fn () => connect($driver, ['password' => 'wrong'])->connect());
        told(fn () => connect($driver, ['dbname' => 'not_there'])->connect());
        say($db->fetchOne('SELECT 1'));
    };
}
run($steps);
