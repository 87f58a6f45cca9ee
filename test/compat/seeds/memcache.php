<?php
// mysqlnd_memcache: a SELECT by the key of a mapped table, that needs no server; one by another column, which does.

require __DIR__ . '/steps.php';
require __DIR__ . '/../../../clients/php/mysqlnd_memcache.php';

$link = connect('test');
$memcached = new Memcached();
list($host, $port) = explode(':', getenv('KV'));
$memcached->addServer($host, (int) $port);
same('the two are associated', true, mysqlnd_memcache_set($link, $memcached));
same('and known', $memcached, mysqlnd_memcache_get_config($link)['memcached']);

// Asked over and over, the router's memory answers once it has the row for sure.
$operator = connect();
$hits = function () use ($operator) {
    return (int) $operator->query("HEDDLE STATUS LIKE 'cache_hits'")->fetch_row()[1];
};
becomes('no server is asked', true, function () use ($link, $hits) {
    $before = $hits();
    $row = $link->query('SELECT f1, f2, f3 FROM mapped WHERE id = 1')->fetch_row();
    same('by the key', ['Hello', 'World', '!'], $row);
    return $hits() > $before;
});
same('by another column', '2', value($link, "SELECT id FROM mapped WHERE f1 = 'Lady'"));
same('no row', null, value($link, 'SELECT f1 FROM mapped WHERE id = 77'));

// The same row by its own protocol, and a change by either way is seen by the other.
$value = function () use ($memcached) {
    return $memcached->get('@@mapped.1');
};
same('the value', 'Hello|World|!', $value());
$link->query("UPDATE mapped SET f3 = '?' WHERE id = 1");
same('its own change', '?', value($link, 'SELECT f3 FROM mapped WHERE id = 1'));
becomes('the value', 'Hello|World|?', $value);
same('stored', true, $memcached->set('@@mapped.3', 'a|b|c'));
becomes('the new row', 'b', function () use ($link) {
    return value($link, 'SELECT f2 FROM mapped WHERE id = 3');
});

same('over', true, mysqlnd_memcache_set($link));
same('nothing is known', false, mysqlnd_memcache_get_config($link));
same('servers answer', 'World', value($link, 'SELECT f2 FROM mapped WHERE id = 1'));
echo "done\n";
