# Compound statements outside stored programs, with results in loops.
-- engine from here: mariadb
-- block
FOR rec IN (SELECT 1 AS a UNION ALL SELECT 2) DO
  SELECT rec.a LIMIT 0;
  SELECT rec.a, 'x';
END FOR
-- end
-- block
BEGIN NOT ATOMIC
  DECLARE done INT DEFAULT 0;
  DECLARE n INT;
  DECLARE c CURSOR FOR SELECT 1 UNION ALL SELECT 2;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1;
  OPEN c;
  reading: LOOP
    FETCH c INTO n;
    IF done THEN LEAVE reading; END IF;
    SELECT n;
  END LOOP;
  CLOSE c;
END
-- end
-- block
IF (1 > 0) THEN BEGIN NOT ATOMIC SELECT 1; END; ELSE SELECT 2; END IF
-- end
-- engine from here: both
SELECT 1;
