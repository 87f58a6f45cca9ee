#!/bin/bash
# The command-line client as people and scripts use it: batches, --force, delimiters, \G, piped dumps.
# Variables of the client itself are not compared: what is printed comes from the server.
set -u
client() {
  mariadb --host="$COMPAT_HOST" --port="$COMPAT_PORT" --user="$COMPAT_USER" --password="$COMPAT_PASSWORD" \
    --default-character-set=utf8mb4 ${COMPAT_TLS:+--ssl} "$@" "$COMPAT_DATABASE" 2>&1
}

echo "== batch"
client --table <<'SQL'
SELECT VERSION(), DATABASE(), CURRENT_USER();
CREATE TABLE fruit (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(30) CHARACTER SET utf8mb4, price DECIMAL(6,2));
INSERT INTO fruit (name, price) VALUES ('äpple', 1.5), ('🍐', NULL), ('plum', 0.25);
SELECT * FROM fruit ORDER BY id;
SELECT * FROM fruit ORDER BY id\G
SHOW CREATE TABLE fruit;
DESCRIBE fruit;
SHOW TABLES;
EXPLAIN SELECT * FROM fruit WHERE id = 1;
SQL

echo "== verbose"
client -vvv <<'SQL' | sed 's/[0-9.]* sec/N sec/'
UPDATE fruit SET price = 2 WHERE id < 3;
UPDATE fruit SET price = price;
DELETE FROM fruit WHERE id = 77;
ALTER TABLE fruit ADD COLUMN note TEXT;
SELECT COUNT(*) FROM fruit;
SQL

echo "== errors"
client <<'SQL'
SELECT * FROM not_there;
SELECT 'not reached';
SQL
echo "exit $?"
client --force <<'SQL'
SELECT * FROM not_there;
SELECT 'reached';
INSERT INTO fruit (id) VALUES (1);
SQL
echo "exit $?"

echo "== warnings"
client --show-warnings <<'SQL'
SET sql_mode = '';
INSERT INTO fruit (name, price) VALUES ('too dear', 99999999);
SELECT CAST('12x' AS SIGNED);
SHOW WARNINGS;
SELECT 1/0;
SQL

echo "== routines"
client <<'SQL'
DELIMITER //
CREATE PROCEDURE several(IN n INT, OUT doubled INT)
BEGIN
  SELECT n AS one;
  SELECT n + 1 AS a, 'ü' AS b;
  SET doubled = n * 2;
END//
CREATE FUNCTION plus_one(n INT) RETURNS INT DETERMINISTIC RETURN n + 1//
CREATE TRIGGER stamp BEFORE INSERT ON fruit FOR EACH ROW SET NEW.note = CONCAT('by trigger ', NEW.name)//
DELIMITER ;
CALL several(21, @d);
SELECT @d, plus_one(1);
INSERT INTO fruit (name) VALUES ('fig');
SELECT name, note FROM fruit WHERE name = 'fig';
SQL

echo "== transactions"
client <<'SQL'
BEGIN;
DELETE FROM fruit;
SELECT COUNT(*) FROM fruit;
ROLLBACK;
SELECT COUNT(*) FROM fruit;
SET autocommit = 0;
DELETE FROM fruit WHERE id = 1;
SELECT COUNT(*) FROM fruit;
ROLLBACK;
SELECT COUNT(*), @@autocommit FROM fruit;
SQL

echo "== session"
client <<'SQL'
SET @a = 5, @b := 'x';
SELECT @a, @b;
PREPARE p FROM 'SELECT ? + @a';
SET @p = 10;
EXECUTE p USING @p;
DEALLOCATE PREPARE p;
CREATE TEMPORARY TABLE scratch SELECT 1 AS n;
SELECT * FROM scratch;
SELECT GET_LOCK('a', 1), RELEASE_LOCK('a');
LOCK TABLES fruit WRITE;
SELECT COUNT(*) FROM fruit;
SELECT * FROM mysql.user LIMIT 1;
UNLOCK TABLES;
HANDLER fruit OPEN;
HANDLER fruit READ FIRST;
HANDLER fruit CLOSE;
USE information_schema
SELECT DATABASE();
\s
SQL
client --quick --execute 'SELECT seq FROM compat_numbers.seq_1_to_50000' | md5sum
client --xml --execute 'SELECT 1 AS a, NULL AS b'
client --html --execute "SELECT '<' AS a"
client --batch --raw --skip-column-names --execute 'SELECT "a\tb\nc"'

echo "== comments and hints"
client --comments --execute "SELECT /* in */ 1 -- end
; /*! SELECT 2 */; /*M! SELECT 3 */; SELECT /*+ MAX_EXECUTION_TIME(1000) */ 4; # last
SELECT 5"

echo "== load data local"
seq 1 3000 | sed 's/.*/&\tname &/' >"$COMPAT_FOLDER/client.tsv"
client --local-infile=1 -vv --execute "CREATE TABLE loaded (n INT, name VARCHAR(20));
  LOAD DATA LOCAL INFILE '$COMPAT_FOLDER/client.tsv' INTO TABLE loaded; SELECT COUNT(*), SUM(n) FROM loaded"
client --local-infile=0 --execute "LOAD DATA LOCAL INFILE '$COMPAT_FOLDER/client.tsv' INTO TABLE loaded"
echo "exit $?"
mariadb-import --host="$COMPAT_HOST" --port="$COMPAT_PORT" --user="$COMPAT_USER" --password="$COMPAT_PASSWORD" \
  --local --replace "$COMPAT_DATABASE" "$COMPAT_FOLDER/client.tsv" 2>&1 | sed "s#$COMPAT_FOLDER##"
mv "$COMPAT_FOLDER/client.tsv" "$COMPAT_FOLDER/loaded.tsv"
mariadb-import --host="$COMPAT_HOST" --port="$COMPAT_PORT" --user="$COMPAT_USER" --password="$COMPAT_PASSWORD" \
  --local --delete "$COMPAT_DATABASE" "$COMPAT_FOLDER/loaded.tsv" 2>&1

echo "== large"
client --max-allowed-packet=64M --execute "SELECT LENGTH(REPEAT('x', 10000000))"
{ printf 'SELECT LENGTH("'; head -c 3000000 /dev/zero | tr '\0' x; printf '")'; } | client --skip-column-names
client --max-allowed-packet=64M --skip-column-names --execute "SELECT REPEAT('x', 9000000)" | wc -c

echo "== tools"
mariadb-show --host="$COMPAT_HOST" --port="$COMPAT_PORT" --user="$COMPAT_USER" --password="$COMPAT_PASSWORD" \
  "$COMPAT_DATABASE" fruit 2>&1
mariadb-check --host="$COMPAT_HOST" --port="$COMPAT_PORT" --user="$COMPAT_USER" --password="$COMPAT_PASSWORD" \
  "$COMPAT_DATABASE" 2>&1
mariadb-admin --host="$COMPAT_HOST" --port="$COMPAT_PORT" --user="$COMPAT_USER" --password="$COMPAT_PASSWORD" ping 2>&1
mariadb-slap --host="$COMPAT_HOST" --port="$COMPAT_PORT" --user="$COMPAT_USER" --password="$COMPAT_PASSWORD" \
  --create-schema="$COMPAT_DATABASE" --no-drop --concurrency=4 --iterations=2 --query='SELECT COUNT(*) FROM fruit' 2>&1 |
  grep -c Benchmark
