<?php
// What the samples share. HOST and PORT are the SQL door; FABRIC is the Fabric door.

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

/** The first cell of a statement's rows, as text. */
function value(mysqli $link, string $sql): ?string
{
    $row = $link->query($sql)->fetch_row();
    return $row ? (string) $row[0] : null;
}
