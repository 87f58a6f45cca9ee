# Character and binary columns, enums, sets, long values, empty strings.
CREATE TABLE s (id INT PRIMARY KEY, c CHAR(5), v VARCHAR(20), b BINARY(4), vb VARBINARY(20), e ENUM('a','b','','ü'), st SET('x','y','z'));
INSERT INTO s VALUES (1, 'abc', 'hello', 'ab', 'ab', 'a', 'x,z'), (2, '', '', '', '', '', ''), (3, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO s VALUES (4, 'ab   ', 'ab   ', 'ab  ', 'ab  ', 2, 5), (5, 'ÄÖÜ', 'ß€😀', X'00FF00FF', X'FF00', 'ü', 'x,y,z');
SELECT * FROM s ORDER BY id;
SELECT id, LENGTH(c), CHAR_LENGTH(c), LENGTH(v), HEX(b), HEX(vb), e + 0, st + 0, CONCAT('[', c, ']'), CONCAT('[', v, ']') FROM s ORDER BY id;
SELECT id, UPPER(v), LOWER(v), REVERSE(v), LEFT(v, 2), RIGHT(v, 2), SUBSTRING(v, 2, 3), LPAD(v, 8, '*'), RPAD(v, 8, '*'), TRIM(v), REPEAT(v, 2), REPLACE(v, 'l', 'L') FROM s ORDER BY id;
SELECT ASCII('A'), ORD('€'), CHAR(65, 66), CHAR(0xE2, 0x82, 0xAC USING utf8mb4), HEX('abc'), UNHEX('616263'), QUOTE("it's"), SPACE(3), STRCMP('a', 'b'), INSTR('foobar', 'bar'), LOCATE('b', 'abcb', 3), FIELD('b', 'a', 'b'), ELT(2, 'a', 'b'), FIND_IN_SET('b', 'a,b'), MAKE_SET(5, 'a', 'b', 'c'), EXPORT_SET(5, 'Y', 'N', ',', 4);
SELECT MD5('a'), SHA1('a'), SHA2('a', 256), TO_BASE64('abc'), FROM_BASE64('YWJj'), SOUNDEX('hello'), INSERT('Quadratic', 3, 4, 'What'), SUBSTRING_INDEX('www.mysql.com', '.', 2), FORMAT(12345.678, 2), FORMAT(12345.678, 2, 'de_DE'), COMPRESS(''), HEX(WEIGHT_STRING('ab'));
SELECT 'a' LIKE 'A', 'a' LIKE BINARY 'A', 'ab' REGEXP '^a', 'a_c' LIKE 'a\_c', 'a%' LIKE 'a|%' ESCAPE '|', 'ab' RLIKE 'b$', 'a' = 'a ', 'a' LIKE 'a ';
SELECT 'it''s', "dou""ble", 'new\nline', 'tab\t', 'nul\0', 'back\\slash', 'percent\%', 'quote\'', 'a' 'b' 'c', N'national', n'x', _utf8mb4'ü', _latin1'ü', _binary'ü', _utf8mb4 0xE282AC;
INSERT INTO s (id, c) VALUES (10, 'too long');
INSERT INTO s (id, e) VALUES (11, 'none');
INSERT INTO s (id, st) VALUES (12, 'w');
INSERT INTO s (id, b) VALUES (13, 'too long');
INSERT INTO s (id, v) VALUES (14, 'trailing spaces fit too       ');
SHOW WARNINGS;
INSERT IGNORE INTO s VALUES (15, 'too long', 'much longer than twenty characters', 'too long', 'much longer than twenty characters', 'none', 'x,w');
SHOW WARNINGS;
SET sql_mode = '';
INSERT INTO s VALUES (16, 'too long', 'much longer than twenty characters', 'too long', 'much longer than twenty characters', 'none', 'x,w');
SHOW WARNINGS;
SELECT * FROM s WHERE id >= 14 ORDER BY id;
SET sql_mode = DEFAULT;
CREATE TABLE l (id INT PRIMARY KEY, tt TINYTEXT, t TEXT, mt MEDIUMTEXT, lt LONGTEXT, tb TINYBLOB, b BLOB, mb MEDIUMBLOB, lb LONGBLOB, t9 TEXT(9), b70 BLOB(70000));
INSERT INTO l VALUES (1, '', '', '', '', '', '', '', '', '', ''), (2, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO l (id, tt, t, tb, b) VALUES (4, REPEAT('x', 255), REPEAT('y', 65535), REPEAT('z', 255), REPEAT('w', 65535));
INSERT INTO l (id, tt) VALUES (5, REPEAT('x', 256));
INSERT INTO l (id, t) VALUES (6, REPEAT('x', 65536));
INSERT INTO l (id, t, lt, lb) VALUES (7, REPEAT('x', 250), REPEAT('y', 251), REPEAT('z', 252)), (8, REPEAT('x', 253), REPEAT('y', 65536), REPEAT('z', 65534));
INSERT INTO l (id, b, lb) VALUES (9, 'a\0b\0', X'000102FFFE'), (10, '\0', '\0\0');
SELECT * FROM l ORDER BY id;
SELECT id, LENGTH(tt), LENGTH(t), LENGTH(lt), MD5(t), LEFT(lt, 3) FROM l ORDER BY id;
SELECT REPEAT('a', 250), REPEAT('b', 251), REPEAT('c', 252), REPEAT('d', 255), REPEAT('e', 256);
SELECT REPEAT('a', 65535), REPEAT('b', 65536), REPEAT('c', 65537);
SELECT REPEAT('a', 16370), 'b' UNION ALL SELECT REPEAT('c', 16384), 'd' UNION ALL SELECT REPEAT('e', 32768), NULL;
-- escapes
SELECT 'nul \x00 inside', LENGTH('\x00'), '\x01\x1a\x7f';
-- escapes
SELECT LENGTH('{{abcdefgh*9000}}'), '{{x*300}}';
-- prepare s: SELECT ?, ?, ?, ?, LENGTH(?), HEX(?)
-- execute s: string '', varstring 'x', varchar 'y', blob 'z', string 'a\x00b', blob '\x00\xff'
-- execute s: string '{{a*250}}', string '{{b*251}}', string '{{c*65535}}', blob '{{d*65536}}', string '{{e*70000}}', blob 'x'
-- execute s: null, string null, blob null, varchar null, null, null
-- prepare q: SELECT * FROM s WHERE v = ? OR c = ? OR e = ? ORDER BY id
-- execute q: string 'hello', string 'ab', string 'ü'
-- execute q: blob 'hello', varchar '', int 2
-- prepare l: SELECT * FROM l WHERE id = ?
-- execute l: int 1
-- execute l: int 2
-- execute l: int 3
-- execute l: int 4
-- execute l: int 8
-- execute l: int 9
-- prepare i: INSERT INTO l (id, t, lb) VALUES (?, ?, ?)
-- long i 1: first 
-- long i 1: second
-- long i 2: {{0123456789*7000}}
-- execute i: int 20, string long, blob long
-- execute i: int 21, string 'plain', blob 'plain'
-- long i 2: lost
-- reset i
-- execute i: int 22, string 'plain', blob 'after reset'
-- long i 2: 
-- execute i: int 23, string 'plain', blob long
SELECT id, LEFT(t, 20), LENGTH(lb), LEFT(lb, 20) FROM l WHERE id >= 20 ORDER BY id;
SHOW COLUMNS FROM s;
SHOW FULL COLUMNS FROM l;
SHOW CREATE TABLE s;
SHOW CREATE TABLE l;
