<?php
// The callback of mysqlnd_ms's filter `user`, behind HTTP: `php -S ADDRESS pick_server.php` serves it, and a rule's `hook`
// names it. The callback itself is what an application had in its own code.

/** The first replica for what is asked first, then the next; the master for what is asked in a transaction. */
function pick_server($connected, $query, $masters, $slaves, $last_used_connection, $in_transaction)
{
    if ($in_transaction || !$slaves || stripos($query, 'master, please') !== false) {
        return $masters[0];
    }
    $at = array_search($last_used_connection, $slaves, true);
    return $slaves[$at === false ? 0 : ($at + 1) % count($slaves)];
}

$asked = json_decode(file_get_contents('php://input'), true);
$of = function ($role) use ($asked) {
    $servers = array_filter($asked['servers'], function ($server) use ($role) {
        return $server['role'] === $role;
    });
    return array_values(array_column($servers, 'name'));
};
$picked = pick_server(
    $asked['database'],
    $asked['text'],
    $of('primary'),
    $of('replica'),
    isset($asked['last_used']) ? $asked['last_used'] : null,
    $asked['in_transaction']
);
header('Content-Type: application/json');
echo json_encode(['server' => $picked]);
