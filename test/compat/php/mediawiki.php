<?php
// MediaWiki over mysqli: its installer, edits, texts, links, searches and jobs, by its own command line programs.
// MEDIAWIKI is the folder of its files; they are read only.
require __DIR__ . '/steps.php';

const PAGES = 6;
$folder = setting('FOLDER') . '/mediawiki-' . getmypid();
mkdir($folder);
register_shutdown_function(fn () => array_map(fn ($it) => is_dir($it) ? rmdir($it) : unlink($it), [...glob("$folder/*"), $folder]));

/** Runs a program of maintenance/; shows its exit code and those lines that match. */
function maintain(string $name, array $arguments, string $input = '', string $shown = '/./'): void
{
    global $folder;
    $environment = getenv() + ['MW_CONFIG_FILE' => "$folder/LocalSettings.php"];
    if ($name === 'install') {
        unset($environment['MW_CONFIG_FILE']);
    }
    $command = [PHP_BINARY, '-d', 'error_reporting=E_ERROR', getenv('MEDIAWIKI') . "/maintenance/$name.php", ...$arguments];
    $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, $folder, $environment);
    fwrite($pipes[0], $input);
    fclose($pipes[0]);
    $lines = explode("\n", stream_get_contents($pipes[1]));
    say(proc_close($process), array_values(preg_grep($shown, $lines)));
}

function query(string $text): void
{
    static $connection = null;
    $connection ??= (function () {
        $made = mysqli_init();
        $made->real_connect(setting('HOST'), setting('USER'), setting('PASSWORD'), setting('DATABASE'), (int) setting('PORT'), null, tls_flags());
        return $made;
    })();
    say($connection->query($text)->fetch_all());
}

run([
    'installs' => function () use ($folder) {
        maintain('install', ['--dbserver', setting('HOST') . ':' . setting('PORT'), '--dbname', setting('DATABASE'), '--dbuser', setting('USER'),
            '--dbpass', setting('PASSWORD'), ...(setting('TLS') ? ['--dbssl'] : []), '--confpath', $folder, '--scriptpath', '/w', '--server', 'http://localhost',
            '--pass', 'a long secret 17', 'A wiki', 'Admin'], shown: '/done|rror/');
        file_put_contents("$folder/LocalSettings.php", "\n\$wgMainCacheType = CACHE_DB; \$wgParserCacheType = CACHE_DB; \$wgJobRunRate = 0;\n", FILE_APPEND);
        query('SHOW TABLES');
    },
    'edits' => function () {
        for ($i = 0; $i < PAGES; $i++) {
            maintain('edit', ['--user', 'Admin', '--summary', "edit $i", "Page $i"], "naïve 日本語 🧵 'q' \\ text $i, see [[Page " . ($i + 1) . "]] [[Category:Pages]]");
        }
        maintain('edit', ['--user', 'Admin', '--summary', 'again', 'Page 3'], 'anew');
        query('SELECT page_title, page_len FROM page WHERE page_namespace = 0 ORDER BY page_title');
    },
    'reads' => function () {
        maintain('getText', ['Page 2']);
        maintain('getText', ['Page 3']);
        maintain('getText', ['No page'], shown: '/exist/');
    },
    'jobs_and_links' => function () {
        maintain('runJobs', [], shown: '/rror/');
        maintain('refreshLinks', [], shown: '/rror/');
        query('SELECT pl_title, COUNT(*) FROM pagelinks GROUP BY pl_title ORDER BY pl_title');
        query('SELECT cat_title, cat_pages FROM category');
    },
    'searches' => function () {
        maintain('rebuildtextindex', [], shown: '/rror/');
        query("SELECT COUNT(*) FROM searchindex WHERE MATCH(si_text) AGAINST ('+category' IN BOOLEAN MODE) > 0");
    },
    'accounts_and_statistics' => function () {
        maintain('createAndPromote', ['Anna', 'another secret 23'], shown: '/rror|done/');
        maintain('initSiteStats', ['--update'], shown: '/rror/');
        query('SELECT ss_good_articles >= 0, ss_users FROM site_stats');
        query('SELECT user_name, user_editcount FROM user ORDER BY user_id');
    },
    'updates' => function () {
        maintain('update', ['--quick'], shown: '/^Done\.$/');
    },
]);
