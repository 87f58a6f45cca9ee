<?php
// Doctrine DBAL as long-running programs use it: a connection that is kept alive and opened anew once it is lost, and the
// wrapper that has one connection for reads and one for writes.

require __DIR__ . '/steps.php';
require 'Doctrine/DBAL/autoload.php';

use Doctrine\DBAL\Connection;
use Doctrine\DBAL\Connections\PrimaryReadReplicaConnection;
use Doctrine\DBAL\DriverManager;
use Doctrine\DBAL\Exception\ConnectionLost;
use Doctrine\DBAL\Exception\DriverException;

function parameters(string $driver): array
{
    return [
        'driver' => $driver, 'host' => getenv('HOST'), 'port' => (int) getenv('PORT'), 'user' => 'root', 'password' => '',
        'dbname' => 'test', 'charset' => 'utf8mb4',
    ];
}

/** A worker's loop does this before each job. True: the connection was lost and is another one now. */
function keepAlive(Connection $connection): bool
{
    try {
        $connection->executeQuery($connection->getDatabasePlatform()->getDummySelectSQL());
        return false;
    } catch (DriverException $lost) {
        // mysqli tells of a connection that was closed by other numbers than the class is for.
        same('the loss is told', true, $lost instanceof ConnectionLost || in_array($lost->getCode(), [1927, 2006, 2013], true));
        $connection->close();
        $connection->executeQuery($connection->getDatabasePlatform()->getDummySelectSQL());
        return true;
    }
}

$operator = connect();
foreach (['pdo_mysql', 'mysqli'] as $driver) {
    $connection = DriverManager::getConnection(parameters($driver));
    $connection->executeStatement('DELETE FROM jobs');
    same("$driver: nothing is lost", false, keepAlive($connection));
    $connection->insert('jobs', ['id' => 1, 'state' => 'new']);
    set_error_handler(null);
    $operator->query('KILL ' . $connection->fetchOne('SELECT CONNECTION_ID()'));
    same("$driver: lost once", true, keepAlive($connection));
    same("$driver: and there again", false, keepAlive($connection));
    same("$driver: its row is", 'new', $connection->fetchOne('SELECT state FROM jobs WHERE id = 1'));

    // One address stands for the primary and for every replica.
    $wrapped = DriverManager::getConnection([
        'driver' => $driver,
        'wrapperClass' => PrimaryReadReplicaConnection::class,
        'primary' => parameters($driver),
        'replica' => [parameters($driver), parameters($driver)],
        'keepReplica' => true,
    ]);
    same("$driver: it begins with a replica", 'new', $wrapped->fetchOne('SELECT state FROM jobs WHERE id = 1'));
    same("$driver: not the primary", false, $wrapped->isConnectedToPrimary());
    $wrapped->executeStatement("UPDATE jobs SET state = 'done' WHERE id = 1");
    same("$driver: a write is the primary's", true, $wrapped->isConnectedToPrimary());
    same("$driver: it sees its write", 'done', $wrapped->fetchOne('SELECT state FROM jobs WHERE id = 1'));
    $wrapped->ensureConnectedToReplica();
    same("$driver: back to the replica", false, $wrapped->isConnectedToPrimary());
    // The other connection of the same client: the level `client` is made for this.
    same("$driver: which has the write", 'done', $wrapped->fetchOne('SELECT state FROM jobs WHERE id = 1'));
    $wrapped->transactional(function (Connection $inside) {
        $inside->insert('jobs', ['id' => 2, 'state' => 'new']);
        same('inside', 2, (int) $inside->fetchOne('SELECT COUNT(*) FROM jobs'));
    });
    $wrapped->close();
    same("$driver: and so has a new one", 2, (int) $wrapped->fetchOne('SELECT COUNT(*) FROM jobs'));
}
echo "done\n";
