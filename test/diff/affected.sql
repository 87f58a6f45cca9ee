# Affected rows, info texts, insert ids.
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(10), UNIQUE (a));
INSERT INTO t (a, b) VALUES (1, 'x');
SELECT LAST_INSERT_ID(), @@last_insert_id, @@identity;
INSERT INTO t (a, b) VALUES (2, 'y'), (3, 'z'), (4, NULL);
SELECT LAST_INSERT_ID();
INSERT INTO t (id, a) VALUES (100, 5);
SELECT LAST_INSERT_ID();
INSERT INTO t (id, a) VALUES (NULL, 6), (0, 7);
SELECT LAST_INSERT_ID();
SELECT ROW_COUNT();
SELECT ROW_COUNT();
UPDATE t SET b = 'q' WHERE id <= 3;
SELECT ROW_COUNT();
UPDATE t SET b = 'q' WHERE id <= 3;
SELECT ROW_COUNT();
UPDATE t SET b = 'q' WHERE id = 12345;
UPDATE t SET b = CONCAT(b, 'r') WHERE id < 100;
INSERT INTO t (a, b) VALUES (1, 'dup') ON DUPLICATE KEY UPDATE b = 'dup';
INSERT INTO t (a, b) VALUES (1, 'dup') ON DUPLICATE KEY UPDATE b = 'dup';
INSERT INTO t (a, b) VALUES (1, 'dup2'), (50, 'new'), (2, 'dup2') ON DUPLICATE KEY UPDATE b = VALUES(b);
INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), b = 'li';
SELECT LAST_INSERT_ID();
REPLACE INTO t (a, b) VALUES (1, 'rep');
REPLACE INTO t (a, b) VALUES (60, 'rep'), (2, 'rep');
SELECT LAST_INSERT_ID();
INSERT IGNORE INTO t (a) VALUES (1), (70), (2);
SELECT LAST_INSERT_ID();
INSERT INTO t (a, b) SELECT a + 1000, b FROM t;
SELECT LAST_INSERT_ID(), ROW_COUNT();
INSERT INTO t SET a = 5000, b = 'set';
DELETE FROM t WHERE a > 2000;
DELETE FROM t WHERE a > 2000;
DELETE FROM t WHERE a > 1000 ORDER BY a LIMIT 2;
UPDATE t SET b = 'lim' ORDER BY id LIMIT 2;
SELECT LAST_INSERT_ID(42);
SELECT LAST_INSERT_ID();
UPDATE t SET a = LAST_INSERT_ID(a + 1) WHERE a = 70;
SELECT LAST_INSERT_ID();
INSERT INTO t (a) VALUES (1);
SELECT LAST_INSERT_ID();
SET last_insert_id = 77;
SELECT LAST_INSERT_ID(), @@identity;
SET insert_id = 900;
INSERT INTO t (a) VALUES (901);
SELECT LAST_INSERT_ID();
INSERT INTO t (a) VALUES (902);
SELECT MAX(id) FROM t;
SELECT a, b FROM t ORDER BY a;
SELECT ROW_COUNT();
SELECT SQL_CALC_FOUND_ROWS a FROM t ORDER BY a LIMIT 2;
SELECT FOUND_ROWS();
SELECT FOUND_ROWS();
SELECT a FROM t ORDER BY a LIMIT 3;
SELECT FOUND_ROWS();
SELECT SQL_CALC_FOUND_ROWS a FROM t WHERE a > 1000000 LIMIT 1;
SELECT FOUND_ROWS();
CREATE TABLE c (a INT) AS SELECT a FROM t;
SELECT ROW_COUNT();
ALTER TABLE c ADD COLUMN x INT;
ALTER TABLE c ENGINE = InnoDB;
ALTER TABLE c ADD INDEX (a), ALGORITHM = COPY;
CREATE INDEX ix ON c (x);
DROP INDEX ix ON c;
TRUNCATE TABLE c;
SELECT ROW_COUNT();
RENAME TABLE c TO d;
DROP TABLE d;
SELECT ROW_COUNT();
CREATE TABLE m (id INT PRIMARY KEY, v INT);
CREATE TABLE n (id INT PRIMARY KEY, v INT);
INSERT INTO m VALUES (1, 1), (2, 2), (3, 3);
INSERT INTO n VALUES (1, 10), (2, 20), (9, 90);
UPDATE m JOIN n USING (id) SET m.v = n.v, n.v = 0;
DELETE m, n FROM m JOIN n USING (id) WHERE m.id = 1;
DELETE FROM m USING m JOIN n ON m.id = n.id;
SELECT * FROM m;
SELECT * FROM n;
CREATE TABLE bi (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT);
INSERT INTO bi VALUES (18446744073709551610, 1);
INSERT INTO bi (v) VALUES (2);
SELECT LAST_INSERT_ID();
CREATE TABLE z (id INT ZEROFILL AUTO_INCREMENT PRIMARY KEY, v INT);
INSERT INTO z (v) VALUES (1);
SELECT LAST_INSERT_ID(), id FROM z;
SET auto_increment_increment = 10, auto_increment_offset = 5;
INSERT INTO z (v) VALUES (2), (3);
SELECT LAST_INSERT_ID();
SELECT * FROM z ORDER BY id;
SET auto_increment_increment = DEFAULT, auto_increment_offset = DEFAULT;
SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
INSERT INTO z VALUES (0, 9);
SELECT LAST_INSERT_ID(), COUNT(*) FROM z WHERE id = 0;
SET sql_mode = DEFAULT;
-- exception changes on mariadb 11: the server names autocommit, which shares its storage
-- exception status on mariadb 11: as above
SET sql_auto_is_null = 1;
INSERT INTO m VALUES (50, 1);
INSERT INTO z (v) VALUES (33);
SELECT v FROM z WHERE id IS NULL;
-- exception changes on mariadb 11: as above
-- exception status on mariadb 11: as above
SET sql_auto_is_null = 0;
SELECT v FROM z WHERE id IS NULL;
# Two sessions: each has its own last id.
-- session: b
SELECT LAST_INSERT_ID(), ROW_COUNT();
INSERT INTO z (v) VALUES (500);
SELECT LAST_INSERT_ID();
-- session: a
SELECT LAST_INSERT_ID();
-- session: b
SELECT LAST_INSERT_ID();
-- prepare i: INSERT INTO t (a, b) VALUES (?, ?)
-- execute i: int 2001, string 'p'
SELECT LAST_INSERT_ID();
-- execute i: int 2001, string 'p'
-- execute i: int 2002, null
SELECT LAST_INSERT_ID(), ROW_COUNT();
-- prepare u: UPDATE t SET b = ? WHERE a > ?
-- execute u: string 'u', int 2000
-- execute u: string 'u', int 2000
-- prepare d: DELETE FROM t WHERE a = ?
-- execute d: int 2001
-- execute d: int 2001
-- prepare l: SELECT LAST_INSERT_ID(), ROW_COUNT()
-- execute l
-- session: a
SELECT LAST_INSERT_ID();
