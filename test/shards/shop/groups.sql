# GROUP BY, HAVING, DISTINCT, ROLLUP.
SELECT status, COUNT(*) FROM orders GROUP BY status;
SELECT status, COUNT(*) FROM orders GROUP BY status ORDER BY status;
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY n DESC, status;
SELECT COUNT(*) FROM orders GROUP BY status ORDER BY status;
SELECT status, SUM(total), AVG(total), MIN(total), MAX(total), COUNT(discount) FROM orders GROUP BY status ORDER BY status;
SELECT status, SUM(discount), AVG(discount) FROM orders GROUP BY status ORDER BY status;
SELECT country, COUNT(*), SUM(credit) FROM customers GROUP BY country ORDER BY country;
SELECT tier, COUNT(*), SUM(credit), AVG(score) FROM customers GROUP BY tier ORDER BY tier;
SELECT tier, country, COUNT(*) FROM customers GROUP BY tier, country ORDER BY tier, country;
SELECT tier, country, COUNT(*) FROM customers GROUP BY country, tier ORDER BY country DESC, tier DESC;
SELECT customer_id, COUNT(*), SUM(total) FROM orders GROUP BY customer_id ORDER BY customer_id;
SELECT customer_id, COUNT(*), SUM(total) FROM orders GROUP BY customer_id ORDER BY SUM(total) DESC, customer_id LIMIT 5;
SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id HAVING n > 5 ORDER BY customer_id;
SELECT customer_id FROM orders GROUP BY customer_id HAVING SUM(total) > 3000 AND MIN(total) < 300 ORDER BY customer_id;
SELECT status FROM orders GROUP BY status HAVING AVG(total) > (SELECT AVG(total) FROM orders) ORDER BY status;
SELECT product_id, SUM(quantity), COUNT(DISTINCT customer_id) FROM items GROUP BY product_id ORDER BY product_id;
SELECT product_id, SUM(quantity) AS q FROM items GROUP BY product_id HAVING q > 20 ORDER BY q DESC, product_id LIMIT 10;
SELECT product_id, SUM(quantity) AS q FROM items GROUP BY product_id ORDER BY q DESC, product_id LIMIT 5 OFFSET 5;
SELECT YEAR(placed) AS y, MONTH(placed) AS m, COUNT(*), SUM(total) FROM orders GROUP BY y, m ORDER BY y, m;
SELECT DATE(placed) AS d, COUNT(*) FROM orders GROUP BY d HAVING COUNT(*) > 1 ORDER BY d;
SELECT DATE_FORMAT(placed, '%Y-%m') AS month, status, COUNT(*) FROM orders GROUP BY month, status ORDER BY month, status;
SELECT total > 500 AS big, COUNT(*) FROM orders GROUP BY big ORDER BY big;
SELECT FLOOR(total / 250) AS bucket, COUNT(*), MIN(total), MAX(total) FROM orders GROUP BY bucket ORDER BY bucket;
SELECT due IS NULL AS open, status, COUNT(*) FROM orders GROUP BY open, status ORDER BY open, status;
SELECT discount, COUNT(*) FROM orders GROUP BY discount ORDER BY discount;
SELECT due, COUNT(*) FROM orders GROUP BY due ORDER BY due LIMIT 10;
SELECT born, COUNT(*) FROM customers GROUP BY born ORDER BY born;
SELECT score, COUNT(*) FROM customers GROUP BY score ORDER BY score;
SELECT options, COUNT(*), SUM(quantity) FROM items GROUP BY options ORDER BY options;
SELECT code, COUNT(*) FROM customers GROUP BY code ORDER BY code;
SELECT bot + 0 AS b, COUNT(*), AVG(ms) FROM visits GROUP BY b ORDER BY b;
SELECT 1, COUNT(*) FROM orders GROUP BY 1;
SELECT status, COUNT(*) FROM orders GROUP BY 1 ORDER BY 2 DESC, 1;
SELECT UPPER(channel) AS c, COUNT(*), SUM(total) FROM orders GROUP BY UPPER(channel) ORDER BY c;
SELECT LOWER(channel), COUNT(*) FROM orders GROUP BY LOWER(channel) ORDER BY COUNT(*) DESC, 1;
# Which of the texts that are equal stands for the group is free.
-- free: 1
SELECT channel, COUNT(*), SUM(total) FROM orders GROUP BY channel ORDER BY channel;
-- free: 1
SELECT name, COUNT(*), MIN(customer_id) FROM customers GROUP BY name ORDER BY name;
-- free: 1
SELECT city, COUNT(*), MAX(customer_id) FROM customers GROUP BY city ORDER BY COUNT(*) DESC, MAX(customer_id);
-- free: 1
SELECT page, COUNT(*), SUM(ms) FROM visits GROUP BY page ORDER BY page;
SELECT name COLLATE utf8mb4_bin AS n, COUNT(*) FROM customers GROUP BY n ORDER BY n;
-- free: 1
SELECT remark, COUNT(*) FROM orders GROUP BY remark ORDER BY remark;
SELECT c.tier, COUNT(*), SUM(o.total) FROM customers c JOIN orders o ON o.customer_id = c.customer_id GROUP BY c.tier ORDER BY c.tier;
SELECT c.customer_id, c.credit, COUNT(o.order_id), SUM(o.total) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id GROUP BY c.customer_id, c.credit ORDER BY c.customer_id;
SELECT p.product_id, COUNT(*), SUM(i.quantity * i.price) FROM items i JOIN products p ON p.product_id = i.product_id GROUP BY p.product_id ORDER BY 3 DESC, 1;
SELECT p.category COLLATE utf8mb4_bin AS c, COUNT(*), SUM(i.quantity) FROM items i JOIN products p ON p.product_id = i.product_id GROUP BY c ORDER BY c;
SELECT status, GROUP_CONCAT(order_id ORDER BY order_id, customer_id) FROM orders WHERE customer_id < 20 GROUP BY status ORDER BY status;
SELECT country, GROUP_CONCAT(DISTINCT tier ORDER BY tier) FROM customers GROUP BY country ORDER BY country;
SELECT status, COUNT(DISTINCT customer_id), COUNT(DISTINCT ship_country) FROM orders GROUP BY status ORDER BY status;
SELECT status, SUM(DISTINCT FLOOR(total)), AVG(DISTINCT discount) FROM orders GROUP BY status ORDER BY status;
SELECT status, BIT_OR(order_id), BIT_AND(order_id), BIT_XOR(order_id) FROM orders GROUP BY status ORDER BY status;
-- about: 2 3
SELECT status, STDDEV_POP(total), VAR_SAMP(discount) FROM orders GROUP BY status ORDER BY status;
SELECT status, SUM(total) / SUM(1) AS mean, SUM(total) > 10000 AS big FROM orders GROUP BY status ORDER BY mean DESC;
SELECT status, COUNT(*) FROM orders GROUP BY status ORDER BY AVG(total), status;
SELECT status FROM orders GROUP BY status ORDER BY MAX(order_id) DESC, status;
SELECT status, COUNT(*) FROM orders GROUP BY status HAVING status <> 'new' ORDER BY status;
SELECT status, COUNT(*) FROM orders WHERE customer_id IN (1, 2, 3, 4, 5, 6) GROUP BY status ORDER BY status;
SELECT status, COUNT(*) FROM orders WHERE 1 = 0 GROUP BY status;
SELECT status, COUNT(*) FROM orders GROUP BY status LIMIT 0;
SELECT ship_country, status, SUM(total) FROM orders GROUP BY ship_country, status ORDER BY ship_country, status;
SELECT COUNT(*) FROM (SELECT status, COUNT(*) FROM orders GROUP BY status) t;
SELECT MAX(n), MIN(n), AVG(n) FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id) t;
SELECT n, COUNT(*) FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id) t GROUP BY n ORDER BY n;
SELECT DISTINCT status FROM orders;
SELECT DISTINCT status FROM orders ORDER BY status DESC;
SELECT DISTINCT country, tier FROM customers;
SELECT DISTINCT country, tier FROM customers ORDER BY country, tier;
SELECT DISTINCT UPPER(channel) FROM orders ORDER BY 1;
SELECT DISTINCT discount FROM orders ORDER BY discount LIMIT 5;
SELECT DISTINCT YEAR(placed) FROM orders ORDER BY 1;
SELECT DISTINCT customer_id FROM orders ORDER BY customer_id LIMIT 10 OFFSET 3;
SELECT DISTINCT tier IS NULL FROM customers ORDER BY 1;
SELECT DISTINCTROW tier FROM customers ORDER BY tier;
SELECT DISTINCT name COLLATE utf8mb4_bin FROM customers ORDER BY 1;
-- free: 1
SELECT DISTINCT name FROM customers ORDER BY name;
SELECT DISTINCT COUNT(*) FROM orders GROUP BY customer_id ORDER BY 1;
SELECT DISTINCT c.country FROM customers c JOIN orders o ON o.customer_id = c.customer_id WHERE o.total > 900 ORDER BY 1;
SELECT status, COUNT(*), SUM(total) FROM orders GROUP BY status WITH ROLLUP;
SELECT country, tier, COUNT(*), SUM(credit) FROM customers GROUP BY country, tier WITH ROLLUP;
SELECT YEAR(placed) AS y, status, COUNT(*) FROM orders GROUP BY y, status WITH ROLLUP HAVING COUNT(*) > 20;
SELECT tier, AVG(credit), COUNT(DISTINCT country) FROM customers GROUP BY tier WITH ROLLUP;
-- engine: mysql
SELECT status, GROUPING(status), COUNT(*) FROM orders GROUP BY status WITH ROLLUP;

# Parts of groups are finished by one server.
SELECT ROUND(AVG(total), 2), COALESCE(SUM(total), 0) + 1, COUNT(*) * 2 FROM orders;
SELECT COALESCE(SUM(total), 0) AS s, COUNT(*) + 0 AS n, IFNULL(MAX(placed), 'none') AS m FROM orders WHERE total > 1000000;
SELECT status, SUM(total) / COUNT(*) AS mean, MAX(placed) FROM orders GROUP BY status ORDER BY mean DESC;
SELECT customer_id, status, SUM(total), COUNT(*), AVG(discount), MIN(due), MAX(placed) FROM orders GROUP BY status, customer_id WITH ROLLUP;
SELECT status, COUNT(*), SUM(total) FROM orders GROUP BY status WITH ROLLUP HAVING COUNT(*) > 1;
SELECT c.country, SUM(o.total * 2 - 1.5) AS s FROM customers c JOIN orders o ON o.customer_id = c.customer_id GROUP BY c.country HAVING SUM(o.total) > AVG(o.total) * 2 ORDER BY s DESC, c.country;
SELECT IF(COUNT(*) > 30, 'many', 'few') AS how, status FROM orders GROUP BY status ORDER BY status;
SELECT CONCAT(country, '-', COUNT(*)) FROM customers GROUP BY country ORDER BY country;
SELECT country AS country, UPPER(country), COUNT(*) AS n FROM customers GROUP BY country HAVING n > 1 AND country < 'M' ORDER BY n DESC, country;
SELECT product_id, SUM(quantity * price) / SUM(quantity) AS mean FROM items GROUP BY product_id ORDER BY SUM(quantity * price) DESC, product_id LIMIT 5;
SELECT i.product_id, p.name, COUNT(*) - 1 FROM items i JOIN products p ON p.product_id = i.product_id GROUP BY i.product_id, p.name ORDER BY COUNT(*) - 1 DESC, i.product_id LIMIT 6;
SELECT tier, LENGTH(MIN(name)), MAX(credit) - MIN(credit), AVG(credit) > 100 FROM customers GROUP BY tier ORDER BY tier;
SELECT MAX(shipped) > '2020-01-01', MIN(mass) + 0, COUNT(tax) / COUNT(*) FROM items;
-- free: 1
SELECT city, -COUNT(*) FROM customers WHERE customer_id IN (SELECT customer_id FROM orders WHERE orders.customer_id = customers.customer_id) GROUP BY city ORDER BY 2, customers.city;
SELECT status, SUM(customer_id) % 7, AVG(customer_id) + 0 FROM orders GROUP BY 1 ORDER BY 1;
