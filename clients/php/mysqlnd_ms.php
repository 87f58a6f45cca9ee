<?php
/**
 * The functions and constants of PECL/mysqlnd_ms over connections to Heddle's SQL door.
 *
 * Include this file, connect mysqli or PDO to Heddle, and code that was written for the extension
 * runs as it is. What the extension did inside PHP, Heddle does for every client; so most functions
 * here are a statement to Heddle that no server sees. README.md has the list, and what differs.
 *
 * PHP 7.2 and later. With the extension itself loaded this file does nothing.
 */

// What stands in a condition is declared when it is reached, not when the file is compiled.
if (!extension_loaded('mysqlnd_ms') && !function_exists('mysqlnd_ms_set_qos')):

foreach ([
    'MYSQLND_MS_VERSION' => '2.0.0',
    'MYSQLND_MS_VERSION_ID' => 20000,
    'MYSQLND_MS_MASTER_SWITCH' => 'ms=master',
    'MYSQLND_MS_SLAVE_SWITCH' => 'ms=slave',
    'MYSQLND_MS_LAST_USED_SWITCH' => 'ms=last_used',
    'MYSQLND_MS_ALL_SERVER_SWITCH' => 'ms=all',
    'MYSQLND_MS_STRONG_SWITCH' => 'ms=strong',
    'MYSQLND_MS_SESSION_SWITCH' => 'ms=session',
    'MYSQLND_MS_EVENTUAL_SWITCH' => 'ms=eventual',
    'MYSQLND_MS_QUERY_USE_MASTER' => 0,
    'MYSQLND_MS_QUERY_USE_SLAVE' => 1,
    'MYSQLND_MS_QUERY_USE_LAST_USED' => 2,
    'MYSQLND_MS_QOS_CONSISTENCY_STRONG' => 0,
    'MYSQLND_MS_QOS_CONSISTENCY_SESSION' => 1,
    'MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL' => 2,
    'MYSQLND_MS_QOS_OPTION_GTID' => 1,
    'MYSQLND_MS_QOS_OPTION_AGE' => 2,
    'MYSQLND_MS_QOS_OPTION_CACHE' => 3,
    'MYSQLND_MS_HAVE_CACHE_SUPPORT' => 1,
] as $name => $value) {
    if (!defined($name)) {
        define($name, $value);
    }
}
unset($name, $value);

/**
 * One connection to Heddle, mysqli or PDO: asks it questions and leaves no trace of them.
 *
 * @internal
 */
final class HeddleMysqlndMs
{
    /** The names that mysqlnd_ms_get_stats() returns, in the extension's order. */
    const STATISTICS = [
        'use_slave', 'use_master', 'use_slave_guess', 'use_master_guess', 'use_slave_sql_hint', 'use_master_sql_hint',
        'use_last_used_sql_hint', 'use_slave_callback', 'use_master_callback', 'non_lazy_connections_slave_success',
        'non_lazy_connections_slave_failure', 'non_lazy_connections_master_success', 'non_lazy_connections_master_failure',
        'lazy_connections_slave_success', 'lazy_connections_slave_failure', 'lazy_connections_master_success',
        'lazy_connections_master_failure', 'trx_autocommit_on', 'trx_autocommit_off', 'trx_master_forced',
        'gtid_autocommit_injections_success', 'gtid_autocommit_injections_failure', 'gtid_commit_injections_success',
        'gtid_commit_injections_failure', 'gtid_implicit_commit_injections_success',
        'gtid_implicit_commit_injections_failure', 'transient_error_retries', 'fabric_sharding_lookup_servers_success',
        'fabric_sharding_lookup_servers_failure', 'fabric_sharding_lookup_servers_time_total',
        'fabric_sharding_lookup_servers_bytes_total', 'fabric_sharding_lookup_servers_xml_failure', 'xa_begin',
        'xa_commit_success', 'xa_commit_failure', 'xa_rollback_success', 'xa_rollback_failure', 'xa_participants',
        'xa_rollback_on_close', 'pool_masters_total', 'pool_slaves_total', 'pool_masters_active', 'pool_slaves_active',
        'pool_updates', 'pool_master_reactivated', 'pool_slave_reactivated',
    ];

    /** Heddle's greatest bound in milliseconds, which is none. */
    const UNBOUNDED_MS = 4294967295;

    /** The longest life of a reply in Heddle's result cache, in seconds. */
    const CACHE_TTL_MAX_S = 86400;

    /** @var mysqli|PDO */
    private $link;

    /** @var object|null A weak reference to the connection used last; the connection itself before PHP 7.4. */
    private static $last = null;

    /** @var array By the connection's object id: the connection, as above, and the number of its XA transaction. */
    private static $begun = [];

    /** @var array By the connection's object id: the connection, its thread id, its statement that selects shards. */
    private static $selecting = [];

    private function __construct($link)
    {
        $this->link = $link;
    }

    /** The connection behind a handle, or null with the extension's warning. */
    public static function of($link, $function)
    {
        if (!self::isLink($link)) {
            self::warn($function, '(mysqlnd_ms) No mysqlnd_ms connection');
            return null;
        }
        self::$last = self::ofObject($link);
        return new self($link);
    }

    /** The connection used last, for functions that take none. */
    public static function last()
    {
        $last = self::$last instanceof WeakReference ? self::$last->get() : self::$last;
        return $last === null ? null : new self($last);
    }

    /**
     * The number of the connection's XA transaction, null for none; sets it, or forgets it for false.
     */
    public static function xa($link, $gtrid = null)
    {
        $id = spl_object_id($link);
        if ($gtrid === false) {
            unset(self::$begun[$id]);
        } elseif ($gtrid !== null) {
            self::$begun[$id] = [self::ofObject($link), $gtrid];
        }
        if (!isset(self::$begun[$id])) {
            return null;
        }
        list($of, $begun) = self::$begun[$id];
        // The id may be that of an object that is gone.
        $of = $of instanceof WeakReference ? $of->get() : $of;
        return $of === $link ? $begun : null;
    }

    private static function ofObject($link)
    {
        return class_exists('WeakReference', false) ? WeakReference::create($link) : $link;
    }

    public static function warn($function, $text)
    {
        trigger_error("$function(): $text", E_USER_WARNING);
    }

    private static function isLink($link)
    {
        if ($link instanceof PDO) {
            return $link->getAttribute(PDO::ATTR_DRIVER_NAME) === 'mysql';
        }
        return $link instanceof mysqli;
    }

    /**
     * Runs a statement of Heddle's. Returns its rows as lists of texts (none for an OK), or null: then
     * [errno, message] is in $error. The numbers that the client library keeps of the application's
     * last statement are afterwards as they were.
     */
    public function ask($sql, &$error = null)
    {
        $kept = $this->keepsNumbers();
        $rows = $this->run($sql, $error);
        if ($kept) {
            $this->run('HEDDLE PROFILE REPEAT', $ignored);
        }
        return $rows;
    }

    /**
     * Selects where the next statements go: a shard by table and key, or a global table. False: the reason
     * is in $error.
     *
     * With mysqli the selection is long data of a statement that is prepared once. It has no reply, so it
     * travels with the next statement, which says what is wrong with it. Else it costs one trip.
     */
    public function select(array $words, &$error = null)
    {
        $error = null;
        $statement = $this->link instanceof mysqli ? $this->selecting() : null;
        if ($statement !== null) {
            try {
                if (@$statement->send_long_data(0, 'HEDDLE SELECT ' . implode("\0", $words))) {
                    return true;
                }
            } catch (Throwable $refused) {
                // What stands in its way is told below.
            }
        }
        return $this->run('HEDDLE SELECT ' . implode(' ', array_map([self::class, 'quote'], $words)), $error) !== null;
    }

    /** The statement that takes selections, prepared when it is needed first; null where there is none. */
    private function selecting()
    {
        if (!class_exists('WeakReference', false)) {
            // Kept here, the statement would keep its connection.
            return null;
        }
        foreach (self::$selecting as $id => $known) {
            if ($known[0]->get() === null) {
                unset(self::$selecting[$id]);
            }
        }
        try {
            list($id, $thread) = [spl_object_id($this->link), $this->link->thread_id];
            // A connection that was opened anew knows nothing of the statements before.
            if (isset(self::$selecting[$id]) && self::$selecting[$id][1] === $thread) {
                return self::$selecting[$id][2];
            }
            $kept = $this->keepsNumbers();
            $statement = @$this->link->prepare('HEDDLE SELECT ?');
            if ($statement) {
                $data = null;
                $statement->bind_param('b', $data);
                self::$selecting[$id] = [WeakReference::create($this->link), $thread, $statement];
                if ($kept) {
                    $this->run('HEDDLE PROFILE REPEAT', $ignored);
                }
                return $statement;
            }
        } catch (Throwable $refused) {
            // The text says why.
        }
        return null;
    }

    private function keepsNumbers()
    {
        try {
            if ($this->link instanceof PDO) {
                return (string) $this->link->lastInsertId() !== '0';
            }
            return $this->link->insert_id || $this->link->affected_rows > 0;
        } catch (Throwable $closed) {
            return false;
        }
    }

    private function run($sql, &$error)
    {
        $error = null;
        try {
            $rows = $this->link instanceof PDO ? $this->runPdo($sql) : $this->runMysqli($sql);
        } catch (PDOException $refused) {
            $error = [isset($refused->errorInfo[1]) ? (int) $refused->errorInfo[1] : 0, $refused->getMessage()];
            return null;
        } catch (Throwable $refused) {
            // mysqli_sql_exception, or what a closed connection throws.
            $error = [(int) $refused->getCode(), $refused->getMessage()];
            return null;
        }
        if ($rows === null) {
            $error = [$this->link->errno, $this->link->error];
        }
        return $rows;
    }

    private function runMysqli($sql)
    {
        if (!@$this->link->real_query($sql)) {
            return null;
        }
        $result = $this->link->store_result();
        if ($result === false) {
            return $this->link->errno ? null : [];
        }
        $rows = [];
        while ($row = $result->fetch_row()) {
            $rows[] = $row;
        }
        $result->free();
        return $rows;
    }

    private function runPdo($sql)
    {
        $mode = $this->link->getAttribute(PDO::ATTR_ERRMODE);
        $this->link->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
        try {
            $result = $this->link->query($sql);
            $rows = $result->columnCount() ? $result->fetchAll(PDO::FETCH_NUM) : [];
            $result->closeCursor();
            return $rows;
        } finally {
            $this->link->setAttribute(PDO::ATTR_ERRMODE, $mode);
        }
    }

    /** The row of HEDDLE PROFILE by its columns; [] before the first statement, null for no Heddle. */
    public function profile(&$error = null)
    {
        $rows = $this->ask('HEDDLE PROFILE', $error);
        if (!$rows) {
            return $rows;
        }
        $names = [
            'server', 'name', 'group', 'role', 'connection_id', 'level', 'reason', 'shards', 'rows', 'bytes', 'waits',
            'retries', 'in_transaction', 'connect_us', 'wait_us', 'serve_us', 'hold_us', 'total_us',
        ];
        // A router may know more of a statement: further columns stand behind these.
        return array_combine($names, array_slice($rows[0], 0, count($names)));
    }

    /** A text as a literal; a character set cannot break it, for nothing but ASCII stays as it is. */
    public static function quote($text)
    {
        if (preg_match('/[^\x20-\x7e]|[\'"\\\\]/', $text)) {
            return null;
        }
        return "'$text'";
    }

    /** A connection's own words on its last statement. PDO forgets them at the next call of any kind. */
    public static function said($link)
    {
        if ($link instanceof PDO) {
            $info = $link->errorInfo();
            return [
                'last_message' => null,
                'errno' => (int) $info[1],
                'error' => (string) $info[2],
                'sqlstate' => $info[0] === null || $info[0] === '' ? '00000' : $info[0],
            ];
        }
        try {
            return !$link instanceof mysqli ? [] : [
                'last_message' => $link->info,
                'errno' => $link->errno,
                'error' => $link->error,
                'sqlstate' => $link->sqlstate,
            ];
        } catch (Throwable $closed) {
            return ['last_message' => null, 'errno' => 0, 'error' => '', 'sqlstate' => '00000'];
        }
    }

    /** Host and port of HOST:PORT. */
    public static function address($text)
    {
        $at = strrpos((string) $text, ':');
        return $at === false ? [(string) $text, 0] : [substr($text, 0, $at), (int) substr($text, $at + 1)];
    }

    /**
     * The statistics from /metrics of the router that HEDDLE_HTTP names; null where that is not set.
     * HEDDLE_TOKEN is the token of a router that shows its metrics to monitors only.
     */
    public static function metrics()
    {
        $router = getenv('HEDDLE_HTTP');
        if ($router === false || $router === '') {
            return null;
        }
        $http = ['timeout' => 5];
        $token = getenv('HEDDLE_TOKEN');
        if ($token !== false && $token !== '') {
            $http['header'] = "Authorization: Bearer $token";
        }
        $limit = stream_context_create(['http' => $http]);
        $text = @file_get_contents("http://$router/metrics", false, $limit);
        if ($text === false) {
            return null;
        }
        $found = [];
        foreach (self::STATISTICS as $name) {
            $stem = preg_replace('/_total$/', '', $name);
            if (preg_match('/^heddle_' . $stem . '(?:_total)? (\S+)$/m', $text, $match)) {
                $found[$name] = $match[1];
            }
        }
        return $found;
    }

    /** Members of a GTID set as [source, first, last]; null for what is none. */
    public static function intervals($set)
    {
        $out = [];
        $set = preg_replace('/\s+/', '', $set);
        foreach ($set === '' ? [] : explode(',', $set) as $part) {
            if (preg_match('/^(\d+)-(\d+)-(\d+)$/', $part, $m)) {
                // MariaDB: all of the domain up to here.
                $out[] = ['domain ' . (int) $m[1], 0, (int) $m[3]];
                continue;
            }
            $pieces = explode(':', $part);
            if (count($pieces) < 2 || !preg_match('/^[0-9a-f-]{32,36}$/i', $pieces[0])) {
                return null;
            }
            $source = strtolower(str_replace('-', '', array_shift($pieces)));
            foreach ($pieces as $piece) {
                if (!preg_match('/^(\d+)(?:-(\d+))?$/', $piece, $m)) {
                    return null;
                }
                $out[] = [$source, (int) $m[1], (int) (isset($m[2]) ? $m[2] : $m[1])];
            }
        }
        return $out;
    }
}

/**
 * Whether a text matches an SQL pattern: % is any text, _ any character, \ takes away their meaning.
 * Capitals matter.
 */
function mysqlnd_ms_match_wild(string $haystack, string $wild)
{
    $pattern = '';
    for ($at = 0, $length = strlen($wild); $at < $length; $at++) {
        $char = $wild[$at];
        if ($char === '\\') {
            if (++$at === $length) {
                return false;
            }
            $pattern .= preg_quote($wild[$at], '/');
        } elseif ($char === '%') {
            $pattern .= '.*';
        } else {
            $pattern .= $char === '_' ? '.' : preg_quote($char, '/');
        }
    }
    return preg_match("/\\A$pattern\\z/s", $haystack) === 1;
}

/**
 * Where the extension would send a text: its hints, else SELECT to a slave and the rest to a master.
 * Heddle looks closer (a SELECT ... FOR UPDATE is no read); HEDDLE EXPLAIN says where it would go.
 */
function mysqlnd_ms_query_is_select(string $query)
{
    $hints = [
        MYSQLND_MS_MASTER_SWITCH => MYSQLND_MS_QUERY_USE_MASTER,
        MYSQLND_MS_SLAVE_SWITCH => MYSQLND_MS_QUERY_USE_SLAVE,
        MYSQLND_MS_LAST_USED_SWITCH => MYSQLND_MS_QUERY_USE_LAST_USED,
    ];
    $forced = null;
    $rest = $query;
    while (preg_match('~\A(?:\s+|/\*(?![!+]|M!)(.*?)\*/|(?:#|--(?=\s))[^\n]*(?:\n|\z))~s', $rest, $match) && $match[0] !== '') {
        $rest = (string) substr($rest, strlen($match[0]));
        $words = isset($match[1]) ? preg_split('/\s/', strtolower(ltrim($match[1])), 2) : [''];
        if (isset($hints[$words[0]])) {
            $forced = $hints[$words[0]];
        }
    }
    if ($forced !== null) {
        return $forced;
    }
    return preg_match('/\A\(*\s*select(?![a-z0-9_$\x80-\xff])/i', $rest)
        ? MYSQLND_MS_QUERY_USE_SLAVE
        : MYSQLND_MS_QUERY_USE_MASTER;
}

/**
 * The 46 statistics, of the whole router. Asked over the connection that was given to one of these
 * functions last (or given here), else over HTTP from the router that the environment's HEDDLE_HTTP
 * names.
 */
function mysqlnd_ms_get_stats($connection = null)
{
    $link = $connection === null ? HeddleMysqlndMs::last() : HeddleMysqlndMs::of($connection, __FUNCTION__);
    $found = [];
    if ($link !== null) {
        foreach ($link->ask('HEDDLE STATUS') ?: [] as $row) {
            $found[$row[0]] = $row[1];
        }
    }
    if (!$found) {
        $found = HeddleMysqlndMs::metrics();
    }
    if (!$found) {
        HeddleMysqlndMs::warn(__FUNCTION__, '(mysqlnd_ms) No mysqlnd_ms connection has been used yet, and HEDDLE_HTTP names no router');
        return false;
    }
    $all = [];
    foreach (HeddleMysqlndMs::STATISTICS as $name) {
        $all[$name] = isset($found[$name]) ? (string) $found[$name] : '0';
    }
    return $all;
}

/**
 * The server that served the last statement, as Heddle sees it, and what the client library says of
 * that statement.
 */
function mysqlnd_ms_get_last_used_connection($connection)
{
    $said = HeddleMysqlndMs::said($connection);
    $link = HeddleMysqlndMs::of($connection, __FUNCTION__);
    if ($link === null) {
        return false;
    }
    $profile = $link->profile($error);
    if ($profile === null) {
        HeddleMysqlndMs::warn(__FUNCTION__, "(mysqlnd_ms) No mysqlnd_ms connection: {$error[1]}");
        return false;
    }
    $place = ['scheme' => '', 'host_info' => '', 'host' => '', 'port' => 0, 'socket_or_pipe' => '', 'thread_id' => 0];
    if ($profile) {
        list($host, $port) = HeddleMysqlndMs::address($profile['server']);
        $place = [
            'scheme' => "tcp://$host:$port",
            'host_info' => "$host via TCP/IP",
            'host' => $host,
            'port' => $port,
            'socket_or_pipe' => '',
            'thread_id' => (int) $profile['connection_id'],
        ];
    }
    return $place + $said;
}

/**
 * What the session has written, as a value for MYSQLND_MS_QOS_OPTION_GTID on any other connection: a
 * token of Heddle's.
 */
function mysqlnd_ms_get_last_gtid($connection)
{
    $link = HeddleMysqlndMs::of($connection, __FUNCTION__);
    if ($link === null) {
        return false;
    }
    $rows = $link->ask('SELECT @@heddle_token', $error);
    if (!$rows) {
        HeddleMysqlndMs::warn(__FUNCTION__, "(mysqlnd_ms) Fail or no ID has been injected yet: {$error[1]}");
        return false;
    }
    return $rows[0][0];
}

/** Sets what the connection's reads are promised. */
function mysqlnd_ms_set_qos($connection, float $service_level, float $option = 0, $option_value = null)
{
    $level = (int) $service_level;
    $set = '';
    if (func_num_args() > 2) {
        $value = _heddle_qos_option($level, (int) $option, $option_value);
        if ($value === null) {
            return false;
        }
        $set = $value;
    }
    $link = HeddleMysqlndMs::of($connection, __FUNCTION__);
    if ($link === null) {
        return false;
    }
    $profile = $link->profile($error);
    if ($profile === null) {
        HeddleMysqlndMs::warn(__FUNCTION__, "(mysqlnd_ms) No mysqlnd_ms connection: {$error[1]}");
        return false;
    }
    if ($profile && $profile['in_transaction']) {
        HeddleMysqlndMs::warn(__FUNCTION__, '(mysqlnd_ms) No change allowed in the middle of a transaction');
        return false;
    }
    $levels = [
        MYSQLND_MS_QOS_CONSISTENCY_STRONG => 'strong',
        MYSQLND_MS_QOS_CONSISTENCY_SESSION => 'session',
        MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL => 'eventual',
    ];
    if (!isset($levels[$level])) {
        HeddleMysqlndMs::warn(__FUNCTION__, 'Invalid service level');
        return false;
    }
    if ($level === MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL && $set === '') {
        $set = ', heddle_max_lag_ms = DEFAULT';
    }
    if (strpos($set, 'heddle_cache_ttl_s') === false) {
        $set .= ', heddle_cache_ttl_s = DEFAULT';
    }
    if ($link->ask("SET heddle_consistency = '{$levels[$level]}'$set", $error) === null) {
        HeddleMysqlndMs::warn(__FUNCTION__, "(mysqlnd_ms) {$error[1]}");
        return false;
    }
    return true;
}

/**
 * The assignment that an option of mysqlnd_ms_set_qos() is, or null with a warning.
 *
 * @internal
 */
function _heddle_qos_option($level, $option, $value)
{
    $refuse = function ($text) {
        HeddleMysqlndMs::warn('mysqlnd_ms_set_qos', $text);
        return null;
    };
    if ($option === MYSQLND_MS_QOS_OPTION_GTID) {
        if ($level !== MYSQLND_MS_QOS_CONSISTENCY_SESSION) {
            return $refuse('GTID option value must be used with MYSQLND_MS_QOS_CONSISTENCY_SESSION only');
        }
        if ($value === null) {
            return $refuse('Option value required');
        }
        if (!is_string($value) && !is_int($value) && !is_float($value)) {
            return $refuse('GTID must be a number or a string');
        }
        if ((string) $value === '') {
            return $refuse('GTID is empty');
        }
        $literal = HeddleMysqlndMs::quote((string) $value);
        return $literal === null ? $refuse('GTID is no token of Heddle') : ", heddle_token = $literal";
    }
    if ($option === MYSQLND_MS_QOS_OPTION_AGE) {
        if ($level !== MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL) {
            return $refuse('Maximum age option value must be used with MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL only');
        }
        if ($value === null) {
            return $refuse('Option value required');
        }
        if ((int) $value < 0) {
            return $refuse('Maximum age must have a positive value');
        }
        // The extension compared whole seconds, rounded down: 0 is anything below one second.
        $milliseconds = (int) min((int) $value * 1000.0 + 999, HeddleMysqlndMs::UNBOUNDED_MS);
        return ", heddle_max_lag_ms = $milliseconds";
    }
    if ($option === MYSQLND_MS_QOS_OPTION_CACHE) {
        if ($level !== MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL) {
            return $refuse('Cache TTL option value must be used with MYSQLND_MS_QOS_CONSISTENCY_EVENTUAL only');
        }
        if ($value === null) {
            return $refuse('Option value required');
        }
        if ((int) $value < 1) {
            return $refuse('Cache TTL must be at least one');
        }
        $seconds = min((int) $value, HeddleMysqlndMs::CACHE_TTL_MAX_S);
        return ", heddle_max_lag_ms = {$seconds}000, heddle_cache_ttl_s = $seconds";
    }
    return $refuse('Invalid option');
}

/** The servers of the farm: masters and slaves. */
function mysqlnd_ms_dump_servers($connection)
{
    $link = HeddleMysqlndMs::of($connection, __FUNCTION__);
    if ($link === null) {
        return false;
    }
    $rows = $link->ask('HEDDLE DUMP SERVERS 0', $error);
    if ($rows === null) {
        HeddleMysqlndMs::warn(__FUNCTION__, "(mysqlnd_ms) No mysqlnd_ms connection: {$error[1]}");
        return false;
    }
    $all = ['masters' => [], 'slaves' => []];
    foreach ($rows as $row) {
        list($uuid, $group, $host, $port, $mode, $status) = $row;
        $list = [2 => 'slaves', 3 => 'masters'];
        if (isset($list[(int) $status])) {
            $all[$list[(int) $status]][] = [
                'name_from_config' => "$group/$uuid",
                'hostname' => $host,
                'user' => null,
                'port' => (int) $port,
                'socket' => null,
                // Heddle's connections are shared: none of them is this session's own.
                'thread_id' => null,
            ];
        }
    }
    return $all;
}

/** Where Fabric's protocol is spoken. */
function mysqlnd_ms_dump_fabric_rpc_hosts($connection)
{
    $link = HeddleMysqlndMs::of($connection, __FUNCTION__);
    if ($link === null) {
        return false;
    }
    $rows = $link->ask('HEDDLE DUMP FABRIC_NODES protocol.xmlrpc', $error);
    if (!$rows) {
        HeddleMysqlndMs::warn(__FUNCTION__, '(mysqlnd_ms) No MySQL Fabric connection');
        return false;
    }
    return array_map(function ($row) {
        return ['url' => "http://{$row[0]}:{$row[1]}/"];
    }, $rows);
}

/** The connection's next statements are about this row of a sharded table. */
function mysqlnd_ms_fabric_select_shard($connection, string $table, string $shard_key)
{
    return _heddle_fabric_select($connection, __FUNCTION__, ['SHARD', $table, $shard_key]);
}

/** The connection's next statements are about a global table. */
function mysqlnd_ms_fabric_select_global($connection, string $table)
{
    return _heddle_fabric_select($connection, __FUNCTION__, ['GLOBAL', $table]);
}

/** The same by the names that the first texts about sharding with PHP had for it. */
function mysqlnd_ms_select_shard($connection, string $table, string $shard_key)
{
    return _heddle_fabric_select($connection, __FUNCTION__, ['SHARD', $table, $shard_key]);
}

function mysqlnd_ms_select_global($connection, string $table)
{
    return _heddle_fabric_select($connection, __FUNCTION__, ['GLOBAL', $table]);
}

/** @internal */
function _heddle_fabric_select($connection, $function, array $words)
{
    $link = HeddleMysqlndMs::of($connection, $function);
    if ($link === null) {
        return false;
    }
    foreach ($words as $word) {
        if (HeddleMysqlndMs::quote($word) === null) {
            HeddleMysqlndMs::warn($function, '(mysqlnd_ms) Tables and keys take no quotes and nothing but ASCII');
            return false;
        }
    }
    if ($link->select($words, $error)) {
        return true;
    }
    // ER_UNKNOWN_SYSTEM_VARIABLE: this Heddle does not shard.
    $text = $error[0] === 1193 ? 'Connection is not configured to use MySQL Fabric' : $error[1];
    HeddleMysqlndMs::warn($function, "(mysqlnd_ms) $text");
    return false;
}

/**
 * What the XA functions share: the checks of their arguments, and of the transaction that is open.
 * Heddle commits every transaction on all groups that it touched or on none, so the number is for the
 * application only.
 *
 * @internal
 * @return HeddleMysqlndMs|null
 */
function _heddle_xa($connection, $function, $gtrid, $ends, $timeout = 0)
{
    $link = HeddleMysqlndMs::of($connection, $function);
    if ($link === null) {
        return null;
    }
    if ($gtrid < 0 || $gtrid > 1000) {
        HeddleMysqlndMs::warn($function, '(mysqlnd_ms) gtrid must be in the range of 0 - 1000');
        return null;
    }
    if ($timeout < 0 || $timeout > 100) {
        HeddleMysqlndMs::warn($function, '(mysqlnd_ms) timeout must be in the range of 0 - 1000 seconds');
        return null;
    }
    $profile = $link->profile($error);
    if ($error !== null) {
        HeddleMysqlndMs::warn($function, "(mysqlnd_ms) $error[1]");
        return null;
    }
    $open = $profile && $profile['in_transaction'];
    $begun = HeddleMysqlndMs::xa($connection);
    $why = null;
    if (!$ends && $open) {
        $why = $begun === null ? 'Some work is done outside global transaction'
            : 'The command cannot be executed when global transaction is in the ACTIVE state';
    } elseif ($ends && $begun === null) {
        $why = 'There is no active XA transaction';
    } elseif ($ends && $begun !== (int) $gtrid) {
        $why = "The XA transaction that is active has the gtrid $begun";
    } elseif ($ends && !$open) {
        HeddleMysqlndMs::xa($connection, false);
        $why = 'The XA transaction has ended already: an error rolled it back, or a statement committed it';
    }
    if ($why !== null) {
        HeddleMysqlndMs::warn($function, "(mysqlnd_ms) $why");
        return null;
    }
    return $link;
}

/** @internal */
function _heddle_xa_end($connection, $function, $gtrid, $sql)
{
    $link = _heddle_xa($connection, $function, $gtrid, true);
    if ($link === null) {
        return false;
    }
    HeddleMysqlndMs::xa($connection, false);
    if ($link->ask($sql, $error) === null) {
        HeddleMysqlndMs::warn($function, "(mysqlnd_ms) $error[1]");
        return false;
    }
    return true;
}

/** Begins a transaction that may touch all groups. */
function mysqlnd_ms_xa_begin($connection, float $gtrid, float $timeout = 60)
{
    $link = _heddle_xa($connection, __FUNCTION__, $gtrid, false, $timeout);
    if ($link === null) {
        return false;
    }
    if ($link->ask('START TRANSACTION', $error) === null) {
        HeddleMysqlndMs::warn(__FUNCTION__, "(mysqlnd_ms) $error[1]");
        return false;
    }
    HeddleMysqlndMs::xa($connection, (int) $gtrid);
    return true;
}

/** Commits it on all groups, or on none; false with a warning means none. */
function mysqlnd_ms_xa_commit($connection, float $gtrid)
{
    return _heddle_xa_end($connection, __FUNCTION__, $gtrid, 'COMMIT');
}

/** Rolls it back on all groups. */
function mysqlnd_ms_xa_rollback($connection, float $gtrid)
{
    return _heddle_xa_end($connection, __FUNCTION__, $gtrid, 'ROLLBACK');
}

/** Collected what crashes had left: the routers do that by themselves. */
function mysqlnd_ms_xa_gc($connection, float $gtrid = 0, bool $ignore_max_retries = false)
{
    return HeddleMysqlndMs::of($connection, __FUNCTION__) !== null;
}

/**
 * Announced a transaction that was begun in SQL. Heddle learns of every transaction from the server,
 * so there is nothing to announce.
 */
function mysqlnd_ms_set_trx($connection, bool $read_only = false)
{
    return HeddleMysqlndMs::of($connection, __FUNCTION__) !== null;
}

/** Announced its end; see mysqlnd_ms_set_trx(). */
function mysqlnd_ms_unset_trx($connection, bool $commit = true)
{
    return HeddleMysqlndMs::of($connection, __FUNCTION__) !== null;
}

/** Whether a GTID set (MySQL's or MariaDB's) has all of a GTID or of another set. */
function mysqlnd_ms_check_gtid_in_set(string $set, string $gtid)
{
    $has = HeddleMysqlndMs::intervals($set);
    $wanted = HeddleMysqlndMs::intervals($gtid);
    if ($has === null || $wanted === null || !$wanted) {
        return false;
    }
    foreach ($wanted as list($source, $first, $last)) {
        if (strncmp($source, 'domain ', 7) === 0) {
            $first = $last;
        }
        $ranges = array_filter($has, function ($range) use ($source) {
            return $range[0] === $source;
        });
        usort($ranges, function ($a, $b) {
            return $a[1] - $b[1];
        });
        foreach ($ranges as $range) {
            if ($range[1] <= $first && $first <= $range[2]) {
                $first = $range[2] + 1;
            }
        }
        if ($first <= $last) {
            return false;
        }
    }
    return true;
}

endif;
