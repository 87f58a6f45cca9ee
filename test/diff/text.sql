# How texts are written: comments, quotes, modes, odd and long ones.
SELECT 1 /* a comment */ + /* another */ 1;
SELECT 1 -- to the end
;
SELECT 1 # to the end
;
/* before */ SELECT 'a' /* ' */;
SELECT /*! 1 + */ 1;
SELECT /*!99999 no such syntax */ 2;
SELECT /*!40000 3 + */ 1;
SELECT /*!50000 4 + */ 1;
SELECT /*M! 5 + */ 1;
SELECT /*M!100000 6 + */ 1;
SELECT /*M!110000 7 + */ 1;
SELECT /*!80000 8 + */ 1;
SELECT /*!100000 9 + */ 1;
/*! SET @in_comment = 5 */;
SELECT @in_comment;
SELECT 1 /* unterminated;
SELECT /* nested /* comment */ 1 */;
/*!40101 SET NAMES utf8mb4 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
SELECT 5--1;
SELECT 5 --1;
-- block

-- end
-- block
   
-- end
-- block
/* only a comment */
-- end
-- block
# only a comment
-- end
-- block
-- only a comment
-- end
;
SELECT 1;
	SELECT	1	;
select 'lower', 'Case';
SeLeCt 1 AS `MiXeD`;
SELECT 'a' AS 'b', "c" AS "d", `e` FROM (SELECT 1 AS `e`) `f`;
SELECT 'multi
line', 'tab	inside';
SELECT 'é', '日本語', '😀', 'Ω' AS `Ω`;
SELECT '\\', '\'', "\"", '\%\_', '\z', '''', """";
SET sql_mode = 'NO_BACKSLASH_ESCAPES';
SELECT '\', 'a\b', 'c''d';
SELECT '\\';
SET sql_mode = 'ANSI_QUOTES';
SELECT "e" FROM (SELECT 1 AS "e") AS "f";
SELECT "not a column";
SET sql_mode = 'PIPES_AS_CONCAT';
SELECT 'a' || 'b' || NULL;
SET sql_mode = 'HIGH_NOT_PRECEDENCE';
SELECT NOT 1 BETWEEN -5 AND 5;
SET sql_mode = 'IGNORE_SPACE';
SELECT COUNT (*), NOW () > 0;
SET sql_mode = '';
SELECT COUNT (*);
SELECT 'a' || 'b';
SET sql_mode = 'NO_UNSIGNED_SUBTRACTION';
SELECT CAST(1 AS UNSIGNED) - 2;
SET sql_mode = '';
SELECT CAST(1 AS UNSIGNED) - 2;
SET sql_mode = 'REAL_AS_FLOAT,ONLY_FULL_GROUP_BY,NO_AUTO_VALUE_ON_ZERO,PAD_CHAR_TO_FULL_LENGTH';
CREATE TABLE pad (a CHAR(5), r REAL);
INSERT INTO pad VALUES ('x', 1.5);
SELECT a, LENGTH(a), r FROM pad;
SET sql_mode = 'ORACLE';
SELECT 'a' || 'b', NVL(NULL, 1);
SET sql_mode = 'MSSQL';
SELECT [a] FROM pad;
SET sql_mode = 'EMPTY_STRING_IS_NULL';
SELECT '' IS NULL;
SET sql_mode = 'ERROR_FOR_DIVISION_BY_ZERO';
SELECT 1/0;
SET sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO';
INSERT INTO pad (r) VALUES (1/0);
SET sql_mode = DEFAULT;
-- escapes
SELECT 1\x00;
-- escapes
SELECT 'a\x00b', 'c';
-- escapes
SELECT 1\x0a+\x0d\x0a1\x0b\x0c;
-- escapes
SELECT\xc2\xa01;
-- escapes
SELECT 1 {{+ 1 *500}};
-- escapes
SELECT '{{long *4000}}' = '', LENGTH('{{x*20000}}');
-- escapes
SELECT 1 {{/* padding */*2000}};
-- escapes
SELECT {{'a', *300}}'b';
-- escapes
SELECT * FROM pad WHERE a IN ({{'v', *3000}}'x');
-- escapes
INSERT INTO pad (a) VALUES {{('a'), *1000}}('b');
SELECT COUNT(*) FROM pad;
SELECT 1 AS a, 2 AS a, 3 AS A;
SELECT 1 AS ``;
SELECT 1 AS ' ';
SELECT 1 AS 'a ', 2 AS ' b';
SELECT 1+1, 1 + 1, (1), 'x' 'y', -1, - 1, NULL, TRUE, 1=1, @@autocommit, @x, COUNT(*), CURRENT_DATE IS NULL, x'41', b'1', 1e1, .5;
SELECT `id` FROM (SELECT 1 AS id) t WHERE `t`.`id`=1;
SELECT diff_text.pad.a FROM diff_text.pad LIMIT 1;
SELECT .pad.a FROM pad LIMIT 1;
SELECT N'n', _utf8'u', _utf8mb4 'm', X'4142', 0x4142, 0b01;
SELECT DATE'2024-01-01', INTERVAL 1 DAY + '2024-01-01';
SELECT {fn CONCAT('a', 'b')}, {d '2024-01-01'};
PREPARE s FROM 'SELECT ?, ? + 1';
SET @a = 'x', @b = 5;
EXECUTE s USING @a, @b;
EXECUTE s USING @b, @b;
EXECUTE s USING @a;
EXECUTE s;
PREPARE s FROM 'SELECT 2';
EXECUTE s;
DEALLOCATE PREPARE s;
EXECUTE s;
SET @text = 'SELECT 3 AS three';
PREPARE s FROM @text;
EXECUTE s;
DROP PREPARE s;
PREPARE s FROM 'INSERT INTO pad (a) VALUES (?)';
EXECUTE s USING @a;
SELECT ROW_COUNT();
PREPARE s FROM 'SELECT 1; SELECT 2';
PREPARE s FROM NULL;
EXECUTE IMMEDIATE 'SELECT 4';
EXECUTE IMMEDIATE 'SELECT ?' USING 5;
-- session: b
EXECUTE s;
-- session: a
