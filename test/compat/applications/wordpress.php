<?php
define('ABSPATH', getenv('WORDPRESS') . '/');
// {{settings}}
define('WP_INSTALLING', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
$_SERVER += ['HTTP_HOST' => 'localhost', 'REQUEST_URI' => '/', 'SERVER_NAME' => 'localhost', 'SERVER_PROTOCOL' => 'HTTP/1.1'];
error_reporting(E_ERROR);
require ABSPATH . 'wp-settings.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
add_filter('pre_wp_mail', '__return_true');
wp_install('A blog', 'admin', 'admin@example.org', true, '', 'secret');
wp_insert_post(['post_title' => 'ü🧵', 'post_status' => 'publish']);
$wpdb->db_connect();
echo (new WP_Query(['posts_per_page' => 1]))->found_posts, ' ', $wpdb->get_var('SELECT @@heddle_consistency'), "\n";
