# Character sets and collations of the connection, of columns, of literals.
SHOW WARNINGS;
SELECT @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection, @@character_set_database, @@collation_database;
CREATE TABLE c (id INT PRIMARY KEY, l VARCHAR(20) CHARACTER SET latin1, u3 VARCHAR(20) CHARACTER SET utf8, u4 VARCHAR(20) CHARACTER SET utf8mb4, b VARCHAR(20) CHARACTER SET binary, a VARCHAR(20) CHARACTER SET ascii, u2 VARCHAR(20) CHARACTER SET ucs2, k VARCHAR(20) CHARACTER SET koi8r);
INSERT INTO c VALUES (1, 'äöü', 'äöü€', 'äöü€😀', 'äöü', 'abc', 'äöü€', 'привет');
SELECT * FROM c;
INSERT INTO c (id, l) VALUES (2, '😀');
INSERT INTO c (id, u3) VALUES (3, '😀');
INSERT INTO c (id, a) VALUES (4, 'ä');
SET NAMES latin1;
SELECT * FROM c;
-- escapes
INSERT INTO c (id, l, u4) VALUES (10, '\xe4\xf6\xfc', '\xe4\xf6\xfc');
SELECT id, l, u4, HEX(l), HEX(u4), 'x' FROM c WHERE id = 10;
SHOW VARIABLES LIKE 'character_set_c%';
SET NAMES utf8mb4;
SELECT id, l, u4 FROM c WHERE id = 10;
SET NAMES utf8;
SELECT @@character_set_client, @@collation_connection, u4 FROM c WHERE id = 1;
SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SELECT @@collation_connection, 'a' = 'A', COLLATION('a'), CHARSET('a');
SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_ci';
SELECT @@collation_connection, 'a' = 'A', 'ß' = 'ss', COLLATION('a');
SET NAMES DEFAULT;
SELECT @@character_set_client, @@collation_connection;
SET NAMES utf8mb4;
SET NAMES klingon;
SET NAMES utf8mb4 COLLATE latin1_bin;
SET NAMES ucs2;
SET character_set_client = utf16;
SET CHARACTER SET latin1;
SELECT @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection;
SET CHARACTER SET DEFAULT;
SET NAMES utf8mb4;
SET character_set_results = NULL;
SELECT * FROM c;
SELECT 'ä', @@character_set_results;
SET character_set_results = binary;
SELECT l, u4 FROM c WHERE id = 1;
SET character_set_results = latin1;
SELECT * FROM c;
SELECT no_such_column_ä FROM c;
SET character_set_results = utf8mb4;
SET character_set_connection = latin1;
SELECT 'ä', CHARSET('ä'), LENGTH('ä'), @@collation_connection;
SET collation_connection = latin1_german2_ci;
SELECT 'ä' = 'ae', @@character_set_connection;
SET NAMES binary;
SELECT 'ä', CHARSET('ä'), LENGTH('ä'), l FROM c WHERE id = 1;
SET NAMES utf8mb4;
# Character sets whose second byte may be a backslash or a quote.
SET NAMES gbk;
-- escapes
SELECT '\xc4\x5c', HEX('\xbf\x5c'), LENGTH('\xc4\x5c'), '\xd5\x5c\\', 'x';
-- escapes
SELECT '\xc4\x5c\xc4\x5c' AS g, "\xbf\x5c" AS h;
SET NAMES sjis;
-- escapes
SELECT '\x83\x5c', HEX('\x95\x5c'), '\x83\x5c;SELECT 2', 'y';
SET NAMES big5;
-- escapes
SELECT '\xa4\x5c', HEX('\xb5\x5c'), CHAR_LENGTH('\xa4\x5c\xa4\x40');
SET NAMES cp932;
-- escapes
SELECT '\x81\x5c', '\x83\x5c''', 'z';
SET NAMES euckr;
-- escapes
SELECT '\xb0\xa1', CHAR_LENGTH('\xb0\xa1');
SET NAMES utf8mb4;
# Bytes that are no characters.
-- escapes
SELECT '\xff\xfe', HEX('\xc3');
-- escapes
INSERT INTO c (id, u4) VALUES (20, '\xff');
-- escapes
INSERT INTO c (id, b) VALUES (21, '\xff\x00\xfe');
SELECT id, b, HEX(b) FROM c WHERE id = 21;
SHOW WARNINGS;
# Collations.
CREATE TABLE k (a VARCHAR(10) COLLATE utf8mb4_general_ci, b VARCHAR(10) COLLATE utf8mb4_bin, c VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_german1_ci) DEFAULT CHARACTER SET utf8mb4;
INSERT INTO k VALUES ('a', 'a', 'a'), ('A', 'A', 'A'), ('ä', 'ä', 'ä'), ('b', 'b', 'b');
SELECT a FROM k ORDER BY a, BINARY a;
SELECT b FROM k ORDER BY b;
SELECT c FROM k ORDER BY c, BINARY c;
SELECT a = b FROM k;
SELECT COUNT(*), MIN(a), MAX(b) FROM k GROUP BY a ORDER BY 2;
SELECT a COLLATE utf8mb4_bin, CONVERT(a USING latin1), CAST(a AS CHAR(3) CHARACTER SET utf8), BINARY a, CAST(a AS BINARY) FROM k LIMIT 1;
SELECT a COLLATE latin1_bin FROM k;
SELECT CONCAT(a, c) FROM k;
SELECT CONCAT(_utf8mb4'a' COLLATE utf8mb4_bin, _utf8mb4'b' COLLATE utf8mb4_general_ci);
SELECT _latin1 0xE4, _utf8mb4 0xC3A4, _ucs2 0x00E4, _binary 0xE4, _utf8mb4 0xFF;
SELECT COERCIBILITY('a'), COERCIBILITY(a), COLLATION(a), CHARSET(c) FROM k LIMIT 1;
SHOW CHARACTER SET LIKE 'latin1';
SHOW COLLATION LIKE 'latin1_g%';
SHOW FULL COLUMNS FROM c;
CREATE DATABASE diff_charsets_l CHARACTER SET latin1;
USE diff_charsets_l;
SELECT @@character_set_database, @@collation_database;
CREATE TABLE t (a VARCHAR(5));
SHOW CREATE TABLE t;
USE diff_charsets;
SELECT @@character_set_database, @@collation_database;
DROP DATABASE diff_charsets_l;
# Prepared statements keep the character set they were prepared under.
-- prepare p: SELECT ?, 'ä', HEX(?)
-- execute p: string 'ä', string 'ä'
SET NAMES latin1;
-- execute p: string 'ä', string 'ä'
-- prepare q: SELECT ?, 'ä', HEX(?)
-- execute q: string '\xe4', string '\xe4'
SET NAMES utf8mb4;
-- execute q: string 'ä', string 'ä'
-- execute p: string 'ä', blob 'ä'
CREATE TABLE `tä` (`sä` INT);
INSERT INTO `tä` VALUES (1);
SELECT `sä` AS `ü` FROM `tä`;
SET NAMES latin1;
SHOW TABLES LIKE 't%';
SET NAMES utf8mb4;
SHOW TABLES LIKE 't%';
