# Names that could mean two things in a text that is made of the client's, and what few people write.
SELECT SUM(b) AS a FROM labels GROUP BY a;
SELECT SUM(b) AS A, COUNT(*) FROM labels GROUP BY a;
SELECT SUM(b) AS a FROM labels GROUP BY labels.a HAVING COUNT(*) > 1;
-- order: 1
SELECT SUM(b) AS a FROM labels GROUP BY a ORDER BY a;
SELECT SUM(b) AS a, a AS b FROM labels GROUP BY labels.a ORDER BY b DESC LIMIT 3;
SELECT b AS a FROM labels GROUP BY a, b;
SELECT b AS a, a AS b FROM labels GROUP BY a, b ORDER BY 1, 2;
SELECT SUM(`order`) AS größe FROM labels GROUP BY `Größe`;
SELECT SUM(`order`) AS größe, MIN(total) AS `ORDER` FROM labels GROUP BY GRÖSSE;
SELECT SUM(total) AS `order` FROM labels GROUP BY `order`;
SELECT total AS id, COUNT(*) AS total FROM labels GROUP BY id, labels.total ORDER BY 1, 2;
SELECT COUNT(*) AS s FROM labels GROUP BY s;
SELECT a + 0 AS g0, SUM(b) * 2 AS p1 FROM labels GROUP BY a ORDER BY a, p1;
SELECT SUM(b) + 1 AS a FROM labels GROUP BY a ORDER BY 1;
SELECT -a AS b, b AS a FROM labels ORDER BY labels.customer_id DESC, id LIMIT 20;
-- order: 1
SELECT -a AS b, b AS a FROM labels ORDER BY b;
SELECT customer_id AS id, id AS customer_id FROM labels ORDER BY id, customer_id LIMIT 9;
SELECT a AS id, (SELECT COUNT(*) FROM orders o WHERE o.customer_id = labels.customer_id AND total > a) AS total FROM labels;
SELECT d.a, d.b FROM (SELECT SUM(b) AS a, a AS b FROM labels GROUP BY labels.a) d;
# The last word belongs to the key in front of it.
SELECT DISTINCT a, b FROM labels ORDER BY a DESC, b;
-- order: 1
SELECT DISTINCT a, b FROM labels ORDER BY a DESC;
-- order: 1
SELECT a, b, COUNT(*) FROM labels GROUP BY a, b ORDER BY a DESC;
# Both engines lose rows of it where it is ordered by the expression once more.
SELECT DISTINCT a, IF(s > 'k', b, 0) FROM labels;
SELECT DISTINCT a, IF(s > 'k', b, 0) FROM labels ORDER BY 2 DESC, 1;
SELECT DISTINCT country, IF(name > 'm', customer_id, 0) FROM customers;
SELECT IF(s > 'k', b, 0), COUNT(*) FROM labels GROUP BY IF(s > 'k', b, 0);
# Equal texts that have several weights.
SELECT COUNT(*) FROM (SELECT DISTINCT s FROM labels LIMIT 12) d;
-- free: 1
SELECT DISTINCT s FROM labels ORDER BY s LIMIT 12;
-- free: 1 2
SELECT DISTINCT s, customer_id FROM labels ORDER BY s, customer_id LIMIT 100;
SELECT DISTINCT -45 FROM labels;
SELECT DISTINCT +45 FROM labels;
SELECT DISTINCT NOT TRUE FROM labels;
SELECT DISTINCT - -a, -45, NOT TRUE FROM labels;
SELECT -45 AS a, COUNT(*) FROM labels GROUP BY -45;
SELECT AVG (b) FROM labels;
SELECT AVG ( ALL b ) FROM labels;
SELECT AVG /* of all */ (b) FROM labels;
SELECT a, AVG (b) FROM labels GROUP BY a ORDER BY a;
SELECT a, AVG (b) + 1 FROM labels GROUP BY a ORDER BY a;
SELECT SUM (b) FROM labels;
SELECT COUNT (*) FROM labels;
SELECT COALESCE (SUM(b), 0) FROM labels;
SELECT a FROM labels WHERE MID (s, 1, 1) = 'a';
SELECT 1 FROM labels, staff LIMIT 3;
SELECT COUNT(*) FROM labels, staff;
# A key that gives ids and is not shown, and a table of which nothing is named.
-- engine: mariadb
-- fresh sharded: pages stub_id
CREATE TABLE stubs (stub_id INT NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY, note VARCHAR(20) NOT NULL, n INT);
-- engine: mariadb
INSERT INTO stubs VALUES ('one', 1);
-- engine: mariadb
INSERT INTO stubs VALUES ('two', 2), ('three', NULL);
-- engine: mariadb
INSERT INTO stubs () VALUES ('four', 4);
-- engine: mariadb
INSERT INTO stubs SET note = 'five';
-- engine: mariadb
INSERT INTO stubs (n, note) VALUES (6, 'six'), (7, 'seven');
-- engine: mariadb
INSERT INTO stubs VALUES ('too', 'many', 3);
-- engine: mariadb
SELECT * FROM stubs ORDER BY note;
-- engine: mariadb
SELECT 1 FROM stubs, staff LIMIT 3;
-- engine: mariadb
SELECT COUNT(*), COUNT(DISTINCT stub_id) FROM stubs;
-- engine: mariadb
SELECT stubs.* FROM stubs, staff WHERE staff_id = 3 ORDER BY note;
-- engine: mariadb
DROP TABLE stubs;
# MariaDB takes a comment in front of an expression into its name.
SELECT COUNT(*) + 1 AS n, /**/ SUM(id) * 2, b FROM labels GROUP BY b;
SELECT /* one */ COUNT(*) + 1, b AS total FROM labels GROUP BY b;
