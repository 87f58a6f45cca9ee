#!/bin/bash
# mariadb-dump through the address under test, in the ways people use it; restored through it; compared.
set -u
at=(--host="$COMPAT_HOST" --port="$COMPAT_PORT" --user="$COMPAT_USER" --password="$COMPAT_PASSWORD" ${COMPAT_TLS:+--ssl})
client() { mariadb "${at[@]}" --default-character-set=utf8mb4 "$@" 2>&1; }
dump() { mariadb-dump "${at[@]}" --skip-dump-date --default-character-set=utf8mb4 "$@" 2>&1; }
# Host names, moments of creation, estimates and the position in the binlog are what may differ.
stable() { sed -e 's/^-- Host: [^ ]*/-- Host:/' -e 's/gtid_slave_pos=.*/gtid_slave_pos=/' -e 's/MASTER_LOG_FILE=.*//' \
  -e "s/STARTS '[^']*'/STARTS/" -e 's/_time="[^"]*"//g' -e 's/Created="[^"]*"//g' -e '/<options Name=/d' -e 's/Cardinality="[^"]*"//'; }
# A restored table's own dump must equal the first one's.
restored="${COMPAT_DATABASE}_restored"

echo "== fill"
client "$COMPAT_DATABASE" <<'SQL'
CREATE TABLE kinds (id INT AUTO_INCREMENT PRIMARY KEY, t TINYINT, b BIGINT UNSIGNED, d DECIMAL(20,5), f DOUBLE,
  s VARCHAR(100) CHARACTER SET utf8mb4, x VARBINARY(100), day DATE, moment TIMESTAMP(6) NULL, doc JSON, e ENUM('a','b'),
  bits BIT(9), g INT GENERATED ALWAYS AS (t + 1) STORED, KEY (s), UNIQUE (b));
INSERT INTO kinds (t, b, d, f, s, x, day, moment, doc, e, bits)
  SELECT seq % 100, 18446744073709551615 - seq, seq / 7, seq * 1.1e50, CONCAT('ü🧵\'"\\', seq), UNHEX(LPAD(HEX(seq), 8, '0')),
    '2024-02-29' + INTERVAL seq DAY, '2024-01-01 00:00:00.123456' + INTERVAL seq HOUR, JSON_OBJECT('n', seq), 'b', seq % 512
  FROM compat_numbers.seq_1_to_5000;
INSERT INTO kinds (t) VALUES (NULL);
CREATE TABLE child (id INT PRIMARY KEY, kind INT, FOREIGN KEY (kind) REFERENCES kinds (id) ON DELETE CASCADE);
INSERT INTO child VALUES (1, 1), (2, 5);
CREATE VIEW seen AS SELECT id, s FROM kinds WHERE t > 5;
CREATE TRIGGER before_child BEFORE INSERT ON child FOR EACH ROW SET NEW.id = NEW.id + 0;
DELIMITER //
CREATE PROCEDURE count_kinds() BEGIN SELECT COUNT(*) FROM kinds; END//
CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 4//
CREATE EVENT nothing ON SCHEDULE EVERY 1 YEAR DISABLE DO SET @x = 1//
DELIMITER ;
CREATE SEQUENCE numbers START WITH 5;
SELECT NEXT VALUE FOR numbers;
SQL

for options in "--single-transaction --routines --triggers --events" "--lock-tables --opt" "--skip-opt --complete-insert" \
  "--single-transaction --master-data=2 --quick" "--xml" "--lock-all-tables --flush-logs" \
  "--single-transaction --order-by-primary --where=id<50"; do
  echo "== dump $options"
  # shellcheck disable=SC2086
  dump $options "$COMPAT_DATABASE" | stable | tee "$COMPAT_FOLDER/dump.sql" | md5sum
  if ! tail -n 1 "$COMPAT_FOLDER/dump.sql" | grep -qE '^(-- Dump completed|</mysqldump>|$)'; then
    tail -n 3 "$COMPAT_FOLDER/dump.sql" | cut -c 1-300
  fi
  grep -c . "$COMPAT_FOLDER/dump.sql"
done

echo "== restore"
dump --single-transaction --routines --triggers --events "$COMPAT_DATABASE" | stable >"$COMPAT_FOLDER/first.sql"
client --execute "DROP DATABASE IF EXISTS $restored; CREATE DATABASE $restored CHARACTER SET utf8mb4"
client "$restored" <"$COMPAT_FOLDER/first.sql"
dump --single-transaction --routines --triggers --events "$restored" |
  stable | sed "s/$restored/$COMPAT_DATABASE/g" >"$COMPAT_FOLDER/second.sql"
diff "$COMPAT_FOLDER/first.sql" "$COMPAT_FOLDER/second.sql" && echo equal
client "$restored" --execute "CALL count_kinds(); SELECT f(), COUNT(*) FROM seen; CHECKSUM TABLE kinds, child"

echo "== piped"
client --execute "DROP DATABASE $restored; CREATE DATABASE $restored CHARACTER SET utf8mb4"
dump --single-transaction --routines --triggers --events "$COMPAT_DATABASE" | client "$restored"
client --skip-column-names --execute "CHECKSUM TABLE $restored.kinds, $COMPAT_DATABASE.kinds" | awk '{print $2}'
client --execute "DROP DATABASE $restored"
