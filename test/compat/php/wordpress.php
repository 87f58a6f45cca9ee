<?php
// WordPress over mysqli: its installer, posts, searches that count, terms, comments, options, users.
// WORDPRESS is the folder of its files; they are read only.
require __DIR__ . '/steps.php';

define('ABSPATH', getenv('WORDPRESS') . '/');
define('WP_CONTENT_DIR', ABSPATH . 'wp-content');
define('DB_HOST', setting('HOST') . ':' . setting('PORT'));
define('DB_NAME', setting('DATABASE'));
define('DB_USER', setting('USER'));
define('DB_PASSWORD', setting('PASSWORD'));
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('WP_INSTALLING', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('DISABLE_WP_CRON', true);
define('WP_SITEURL', 'http://localhost');
if (setting('TLS')) {
    define('MYSQL_CLIENT_FLAGS', tls_flags());
}
foreach (['AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY', 'AUTH_SALT', 'SECURE_AUTH_SALT', 'LOGGED_IN_SALT', 'NONCE_SALT'] as $name) {
    define($name, "a text of its own for $name");
}
$_SERVER += ['HTTP_HOST' => 'localhost', 'REQUEST_URI' => '/', 'SERVER_NAME' => 'localhost', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1'];
$table_prefix = 'wp_';
error_reporting(E_ERROR);
require ABSPATH . 'wp-settings.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
// Nobody is told by mail.
add_filter('pre_wp_mail', '__return_true');
// A text with quotes, percent signs and characters of four bytes.
const TEXT = "naïve 日本語 🧵 'q' \"d\" \\ 100 % done";

/** What WordPress noticed at the database since the last question. */
function noticed(): string
{
    global $wpdb;
    return $wpdb->last_error;
}

run([
    'installs' => function () {
        global $wpdb;
        $found = wp_install('A blog', 'admin', 'admin@example.org', true, '', 'secret');
        say($found['user_id'], noticed());
        say($wpdb->get_col('SHOW TABLES'));
        say(count($wpdb->get_results('SELECT option_name FROM wp_options WHERE autoload = \'yes\'')) > 50, $wpdb->has_cap('utf8mb4'));
    },
    'posts' => function () {
        $ids = [];
        for ($i = 0; $i < 30; $i++) {
            $ids[] = wp_insert_post(['post_title' => "Post $i", 'post_content' => wp_slash(TEXT . " $i"), 'post_status' => 'publish',
                'post_date' => '2024-02-29 12:00:' . sprintf('%02d', $i), 'post_author' => 1, 'meta_input' => ['colour' => $i % 2 ? 'red' : 'blue']]);
        }
        say($ids, get_post($ids[3])->post_content, get_post_meta($ids[3], 'colour', true));
        say(wp_update_post(['ID' => $ids[0], 'post_title' => wp_slash(TEXT)]) === $ids[0], get_post($ids[0])->post_title);
        say((bool) wp_delete_post($ids[1], true), get_post($ids[1]), noticed());
    },
    'counts_what_it_found' => function () {
        // SQL_CALC_FOUND_ROWS, then FOUND_ROWS() in a statement of its own.
        foreach ([1, 2] as $page) {
            $query = new WP_Query(['posts_per_page' => 4, 'paged' => $page, 'meta_key' => 'colour', 'meta_value' => 'blue', 'orderby' => 'date']);
            say($query->found_posts, $query->max_num_pages, wp_list_pluck($query->posts, 'post_title'));
        }
        say((new WP_Query(['s' => 'naïve', 'posts_per_page' => 1]))->found_posts, (new WP_Query(['year' => 2024, 'monthnum' => 2]))->found_posts);
        say(noticed());
    },
    'terms' => function () {
        $news = wp_insert_term('News', 'category');
        $post = wp_insert_post(['post_title' => 'with a term', 'post_status' => 'publish', 'post_category' => [$news['term_id']], 'tags_input' => ['a', 'ü🧵']]);
        say(wp_list_pluck(get_the_category($post), 'name'), wp_list_pluck(get_the_tags($post), 'name'));
        say(get_term($news['term_id'])->count, wp_count_terms(['taxonomy' => 'post_tag', 'hide_empty' => false]), noticed());
    },
    'comments' => function () {
        $first = wp_insert_comment(['comment_post_ID' => 1, 'comment_author' => 'Anna', 'comment_content' => wp_slash(TEXT), 'comment_approved' => 1]);
        wp_insert_comment(['comment_post_ID' => 1, 'comment_author' => 'Bert', 'comment_content' => 'an answer', 'comment_parent' => $first, 'comment_approved' => 1]);
        say(get_comments_number(1), wp_list_pluck(get_comments(['post_id' => 1, 'orderby' => 'comment_ID', 'order' => 'ASC']), 'comment_content'));
        say(wp_count_comments()->approved, noticed());
    },
    'options_and_transients' => function () {
        say(update_option('colours', ['red', TEXT]), get_option('colours'));
        wp_cache_flush();
        say(get_option('colours'), set_transient('soon', [1, 2], 60), get_transient('soon'), delete_option('colours'), get_option('colours'), noticed());
    },
    'users' => function () {
        $anna = wp_create_user('anna', 'secret', 'anna@example.org');
        wp_cache_flush();
        say($anna, wp_authenticate('anna', 'secret')->ID, wp_authenticate('anna', 'wrong')->get_error_code(), count_users()['total_users']);
        say(wp_list_pluck(get_users(['role' => 'administrator']), 'user_login'), noticed());
    },
    'schema_again' => function () {
        // What an upgrade of WordPress does: compares its definitions with the tables.
        say(array_values(dbDelta(wp_get_db_schema('all'), false)), noticed());
    },
    'errors' => function () {
        global $wpdb;
        $wpdb->suppress_errors(true);
        say($wpdb->query('SELECT * FROM wp_nothing'), noticed());
        say($wpdb->insert('wp_options', ['option_name' => 'siteurl', 'option_value' => '']), noticed());
    },
]);
