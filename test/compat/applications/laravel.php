<?php
require 'Illuminate/Database/autoload.php';

$connections = [
// {{settings}}
];
$manager = new Illuminate\Database\Capsule\Manager();
foreach ($connections as $name => $settings) {
    $manager->addConnection($settings, $name === 'mysql' ? 'default' : $name);
}
$database = $manager->getConnection();
$database->getSchemaBuilder()->create('laravel', function ($table) {
    $table->id();
    $table->string('title');
});
$database->transaction(fn () => $database->table('laravel')->insert([['title' => 'ü🧵'], ['title' => 'b']]));
$tries = 0;
$database->transaction(function () use ($database, &$tries) {
    if (++$tries < 3) {
        $database->unprepared("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213");
    }
}, 3);
$database->reconnect();
echo $database->table('laravel')->count(), ' ', $manager->getConnection('reports')->selectOne('SELECT @@heddle_consistency AS level')->level, $tries === 3 ? ' true' : ' false', "\n";
