# Procedures, functions, triggers, views, events.
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT);
-- block
CREATE PROCEDURE two() BEGIN SELECT 1 AS a; SELECT 'x' AS b, NULL AS c; END
-- end
CALL two();
-- block
CREATE PROCEDURE none() BEGIN END
-- end
CALL none();
-- block
CREATE PROCEDURE mixed(n INT) BEGIN
  INSERT INTO t (v) VALUES (n), (n + 1);
  SELECT v FROM t ORDER BY id;
  UPDATE t SET v = v + 1;
END
-- end
CALL mixed(5);
SELECT LAST_INSERT_ID();
SELECT ROW_COUNT();
-- block
CREATE PROCEDURE outs(IN a INT, OUT b INT, INOUT c VARCHAR(20)) BEGIN
  SET b = a * 2;
  SET c = CONCAT(c, '-', a);
  SELECT a, b, c;
END
-- end
SET @c = 'start';
CALL outs(21, @b, @c);
SELECT @b, @c;
CALL outs(1, 2, 3);
CALL outs(1);
-- block
CREATE PROCEDURE fails() BEGIN
  SELECT 'before' AS x;
  INSERT INTO t (id) VALUES (1);
  SELECT 'after' AS x;
END
-- end
CALL fails();
SHOW WARNINGS;
-- block
CREATE PROCEDURE handled() BEGIN
  DECLARE n INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET n = n + 1;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET n = n + 100;
  INSERT INTO t (id) VALUES (1);
  SELECT v INTO n FROM t WHERE id = 12345;
  SELECT n;
END
-- end
CALL handled();
SHOW WARNINGS;
-- block
CREATE PROCEDURE walks() BEGIN
  DECLARE done INT DEFAULT 0;
  DECLARE x, total INT DEFAULT 0;
  DECLARE c CURSOR FOR SELECT v FROM t;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1;
  OPEN c;
  l: LOOP
    FETCH c INTO x;
    IF done THEN LEAVE l; END IF;
    SET total = total + x;
  END LOOP;
  CLOSE c;
  SELECT total;
END
-- end
CALL walks();
-- block
CREATE PROCEDURE signals(n INT) BEGIN
  IF n = 1 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'signalled', MYSQL_ERRNO = 5000; END IF;
  IF n = 2 THEN SIGNAL SQLSTATE '01234' SET MESSAGE_TEXT = 'only a warning'; END IF;
  IF n = 3 THEN
    BEGIN
      DECLARE EXIT HANDLER FOR SQLEXCEPTION RESIGNAL SET MESSAGE_TEXT = 'resignalled';
      SELECT no_such FROM t;
    END;
  END IF;
  SELECT 'reached';
END
-- end
CALL signals(0);
CALL signals(1);
CALL signals(2);
SHOW WARNINGS;
CALL signals(3);
-- block
CREATE PROCEDURE transacts() BEGIN
  START TRANSACTION;
  INSERT INTO t (v) VALUES (1000);
  ROLLBACK;
  START TRANSACTION;
  INSERT INTO t (v) VALUES (1001);
END
-- end
CALL transacts();
SELECT COUNT(*) FROM t WHERE v = 1001;
ROLLBACK;
SELECT COUNT(*) FROM t WHERE v = 1001;
-- block
CREATE PROCEDURE sets() BEGIN SET @p = 5; SET SESSION sql_mode = 'ANSI_QUOTES'; SET NAMES latin1; END
-- end
CALL sets();
SELECT @p, @@sql_mode, @@character_set_client, "t"."v" FROM t LIMIT 1;
SET NAMES utf8mb4;
SET sql_mode = DEFAULT;
-- block
CREATE PROCEDURE temp() BEGIN CREATE TEMPORARY TABLE tt (a INT); INSERT INTO tt VALUES (7); END
-- end
CALL temp();
SELECT * FROM tt;
DROP TEMPORARY TABLE tt;
-- block
CREATE PROCEDURE dynamic() BEGIN SET @s = 'SELECT 1 + 1 AS two'; PREPARE s FROM @s; EXECUTE s; DEALLOCATE PREPARE s; END
-- end
CALL dynamic();
-- block
CREATE PROCEDURE recurses(n INT) BEGIN SELECT n; IF n > 0 THEN CALL recurses(n - 1); END IF; END
-- end
CALL recurses(2);
SET max_sp_recursion_depth = 5;
CALL recurses(2);
SET max_sp_recursion_depth = 0;
-- block
CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC RETURN n * 2
-- end
SELECT twice(4), twice(NULL);
SELECT twice();
-- block
CREATE FUNCTION writes(n INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN INSERT INTO t (v) VALUES (n); RETURN LAST_INSERT_ID() > 0; END
-- end
SELECT writes(77);
SELECT COUNT(*) FROM t WHERE v = 77;
SELECT LAST_INSERT_ID();
-- block
CREATE FUNCTION shows() RETURNS INT BEGIN SELECT 1; RETURN 1; END
-- end
-- block
CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW BEGIN IF NEW.v < 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'negative'; END IF; SET NEW.v = NEW.v * 10; END
-- end
INSERT INTO t (v) VALUES (3);
INSERT INTO t (v) VALUES (-3);
SELECT v FROM t ORDER BY id DESC LIMIT 1;
CREATE VIEW w AS SELECT id, v + 1 AS v1 FROM t WHERE v > 2;
SELECT COUNT(*), MAX(v1) FROM w;
SELECT * FROM w LIMIT 1;
UPDATE w SET v1 = 5;
UPDATE w SET id = id + 1000 WHERE id = 2;
CREATE VIEW bad AS SELECT no_such FROM t;
CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW w AS SELECT id FROM t WITH CHECK OPTION;
SHOW CREATE VIEW w;
SHOW CREATE PROCEDURE two;
SHOW CREATE FUNCTION twice;
SHOW CREATE TRIGGER no_such;
SHOW TRIGGERS LIKE 'no_such';
-- engine: mariadb
SHOW PROCEDURE STATUS LIKE 'no_such';
DROP VIEW w;
CREATE EVENT ev ON SCHEDULE EVERY 1 YEAR STARTS '2030-01-01 00:00:00' DISABLE DO DELETE FROM t;
SHOW EVENTS LIKE 'no_such';
ALTER EVENT ev RENAME TO ev2;
DROP EVENT ev2;
DROP EVENT IF EXISTS ev2;
DROP TRIGGER tr;
DROP FUNCTION twice;
DROP PROCEDURE IF EXISTS no_such;
SHOW WARNINGS;
-- prepare two: CALL two()
-- execute two
-- execute two
-- prepare outs: CALL outs(?, ?, ?)
-- exception status on mysql: before OUT parameters MySQL says that more follows, behind them not, though an OK does
-- execute outs: int 4, int 0, string 'in'
-- exception status on mysql: as above
-- execute outs: int 5, null, string 'again'
-- prepare fails: CALL fails()
-- execute fails
-- prepare mixed: CALL mixed(?)
-- execute mixed: int 3
-- execute mixed: string 'x'
-- block
BEGIN NOT ATOMIC SELECT 1; SELECT 2; END
-- end
-- block
IF 1 THEN SELECT 'compound'; END IF
-- end
-- block
CREATE PROCEDURE many() BEGIN DECLARE n INT DEFAULT 0; WHILE n < 30 DO SELECT n; SET n = n + 1; END WHILE; END
-- end
CALL many();
