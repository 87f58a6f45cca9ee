# A small start.
SELECT 1, NULL, '', 'text', 1.5e0;
CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(20), d DATETIME, b BLOB);
INSERT INTO t (s, d) VALUES ('a', '2026-01-02 03:04:05'), (NULL, NULL);
UPDATE t SET s = 'b' WHERE id = 1;
UPDATE t SET s = 'b' WHERE id = 1;
SELECT * FROM t;
SELECT * FROM no_such_table;
SELEC;
-- prepare s: SELECT ?, ?, id FROM t WHERE id > ?
-- execute s: tiny 5, string 'x', big 0
-- again s: tiny 6, string 'xyz', big 1
-- cursor s: tiny 7, null, big 0
-- fetch s: 1
-- fetch s: 5
-- reset s
-- close s
-- ping
