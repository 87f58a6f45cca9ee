# Prepared statements with parameters, in the binary protocol.
-- with: 7
SELECT * FROM customers WHERE customer_id = ?;
-- with: '7'
SELECT name FROM customers WHERE customer_id = ?;
-- with: null
SELECT name FROM customers WHERE customer_id = ?;
-- with: 7, 8, 9
SELECT customer_id, name FROM customers WHERE customer_id IN (?, ?, ?) ORDER BY 1;
-- with: 10, 20
SELECT customer_id FROM customers WHERE customer_id BETWEEN ? AND ? ORDER BY 1;
-- with: 'DE', 5
SELECT customer_id FROM customers WHERE country = ? ORDER BY 1 LIMIT ?;
-- with: 5, 10
SELECT customer_id FROM customers ORDER BY 1 LIMIT ? OFFSET ?;
-- with: 'paid'
SELECT COUNT(*), SUM(total), AVG(total), MIN(placed), MAX(due) FROM orders WHERE status = ?;
-- with: 100
SELECT status, COUNT(*), SUM(total) FROM orders WHERE total > ? GROUP BY status ORDER BY status;
-- with: 2, 500
SELECT status, COUNT(*) AS n FROM orders GROUP BY status HAVING n > ? AND SUM(total) > ? ORDER BY status;
-- with: 3.5
SELECT customer_id, score * ? AS s FROM customers ORDER BY 1;
-- with: 'x'
SELECT customer_id, ? AS tag FROM customers ORDER BY 1 LIMIT 3;
-- with: 7, 'paid'
SELECT o.order_id, i.line_no, i.quantity, i.price, i.shipped FROM orders o JOIN items i ON i.customer_id = o.customer_id AND i.order_id = o.order_id WHERE o.customer_id = ? AND o.status = ? ORDER BY 1, 2;
-- with: 900
SELECT customer_id FROM customers WHERE customer_id IN (SELECT customer_id FROM orders WHERE total > ?) ORDER BY 1;
-- with: 3, 5
SELECT a.customer_id, b.customer_id FROM customers a JOIN customers b ON b.name = a.name AND b.customer_id > a.customer_id WHERE a.customer_id > ? OR b.customer_id < ? ORDER BY 1, 2;
-- with: 'B-17'
SELECT quantity FROM stock WHERE sku = ?;
-- with: 1042
SELECT page, at, spent, bot FROM visits WHERE visit_id = ?;
-- with: 7001, 12.5, 'p'
INSERT INTO wallets (customer_id, balance, label) VALUES (?, ?, ?);
-- with: 7002, 1, 7003, 2, 7004, 3, 7005, null
INSERT INTO wallets (customer_id, balance) VALUES (?, ?), (?, ?), (?, ?), (?, COALESCE(?, 5));
-- with: 7001, 1
INSERT INTO wallets (customer_id, balance) VALUES (?, ?) ON DUPLICATE KEY UPDATE balance = balance + VALUES(balance);
-- with: 1, 7001
UPDATE wallets SET hits = hits + ? WHERE customer_id = ?;
-- with: 5, 7001, 7002, 7003
UPDATE wallets SET hits = hits + ? WHERE customer_id IN (?, ?, ?);
-- with: 8, 2
UPDATE wallets SET hits = ? WHERE balance > ?;
-- with: 7005
DELETE FROM wallets WHERE customer_id = ?;
-- with: 7000, 2
DELETE FROM wallets WHERE customer_id > ? AND balance < ?;
-- with: 7003, 7103
UPDATE wallets SET customer_id = ? + 100 WHERE customer_id = ? - 100;
-- with: null
INSERT INTO wallets (customer_id) VALUES (?);
-- with: 'abc'
INSERT INTO wallets (customer_id) VALUES (?);
-- with: 9.99, 3
UPDATE products SET price = ? WHERE product_id = ?;
