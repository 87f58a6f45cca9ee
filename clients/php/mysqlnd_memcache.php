<?php
/**
 * The functions and constants of PECL/mysqlnd_memcache over connections to Heddle's SQL door.
 *
 * The extension looked at each SELECT, and had memcached answer one that asks for columns of a mapped table by its
 * key. Heddle does that itself: a router that remembers rows of the table answers such a SELECT without a server, with
 * the types of its columns, and never with a row that its session may not see any more. So the functions here switch
 * that on and off for a connection. README.md says what differs.
 *
 * PHP 7.2 and later. With the extension itself loaded this file does nothing.
 */

if (!extension_loaded('mysqlnd_memcache') && !function_exists('mysqlnd_memcache_set')):

require_once __DIR__ . '/mysqlnd_ms.php';

foreach ([
    'MYSQLND_MEMCACHE_DEFAULT_REGEXP' => '/^\s*SELECT\s*(.+?)\s*FROM\s*`?([a-z0-9_]+)`?\s*WHERE\s*`?([a-z0-9_]+)`?\s*=\s*(?(?=["\'])["\']([^"\']*)["\']|([0-9e\.]*))\s*$/is',
    'MYSQLND_MEMCACHE_VERSION' => '1.0.1',
    'MYSQLND_MEMCACHE_VERSION_ID' => 10001,
] as $name => $value) {
    if (!defined($name)) {
        define($name, $value);
    }
}
unset($name, $value);

/**
 * What connections were associated with.
 *
 * @internal
 */
final class HeddleMysqlndMemcache
{
    /** Where the plugin of the servers describes its containers. */
    const MAPPING_QUERY = 'SELECT c.name, CONCAT(c.name, (SELECT o.value FROM innodb_memcache.config_options o'
        . " WHERE o.name = 'table_map_delimiter')) AS key_prefix, c.db_schema, c.db_table, c.key_columns, c.value_columns,"
        . " (SELECT o.value FROM innodb_memcache.config_options o WHERE o.name = 'separator') AS sep"
        . ' FROM innodb_memcache.containers c';

    /** @var array By the connection's object id: the connection, the Memcached object, the pattern. */
    private static $of = [];

    public static function put($link, $memcached, $pattern)
    {
        $known = class_exists('WeakReference', false) ? WeakReference::create($link) : $link;
        self::$of[spl_object_id($link)] = [$known, $memcached, $pattern];
    }

    public static function forget($link)
    {
        unset(self::$of[spl_object_id($link)]);
    }

    /** Memcached and pattern of a connection, or null. */
    public static function of($link)
    {
        $id = spl_object_id($link);
        if (!isset(self::$of[$id])) {
            return null;
        }
        list($known, $memcached, $pattern) = self::$of[$id];
        // The id may be that of an object that is gone.
        $known = $known instanceof WeakReference ? $known->get() : $known;
        return $known === $link ? [$memcached, $pattern] : null;
    }

    /** The rows of the mapping as the extension shows them; none where the farm has no such tables. */
    public static function mappings(HeddleMysqlndMs $link)
    {
        $mappings = [];
        foreach ($link->ask(self::MAPPING_QUERY) ?: [] as list(, $prefix, $schema, $table, $key, $values, $separator)) {
            $mappings["$schema.$table"] = [
                'prefix' => "@@$prefix",
                'schema_name' => $schema,
                'table_name' => $table,
                'id_field_name' => $key,
                'separator' => $separator,
                'fields' => preg_split('/[\s;,|]+/', (string) $values, -1, PREG_SPLIT_NO_EMPTY),
            ];
        }
        return $mappings;
    }
}

/**
 * From here on the router's memory may answer the connection's SELECTs by keys; without $memcache_connection servers
 * answer them all again.
 */
function mysqlnd_memcache_set($mysql_connection, $memcache_connection = null, $pattern = null, $callback = null)
{
    $link = HeddleMysqlndMs::of($mysql_connection, __FUNCTION__);
    if ($link === null) {
        return false;
    }
    if ($callback !== null) {
        HeddleMysqlndMs::warn(__FUNCTION__, '(mysqlnd_memcache) The callback is not called: the router decides, not PHP');
    }
    $on = $memcache_connection !== null;
    if ($link->ask('SET heddle_row_cache = ' . ($on ? 'ON' : 'OFF'), $error) === null) {
        HeddleMysqlndMs::warn(__FUNCTION__, "(mysqlnd_memcache) $error[1]");
        return false;
    }
    if ($on) {
        $pattern = $pattern === null || $pattern === '' ? MYSQLND_MEMCACHE_DEFAULT_REGEXP : $pattern;
        HeddleMysqlndMemcache::put($mysql_connection, $memcache_connection, $pattern);
    } else {
        HeddleMysqlndMemcache::forget($mysql_connection);
    }
    return true;
}

/** What a connection was associated with, or false. */
function mysqlnd_memcache_get_config($connection)
{
    $link = HeddleMysqlndMs::of($connection, __FUNCTION__);
    $set = $link === null ? null : HeddleMysqlndMemcache::of($connection);
    if ($set === null) {
        return false;
    }
    return [
        'memcached' => $set[0],
        'pattern' => $set[1],
        'mappings' => HeddleMysqlndMemcache::mappings($link),
        'mapping_query' => HeddleMysqlndMemcache::MAPPING_QUERY,
    ];
}

endif;
