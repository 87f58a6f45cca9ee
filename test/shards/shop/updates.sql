# UPDATE and DELETE, with the key, without it, and of the key.
UPDATE wallets SET balance = balance + 1 WHERE customer_id = 7;
UPDATE wallets SET balance = balance + 1 WHERE customer_id IN (7, 8, 9, 10);
UPDATE wallets SET balance = balance + 1 WHERE customer_id BETWEEN 20 AND 30;
UPDATE wallets SET hits = 0;
UPDATE wallets SET hits = hits + 1, label = CONCAT(COALESCE(label, ''), '!') WHERE balance > 500;
UPDATE wallets SET balance = balance WHERE customer_id = 7;
UPDATE wallets SET balance = 5 WHERE customer_id = 999999;
UPDATE shop.wallets w SET w.hits = 4 WHERE w.customer_id = 11;
UPDATE wallets AS w SET hits = customer_id % 3 WHERE w.label IS NOT NULL;
UPDATE wallets SET changed = '2026-01-01 00:00:00' WHERE customer_id = 3 OR customer_id = 4;
UPDATE wallets SET balance = balance * 2 WHERE label = 'A' AND customer_id > 0;
UPDATE wallets SET hits = 9 WHERE customer_id = 12 AND balance >= 0 LIMIT 1;
UPDATE wallets SET hits = 77 ORDER BY customer_id LIMIT 5;
UPDATE wallets SET hits = 78 WHERE balance > 100 ORDER BY balance DESC, customer_id LIMIT 7;
UPDATE wallets SET balance = DEFAULT WHERE customer_id IN (15, 16);
UPDATE wallets SET balance = 'abc' WHERE customer_id = 17;
UPDATE wallets SET balance = NULL WHERE customer_id = 17;
UPDATE IGNORE wallets SET balance = NULL WHERE customer_id IN (17, 18);
UPDATE wallets SET nosuch = 1 WHERE customer_id = 17;
UPDATE wallets SET balance = 99999999999 WHERE customer_id IN (17, 18, 19, 20, 21, 22);
UPDATE orders SET status = 'paid' WHERE status = 'new';
UPDATE orders SET discount = 0.05, remark = NULL WHERE placed < '2025-02-01' AND total > 300;
UPDATE orders SET total = total + 1 WHERE order_id = 107;
UPDATE orders SET status = status + 1 WHERE customer_id = 7;
UPDATE orders SET total = (SELECT 5.55) WHERE customer_id = 7 AND order_id = 107;
UPDATE orders SET total = (SELECT SUM(price * quantity) FROM items WHERE items.customer_id = orders.customer_id AND items.order_id = orders.order_id) WHERE EXISTS (SELECT 1 FROM items WHERE items.customer_id = orders.customer_id AND items.order_id = orders.order_id);
UPDATE orders SET remark = 'vip' WHERE customer_id IN (SELECT customer_id FROM customers WHERE tier = 'platinum');
UPDATE customers SET credit = credit - 10 WHERE country IN (SELECT code FROM countries WHERE region = 'Europe');
UPDATE customers SET prefs = JSON_SET(prefs, '$.lang', 'it') WHERE customer_id = 5;
UPDATE customers SET name = UPPER(name), tier = 'gold' WHERE tier IS NULL;
UPDATE customers SET referrer = NULL WHERE referrer NOT IN (SELECT customer_id FROM orders);
UPDATE customers c JOIN orders o ON o.customer_id = c.customer_id SET c.credit = c.credit + o.total WHERE o.customer_id = 7 AND o.order_id = 107;
UPDATE customers c JOIN wallets w ON w.customer_id = c.customer_id SET c.credit = w.balance, w.label = c.country WHERE c.customer_id < 20;
UPDATE items i JOIN products p ON p.product_id = i.product_id SET i.price = p.price WHERE p.category = 'books';
UPDATE products SET price = price * 1.10 WHERE category = 'tools';
UPDATE products SET price = 1 WHERE product_id = 3;
UPDATE products p SET p.tags = JSON_ARRAY('sold') WHERE EXISTS (SELECT 1 FROM items i WHERE i.product_id = p.product_id AND i.quantity > 9);
UPDATE countries SET vat = vat + 1 WHERE vat IS NOT NULL ORDER BY code LIMIT 3;
UPDATE staff SET salary = salary + 100 WHERE boss IS NULL;
UPDATE staff SET salary = salary + (SELECT COUNT(*) FROM customers WHERE customers.country = staff.country);
UPDATE visits SET ms = ms + 1 WHERE visit_id IN (1001, 1002, 1003, 1004);
UPDATE visits SET ms = 0 WHERE customer_id = 7;
UPDATE stock SET quantity = quantity - 1, counted = '2026-01-01' WHERE place = 'NORTH';
UPDATE stock SET quantity = 0 WHERE sku = 'B-17';
UPDATE stock SET quantity = 5 WHERE sku BETWEEN 'B' AND 'D';

# The row moves with its key.
UPDATE wallets SET customer_id = 5001 WHERE customer_id = 1;
UPDATE wallets SET customer_id = 5002, balance = balance + 5, label = 'moved' WHERE customer_id = 2;
UPDATE wallets SET customer_id = customer_id + 6000 WHERE customer_id IN (3, 4, 5, 6);
UPDATE wallets SET customer_id = 7 WHERE customer_id = 7;
UPDATE wallets SET customer_id = 8 WHERE customer_id = 9;
UPDATE wallets SET customer_id = 5003 WHERE customer_id = 888888;
UPDATE wallets SET customer_id = NULL WHERE customer_id = 10;
UPDATE wallets SET customer_id = 'abc' WHERE customer_id = 10;
UPDATE orders SET customer_id = 8 WHERE customer_id = 9 AND order_id = 109;
UPDATE stock SET sku = CONCAT('Q-', sku) WHERE sku LIKE 'C-%';
UPDATE visits SET visit_id = -visit_id WHERE visit_id = 1010;

# DELETE.
DELETE FROM wallets WHERE customer_id = 21;
DELETE FROM wallets WHERE customer_id IN (22, 23, 999999);
DELETE FROM wallets WHERE customer_id BETWEEN 24 AND 28;
DELETE FROM wallets WHERE balance < 50;
DELETE FROM wallets ORDER BY customer_id LIMIT 3;
DELETE FROM wallets WHERE hits >= 0 ORDER BY balance DESC, customer_id LIMIT 4;
DELETE FROM wallets WHERE customer_id = 31 LIMIT 1;
DELETE FROM shop.wallets WHERE customer_id = 32;
DELETE QUICK FROM wallets WHERE customer_id = 33;
DELETE IGNORE FROM wallets WHERE customer_id = 34;
DELETE FROM wallets WHERE nosuch = 1;
DELETE FROM items WHERE customer_id = 7 AND order_id = 107;
DELETE FROM items WHERE product_id = 3;
DELETE FROM orders WHERE status = 'cancelled' AND NOT EXISTS (SELECT 1 FROM items WHERE items.customer_id = orders.customer_id AND items.order_id = orders.order_id);
DELETE FROM orders WHERE customer_id IN (SELECT customer_id FROM customers WHERE country = 'FR');
DELETE w FROM wallets w JOIN customers c ON c.customer_id = w.customer_id WHERE c.tier = 'bronze';
DELETE o, i FROM orders o JOIN items i ON i.customer_id = o.customer_id AND i.order_id = o.order_id WHERE o.customer_id = 11;
DELETE FROM i USING items AS i JOIN orders o ON o.customer_id = i.customer_id AND o.order_id = i.order_id WHERE o.status = 'returned';
DELETE FROM products WHERE product_id = 39;
DELETE FROM products WHERE product_id NOT IN (SELECT product_id FROM items);
DELETE FROM countries WHERE code = 'XX';
DELETE FROM staff WHERE staff_id = 12;
DELETE FROM visits WHERE bot = 1;
DELETE FROM visits WHERE at < '2025-03-01' ORDER BY at, visit_id LIMIT 5;
DELETE FROM stock WHERE sku < 'B';
-- engine: mariadb
DELETE FROM wallets WHERE customer_id = 35 RETURNING customer_id, balance;
-- engine: mariadb
-- bag
DELETE FROM wallets WHERE hits > 70 RETURNING customer_id;
# No row can be meant, and the server says OK.
-- engine: mariadb
DELETE FROM wallets WHERE hits > 70 AND 1 <> 1 RETURNING customer_id;
-- engine: mariadb
DELETE FROM wallets WHERE customer_id = 999999 RETURNING *;
DELETE FROM wallets;
INSERT INTO wallets (customer_id, balance) VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7);
TRUNCATE TABLE wallets;
SELECT COUNT(*) FROM wallets;
UPDATE orders o, customers c SET o.remark = c.city WHERE o.customer_id = c.customer_id AND c.customer_id BETWEEN 10 AND 30;
UPDATE customers c, countries t SET c.credit = t.vat WHERE t.code = c.country AND c.customer_id < 20;
UPDATE IGNORE wallets SET hits = hits + 5 WHERE customer_id IN (7, 8, 9);
UPDATE LOW_PRIORITY wallets SET hits = hits + 5 WHERE hits > 0;
DELETE LOW_PRIORITY QUICK IGNORE FROM wallets WHERE customer_id IN (11, 12, 13);
UPDATE wallets SET hits = 3 WHERE customer_id = 5 + 2;
UPDATE wallets SET customer_id = 900 + 50 WHERE customer_id = 7;
DELETE FROM wallets WHERE customer_id = 951 - 1;
UPDATE products SET price = price + 1 ORDER BY product_id LIMIT 3;
-- may be refused
UPDATE products SET tags = JSON_ARRAY(RAND() < 2) WHERE product_id = 3;
DELETE FROM products WHERE parent IS NULL ORDER BY product_id DESC LIMIT 2;
UPDATE countries SET name = CONCAT(name, DATE_FORMAT(NOW(6), '%f') < 'a') WHERE code = 'DE';
