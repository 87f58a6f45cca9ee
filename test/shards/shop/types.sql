# JSON, dates, sets, collations, numbers at their ends, names of columns.
SELECT customer_id, JSON_EXTRACT(prefs, '$.lang') AS lang FROM customers ORDER BY 1;
SELECT customer_id, JSON_UNQUOTE(JSON_EXTRACT(prefs, '$.lang')) AS lang FROM customers WHERE JSON_EXTRACT(prefs, '$.mail') = TRUE ORDER BY 1;
SELECT JSON_UNQUOTE(JSON_EXTRACT(prefs, '$.lang')) AS lang, COUNT(*) FROM customers GROUP BY lang ORDER BY lang;
SELECT customer_id, JSON_LENGTH(prefs, '$.tags') AS n FROM customers ORDER BY 2 DESC, 1;
SELECT customer_id FROM customers WHERE JSON_CONTAINS(prefs, '"vip"', '$.tags') ORDER BY 1;
SELECT customer_id, JSON_OBJECT('id', customer_id, 'name', name) AS o FROM customers ORDER BY 1 LIMIT 5;
SELECT customer_id, JSON_VALID(prefs), JSON_TYPE(prefs), JSON_KEYS(prefs) FROM customers ORDER BY 1 LIMIT 8;
SELECT p.product_id, JSON_EXTRACT(p.tags, '$[0]') AS first, COUNT(i.order_id) FROM products p JOIN items i ON i.product_id = p.product_id GROUP BY p.product_id, first ORDER BY 1;
SELECT SUM(JSON_EXTRACT(prefs, '$.size')) AS s, AVG(JSON_EXTRACT(prefs, '$.size')) AS a FROM customers;
SELECT JSON_OBJECTAGG(customer_id, credit) FROM customers WHERE customer_id = 9;
-- engine: mysql
SELECT customer_id, prefs->'$.lang' AS a, prefs->>'$.lang' AS b FROM customers ORDER BY 1;
-- engine: mysql
SELECT customer_id FROM customers WHERE prefs->>'$.lang' = 'de' ORDER BY 1;
SELECT c.customer_id, j.tag FROM customers c, JSON_TABLE(c.prefs, '$.tags[*]' COLUMNS (tag VARCHAR(20) PATH '$')) j ORDER BY 1, 2;
SELECT j.tag, COUNT(*) FROM customers c, JSON_TABLE(c.prefs, '$.tags[*]' COLUMNS (tag VARCHAR(20) PATH '$')) j GROUP BY j.tag ORDER BY 1;
SELECT YEAR(placed), QUARTER(placed), WEEK(placed, 3), DAYOFWEEK(placed), DAYNAME(placed), LAST_DAY(placed) FROM orders ORDER BY customer_id, order_id LIMIT 20;
SELECT customer_id, order_id, DATEDIFF(due, placed) AS days, TIMESTAMPDIFF(HOUR, placed, due) AS hours FROM orders ORDER BY 1, 2;
SELECT customer_id, order_id, placed + INTERVAL 36 HOUR, DATE_ADD(due, INTERVAL 1 MONTH), placed - INTERVAL '1:30' MINUTE_SECOND FROM orders ORDER BY 1, 2 LIMIT 20;
SELECT DATE_FORMAT(placed, '%W %e %M %Y %H:%i:%s.%f'), UNIX_TIMESTAMP(placed), TO_DAYS(placed) FROM orders ORDER BY customer_id, order_id LIMIT 10;
SELECT EXTRACT(YEAR_MONTH FROM placed) AS ym, COUNT(*) FROM orders GROUP BY ym ORDER BY ym;
SELECT customer_id, born, TIMESTAMPDIFF(YEAR, born, '2026-01-01') AS age FROM customers ORDER BY 3 DESC, 1;
SELECT SEC_TO_TIME(SUM(TIME_TO_SEC(spent))), ADDTIME(MAX(spent), '00:10:00') FROM visits;
SELECT visit_id, at, MICROSECOND(at), spent, HOUR(spent) FROM visits ORDER BY at DESC, visit_id LIMIT 15;
SELECT customer_id, order_id, line_no, shipped FROM items WHERE shipped BETWEEN '2025-02-01' AND '2025-04-01' ORDER BY 1, 2, 3;
SET time_zone = '+05:30';
SELECT customer_id, order_id, line_no, shipped, UNIX_TIMESTAMP(shipped) FROM items ORDER BY shipped, 1, 2, 3 LIMIT 30;
SELECT DATE(shipped) AS d, COUNT(*) FROM items GROUP BY d ORDER BY d;
SET time_zone = '+00:00';
SELECT DATE(shipped) AS d, COUNT(*) FROM items GROUP BY d ORDER BY d;
SET timestamp = 1767225600;
SELECT NOW(), CURDATE(), UTC_TIMESTAMP(), COUNT(*) FROM orders;
SELECT customer_id, order_id FROM orders WHERE placed > NOW() - INTERVAL 300 DAY ORDER BY 1, 2;
SELECT customer_id, TIMESTAMPDIFF(YEAR, born, CURDATE()) AS age FROM customers ORDER BY 1;
SELECT MAX(NOW()), COUNT(DISTINCT NOW()) FROM customers;
SET timestamp = DEFAULT;
SELECT COUNT(*) FROM items WHERE FIND_IN_SET('gift', options);
SELECT options, options + 0, COUNT(*) FROM items WHERE options & 2 GROUP BY options ORDER BY options + 0;
SELECT tier, COUNT(*) FROM customers WHERE tier IN ('gold', 'bronze') OR tier IS NULL GROUP BY tier ORDER BY tier;
SELECT MAX(CAST(tier AS CHAR)), MIN(CAST(tier AS CHAR)) FROM customers;
SELECT CONCAT(tier, '!') AS t, COUNT(*) FROM customers GROUP BY t ORDER BY t;
SELECT customer_id, name FROM customers WHERE name = 'MULLER' COLLATE utf8mb4_unicode_ci ORDER BY 1;
SELECT customer_id, name FROM customers WHERE name = 'muller' COLLATE utf8mb4_bin ORDER BY 1;
SELECT customer_id, name FROM customers WHERE name > 'o' ORDER BY name, customer_id;
SELECT customer_id, name FROM customers ORDER BY name COLLATE utf8mb4_general_ci DESC, customer_id;
SELECT UPPER(name), LOWER(name), CHAR_LENGTH(name), LENGTH(name), HEX(LEFT(name, 1)) FROM customers ORDER BY customer_id;
SELECT customer_id, name FROM customers WHERE name LIKE '_u%' ORDER BY 1;
SELECT CONCAT(name, ' ', COALESCE(city, '?')) AS line FROM customers ORDER BY customer_id;
SELECT city COLLATE utf8mb4_bin AS c, COUNT(*) FROM customers GROUP BY c ORDER BY c;
SELECT customer_id, HEX(code), code = 'abc' FROM customers ORDER BY code DESC, customer_id;
SELECT customer_id, credit * 1.10 AS a, credit * 2 AS b, credit / 4 AS c, -credit AS d, credit * score AS e FROM customers ORDER BY 1;
-- about: 4
SELECT SUM(credit * 1.10), SUM(credit / 4), AVG(credit * 1.5), SUM(credit * score), SUM(customer_id / 3) FROM customers;
SELECT SUM(price * quantity * (1 + COALESCE(tax, 0))) FROM items;
SELECT AVG(tax), SUM(tax) / COUNT(*), MAX(tax) - MIN(tax) FROM items;
SELECT SUM(population), AVG(population), SUM(population * 1000), SUM(vat) FROM countries;
SELECT SUM(visit_id * 1000000000), MAX(visit_id), MIN(visit_id) FROM visits;
SELECT SUM(CAST(quantity AS UNSIGNED)), SUM(-quantity), SUM(CAST(quantity AS SIGNED) - 10), AVG(quantity * 1.5) FROM items;
SELECT COUNT(*), count(*), Count( * ), COUNT(*) AS `COUNT(*)` FROM customers;
SELECT SUM( total ), sum(total), SUM(total) + 0, SUM(total)AS x FROM orders;
SELECT MAX(total) 'max', MIN(total) "min", AVG(total) avg_total FROM orders;
SELECT customer_id AS 'customer''s id', name AS `a ``quoted`` name` FROM customers ORDER BY customer_id LIMIT 2;
SELECT customers.customer_id, customers.name, shop.customers.country FROM shop.customers ORDER BY customers.customer_id LIMIT 2;
SELECT @a := 5;
SET @limit = 500, @country = 'DE';
SELECT customer_id, credit FROM customers WHERE credit > @limit ORDER BY 1;
SELECT customer_id, @country FROM customers WHERE country = @country ORDER BY 1;
SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT';
SELECT "customer_id", "name" || '!' AS n FROM "customers" WHERE "customer_id" < 5 ORDER BY "customer_id";
SELECT "status", COUNT(*) FROM "orders" GROUP BY "status" ORDER BY "status";
SELECT country || '-' || COALESCE(tier, 'x') AS k, COUNT(*) FROM customers GROUP BY k ORDER BY k;
SET sql_mode = 'NO_BACKSLASH_ESCAPES';
SELECT customer_id FROM customers WHERE name LIKE '%\%' ESCAPE '|' ORDER BY 1;
SET sql_mode = DEFAULT;
SET group_concat_max_len = 20;
SELECT GROUP_CONCAT(customer_id ORDER BY customer_id) FROM customers;
SET group_concat_max_len = DEFAULT;
SET NAMES latin1;
SELECT name FROM customers WHERE customer_id IN (1, 2, 3, 4) ORDER BY customer_id;
SELECT COUNT(*), MAX(country), MIN(email) FROM customers;
SET NAMES utf8mb4;
SELECT 'x' AS a FROM customers WHERE customer_id < 3 UNION ALL SELECT _latin1'\xE4' FROM customers WHERE customer_id = 4;
SELECT CONVERT(name USING latin1) AS l, customer_id FROM customers ORDER BY 2 LIMIT 10;
-- engine: mariadb
-- fresh sharded: shop customer_id
CREATE TABLE devices (customer_id INT NOT NULL PRIMARY KEY, device UUID NULL, six INET6 NULL, four INET4 NULL) ENGINE=InnoDB;
-- engine: mariadb
INSERT INTO devices VALUES (1, '03d15a49-7c57-4bc0-aaee-c1ac74c2ea69', '2001:db8::ff00:42:8329', '10.0.0.1'), (2, '03d15a49-7c57-4bc0-aaee-c1ac74c2ea69', '::1', '10.0.0.2'), (3, '13d15a49-7c57-4bc0-aaee-c1ac74c2ea69', '::1', NULL), (70, NULL, NULL, '10.0.0.2'), (95, '13d15a49-7c57-4bc0-aaee-c1ac74c2ea69', '::2', '10.0.0.1');
-- engine: mariadb
SELECT device, COUNT(*), MIN(six), MAX(four) FROM devices GROUP BY device ORDER BY device;
-- engine: mariadb
SELECT one.customer_id, other.customer_id FROM devices one JOIN devices other ON other.device = one.device ORDER BY 1, 2;
-- engine: mariadb
SELECT customer_id FROM customers WHERE customer_id IN (SELECT COUNT(*) + 1 FROM devices GROUP BY six, four) ORDER BY 1;
-- engine: mariadb
SELECT customer_id, six, ROW_NUMBER() OVER (PARTITION BY four ORDER BY six DESC, customer_id) AS n FROM devices ORDER BY 1;
-- engine: mariadb
DROP TABLE devices;
