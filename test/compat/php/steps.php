<?php
// What both PHP programs share: where to connect, and steps whose output is compared.

const VALUES_TABLE = 'CREATE TABLE everything (id INT AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED,
    dec_ DECIMAL(30,6), dbl DOUBLE, txt TEXT, bin VARBINARY(300), moment DATETIME(6), doc JSON, nothing INT)
    DEFAULT CHARSET utf8mb4';

function setting(string $name): string
{
    return getenv("COMPAT_$name");
}

function say(mixed ...$words): void
{
    $lines = array_map(fn ($word) => json_encode(printable($word), JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES), $words);
    echo implode(' ', $lines), "\n";
}

/** With COMPAT_TLS every program connects by TLS; whose certificate it is does not matter here. */
function tls_flags(): int
{
    return setting('TLS') ? MYSQLI_CLIENT_SSL | MYSQLI_CLIENT_SSL_DONT_VERIFY_SERVER_CERT : 0;
}

/** Bytes that are no UTF-8 are shown as hex, since JSON cannot hold them. */
function printable(mixed $word): mixed
{
    if (is_array($word) || is_object($word)) {
        return array_map('printable', (array) $word);
    }
    return is_string($word) && !preg_match('//u', $word) ? '0x' . bin2hex($word) : $word;
}

/** Runs the steps in order; an exception that a step does not expect is part of the comparison. */
function run(array $steps): void
{
    foreach ($steps as $name => $step) {
        echo "== $name\n";
        try {
            $step();
        } catch (Throwable $error) {
            echo 'unexpected: ', get_class($error), ' ', $error->getCode(), ' ', $error->getMessage(), "\n";
        }
    }
}

/** One value of every kind that an application stores. */
function values(): array
{
    return [-128, '18446744073709551615', '-12345678901234567.890123', 0.25, "naïve 日本語 🧵 'q' \\", implode('', array_map('chr', range(0, 255))),
        '1999-12-31 23:59:59.123456', '{"a": [1, null, "ü"]}', null];
}
