# Writes whose rows, or their values, depend on rows of other groups.
UPDATE orders SET remark = 'vip' WHERE customer_id IN (SELECT referrer FROM customers WHERE tier = 'gold');
UPDATE orders o SET o.remark = 'seen' WHERE EXISTS (SELECT 1 FROM visits v WHERE v.customer_id = o.customer_id AND v.page LIKE '/p%');
UPDATE customers SET credit = (SELECT MAX(ms) FROM visits WHERE visits.customer_id = customers.customer_id) WHERE customer_id < 30;
UPDATE customers SET credit = credit + 1, score = (SELECT AVG(total) FROM orders), city = 'x' WHERE customer_id BETWEEN 10 AND 20;
UPDATE customers SET referrer = NULL WHERE referrer NOT IN (SELECT customer_id FROM orders WHERE status = 'paid');
UPDATE customers c JOIN visits v ON v.customer_id = c.customer_id SET c.city = CONCAT(c.city, '!') WHERE v.ms > 500;
UPDATE customers c, staff s SET c.credit = s.salary WHERE c.country = s.country AND s.staff_id = 3;
UPDATE visits v JOIN customers c ON c.customer_id = v.customer_id SET v.ms = v.ms + 1, v.page = c.country WHERE c.tier = 'silver';
UPDATE visits v JOIN customers c ON c.customer_id = v.customer_id SET v.ms = 5, c.credit = 5 WHERE c.customer_id IN (7, 8);
UPDATE wallets w LEFT JOIN visits v ON v.customer_id = w.customer_id SET w.label = 'never came' WHERE v.visit_id IS NULL;
UPDATE wallets SET balance = (SELECT COUNT(*) FROM visits v WHERE v.ms > hits), hits = 3 WHERE customer_id < 9;
# One server would do these otherwise than by the keys of rows that are read first.
-- may be refused
UPDATE wallets SET hits = 900, balance = (SELECT COUNT(*) FROM visits v WHERE v.ms > hits);
-- may be refused
UPDATE wallets SET label = 'x' WHERE hits < (SELECT COUNT(*) FROM visits) ORDER BY 1 LIMIT 2;
-- may be refused
DELETE FROM wallets ORDER BY 1 LIMIT 1;
UPDATE stock s SET s.quantity = s.quantity + (SELECT COUNT(*) FROM items i WHERE i.product_id = s.product_id);
UPDATE stock SET reserved = (SELECT SUM(quantity) FROM items WHERE items.product_id = stock.product_id), counted = '2026-02-02 10:00:00' WHERE place = 'NORTH';
UPDATE stock s JOIN products p ON p.product_id = s.product_id JOIN items i ON i.product_id = p.product_id SET s.place = 'SOLD' WHERE i.quantity > 7;
UPDATE products SET price = price + 1 WHERE product_id IN (SELECT product_id FROM items WHERE customer_id = 7);
UPDATE products p SET p.tags = JSON_ARRAY('sold') WHERE EXISTS (SELECT 1 FROM items i WHERE i.product_id = p.product_id AND i.quantity > 9);
UPDATE products p JOIN stock s ON s.product_id = p.product_id SET p.launched = 2026 WHERE s.quantity > 20;
UPDATE countries SET population = (SELECT COUNT(*) FROM customers WHERE customers.country = countries.code), vat = vat + 1;
UPDATE staff SET salary = salary + (SELECT COUNT(*) FROM customers WHERE customers.country = staff.country);
UPDATE staff SET boss = NULL WHERE country IN (SELECT country FROM customers WHERE tier = 'bronze');
UPDATE wallets SET label = (SELECT name FROM customers WHERE customer_id = 7) WHERE customer_id > 40;
UPDATE wallets SET hits = (SELECT COUNT(*) FROM visits) ORDER BY customer_id LIMIT 3;
-- engine: mariadb
UPDATE wallets SET label = 'best' WHERE balance > (SELECT AVG(balance) FROM wallets w2) ORDER BY balance DESC, customer_id LIMIT 4;
UPDATE wallets SET changed = (SELECT MAX(at) FROM visits) WHERE customer_id = 11;
UPDATE wallets SET balance = (SELECT SUM(total) FROM orders) * 1000000000 WHERE customer_id > 5;
UPDATE wallets SET hits = (SELECT name FROM customers WHERE customer_id = 7) WHERE customer_id = 12;
UPDATE wallets SET hits = (SELECT customer_id FROM customers) WHERE customer_id = 12;
UPDATE wallets SET hits = (SELECT nosuch FROM visits) WHERE customer_id = 12;
UPDATE IGNORE wallets SET balance = (SELECT NULL FROM visits LIMIT 1) WHERE customer_id = 13;
UPDATE orders SET total = (SELECT COUNT(*) FROM visits WHERE visits.customer_id = orders.customer_id) WHERE status = 'nosuch';
DELETE FROM orders WHERE customer_id IN (SELECT customer_id FROM visits WHERE bot = 1);
DELETE FROM items WHERE product_id IN (SELECT product_id FROM stock WHERE quantity < 3) AND quantity = 1;
DELETE v FROM visits v JOIN customers c ON c.customer_id = v.customer_id WHERE c.country = 'DE';
DELETE v, c FROM visits v JOIN customers c ON c.customer_id = v.customer_id WHERE c.country = 'FR';
DELETE FROM s USING stock AS s LEFT JOIN items i ON i.product_id = s.product_id WHERE i.customer_id IS NULL;
DELETE FROM products WHERE product_id NOT IN (SELECT product_id FROM items) AND product_id NOT IN (SELECT product_id FROM stock);
DELETE FROM countries WHERE code NOT IN (SELECT country FROM customers) AND code NOT IN (SELECT ship_country FROM orders WHERE ship_country IS NOT NULL);
DELETE FROM staff WHERE country NOT IN (SELECT country FROM customers);
DELETE FROM wallets WHERE customer_id NOT IN (SELECT customer_id FROM orders) ORDER BY customer_id LIMIT 2;
DELETE FROM wallets WHERE customer_id IN (SELECT customer_id FROM visits WHERE visit_id < 0);
DELETE FROM wallets WHERE balance > (SELECT AVG(total) FROM orders) LIMIT 100000;

# Rows of an INSERT.
INSERT INTO wallets (customer_id, hits) VALUES (7001, (SELECT COUNT(*) FROM orders)), (7002, 5), (7003, (SELECT MAX(visit_id) FROM visits) - 1000);
INSERT INTO wallets SET customer_id = 7004, label = (SELECT MIN(name) FROM customers), balance = (SELECT MAX(total) FROM orders);
INSERT INTO wallets (customer_id, hits) VALUES ((SELECT MAX(customer_id) + 1 FROM wallets w), 1);
INSERT INTO wallets (customer_id, label) VALUES (7010, (SELECT name FROM products WHERE product_id = 3));
INSERT INTO products (product_id, name, category, price) VALUES (901, 'sum', 'sums', (SELECT SUM(total) FROM orders));
INSERT INTO products (product_id, name, category, price) VALUES (902, (SELECT name FROM countries WHERE code = 'DE'), 'x', 1);
INSERT INTO staff (staff_id, name, salary, hired) VALUES (901, (SELECT name FROM customers WHERE customer_id = 8), (SELECT AVG(credit) FROM customers), '2026-01-01');
INSERT INTO staff (staff_id, name, country, salary, hired) SELECT 1000 + customer_id, name, country, 100, created FROM customers WHERE customer_id < 12;
REPLACE INTO wallets (customer_id, hits) VALUES (7001, (SELECT COUNT(*) FROM visits));
INSERT INTO wallets (customer_id, hits) VALUES (7002, (SELECT COUNT(*) FROM visits)) ON DUPLICATE KEY UPDATE hits = hits + VALUES(hits);
INSERT INTO wallets (customer_id, hits) VALUES (7005, (SELECT customer_id FROM customers));

# In a transaction one statement that fails takes back what it did, and nothing else.
START TRANSACTION;
UPDATE wallets SET hits = 1000 WHERE customer_id = 7001;
UPDATE wallets w SET w.balance = (SELECT COUNT(*) FROM visits v WHERE v.customer_id = w.customer_id) WHERE w.customer_id > 7000;
UPDATE wallets w SET w.balance = (SELECT COUNT(*) FROM visits v) * 1000000000 WHERE w.customer_id > 7000;
SELECT customer_id, hits, balance FROM wallets WHERE customer_id > 7000 ORDER BY 1;
DELETE FROM wallets WHERE customer_id IN (SELECT 7001 + COUNT(*) - COUNT(*) FROM visits);
SELECT COUNT(*) FROM wallets;
ROLLBACK;
SELECT COUNT(*), SUM(hits) FROM wallets;

# Prepared in SQL.
PREPARE one FROM 'SELECT COUNT(*), SUM(total) FROM orders WHERE total > ? AND channel <> ?';
SET @least = 100, @channel = 'it''s';
EXECUTE one USING @least, @channel;
EXECUTE one USING @least;
PREPARE one FROM 'UPDATE wallets SET hits = hits + ? WHERE customer_id > ?';
EXECUTE one USING @least, @least;
DEALLOCATE PREPARE one;
EXECUTE one USING @least, @least;
SET @text = 'SELECT name FROM customers ORDER BY name, customer_id LIMIT 3';
PREPARE two FROM @text;
EXECUTE two;
DROP PREPARE two;
PREPARE three FROM 'SELECT customer_id, name FROM customers WHERE customer_id = ?';
SET @id = 8;
EXECUTE three USING @id;
PREPARE three FROM 'SELECT 1 + ?';
EXECUTE three USING @id;
-- engine: mariadb
EXECUTE IMMEDIATE 'SELECT COUNT(*) FROM orders WHERE customer_id < ?' USING @least;

# Values for variables.
SELECT COUNT(*), SUM(total), AVG(score) INTO @n, @s, @a FROM orders JOIN customers USING (customer_id);
SELECT @n, @s, ROUND(@a, 6);
SELECT name INTO @n FROM customers WHERE customer_id > 900000;
SELECT @n + 0;
SELECT name INTO @n FROM customers ORDER BY customer_id LIMIT 1;
SELECT @n;
SELECT name, city INTO @n FROM customers ORDER BY customer_id LIMIT 1;
SELECT MAX(placed), MIN(due) INTO @p, @d FROM orders;
SELECT CAST(@p AS CHAR(30)) AS p, CAST(@d AS CHAR(30)) AS d;

# All rows are counted.
SELECT SQL_CALC_FOUND_ROWS customer_id, name FROM customers WHERE customer_id > 3 ORDER BY customer_id LIMIT 4;
SELECT FOUND_ROWS();
SELECT SQL_CALC_FOUND_ROWS DISTINCT country FROM customers ORDER BY country LIMIT 2;
SELECT FOUND_ROWS();
SELECT SQL_CALC_FOUND_ROWS status, COUNT(*) FROM orders GROUP BY status ORDER BY status LIMIT 1, 2;
SELECT FOUND_ROWS();
