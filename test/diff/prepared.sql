# The binary protocol: statements, types, cursors, long data, changes behind their back.
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n INT);
INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', NULL);
-- prepare none: SELECT 1
-- execute none
-- execute none
-- prepare rows: SELECT id, v, n FROM t ORDER BY id
-- execute rows
-- prepare one: SELECT v FROM t WHERE id = ?
-- execute one: int 1
-- execute one: string '2'
-- again one: string '3'
-- execute one: int 99
-- execute one: null
-- prepare many: SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
-- execute many: null, tiny 1, null, short 2, null, int 3, null, big 4, null, string 'five'
-- again many: null, tiny 1, null, short 2, null, int 3, null, big 4, null, string 'six'
-- execute many: string 'a', string 'b', null, null, null, null, null, null, double 1.5, float 2.5
-- prepare types: SELECT ? AS a, ? AS b
-- execute types: tiny 1, big 2
-- execute types: string 'x', double 2.5
-- execute types: date 2024-01-01, null
-- execute types: null, null
-- prepare where: SELECT id FROM t WHERE n = ? AND v LIKE ? ORDER BY id LIMIT ?
-- execute where: int 1, string 'o%', int 5
-- execute where: int 2, string '%', int 0
-- execute where: int 2, string '%', string 'x'
-- prepare limit: SELECT id FROM t ORDER BY id LIMIT ?, ?
-- execute limit: int 1, int 1
-- execute limit: big 0, big 18446744073709551615
-- execute limit: ubig 0, ubig 2
-- execute limit: int -1, int 1
-- prepare ins: INSERT INTO t VALUES (?, ?, ?)
-- execute ins: int 10, string 'ten', int 10
-- execute ins: int 10, string 'ten', int 10
-- execute ins: int 11, null, null
-- execute ins: int 12, string 'far too long for this column', int 1
-- prepare upd: UPDATE t SET v = ? WHERE id >= ?
-- execute upd: string 'upd', int 10
-- execute upd: string 'upd', int 10
-- execute upd: string 'upd', int 1000
-- prepare del: DELETE FROM t WHERE id = ?
-- execute del: int 11
-- execute del: int 11
-- prepare set: SET @x = ?
-- execute set: int 7
SELECT @x;
-- prepare mode: SET sql_mode = ?
-- execute mode: string 'ANSI_QUOTES'
SELECT @@sql_mode, "v" FROM t WHERE id = 1;
-- execute mode: string ''
SET sql_mode = DEFAULT;
-- prepare ddl: CREATE TABLE made (a INT)
-- execute ddl
-- execute ddl
-- prepare dml: INSERT INTO made VALUES (?), (?)
-- execute dml: int 1, int 2
DROP TABLE made;
-- execute dml: int 3, int 4
-- execute ddl
-- execute dml: int 5, int 6
SELECT * FROM made;
# Errors of PREPARE.
-- prepare bad: SELEC 1
-- execute bad
-- prepare bad: SELECT * FROM no_such
-- prepare bad: SELECT no_such FROM t
-- prepare bad: SELECT 1; SELECT 2
-- prepare bad: 
-- prepare bad: SELECT ? ? ?
-- prepare bad: SELECT * FROM t WHERE ? IN (SELECT ?
-- prepare bad: PREPARE s FROM 'SELECT 1'
-- prepare bad: USE mysql
-- prepare bad: LOCK TABLES t READ
-- prepare bad: HANDLER t OPEN
-- prepare bad: LOAD DATA INFILE 'x' INTO TABLE t
# Statements that are not there.
-- execute gone: int 1
-- reset gone
-- close gone
-- close one
-- execute one: int 1
-- fetch rows: 5
# DDL behind a statement's back.
-- prepare star: SELECT * FROM t WHERE id = ?
-- execute star: int 1
ALTER TABLE t ADD COLUMN extra INT DEFAULT 5;
-- execute star: int 1
ALTER TABLE t DROP COLUMN extra;
-- execute star: int 1
ALTER TABLE t MODIFY n BIGINT UNSIGNED;
-- execute star: int 1
RENAME TABLE t TO t2;
-- execute star: int 1
RENAME TABLE t2 TO t;
-- execute star: int 1
# Cursors.
-- cursor rows
-- fetch rows: 1
-- fetch rows: 1
-- fetch rows: 10
-- fetch rows: 1
-- cursor rows
-- fetch rows: 2
-- reset rows
-- fetch rows: 1
-- execute rows
-- cursor rows
-- execute rows
-- fetch rows: 1
-- prepare empty: SELECT id FROM t WHERE id < 0
-- cursor empty
-- fetch empty: 5
-- prepare c2: SELECT id FROM t WHERE id >= ? ORDER BY id
-- cursor c2: int 2
-- fetch c2: 1
SELECT 'between', COUNT(*) FROM t;
-- fetch c2: 1
-- cursor rows
-- fetch rows: 1
-- fetch c2: 5
-- fetch rows: 5
-- cursor none
-- fetch none: 1
-- cursor ins: int 500, string 'cursor', int 1
-- cursor c2: int 1
-- close c2
-- fetch c2: 1
BEGIN;
-- cursor rows
-- fetch rows: 1
COMMIT;
-- fetch rows: 1
-- reset rows
-- prepare upc: SELECT id FROM t ORDER BY id FOR UPDATE
-- cursor upc
-- fetch upc: 2
-- reset upc
-- prepare show: SHOW COLUMNS FROM t
-- cursor show
-- fetch show: 1
-- reset show
# Long data.
-- prepare long: SELECT ?, LENGTH(?), ?
-- long long 0: abc
-- long long 1: {{x*10000}}
-- execute long: string long, string long, int 5
-- execute long: string 'short', string 'short', int 6
-- long long 0: \x00\x01
-- long long 0: \xff
-- execute long: blob long, blob 'zz', null
-- long long 7: out of range
-- execute long: blob 'a', blob 'zz', null
-- execute long: blob 'a', blob 'zz', null
-- reset long
-- execute long: blob 'a', blob 'zz', null
# Several sessions, one text.
-- session: b
-- prepare same: SELECT ?, id FROM t WHERE id = ?
-- execute same: string 'b', int 1
-- session: a
-- prepare same: SELECT ?, id FROM t WHERE id = ?
-- execute same: int 5, int 1
-- session: b
-- again same: string 'bb', int 2
-- session: a
-- again same: int 6, int 2
SET sql_mode = 'ANSI_QUOTES';
-- prepare q: SELECT "v" FROM t WHERE id = 1
-- execute q
SET sql_mode = DEFAULT;
-- execute q
-- prepare q: SELECT "v" FROM t WHERE id = 1
-- execute q
USE mysql;
-- execute same: int 7, int 1
-- prepare here: SELECT COUNT(*) FROM t
USE diff_prepared;
-- prepare here: SELECT COUNT(*) FROM t
USE mysql;
-- execute here
USE diff_prepared;
SET autocommit = 0;
-- execute ins: int 700, string 'a', int 1
ROLLBACK;
-- execute star: int 700
SET autocommit = 1;
# Every integer type as column and as parameter is in types_integer.
-- prepare call: DO ?
-- execute call: int 1
-- prepare dual: SELECT ? FROM DUAL WHERE ? = 1
-- execute dual: int 1, int 0
-- execute dual: int 1, int 1
-- prepare named: SELECT ? AS `a name`, ? 'b', @x := ?
-- execute named: int 1, string 'y', int 8
SELECT @x;
-- prepare groups: SELECT n, COUNT(*) FROM t GROUP BY n HAVING COUNT(*) >= ? ORDER BY n
-- execute groups: int 1
-- prepare union: SELECT ? UNION ALL SELECT ? UNION ALL SELECT id FROM t WHERE id = ?
-- execute union: int 1, string 'a', int 1
-- prepare json: SELECT JSON_EXTRACT(?, '$.a')
-- execute json: string '{"a": 5}'
-- exception message: Heddle says which packet
-- raw: \x17
-- exception message: as above
-- raw: \x17\x01
