# JSON, geometry, MariaDB's own types.
CREATE TABLE j (id INT PRIMARY KEY, j JSON);
INSERT INTO j VALUES (1, '{"a": 1, "b": [1, 2.5, "x", null, true]}'), (2, '[]'), (3, 'null'), (4, NULL), (5, '"ü😀"'), (6, '1.5e3');
INSERT INTO j VALUES (7, '{broken');
SELECT * FROM j ORDER BY id;
SELECT id, JSON_EXTRACT(j, '$.b[1]'), JSON_TYPE(j), JSON_LENGTH(j), JSON_VALID(j), JSON_KEYS(j), JSON_UNQUOTE(JSON_EXTRACT(j, '$.b[2]')) FROM j WHERE id < 7 ORDER BY id;
SELECT j->'$.a', j->>'$.b[2]' FROM j WHERE id = 1;
SELECT JSON_OBJECT('a', 1, 'b', NULL), JSON_ARRAY(1, 'x', NULL, 2.5), JSON_QUOTE('a"b'), JSON_SET('{"a":1}', '$.b', 2), JSON_MERGE_PRESERVE('[1]', '[2]'), JSON_CONTAINS('[1,2]', '1'), JSON_SEARCH('["a","b"]', 'one', 'b'), JSON_DEPTH('[[1]]');
SELECT JSON_ARRAYAGG(id), JSON_OBJECTAGG(id, j) FROM j WHERE id < 3;
SELECT * FROM JSON_TABLE('[{"a":1,"b":"x"},{"a":2}]', '$[*]' COLUMNS (n FOR ORDINALITY, a INT PATH '$.a', b VARCHAR(5) PATH '$.b' DEFAULT '"none"' ON EMPTY)) AS t;
SELECT CAST('{"a":1}' AS JSON);
SELECT JSON_PRETTY('{"a":[1,2]}');
CREATE TABLE g (id INT PRIMARY KEY, g GEOMETRY, p POINT, l LINESTRING, y POLYGON);
INSERT INTO g VALUES (1, ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('POINT(3 4)'), ST_GeomFromText('LINESTRING(0 0,1 1,2 0)'), ST_GeomFromText('POLYGON((0 0,4 0,4 4,0 4,0 0))')), (2, NULL, NULL, NULL, NULL);
SELECT * FROM g ORDER BY id;
SELECT ST_AsText(g), ST_AsBinary(p), ST_X(p), ST_Y(p), ST_Length(l), ST_Area(y), ST_SRID(g), ST_GeometryType(y), ST_Contains(y, p) FROM g ORDER BY id;
INSERT INTO g (id, p) VALUES (3, 'nonsense');
INSERT INTO g (id, p) VALUES (4, ST_GeomFromText('LINESTRING(0 0,1 1)'));
SHOW FULL COLUMNS FROM g;
CREATE TABLE n (id INT PRIMARY KEY, u UUID, a INET6, b INET4);
INSERT INTO n VALUES (1, '123e4567-e89b-12d3-a456-426655440000', '2001:db8::ff00:42:8329', '192.168.0.1'), (2, NULL, NULL, NULL), (3, '00000000-0000-0000-0000-000000000000', '::', '0.0.0.0');
SELECT * FROM n ORDER BY id;
SELECT u, HEX(u), a, b FROM n WHERE u = '123e4567-e89b-12d3-a456-426655440000';
INSERT INTO n (id, u) VALUES (4, 'bad');
INSERT INTO n (id, a) VALUES (5, 'bad');
SHOW COLUMNS FROM n;
SELECT INET_ATON('10.0.0.1'), INET_NTOA(167772161), HEX(INET6_ATON('::1')), INET6_NTOA(UNHEX('00000000000000000000000000000001')), IS_IPV4('1.2.3.4'), IS_IPV6('x');
CREATE TABLE v (a INT, b INT AS (a + 1), c INT AS (a * 2) STORED, d VARCHAR(10) AS (CONCAT('x', a)) VIRTUAL);
INSERT INTO v (a) VALUES (1), (NULL);
SELECT * FROM v;
INSERT INTO v (a, b) VALUES (1, 5);
INSERT INTO v (a, b) VALUES (3, DEFAULT);
CREATE TABLE df (a INT DEFAULT 5, b VARCHAR(10) DEFAULT 'x' NOT NULL, c INT NOT NULL, d INT INVISIBLE DEFAULT 7);
CREATE TABLE df2 (a INT DEFAULT 5, b VARCHAR(10) DEFAULT 'x' NOT NULL, c INT NOT NULL);
INSERT INTO df2 () VALUES ();
INSERT INTO df2 (c) VALUES (1);
INSERT INTO df2 VALUES (DEFAULT, DEFAULT, 2);
INSERT INTO df2 VALUES (DEFAULT(a), DEFAULT(b), NULL);
SELECT *, DEFAULT(a), DEFAULT(b) FROM df2;
SELECT NULL, NULL + 1, CONCAT('a', NULL), NULL IS NULL, NULL AND 0, NULL OR 1, COALESCE(NULL, NULL), IFNULL(NULL, NULL), NULLIF(1, 2), ISNULL(NULL), IF(NULL, 1, 2);
CREATE TABLE nulls AS SELECT NULL AS a, 1 AS b, 'x' AS c, 1.5 AS d, NOW() AS e;
SHOW CREATE TABLE nulls;
SELECT a, b, c, d FROM nulls;
CREATE TABLE wide (c1 INT, c2 INT, c3 INT, c4 INT, c5 INT, c6 INT, c7 INT, c8 INT, c9 INT, c10 INT, c11 INT, c12 INT, c13 INT, c14 INT, c15 INT, c16 INT, c17 INT);
INSERT INTO wide (c1, c9, c17) VALUES (1, 9, 17);
SELECT * FROM wide;
SELECT c1 AS `a b`, c9 AS 'ä', c17 AS `sel``ect`, c1 + c9 AS sum, wide.c1, w.c1 FROM wide JOIN wide AS w USING (c17);
-- prepare j: SELECT j, JSON_EXTRACT(j, ?) FROM j WHERE id = ?
-- execute j: string '$.a', int 1
-- execute j: string '$', int 5
-- execute j: string 'bad path', int 1
-- execute j: string '$', int 4
-- prepare g: SELECT id, g, ST_AsText(p) FROM g WHERE id = ?
-- execute g: int 1
-- execute g: int 2
-- prepare gi: INSERT INTO g (id, g) VALUES (?, ST_GeomFromText(?))
-- execute gi: int 10, string 'POINT(5 6)'
-- execute gi: int 11, string 'POINT(5'
-- prepare n: SELECT * FROM n WHERE id = ?
-- execute n: int 1
-- execute n: int 2
-- prepare w: SELECT * FROM wide WHERE c1 = ?
-- execute w: int 1
