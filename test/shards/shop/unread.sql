# Texts that parsers of SQL commonly do not read; the servers do.
SELECT customer_id FROM customers FORCE INDEX FOR ORDER BY (PRIMARY) ORDER BY 1 LIMIT 3;
SELECT customer_id FROM customers PARTITION (p0);
SELECT SQL_SMALL_RESULT SQL_BUFFER_RESULT status, COUNT(*) FROM orders GROUP BY status ORDER BY status;
SELECT HIGH_PRIORITY customer_id FROM customers ORDER BY 1 LIMIT 3;
SELECT N'x' AS n, _utf8mb4'y' AS y, x'414243' AS h, 0b101 AS b, b'0110' + 0 AS c, customer_id FROM customers ORDER BY customer_id LIMIT 3;
SELECT customer_id FROM customers WHERE name SOUNDS LIKE 'muller' ORDER BY 1;
SELECT customer_id FROM customers WHERE name RLIKE '^a' XOR country = 'DE' ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id DIV 10 = 2 AND customer_id MOD 2 = 1 ORDER BY 1;
SELECT customer_id FROM customers WHERE ! (customer_id > 5) && country != 'zz' || customer_id = 40 ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id ^ 1 < 6 AND customer_id & 1 = 0 AND customer_id << 1 < 50 AND ~customer_id & 2 ORDER BY 1;
SELECT customer_id, name FROM customers WHERE MATCH_ME IS NULL;
SELECT /*! SQL_NO_CACHE */ COUNT(*) FROM /*!50000 orders */;
SELECT /*!99999 nonsense */ COUNT(*) FROM orders;
SELECT INTERVAL(customer_id, 10, 20, 30) AS i, COUNT(*) FROM customers GROUP BY i ORDER BY i;
SELECT TRIM(BOTH ' ' FROM name), SUBSTRING(name FROM 2 FOR 3), POSITION('e' IN name), CHAR(77, 121) FROM customers ORDER BY customer_id LIMIT 8;
SELECT GET_FORMAT(DATE, 'EUR'), TIMESTAMPADD(WEEK, 1, placed), CONVERT(total, CHAR) FROM orders ORDER BY customer_id, order_id LIMIT 5;
SELECT { d '2025-01-01' } AS d, { fn UCASE('x') } AS f, COUNT(*) FROM orders;
SELECT customer_id, order_id FROM orders WHERE ROW(customer_id, order_id) = ROW(7, 107);
SELECT customer_id FROM customers WHERE ROW(customer_id, country) > ROW(50, 'DE') ORDER BY 1;
SELECT customer_id INTO @found FROM customers WHERE customer_id = 7;
SELECT @found;
SELECT COUNT(*), SUM(total) INTO @n, @s FROM orders;
SELECT @n, @s;

DO (SELECT COUNT(*) FROM orders);
-- engine: mariadb
SELECT customer_id FROM customers ORDER BY customer_id OFFSET 3 ROWS FETCH NEXT 4 ROWS ONLY;
-- engine: mariadb
SELECT customer_id FROM customers ORDER BY customer_id FETCH FIRST 4 ROWS ONLY;
-- engine: mariadb
SELECT customer_id, name FROM customers ORDER BY customer_id LIMIT ROWS EXAMINED 100000;
-- engine: mariadb
SET STATEMENT group_concat_max_len = 20 FOR SELECT status, GROUP_CONCAT(customer_id ORDER BY customer_id) FROM orders GROUP BY status ORDER BY status;
-- engine: mariadb
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY total) OVER (PARTITION BY status) AS p, order_id FROM orders ORDER BY customer_id, order_id;
-- engine: mariadb
VALUES (1, 'a'), (2, 'b');
-- engine: mariadb
SELECT c.customer_id FROM customers c JOIN (VALUES (1), (2), (3)) v ON c.customer_id = v.`1` ORDER BY 1;
-- engine: mysql
SELECT /*+ MAX_EXECUTION_TIME(100000) */ COUNT(*) FROM orders;
-- engine: mysql
SELECT customer_id FROM customers ORDER BY 1 LIMIT 3 FOR SHARE;
-- engine: mysql
SELECT customer_id FROM customers ORDER BY 1 LIMIT 3 FOR UPDATE SKIP LOCKED;
SELECT customer_id FROM customers c WHERE c.customer_id = ANY (SELECT customer_id FROM orders WHERE total > 950) ORDER BY 1;
SELECT nosuch FROM customers;
SELECT customer_id FROM customers GROUP BY nosuch;
SELECT customer_id FROM nosuch;
SELECT customer_id FROM customers WHERE;
SELECT customer_id, COUNT(*) FROM customers ORDER BY customer_id LIMIT -1;
SELECT (SELECT customer_id FROM customers) AS one;
SELECT customer_id FROM customers WHERE customer_id = (SELECT customer_id FROM orders);
SELECT customer_id FROM customers UNION SELECT customer_id, order_id FROM orders;
SELECT SUM(total, 1) FROM orders;
SELECT NOSUCH(total) FROM orders;
SELECT customer_id FROM customers, orders;
