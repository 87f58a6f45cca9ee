<?php
// mysqli with the compressed protocol, which mysqlnd asks for whether the server offers it or not.
require __DIR__ . '/steps.php';

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);

function connect(): mysqli
{
    $link = mysqli_init();
    $link->real_connect(setting('HOST'), setting('USER'), setting('PASSWORD'), setting('DATABASE'), (int) setting('PORT'), null,
        MYSQLI_CLIENT_COMPRESS | tls_flags());
    return $link;
}

run([
    'text' => function () {
        $link = connect();
        say($link->query("SELECT LENGTH(REPEAT('x', 1000000)), REPEAT('y', 100)")->fetch_row());
        say(strlen($link->query("SELECT REPEAT('x', 1000000)")->fetch_row()[0]));
        $text = bin2hex(random_bytes(500_000));
        say($link->query("SELECT MD5('$text') = '" . md5($text) . "'")->fetch_row());
    },
    'prepared' => function () {
        $link = connect();
        $link->query('CREATE TABLE packed (id INT PRIMARY KEY, data LONGBLOB)');
        $insert = $link->prepare('INSERT INTO packed VALUES (?, ?)');
        foreach ([1, 2, 3] as $id) {
            $insert->execute([$id, str_repeat(chr($id), 300_000)]);
        }
        say($link->query('SELECT id, LENGTH(data), MD5(data) FROM packed ORDER BY id')->fetch_all());
    },
]);
