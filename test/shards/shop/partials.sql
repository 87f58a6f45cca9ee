# Groups of which every shard has a part, and what is made of the parts: DISTINCT values, expressions that
# are grouped by, windows over groups, DISTINCT over groups, ROLLUP.
SELECT status, COUNT(DISTINCT channel) FROM orders GROUP BY status;
SELECT status, COUNT(*), SUM(total), AVG(total), COUNT(DISTINCT channel), MIN(due), MAX(due) FROM orders GROUP BY status;
SELECT COUNT(DISTINCT channel), COUNT(DISTINCT customer_id), COUNT(DISTINCT due), COUNT(*) FROM orders;
SELECT COUNT(DISTINCT channel, ship_country), COUNT(DISTINCT YEAR(due), status) FROM orders;
SELECT SUM(DISTINCT total), AVG(DISTINCT total), MIN(DISTINCT total), MAX(DISTINCT total) FROM orders;
SELECT SUM(DISTINCT quantity), AVG(DISTINCT quantity), SUM(DISTINCT quantity * 2), AVG(DISTINCT price * quantity) FROM items;
SELECT SUM(DISTINCT score), AVG(DISTINCT score) FROM customers;
SELECT country, COUNT(DISTINCT name), COUNT(DISTINCT city), COUNT(DISTINCT email) FROM customers GROUP BY country;
SELECT COUNT(DISTINCT name), COUNT(DISTINCT name COLLATE utf8mb4_bin), COUNT(DISTINCT LEFT(name, 1)) FROM customers;
SELECT COUNT(DISTINCT total) + COUNT(DISTINCT due) AS both_of FROM orders WHERE 1 = 0;
SELECT status, COUNT(DISTINCT total) FROM orders WHERE 1 = 0 GROUP BY status;
SELECT tier, COUNT(DISTINCT country) AS n FROM customers GROUP BY tier HAVING COUNT(DISTINCT country) > 1 ORDER BY n DESC, tier;
SELECT country, COUNT(DISTINCT tier), COUNT(DISTINCT code), COUNT(DISTINCT referrer) FROM customers GROUP BY country;
SELECT i.product_id, COUNT(DISTINCT o.status), COUNT(DISTINCT o.customer_id), SUM(i.quantity) FROM orders o JOIN items i ON i.customer_id = o.customer_id AND i.order_id = o.order_id GROUP BY i.product_id;
-- free: 1
SELECT p.category, COUNT(DISTINCT i.quantity), COUNT(DISTINCT p.product_id) FROM items i JOIN products p ON p.product_id = i.product_id GROUP BY p.category;
SELECT country, GROUP_CONCAT(DISTINCT tier ORDER BY tier) FROM customers GROUP BY country;
SELECT status, GROUP_CONCAT(DISTINCT YEAR(due) ORDER BY YEAR(due) DESC SEPARATOR '; ') FROM orders GROUP BY status;
SELECT GROUP_CONCAT(DISTINCT quantity ORDER BY quantity), GROUP_CONCAT(DISTINCT quantity % 3 ORDER BY quantity % 3 SEPARATOR '') FROM items;
SELECT GROUP_CONCAT(DISTINCT quantity, '/', line_no ORDER BY quantity, line_no) FROM items;
SELECT GROUP_CONCAT(quantity ORDER BY quantity, price SEPARATOR '-') FROM items WHERE line_no = 1;
SELECT YEAR(due) AS y, COUNT(*) + 0, SUM(total) FROM orders GROUP BY YEAR(due) ORDER BY y;
SELECT YEAR(due) AS y, MONTH(due) AS m, COUNT(*) + 0, COUNT(DISTINCT channel) FROM orders GROUP BY y, m ORDER BY 1, 2;
SELECT YEAR(due), SUM(total) / COUNT(*) FROM orders GROUP BY YEAR(due) HAVING YEAR(due) IS NOT NULL ORDER BY YEAR(due) DESC;
SELECT DATE_FORMAT(placed, '%Y-%m') AS month, SUM(total) FROM orders GROUP BY month ORDER BY month;
SELECT DATE_FORMAT(placed, '%Y-%m') AS month, SUM(total), COUNT(DISTINCT status) FROM orders GROUP BY 1 ORDER BY SUM(total) DESC, 1 LIMIT 5;
SELECT COALESCE(ship_country, '--') AS c, COUNT(*) * 2 FROM orders GROUP BY c ORDER BY c;
SELECT IFNULL(tier, 'bronze') AS t, COUNT(*), ROUND(AVG(credit), 1) FROM customers GROUP BY t ORDER BY t;
SELECT CASE WHEN total > 500 THEN 'much' WHEN total > 100 THEN 'some' ELSE 'little' END AS size, COUNT(*), SUM(total) + 1 FROM orders GROUP BY size ORDER BY size;
SELECT CASE WHEN total > 500 AND status = 'paid' THEN 1 ELSE 0 END AS k, COUNT(*) + 1 FROM orders GROUP BY k ORDER BY k;
SELECT total > 100, COUNT(*) + 1, SUM(status = 'paid'), SUM(due IS NULL), SUM(total BETWEEN 10 AND 100) FROM orders GROUP BY total > 100;
SELECT UPPER(channel) AS u, COUNT(*) + 0 FROM orders GROUP BY UPPER(channel) ORDER BY u;
-- free: 1
SELECT name COLLATE utf8mb4_general_ci, COUNT(*) + 0 FROM customers GROUP BY name COLLATE utf8mb4_general_ci;
SELECT FLOOR(total / 100), quantity, COUNT(*) + 0 FROM orders o JOIN items i USING (customer_id, order_id) GROUP BY FLOOR(total / 100), quantity;
SELECT HOUR(shipped), COUNT(*) + 0 FROM items GROUP BY HOUR(shipped);
SELECT DATE(shipped) AS day, COUNT(DISTINCT options), SUM(quantity) FROM items GROUP BY day ORDER BY day;
SELECT LENGTH(code), COUNT(DISTINCT code) FROM customers GROUP BY LENGTH(code);
SELECT SUM(LENGTH(name)), SUM(CHAR_LENGTH(city)) + 0, AVG(credit IS NULL), BIT_OR(quantity) FROM customers LEFT JOIN items USING (customer_id);
SELECT status, SUM(total), RANK() OVER (ORDER BY SUM(total) DESC) AS r FROM orders GROUP BY status ORDER BY r;
-- free: 2
SELECT status, channel, SUM(total), SUM(SUM(total)) OVER (PARTITION BY status) AS all_of FROM orders GROUP BY status, channel;
SELECT YEAR(due) AS y, COUNT(*) AS n, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY YEAR(due)) AS more FROM orders GROUP BY YEAR(due) ORDER BY y;
SELECT status, COUNT(DISTINCT channel) AS n, DENSE_RANK() OVER (ORDER BY COUNT(DISTINCT channel)) AS r FROM orders GROUP BY status;
SELECT DISTINCT COUNT(*) FROM customers GROUP BY country;
SELECT DISTINCT status, COUNT(*) > 3 FROM orders GROUP BY status, channel;
SELECT DISTINCT tier, MAX(credit) FROM customers GROUP BY tier, country ORDER BY tier, MAX(credit);
SELECT YEAR(due) AS y, status, COUNT(*), COUNT(DISTINCT channel) FROM orders WHERE due IS NOT NULL GROUP BY y, status WITH ROLLUP;
SELECT country, tier, COUNT(DISTINCT city), AVG(credit) FROM customers WHERE tier IS NOT NULL GROUP BY country, tier WITH ROLLUP;
SELECT DISTINCT YEAR(due), COUNT(*) FROM orders WHERE due IS NOT NULL GROUP BY YEAR(due), channel WITH ROLLUP;
SELECT YEAR(due) AS due, COUNT(*) + 0 FROM orders GROUP BY YEAR(due);
SELECT due AS placed, COUNT(DISTINCT placed) FROM orders GROUP BY due ORDER BY due;
SELECT status AS channel, COUNT(DISTINCT channel) AS n FROM orders GROUP BY status HAVING COUNT(DISTINCT orders.channel) > 0;
SELECT total AS t, COUNT(DISTINCT status) FROM orders GROUP BY t HAVING COUNT(DISTINCT status) > 1 ORDER BY t;
SELECT x.c, COUNT(DISTINCT x.t) FROM (SELECT customer_id AS c, total AS t, status AS s FROM orders) AS x GROUP BY x.c ORDER BY x.c LIMIT 7;
SELECT STDDEV(total), VARIANCE(total) FROM orders WHERE order_id = 1;
SELECT country, COUNT(DISTINCT name), COUNT(DISTINCT name COLLATE utf8mb4_bin) FROM customers GROUP BY country;
SELECT country, COUNT(DISTINCT CONCAT(name, city)), COUNT(DISTINCT CONCAT(tier, born)) FROM customers GROUP BY country;
-- free: 1
SELECT channel, COUNT(DISTINCT BINARY channel), COUNT(DISTINCT customer_id, status), COUNT(DISTINCT customer_id) FROM orders GROUP BY channel;
SELECT tier + 0 AS t, COUNT(DISTINCT customer_id) + 0 FROM customers GROUP BY tier + 0;
SELECT total + discount AS t, COUNT(DISTINCT customer_id) + 0 FROM orders GROUP BY total + discount;
