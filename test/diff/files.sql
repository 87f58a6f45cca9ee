# LOAD DATA LOCAL from the client's own bytes.
CREATE TABLE t (a INT, b VARCHAR(10));
-- local file: 1\x09one\x0a2\x09two\x0a
LOAD DATA LOCAL INFILE 'x' INTO TABLE t;
SELECT * FROM t ORDER BY a;
-- local file: 3,three\x0a4,"fo,ur"\x0a
LOAD DATA LOCAL INFILE 'x' INTO TABLE t FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"';
SELECT * FROM t ORDER BY a;
-- local file: bad\x09far too long for it\x0a5\x0a
LOAD DATA LOCAL INFILE 'x' INTO TABLE t;
SHOW WARNINGS;
LOAD DATA LOCAL INFILE 'empty' INTO TABLE t;
SELECT ROW_COUNT();
-- local file: 9\x09x\x0a
LOAD DATA LOCAL INFILE 'x' INTO TABLE no_such;
-- local file: 7\x09seven\x0a
LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE t CHARACTER SET latin1 (a, @b) SET b = CONCAT('<', @b, '>');
-- local file: {{8\x09eight\x0a*3000}}
LOAD DATA LOCAL INFILE 'x' INTO TABLE t;
SELECT COUNT(*), SUM(a) FROM t;
-- local file: 10\x09ten\x0a
LOAD DATA LOCAL INFILE 'x' INTO TABLE t; SELECT COUNT(*) FROM t; SELECT 1;
BEGIN;
-- local file: 11\x09eleven\x0a
LOAD DATA LOCAL INFILE 'x' INTO TABLE t;
ROLLBACK;
SELECT COUNT(*) FROM t WHERE a = 11;
-- local file: <row><a>20</a><b>xml</b></row>
LOAD XML LOCAL INFILE 'x' INTO TABLE t ROWS IDENTIFIED BY '<row>';
SELECT * FROM t WHERE a = 20;
SELECT 'after';
