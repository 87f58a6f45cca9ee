# Session variables of every kind, set and read back; user variables; databases.
SHOW WARNINGS;
SELECT @@sql_mode, @@autocommit, @@time_zone, @@session.sql_select_limit, @@global.max_connections > 0, @@local.wait_timeout > 0;
SET sql_mode = 'STRICT_TRANS_TABLES';
SELECT @@sql_mode;
SET @@sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT';
SELECT @@session.sql_mode, "sql_mode" FROM (SELECT 1 AS "sql_mode") AS "t";
SET SESSION sql_mode = '';
SET @@session.sql_mode = DEFAULT;
SET LOCAL sql_mode = 'TRADITIONAL';
SELECT @@sql_mode;
SET @@local.sql_mode = 'ANSI';
SELECT @@sql_mode;
SHOW VARIABLES LIKE 'sql_mode';
SET sql_mode = DEFAULT;
SET sql_mode = @@global.sql_mode;
SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES');
SELECT @@sql_mode;
SET sql_mode = DEFAULT, max_join_size = 1000000, @x = 5, @@lock_wait_timeout = 100, SESSION group_concat_max_len = 100;
SELECT @@sql_mode, @@max_join_size, @x, @@lock_wait_timeout, @@group_concat_max_len;
SET max_join_size = DEFAULT, lock_wait_timeout = DEFAULT, group_concat_max_len = DEFAULT;
SET sql_select_limit = 2;
SELECT 1 UNION SELECT 2 UNION SELECT 3;
SET sql_select_limit = DEFAULT;
SELECT 1 UNION SELECT 2 UNION SELECT 3;
SET sql_safe_updates = ON;
CREATE TABLE t (id INT PRIMARY KEY, v INT);
INSERT INTO t VALUES (1, 1), (2, 2);
UPDATE t SET v = 5;
DELETE FROM t;
SET sql_safe_updates = OFF;
UPDATE t SET v = 5;
SET foreign_key_checks = 0, unique_checks = 0;
SELECT @@foreign_key_checks, @@unique_checks;
SET foreign_key_checks = 1, unique_checks = 1;
SET sql_big_selects = 0;
SET sql_big_selects = DEFAULT;
SET sql_warnings = 1;
SET sql_warnings = 0;
SET sql_quote_show_create = 0;
SHOW CREATE TABLE t;
SET sql_quote_show_create = 1;
SET big_tables = 1;
SET big_tables = DEFAULT;
# MySQL refuses a locale at first and takes it later.
-- engine from here: mariadb
SET time_zone = '+02:00', lc_time_names = 'fr_FR';
SELECT @@time_zone, DAYNAME('2024-01-01'), MONTHNAME('2024-02-01'), FROM_UNIXTIME(0);
SET time_zone = DEFAULT, lc_time_names = DEFAULT;
SET lc_messages = 'de_DE';
SELECT no_such;
SET lc_messages = DEFAULT;
SELECT no_such;
-- engine from here: both
SET div_precision_increment = 8;
SELECT 1/3;
SET div_precision_increment = DEFAULT;
SELECT 1/3;
SET default_week_format = 3;
SELECT WEEK('2024-01-01');
SET default_week_format = DEFAULT;
SET group_concat_max_len = 4;
SELECT GROUP_CONCAT(v ORDER BY id) FROM t;
SHOW WARNINGS;
SET group_concat_max_len = DEFAULT;
SET max_sort_length = 8;
SELECT @@max_sort_length;
SET max_sort_length = DEFAULT;
SET wait_timeout = 100, interactive_timeout = 200, net_read_timeout = 50, net_write_timeout = 70;
SELECT @@wait_timeout, @@interactive_timeout, @@net_read_timeout, @@net_write_timeout;
SET wait_timeout = DEFAULT, interactive_timeout = DEFAULT, net_read_timeout = DEFAULT, net_write_timeout = DEFAULT;
SET tmp_table_size = 1048576, sort_buffer_size = 65536, join_buffer_size = 65536, read_buffer_size = 16384;
SELECT @@tmp_table_size, @@sort_buffer_size, @@join_buffer_size, @@read_buffer_size;
SET tmp_table_size = DEFAULT, sort_buffer_size = DEFAULT, join_buffer_size = DEFAULT, read_buffer_size = DEFAULT;
SET optimizer_switch = 'index_merge=off';
SELECT @@optimizer_switch LIKE '%index_merge=off%';
SET optimizer_switch = DEFAULT;
SELECT @@optimizer_switch LIKE '%index_merge=off%';
SET default_storage_engine = MyISAM;
CREATE TABLE my (a INT);
SHOW CREATE TABLE my;
SET default_storage_engine = DEFAULT;
SET old_passwords = 1;
SET low_priority_updates = 1;
SET low_priority_updates = DEFAULT;
SET max_statement_time = 100;
SET max_execution_time = 100000;
SET SESSION max_allowed_packet = 1000;
SET GLOBAL no_such = 1;
SET PERSIST no_such = 1;
SET @@session.hostname = 'x';
SET SESSION max_connections = 5;
SET STATEMENT max_statement_time = 10, sql_select_limit = 1 FOR SELECT 1 UNION SELECT 2;
SELECT @@sql_select_limit;
-- exception status on mariadb: the reply to a PREPARE says nothing of a sql_mode of the text's own
SET STATEMENT sql_mode = 'ANSI_QUOTES' FOR SELECT "v" FROM t WHERE id = 1;
SELECT /*+ MAX_EXECUTION_TIME(10000) */ 1;
SELECT /*+ SET_VAR(sql_select_limit = 1) */ id FROM t;
SET timestamp = 1000000000;
SELECT NOW(), @@timestamp;
SET timestamp = 0;
SET rand_seed1 = 5, rand_seed2 = 10;
SELECT RAND(3);
SHOW SESSION VARIABLES LIKE 'lock_wait%';
SHOW VARIABLES WHERE Variable_name IN ('autocommit', 'sql_select_limit', 'div_precision_increment');
SELECT @@session.autocommit AS a, @@session.tx_read_only;
SELECT @@transaction_read_only;
# User variables.
SET @a = 1, @b = 'text', @c = 1.5, @d = NULL, @`e f` = 2e0, @g := 7;
SELECT @a, @b, @c, @d, @`e f`, @g, @never;
SELECT @a := @a + 1, @a;
SELECT @n := id FROM t ORDER BY id;
SELECT @n;
SELECT v INTO @v FROM t WHERE id = 1;
SELECT @v, @v IS NULL, CHARSET(@b), COLLATION(@b), COERCIBILITY(@b);
SET @bin = X'00FF', @big = 18446744073709551615, @neg = -5, @dec = 123456789012345678901234567890.12, @date = DATE '2024-01-01';
SELECT @bin, HEX(@bin), @big, @neg, @dec, @date;
SET @l = _latin1'abc' COLLATE latin1_bin;
SELECT @l, COLLATION(@l);
SET @a = (SELECT COUNT(*) FROM t);
SELECT @a;
SET @r = REPEAT('x', 1000);
SELECT LENGTH(@r);
INSERT INTO t VALUES (@a + 10, @a);
UPDATE t SET v = @a := 9 WHERE id = 1;
SELECT @a, id, v FROM t ORDER BY id;
-- prepare uv: SELECT @a, ? INTO @p, @q
-- execute uv: string 'given'
SELECT @p, @q;
-- session: b
SELECT @a, @b, @p;
SET @a = 'other';
SELECT @a;
-- session: a
SELECT @a;
# Databases.
SELECT DATABASE(), SCHEMA();
CREATE DATABASE diff_state_x;
USE diff_state_x;
SELECT DATABASE();
CREATE TABLE only_x (a INT);
SHOW TABLES;
USE diff_state;
SELECT DATABASE();
-- init_db: diff_state_x
SELECT DATABASE();
SELECT * FROM only_x;
-- init_db: no_such_db
SELECT DATABASE();
-- session: b
SELECT DATABASE();
-- session: a
DROP DATABASE diff_state_x;
SELECT DATABASE();
SELECT * FROM only_x;
CREATE TABLE nowhere (a INT);
SELECT 1 + 1;
USE diff_state;
SELECT DATABASE();
CREATE DATABASE `diff_state-q'x`;
USE `diff_state-q'x`;
SELECT DATABASE();
USE diff_state;
DROP DATABASE `diff_state-q'x`;
# Commands that begin anew.
SET @a = 5, sql_mode = 'ANSI_QUOTES', autocommit = 0, NAMES latin1;
CREATE TEMPORARY TABLE tmp (a INT);
-- prepare kept: SELECT 1
-- reset connection
-- exception type: at times, on a connection that another session's @a was on, it is NULL and not unknown
-- exception length: at times, as above
SELECT @a, @@sql_mode, @@autocommit, @@character_set_client, DATABASE(), LAST_INSERT_ID();
SELECT * FROM tmp;
-- execute kept
SET @a = 5, sql_mode = 'ANSI_QUOTES';
BEGIN;
INSERT INTO t VALUES (100, 100);
-- change user: diff_state
-- exception type: at times, on a connection that another session's @a was on, it is NULL and not unknown
-- exception length: at times, as above
SELECT @a, @@sql_mode, @@autocommit, DATABASE();
SELECT COUNT(*) FROM t WHERE id = 100;
-- change user: mysql
SELECT DATABASE();
-- change user: no_such_db
-- engine: mariadb
-- exception type: at times, on a connection that another session's @a was on, it is NULL and not unknown
-- exception length: at times, as above
SELECT @a, @@sql_mode, DATABASE();
-- quit
-- change user
SELECT DATABASE();
-- change user: diff_state
SET NAMES latin1;
SELECT 'ä', @@character_set_client;
