# What is fetched for statements over several groups: filters that say no more than the statement does,
# with NULLs, equal rows, outer joins and collations where they could say too much.
SELECT ALL customer_id, status FROM orders ORDER BY customer_id, order_id LIMIT 12;
SELECT ALL status, COUNT(*) FROM orders GROUP BY status ORDER BY status;
SELECT ALL country FROM customers UNION ALL SELECT ALL code FROM countries ORDER BY 1;
# The columns of an EXISTS.
SELECT v.visit_id FROM visits v WHERE EXISTS (SELECT * FROM customers c WHERE c.customer_id = v.customer_id AND c.tier = 'gold') ORDER BY 1;
SELECT v.visit_id FROM visits v WHERE NOT EXISTS (SELECT * FROM customers c WHERE c.customer_id = v.customer_id) ORDER BY 1;
SELECT v.visit_id FROM visits v WHERE NOT EXISTS (SELECT c.* FROM customers c JOIN orders o ON o.customer_id = c.customer_id WHERE c.customer_id = v.customer_id) ORDER BY 1;
SELECT v.visit_id FROM visits v WHERE EXISTS (SELECT DISTINCT * FROM items i WHERE i.customer_id = v.customer_id LIMIT 3, 1) ORDER BY 1;
SELECT v.visit_id FROM visits v WHERE EXISTS (SELECT * FROM orders o WHERE o.customer_id = v.customer_id UNION SELECT * FROM orders o WHERE o.order_id = v.visit_id) ORDER BY 1;
SELECT v.visit_id FROM visits v WHERE EXISTS (SELECT * FROM (SELECT * FROM orders) o WHERE o.customer_id = v.customer_id AND o.total > 800) ORDER BY 1;
SELECT quantity FROM orders NATURAL JOIN items ORDER BY quantity, price;
SELECT COUNT(*) FROM visits NATURAL JOIN customers;
SELECT COUNT(*) FROM visits NATURAL LEFT JOIN wallets;
# Names of blocks around, without their tables.
SELECT status, COUNT(*) FROM orders WHERE EXISTS (SELECT * FROM wallets WHERE wallets.customer_id = orders.customer_id AND hits > total) GROUP BY status ORDER BY status;
SELECT visit_id FROM visits WHERE EXISTS (SELECT 1 FROM stock WHERE place = 'north' AND quantity > ms) ORDER BY visit_id;
SELECT customer_id, (SELECT COUNT(*) FROM visits WHERE ms > credit) AS n FROM customers ORDER BY customer_id;
SELECT customer_id, (SELECT MAX(ms) FROM visits WHERE customer_id = referrer) AS n FROM customers ORDER BY customer_id;
SELECT customer_id FROM customers c WHERE EXISTS (SELECT 1 FROM orders WHERE customer_id = referrer AND total > 500) ORDER BY 1;
SELECT customer_id FROM customers c WHERE (SELECT COUNT(*) FROM orders o WHERE o.customer_id = c.customer_id AND EXISTS (SELECT 1 FROM items WHERE items.order_id = o.order_id AND items.customer_id = o.customer_id AND quantity > 8 AND price < credit)) > 0 ORDER BY 1;
# Branches of ORs.
SELECT c.customer_id, v.visit_id FROM customers c, visits v WHERE (c.customer_id = v.customer_id AND c.tier = 'gold' AND v.ms > 100) OR (c.customer_id = v.customer_id AND c.tier IS NULL AND v.ms < 500) ORDER BY 1, 2;
SELECT c.customer_id, v.visit_id FROM customers c, visits v WHERE (c.customer_id = v.customer_id AND c.tier = 'gold') OR (v.customer_id = c.referrer AND c.tier = 'silver') ORDER BY 1, 2;
SELECT c.customer_id, v.visit_id FROM customers c LEFT JOIN visits v ON v.customer_id = c.customer_id WHERE (v.ms > 100 AND c.credit > 0) OR (v.ms IS NULL AND c.credit IS NULL) ORDER BY 1, 2;
SELECT c.customer_id, v.visit_id FROM visits v RIGHT JOIN customers c ON v.customer_id = c.customer_id WHERE (v.ms > 100 OR v.ms IS NULL) AND (c.tier = 'gold' OR c.tier IS NULL OR v.bot = 1) ORDER BY 1, 2;
SELECT c.customer_id, v.visit_id FROM customers c JOIN visits v ON v.customer_id = c.customer_id WHERE NOT (c.credit > 10 AND v.ms > 10 OR c.credit < 5 AND v.ms < 900) ORDER BY 1, 2;
SELECT c.customer_id, v.visit_id FROM customers c JOIN visits v ON v.customer_id = c.customer_id WHERE (c.credit > 10 AND v.ms > 10 OR c.credit < 5 AND v.ms < 900) IS NOT TRUE ORDER BY 1, 2;
SELECT c.customer_id, v.visit_id FROM customers c JOIN visits v ON v.customer_id = c.customer_id WHERE ((c.credit BETWEEN 1 AND 500 AND v.page = 'HOME') OR (c.credit IS NULL AND CASE WHEN v.ms > 5 OR v.bot THEN 1 ELSE 0 END = 1)) AND c.country <> 'DE' ORDER BY 1, 2;
SELECT c.customer_id, v.visit_id FROM customers c JOIN visits v ON v.customer_id = c.customer_id WHERE (c.name = 'ANN' AND v.ms > 1) OR (c.name LIKE 'b%' AND v.ms > 1) ORDER BY 1, 2;
SELECT c.customer_id, v.visit_id FROM customers c, visits v WHERE c.customer_id = v.customer_id AND (c.tier = 'gold' OR v.ms > 700 OR FALSE) ORDER BY 1, 2;
# Conditions with queries that each group answers.
SELECT v.visit_id, o.order_id FROM visits v JOIN orders o ON o.customer_id = v.customer_id WHERE o.customer_id IN (SELECT customer_id FROM items GROUP BY customer_id HAVING SUM(quantity) > 30) ORDER BY 1, 2;
SELECT v.visit_id, o.order_id FROM visits v JOIN orders o ON o.customer_id = v.customer_id WHERE o.customer_id NOT IN (SELECT customer_id FROM wallets WHERE hits > 0) ORDER BY 1, 2;
SELECT v.visit_id, c.customer_id FROM visits v JOIN customers c ON c.customer_id = v.customer_id WHERE c.referrer NOT IN (SELECT r.referrer FROM customers r WHERE r.customer_id = c.customer_id AND r.tier = 'gold') ORDER BY 1, 2;
SELECT v.visit_id, o.order_id FROM visits v JOIN orders o ON o.customer_id = v.customer_id WHERE o.total > (SELECT AVG(i.price) * 3 FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id) ORDER BY 1, 2;
SELECT v.visit_id, o.order_id FROM visits v LEFT JOIN orders o ON o.customer_id = v.customer_id WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id AND i.quantity > 3) ORDER BY 1, 2;
SELECT v.visit_id, o.order_id FROM visits v JOIN orders o ON o.customer_id = v.customer_id WHERE EXISTS (SELECT 1 FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id AND i.quantity * 10 > ms) ORDER BY 1, 2;
SELECT v.visit_id, o.order_id FROM visits v JOIN orders o ON o.customer_id = v.customer_id WHERE o.ship_country IN (SELECT code FROM countries WHERE region = 'Europe') AND (SELECT COUNT(*) FROM items i JOIN products p ON p.product_id = i.product_id WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id) = 2 ORDER BY 1, 2;
SELECT v.visit_id, o.order_id FROM visits v JOIN orders o ON o.customer_id = v.customer_id WHERE o.status = 'paid' OR EXISTS (SELECT 1 FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id AND i.tax IS NULL) ORDER BY 1, 2;
SELECT s.sku, i.order_id FROM stock s JOIN items i ON i.product_id = s.product_id WHERE i.product_id NOT IN (SELECT p.parent FROM products p) ORDER BY 1, i.customer_id, 2, i.line_no;
SELECT s.sku, i.order_id FROM stock s JOIN items i ON i.product_id = s.product_id WHERE i.product_id NOT IN (SELECT p.parent FROM products p WHERE p.parent IS NOT NULL) ORDER BY 1, i.customer_id, 2, i.line_no;
# Rows that meet no row which matters stay.
SELECT v.visit_id, o.order_id, i.line_no FROM visits v, customers c, orders o, items i WHERE v.customer_id = c.customer_id AND o.customer_id = c.customer_id AND i.customer_id = o.customer_id AND i.order_id = o.order_id AND c.tier = 'gold' AND i.quantity > 3 AND v.ms > 50 ORDER BY 1, 2, 3;
SELECT v.visit_id, i.order_id, i.line_no, p.name FROM visits v JOIN items i ON i.customer_id = v.customer_id JOIN products p ON p.product_id = i.product_id WHERE p.category = 'TOOLS' ORDER BY 1, 2, 3;
SELECT v.visit_id, c.customer_id, co.name FROM visits v JOIN customers c ON c.customer_id = v.customer_id LEFT JOIN countries co ON co.code = c.country AND co.vat > 15 WHERE co.code IS NULL OR co.region = 'Asia' ORDER BY 1, 2;
SELECT v.visit_id, c.customer_id FROM visits v LEFT JOIN (customers c JOIN orders o ON o.customer_id = c.customer_id AND o.total > 700) ON c.customer_id = v.customer_id ORDER BY 1, 2, o.order_id;
SELECT v.visit_id, c.customer_id FROM visits v LEFT JOIN customers c ON c.customer_id = v.customer_id JOIN orders o ON o.customer_id = c.customer_id WHERE o.status = 'new' ORDER BY 1, 2, o.order_id;
SELECT c.customer_id, (SELECT COUNT(*) FROM visits v WHERE v.customer_id = c.customer_id AND v.ms > (SELECT AVG(i.quantity) * 50 FROM items i WHERE i.customer_id = v.customer_id)) AS n FROM customers c WHERE c.tier = 'gold' ORDER BY 1;
SELECT s.sku FROM stock s WHERE s.product_id IN (SELECT i.product_id FROM items i WHERE i.quantity > (SELECT AVG(v.ms) / 200 FROM visits v WHERE v.customer_id = i.customer_id)) ORDER BY 1;
SELECT s.sku, p.product_id FROM stock s JOIN products p ON p.product_id = s.product_id LEFT JOIN products q ON q.product_id = p.parent WHERE q.product_id IS NULL AND s.place = 'NORTH' ORDER BY 1, 2;
SELECT a.customer_id, v.visit_id FROM customers a JOIN customers b ON b.customer_id = a.referrer JOIN visits v ON v.customer_id = b.customer_id WHERE b.country = 'de' AND a.tier <=> NULL ORDER BY 1, 2;
SELECT v.visit_id, o.order_id FROM visits v JOIN (orders o JOIN wallets w USING (customer_id)) USING (customer_id) WHERE w.hits > 0 ORDER BY 1, 2;
# Derived tables that are no more than a SELECT.
SELECT t.st, COUNT(*), SUM(t.t) FROM (SELECT status AS st, total * 2 AS t FROM orders WHERE total > 100) t GROUP BY t.st ORDER BY t.st;
SELECT COUNT(*) FROM (SELECT customer_id FROM orders WHERE discount IS NULL) t;
SELECT st, MAX(t) FROM (SELECT status AS st, total AS t FROM orders) x WHERE t > 200 OR st = 'new' GROUP BY st HAVING MAX(t) > 300 ORDER BY 1;
SELECT k, total FROM (SELECT customer_id AS k, order_id AS total FROM orders) x ORDER BY total, k LIMIT 10;
SELECT total AS k FROM (SELECT customer_id AS k, total FROM orders) x ORDER BY total, k LIMIT 10;
SELECT y, COUNT(*), SUM(t) / COUNT(*) FROM (SELECT YEAR(placed) AS y, total AS t FROM orders) x GROUP BY y ORDER BY y;
SELECT x.n, x.k FROM (SELECT c.name AS n, c.customer_id AS k FROM customers c LEFT JOIN wallets w ON w.customer_id = c.customer_id WHERE w.balance > 10 OR w.balance IS NULL) x WHERE x.k < 20 ORDER BY x.k;
SELECT a + 1, COUNT(*) FROM (SELECT quantity * 2 AS a FROM items) x GROUP BY a ORDER BY a;
SELECT DISTINCT c FROM (SELECT country AS c FROM customers WHERE credit > 0) x ORDER BY c;
SELECT AVG(p) FROM (SELECT i.price * (1 - COALESCE(o.discount, 0)) AS p FROM orders o, items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id) x;
SELECT n, RANK() OVER (PARTITION BY k ORDER BY t DESC, n) AS r FROM (SELECT customer_id AS k, order_id AS n, total AS t FROM orders) x ORDER BY n, k;
# Derived tables of which each shard has its part.
SELECT c.customer_id, t.n FROM customers c LEFT JOIN (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id) t ON t.customer_id = c.customer_id ORDER BY t.n, c.customer_id;
SELECT n, COUNT(*) AS many FROM (SELECT c.customer_id, COUNT(o.order_id) AS n FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.total > 100 GROUP BY c.customer_id) t GROUP BY n ORDER BY many DESC, n DESC LIMIT 20;
SELECT SUM(s), AVG(n), MAX(d), MIN(t.name) FROM (SELECT c.customer_id, c.name, SUM(o.total) AS s, COUNT(*) AS n, MAX(o.due) AS d FROM customers c JOIN orders o ON o.customer_id = c.customer_id GROUP BY c.customer_id, c.name) t WHERE n > 2;
SELECT n, COUNT(*) + 0 FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id) t GROUP BY n ORDER BY n;
SELECT c.customer_id FROM customers c LEFT JOIN (SELECT DISTINCT customer_id AS k, status FROM orders WHERE status = 'paid') t ON t.k = c.customer_id WHERE t.k IS NULL ORDER BY 1;
SELECT c.customer_id, t.k FROM customers c JOIN (SELECT DISTINCT order_id AS k FROM orders) t ON t.k = c.customer_id ORDER BY 1, 2;
SELECT k, o FROM (SELECT customer_id AS k, order_id AS o, RANK() OVER (PARTITION BY customer_id ORDER BY total DESC, order_id) AS r FROM orders) t WHERE r = 1 ORDER BY k;
SELECT customer_id FROM customers WHERE customer_id IN (SELECT k FROM (SELECT customer_id AS k, SUM(total) AS s FROM orders GROUP BY customer_id) t WHERE s > 1500) ORDER BY 1;
SELECT COUNT(*), SUM(k) FROM (SELECT customer_id AS k FROM orders GROUP BY customer_id WITH ROLLUP) t;
SELECT a.customer_id, a.n, b.m FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id) a LEFT JOIN (SELECT customer_id AS k, MAX(quantity) AS m FROM items GROUP BY customer_id) b ON b.k = a.customer_id ORDER BY a.n, 1;
SELECT t.country, COUNT(*) FROM (SELECT customer_id, country, tier FROM customers WHERE tier <=> NULL) t GROUP BY t.country ORDER BY 1;
SELECT t.tier, COUNT(*) FROM (SELECT customer_id, tier FROM customers GROUP BY customer_id, tier) t GROUP BY t.tier ORDER BY 2, 1;
# Aggregates in expressions.
SELECT 100.0 * SUM(CASE WHEN status = 'paid' THEN total WHEN status = 'new' THEN 0 END) / SUM(total) FROM orders;
SELECT SUM(IF(discount IS NULL, total, 0)) - SUM(total) FROM orders;
SELECT channel COLLATE utf8mb4_bin AS ch, COALESCE(SUM(IFNULL(discount, 0.5)), 0) + 1 FROM orders GROUP BY ch ORDER BY ch;
SELECT status, SUM(CASE WHEN discount > 0.1 THEN discount ELSE NULL END) + 0 FROM orders GROUP BY status ORDER BY status;
SELECT status, SUM(CASE WHEN total > 1e9 THEN NULL END) + 1 FROM orders GROUP BY status ORDER BY status;
SELECT BIT_AND(quantity), BIT_OR(quantity), BIT_XOR(quantity) FROM items;
SELECT product_id, BIT_AND(quantity) + 0, BIT_OR(order_id), BIT_XOR(line_no) FROM items GROUP BY product_id ORDER BY product_id;
SELECT BIT_AND(quantity), BIT_OR(quantity), BIT_XOR(quantity) FROM items WHERE quantity > 1000000;
# Expressions keep their names.
SELECT (SELECT COUNT(*) FROM visits), COUNT(*) FROM customers;
SELECT v.visit_id, (SELECT MAX(o.total) FROM orders o WHERE o.customer_id = v.customer_id) FROM visits v ORDER BY v.visit_id;
SELECT EXISTS (SELECT 1 FROM stock WHERE quantity > 0), customer_id + (SELECT MIN(visit_id) FROM visits) FROM customers ORDER BY 2;
