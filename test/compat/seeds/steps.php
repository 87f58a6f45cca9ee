<?php
// What the samples share. HOST and PORT are the SQL door, FABRIC is the Fabric door, and KV that of keys and values.

require __DIR__ . '/../../../clients/php/mysqlnd_ms.php';

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);

// What a library warns of is something that the sample did not see in its time.
set_error_handler(function ($number, $text, $file, $line) {
    fwrite(STDERR, "$text ($file:$line)\n");
    exit(1);
});

function connect(?string $database = null): mysqli
{
    return new mysqli(getenv('HOST'), 'root', '', $database, (int) getenv('PORT'));
}

function same(string $what, $wanted, $is): void
{
    if ($wanted !== $is) {
        fwrite(STDERR, "$what: " . var_export($is, true) . ' in place of ' . var_export($wanted, true) . "\n");
        exit(1);
    }
}

/** The same of what becomes so once other servers have it. */
function becomes(string $what, $wanted, callable $ask): void
{
    $end = microtime(true) + 60;
    do {
        $is = $ask();
    } while ($is !== $wanted && microtime(true) < $end);
    same($what, $wanted, $is);
}

/** The first cell of a statement's rows, as text. */
function value(mysqli $link, string $sql): ?string
{
    $row = $link->query($sql)->fetch_row();
    return $row ? (string) $row[0] : null;
}
