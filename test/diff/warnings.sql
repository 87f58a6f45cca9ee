# Warnings, notes and errors as diagnostics.
SHOW WARNINGS;
SHOW ERRORS;
SHOW COUNT(*) WARNINGS;
SHOW COUNT(*) ERRORS;
SELECT @@warning_count, @@error_count;
CREATE TABLE t (a TINYINT, b CHAR(2), c DATE);
DROP TABLE IF EXISTS no_such;
SHOW WARNINGS;
SHOW WARNINGS;
SELECT @@warning_count;
SHOW WARNINGS;
CREATE TABLE IF NOT EXISTS t (a INT);
SHOW COUNT(*) WARNINGS;
SHOW WARNINGS;
SELECT 1/0;
SHOW WARNINGS;
SELECT 1/0, 2/0, 3/0;
SHOW WARNINGS LIMIT 2;
SHOW WARNINGS LIMIT 1, 1;
SHOW ERRORS;
SELECT CAST('abc' AS SIGNED), CAST('1x' AS DECIMAL(5,2)), '5x' + 1;
SHOW WARNINGS;
INSERT INTO t VALUES (300, 'abc', 'x');
SHOW WARNINGS;
SHOW ERRORS;
SELECT @@error_count, @@warning_count;
INSERT IGNORE INTO t VALUES (300, 'abc', 'x'), (400, 'def', 'y');
SHOW WARNINGS;
SELECT COUNT(*) FROM t;
SHOW WARNINGS;
UPDATE IGNORE t SET a = 1000;
SHOW WARNINGS;
SELECT no_such FROM t;
SHOW WARNINGS;
SHOW ERRORS;
SHOW COUNT(*) ERRORS;
-- exception warnings on mysql: COM_PING counts those of a text before it that could not be prepared
-- ping
SHOW ERRORS;
SELEC 1;
SHOW ERRORS;
SELECT @@error_count;
SET sql_mode = '';
INSERT INTO t VALUES (300, 'abc', 'x');
SHOW WARNINGS;
UPDATE t SET b = 'long text';
SHOW COUNT(*) WARNINGS;
SHOW WARNINGS;
SET max_error_count = 2;
INSERT INTO t VALUES (300, 'abc', 'x'), (300, 'abc', 'x');
SELECT @@warning_count;
INSERT INTO t VALUES (300, 'abc', 'x'), (300, 'abc', 'x');
SHOW WARNINGS;
SET max_error_count = 0;
INSERT INTO t VALUES (300, 'abc', 'x');
SHOW WARNINGS;
SET max_error_count = DEFAULT;
SET sql_mode = DEFAULT;
SET sql_notes = 0;
DROP TABLE IF EXISTS no_such;
SHOW WARNINGS;
SET sql_notes = 1;
DROP TABLE IF EXISTS no_such, no_such_either;
SHOW WARNINGS;
-- prepare p: SELECT 1/?
-- execute p: int 0
SHOW WARNINGS;
-- execute p: int 1
-- exception all: at times MariaDB still knows the warning from before: a SELECT without tables does not end it, which Heddle does not remember when the connection has gone to another session
SHOW WARNINGS;
-- prepare e: SELECT no_such
SHOW ERRORS;
-- prepare w: INSERT IGNORE INTO t (a) VALUES (?)
-- execute w: int 500
SHOW WARNINGS;
# A session's first GET DIAGNOSTICS finds nothing when its connection has gone to another session, and
# says so; from then on the session keeps its connection for the next.
-- exception all: at times the first one comes too late
GET DIAGNOSTICS @n = NUMBER;
-- exception all: at times nothing was assigned
SELECT @n;
SELECT no_such;
GET DIAGNOSTICS CONDITION 1 @s = RETURNED_SQLSTATE, @e = MYSQL_ERRNO, @m = MESSAGE_TEXT;
SELECT @s, @e, @m;
SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'my own', MYSQL_ERRNO = 12345;
SHOW WARNINGS;
SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'a warning';
SHOW WARNINGS;
SIGNAL SQLSTATE '02000' SET MESSAGE_TEXT = 'not found';
SHOW WARNINGS;
SIGNAL SQLSTATE 'bad';
RESIGNAL;
SELECT BENCHMARK(1, 1/0);
SHOW WARNINGS;
DO 1/0;
SHOW WARNINGS;
EXPLAIN SELECT * FROM t WHERE a = 1;
SHOW WARNINGS;
SELECT * FROM t PROCEDURE ANALYSE();
SHOW WARNINGS;
SET @@sql_mode = 'NO_SUCH_MODE';
SHOW WARNINGS;
SET SESSION sort_buffer_size = 1;
SHOW WARNINGS;
SELECT @@sort_buffer_size > 1;
