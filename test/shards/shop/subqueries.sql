# Subqueries of all kinds, UNION and its like, CTEs.
SELECT customer_id FROM customers WHERE customer_id IN (SELECT customer_id FROM orders WHERE total > 900) ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM orders) ORDER BY 1;
SELECT customer_id FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id AND o.status = 'returned') ORDER BY 1;
SELECT customer_id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id) ORDER BY 1;
SELECT customer_id, (SELECT COUNT(*) FROM orders o WHERE o.customer_id = c.customer_id) AS n FROM customers c ORDER BY 1;
SELECT customer_id, (SELECT MAX(total) FROM orders) AS top FROM customers ORDER BY 1 LIMIT 5;
SELECT customer_id, credit FROM customers WHERE credit > (SELECT AVG(credit) FROM customers) ORDER BY 1;
SELECT customer_id, order_id FROM orders o WHERE total = (SELECT MAX(total) FROM orders WHERE customer_id = o.customer_id) ORDER BY 1, 2;
SELECT customer_id, order_id FROM orders WHERE total = (SELECT MAX(total) FROM orders) ORDER BY 1, 2;
SELECT customer_id, order_id FROM orders o WHERE total > ALL (SELECT total FROM orders p WHERE p.status = 'new' AND p.customer_id <> o.customer_id) ORDER BY 1, 2;
SELECT customer_id, order_id FROM orders WHERE total < ANY (SELECT price FROM products) ORDER BY 1, 2;
SELECT customer_id FROM customers WHERE referrer IN (SELECT customer_id FROM customers WHERE tier = 'gold') ORDER BY 1;
SELECT customer_id FROM customers c WHERE EXISTS (SELECT 1 FROM customers r WHERE r.referrer = c.customer_id) ORDER BY 1;
SELECT customer_id, (SELECT COUNT(*) FROM customers r WHERE r.referrer = c.customer_id) AS referred FROM customers c ORDER BY 2 DESC, 1;
SELECT product_id, name FROM products p WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.product_id = p.product_id AND i.quantity > 5) ORDER BY 1;
SELECT product_id FROM products WHERE product_id IN (SELECT product_id FROM items GROUP BY product_id HAVING COUNT(*) > 10) ORDER BY 1;
SELECT customer_id, order_id, line_no FROM items WHERE product_id IN (SELECT product_id FROM products WHERE category = 'books') ORDER BY 1, 2, 3;
SELECT customer_id, order_id FROM orders WHERE (customer_id, total) IN (SELECT customer_id, MAX(total) FROM orders GROUP BY customer_id) ORDER BY 1, 2;
SELECT customer_id, order_id FROM orders WHERE (status, total) IN (SELECT status, MAX(total) FROM orders GROUP BY status) ORDER BY 1, 2;
SELECT customer_id FROM customers WHERE (country, tier) = (SELECT country, tier FROM customers WHERE customer_id = 7) ORDER BY 1;
SELECT name FROM customers WHERE customer_id = (SELECT MAX(customer_id) FROM orders);
SELECT name FROM customers WHERE customer_id = (SELECT customer_id FROM orders ORDER BY total DESC, customer_id LIMIT 1);
SELECT t.c, COUNT(*) FROM (SELECT country AS c, customer_id FROM customers WHERE credit IS NOT NULL) t GROUP BY t.c ORDER BY 1;
SELECT * FROM (SELECT customer_id, total FROM orders ORDER BY total DESC, customer_id, order_id LIMIT 5) t ORDER BY customer_id, total;
SELECT AVG(s) FROM (SELECT SUM(total) AS s FROM orders GROUP BY customer_id) t;
SELECT COUNT(*) FROM (SELECT DISTINCT country FROM customers) t;
SELECT COUNT(*) FROM (SELECT customer_id FROM customers UNION SELECT customer_id FROM orders) t;
SELECT customer_id, IF(EXISTS (SELECT 1 FROM items i WHERE i.customer_id = c.customer_id AND i.quantity > 9), 'bulk', '-') AS b FROM customers c ORDER BY 1;
SELECT customer_id FROM customers c WHERE (SELECT COUNT(*) FROM orders o WHERE o.customer_id = c.customer_id) > (SELECT COUNT(*) / 60 FROM orders) ORDER BY 1;
SELECT customer_id FROM customers c WHERE 3 <= (SELECT COUNT(DISTINCT status) FROM orders o WHERE o.customer_id = c.customer_id) ORDER BY 1;
SELECT staff_id FROM staff WHERE country IN (SELECT country FROM customers WHERE tier = 'platinum') ORDER BY 1;
SELECT staff_id, (SELECT COUNT(*) FROM customers WHERE customers.country = staff.country) AS n FROM staff ORDER BY 1;
SELECT visit_id FROM visits WHERE customer_id IN (SELECT customer_id FROM customers WHERE country = 'DE') ORDER BY 1;
SELECT visit_id FROM visits WHERE customer_id NOT IN (SELECT customer_id FROM customers WHERE country = 'DE') ORDER BY 1;
SELECT sku FROM stock WHERE quantity < (SELECT SUM(quantity) FROM items WHERE items.product_id = stock.product_id) ORDER BY 1;
SELECT customer_id, order_id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id) ORDER BY 1, 2;
SELECT customer_id, order_id, total - (SELECT SUM(price * quantity) FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id) AS gap FROM orders o ORDER BY 1, 2;
SELECT customer_id FROM orders GROUP BY customer_id HAVING COUNT(*) = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY customer_id) t) ORDER BY 1;
SELECT customer_id FROM customers ORDER BY (SELECT COUNT(*) FROM orders o WHERE o.customer_id = customers.customer_id) DESC, customer_id LIMIT 8;
SELECT customer_id, name FROM customers WHERE customer_id IN (SELECT customer_id FROM orders WHERE order_id IN (SELECT order_id FROM items WHERE product_id = 3)) ORDER BY 1;
SELECT customer_id FROM customers WHERE name = (SELECT name FROM customers WHERE customer_id = 5) ORDER BY 1;

# UNION, INTERSECT, EXCEPT.
SELECT customer_id FROM customers UNION ALL SELECT customer_id FROM orders;
SELECT customer_id FROM customers UNION SELECT customer_id FROM orders ORDER BY customer_id;
SELECT country FROM customers UNION SELECT ship_country FROM orders ORDER BY 1;
SELECT country FROM customers UNION SELECT code FROM countries ORDER BY 1;
SELECT customer_id, 'c' AS kind FROM customers WHERE customer_id < 5 UNION ALL SELECT customer_id, 'order' FROM orders WHERE customer_id < 5 ORDER BY 1, 2;
SELECT COUNT(*) AS n FROM customers UNION ALL SELECT COUNT(*) FROM orders UNION ALL SELECT COUNT(*) FROM items ORDER BY n;
(SELECT customer_id, total FROM orders ORDER BY total DESC, customer_id, order_id LIMIT 3) UNION ALL (SELECT customer_id, total FROM orders ORDER BY total, customer_id, order_id LIMIT 3) ORDER BY total, customer_id;
SELECT credit FROM customers UNION SELECT total FROM orders WHERE total > 900 ORDER BY 1;
SELECT tier FROM customers UNION SELECT status FROM orders ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id = 7 UNION SELECT customer_id FROM orders WHERE customer_id = 8 ORDER BY 1;
SELECT name FROM products UNION ALL SELECT name FROM staff ORDER BY 1;
SELECT status, SUM(total) FROM orders GROUP BY status UNION ALL SELECT NULL, SUM(total) FROM orders ORDER BY 2;
-- engine: mariadb
SELECT customer_id FROM customers INTERSECT SELECT customer_id FROM orders ORDER BY 1;
-- engine: mariadb
SELECT customer_id FROM customers EXCEPT SELECT customer_id FROM orders ORDER BY 1;
-- engine: mariadb
SELECT country FROM customers INTERSECT SELECT ship_country FROM orders EXCEPT SELECT 'DE' ORDER BY 1;

# WITH.
WITH o AS (SELECT customer_id, SUM(total) AS s FROM orders GROUP BY customer_id) SELECT c.customer_id, o.s FROM customers c JOIN o ON o.customer_id = c.customer_id WHERE o.s > 2500 ORDER BY 1;
WITH o AS (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) SELECT a.status, a.n, b.n FROM o a JOIN o b ON b.n > a.n ORDER BY 1, 3;
WITH big AS (SELECT * FROM orders WHERE total > 800), per AS (SELECT customer_id, COUNT(*) AS n FROM big GROUP BY customer_id) SELECT * FROM per ORDER BY n DESC, customer_id;
WITH t (a, b) AS (SELECT customer_id, name FROM customers WHERE customer_id < 4) SELECT b, a FROM t ORDER BY a;
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT i FROM n;
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT n.i, COUNT(o.order_id) FROM n LEFT JOIN orders o ON o.customer_id = n.i GROUP BY n.i ORDER BY n.i;
WITH RECURSIVE d AS (SELECT DATE '2025-01-01' AS day UNION ALL SELECT day + INTERVAL 1 DAY FROM d WHERE day < '2025-01-31') SELECT d.day, COUNT(o.order_id), SUM(o.total) FROM d LEFT JOIN orders o ON DATE(o.placed) = d.day GROUP BY d.day ORDER BY d.day;
WITH RECURSIVE chain AS (SELECT customer_id, referrer, 0 AS depth FROM customers WHERE referrer IS NULL UNION ALL SELECT c.customer_id, c.referrer, chain.depth + 1 FROM customers c JOIN chain ON chain.customer_id = c.referrer) SELECT depth, COUNT(*) FROM chain GROUP BY depth ORDER BY depth;
WITH RECURSIVE tree AS (SELECT product_id, parent, 0 AS depth FROM products WHERE parent IS NULL UNION ALL SELECT p.product_id, p.parent, t.depth + 1 FROM products p JOIN tree t ON t.product_id = p.parent) SELECT depth, COUNT(*) FROM tree GROUP BY depth ORDER BY depth;
WITH RECURSIVE tree AS (SELECT product_id, parent, product_id AS root FROM products WHERE parent IS NULL UNION ALL SELECT p.product_id, p.parent, t.root FROM products p JOIN tree t ON t.product_id = p.parent) SELECT tree.root, SUM(i.quantity) FROM tree JOIN items i ON i.product_id = tree.product_id GROUP BY tree.root ORDER BY 1;
WITH RECURSIVE boss AS (SELECT staff_id, boss, CAST(name AS CHAR(200)) AS path FROM staff WHERE boss IS NULL UNION ALL SELECT s.staff_id, s.boss, CONCAT(b.path, '/', s.name) FROM staff s JOIN boss b ON b.staff_id = s.boss) SELECT path FROM boss ORDER BY staff_id;
WITH customers AS (SELECT customer_id FROM orders WHERE total > 950) SELECT DISTINCT customer_id FROM customers ORDER BY 1;
WITH x AS (SELECT 1 AS a) SELECT a FROM x;
WITH m AS (SELECT MAX(total) AS top FROM orders) SELECT customer_id, order_id FROM orders, m WHERE total = m.top ORDER BY 1, 2;
SELECT t1.customer_id FROM wallets t0 RIGHT JOIN customers t1 ON t1.customer_id = t0.customer_id WHERE t0.customer_id NOT IN (SELECT s0.customer_id FROM wallets s0 WHERE s0.customer_id + 0 = 5) ORDER BY 1;
SELECT t1.customer_id, t0.customer_id IN (SELECT s0.customer_id FROM wallets s0 WHERE s0.customer_id + 0 = 5) AS known FROM customers t1 LEFT JOIN wallets t0 ON t0.customer_id = t1.customer_id ORDER BY 1;
