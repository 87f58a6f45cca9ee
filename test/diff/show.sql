# SHOW, DESCRIBE, EXPLAIN, information_schema, administration.
CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT, a VARCHAR(10) DEFAULT 'x' COMMENT 'a comment', b DECIMAL(5,2) UNSIGNED, c TIMESTAMP NULL, PRIMARY KEY (id), KEY ka (a), UNIQUE KEY ub (b, a)) COMMENT = 'table comment';
INSERT INTO t (a, b) VALUES ('one', 1), ('two', 2), (NULL, NULL);
SHOW TABLES;
SHOW FULL TABLES;
SHOW TABLES LIKE 't';
SHOW TABLES FROM diff_show WHERE Tables_in_diff_show = 't';
SHOW OPEN TABLES FROM diff_show LIKE 'no_such';
SHOW CREATE TABLE t;
SHOW CREATE DATABASE diff_show;
SHOW COLUMNS FROM t;
SHOW FULL COLUMNS FROM t LIKE 'a';
SHOW FIELDS FROM t IN diff_show WHERE Field = 'id';
DESCRIBE t;
DESC t a;
EXPLAIN t;
SHOW INDEX FROM no_such;
SHOW KEYS FROM t WHERE Key_name = 'no_such';
-- exception status on mysql: at times the optimizer reads the dictionary by another index
SHOW DATABASES LIKE 'diff_show';
-- exception status on mysql: at times the optimizer reads the dictionary by another index
SHOW SCHEMAS LIKE 'no%such';
SHOW VARIABLES LIKE 'autocommit';
SHOW GLOBAL VARIABLES LIKE 'lower_case_table_names';
SHOW STATUS LIKE 'no_such%';
SHOW ENGINES WHERE Engine = 'no_such';
SHOW STORAGE ENGINES WHERE Engine = 'no_such';
SHOW PRIVILEGES LIKE 'x';
SHOW PLUGINS WHERE x;
SHOW CHARACTER SET LIKE 'utf8mb4';
SHOW COLLATION LIKE 'utf8mb4_bin';
SHOW GRANTS;
SHOW GRANTS FOR CURRENT_USER;
SHOW TRIGGERS LIKE 'x';
SHOW EVENTS FROM diff_show;
SHOW TABLE STATUS LIKE 'no_such';
SHOW BINARY LOGS LIKE 'x';
SHOW PROFILES;
-- exception rows: at times the warning of SHOW PROFILES, which its reply does not count, is not known
SHOW COUNT(*) WARNINGS;
EXPLAIN SELECT * FROM t WHERE id = 1;
EXPLAIN SELECT * FROM t WHERE a = 'one';
EXPLAIN EXTENDED SELECT * FROM t WHERE id = 1;
EXPLAIN FORMAT = JSON SELECT 1;
EXPLAIN UPDATE t SET a = 'x' WHERE id = 1;
EXPLAIN DELETE FROM t WHERE id = 1;
EXPLAIN SELECT * FROM t WHERE id = 99999;
ANALYZE TABLE t;
CHECK TABLE t;
OPTIMIZE TABLE no_such;
REPAIR TABLE t;
CHECKSUM TABLE t;
ANALYZE TABLE no_such;
CHECK TABLE no_such, t;
FLUSH TABLES t;
FLUSH NO_SUCH;
HELP 'no such topic at all';
-- exception status on mysql: at times the optimizer reads the dictionary by another index
SELECT TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'diff_show' ORDER BY 1;
-- exception status on mysql: at times the optimizer reads the dictionary by another index
SELECT COLUMN_NAME, ORDINAL_POSITION, COLUMN_DEFAULT, IS_NULLABLE, DATA_TYPE, COLUMN_TYPE, COLUMN_KEY, EXTRA, COLUMN_COMMENT FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'diff_show' ORDER BY TABLE_NAME, ORDINAL_POSITION;
-- exception status on mysql: at times the optimizer reads the dictionary by another index
SELECT INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'diff_show' ORDER BY 1, 2;
-- exception status on mysql: at times the optimizer reads the dictionary by another index
SELECT CONSTRAINT_NAME, CONSTRAINT_TYPE FROM information_schema.TABLE_CONSTRAINTS WHERE TABLE_SCHEMA = 'diff_show' ORDER BY 1;
-- exception status on mysql: at times the optimizer reads the dictionary by another index
SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'diff_show';
SELECT * FROM information_schema.NO_SUCH;
SELECT COUNT(*) FROM mysql.user WHERE user = 'no such';
SELECT USER(), CURRENT_USER(), SESSION_USER(), SYSTEM_USER();
SELECT CURRENT_ROLE();
SELECT VERSION() = @@version, @@port > 0, @@hostname = @@hostname, @@server_id > 0;
SELECT CONNECTION_ID() > 0;
SELECT CONNECTION_ID() = CONNECTION_ID();
SHOW CREATE USER no_such_user;
SHOW CREATE EVENT no_such;
SHOW CREATE FUNCTION no_such;
SHOW CREATE VIEW t;
SHOW FUNCTION CODE no_such;
SHOW WARNINGS;
-- field_list: t
-- field_list: t a%
-- field_list: t no_such
-- field_list: no_such
-- exception all: uptime, questions, open tables
-- raw: \x09
-- prepare show: SHOW TABLES
-- execute show
-- prepare desc: DESCRIBE t
-- execute desc
-- prepare expl: EXPLAIN SELECT * FROM t WHERE id = ?
-- execute expl: int 1
-- prepare cols: SHOW COLUMNS FROM t LIKE 'a'
-- execute cols
-- prepare vars: SHOW VARIABLES LIKE 'autocommit'
-- execute vars
-- prepare create: SHOW CREATE TABLE t
-- execute create
-- prepare analyze: ANALYZE TABLE t
-- exception changes on mariadb: at times, when another one was selected before, ANALYZE names the database
-- exception status on mariadb: at times, as above
-- execute analyze
-- prepare warn: SHOW WARNINGS
-- execute warn
CREATE USER diff_show_u IDENTIFIED BY 'pw';
GRANT SELECT ON diff_show.* TO diff_show_u;
GRANT INSERT (a) ON diff_show.t TO diff_show_u;
SHOW GRANTS FOR diff_show_u;
REVOKE SELECT ON diff_show.* FROM diff_show_u;
ALTER USER diff_show_u ACCOUNT LOCK;
RENAME USER diff_show_u TO diff_show_v;
SET PASSWORD FOR diff_show_v = 'bad';
DROP USER diff_show_v;
DROP USER diff_show_v;
DROP USER IF EXISTS diff_show_v;
CREATE ROLE diff_show_r;
GRANT diff_show_r TO root@localhost;
SET ROLE diff_show_r;
SELECT CURRENT_ROLE();
SET ROLE NONE;
SET ROLE no_such_role;
DROP ROLE diff_show_r;
