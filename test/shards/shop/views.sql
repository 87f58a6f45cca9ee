# Views of each kind, alone and beside tables whose keys are bound. What another table's key says is no
# matter of a view whose rows are made of rows of several groups.

CREATE VIEW v_paid AS SELECT order_id, customer_id, total FROM orders WHERE status = 'paid';
CREATE VIEW v_totals AS SELECT total FROM orders;
CREATE VIEW v_both AS SELECT c.customer_id, c.name, o.order_id, o.total FROM customers c JOIN orders o ON o.customer_id = c.customer_id;
CREATE VIEW v_padded AS SELECT c.customer_id, w.balance FROM customers c LEFT JOIN wallets w ON w.customer_id = c.customer_id;
CREATE VIEW v_dear AS SELECT product_id, COUNT(*) AS n FROM products GROUP BY product_id;
CREATE VIEW v_groups AS SELECT channel, COUNT(*) AS n, SUM(total) AS s FROM orders GROUP BY channel;
CREATE VIEW v_count AS SELECT COUNT(*) AS n FROM orders;
CREATE VIEW v_differ AS SELECT DISTINCT status FROM orders;
CREATE VIEW v_united AS SELECT customer_id AS id FROM customers UNION SELECT customer_id FROM visits WHERE customer_id IS NOT NULL;
CREATE VIEW v_joined AS SELECT c.customer_id, r.customer_id AS by_whom FROM customers c JOIN customers r ON r.customer_id = c.referrer;
CREATE VIEW v_ranked AS SELECT customer_id, order_id, RANK() OVER (ORDER BY total, customer_id, order_id) AS place FROM orders;
CREATE VIEW v_first AS SELECT customer_id, order_id, total FROM orders ORDER BY total DESC, customer_id, order_id LIMIT 7;
CREATE VIEW v_given AS WITH g AS (SELECT customer_id, SUM(total) AS s FROM orders GROUP BY customer_id) SELECT customer_id, s FROM g WHERE s > 100;
CREATE VIEW v_among AS SELECT customer_id, referrer FROM customers WHERE referrer IN (SELECT customer_id FROM orders WHERE total > 50);
CREATE VIEW v_not_in AS SELECT customer_id FROM customers WHERE referrer NOT IN (SELECT customer_id FROM orders WHERE total > 300);
CREATE VIEW v_not_exists AS SELECT customer_id, name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.customer_id = c.customer_id);
CREATE VIEW v_signs AS SELECT customer_id, ~customer_id AS turned, NOT (referrer > 5) AS low FROM customers WHERE NOT (customer_id > 40 OR tier = 'gold');
CREATE VIEW v_of_views AS SELECT g.channel, g.n, c.n AS whole FROM v_groups g JOIN v_count c;

# In the words that servers keep.
CREATE VIEW v_words AS SELECT customer_id, CASE WHEN credit IS NULL THEN 'none' WHEN credit > 100 THEN 'rich' ELSE 'poor' END AS class, COALESCE(city, '-') AS city, name LIKE 'a%' AS begins, born BETWEEN '1970-01-01' AND '1990-12-31' AS young, EXTRACT(YEAR FROM born) AS year, DATE_ADD(born, INTERVAL 1 MONTH) AS later, CAST(customer_id AS CHAR) AS digits, customer_id DIV 7 AS d, customer_id MOD 7 AS m, customer_id ^ 3 AS x, customer_id << 1 AS twice, -customer_id AS below, credit IS NULL AS no_credit, NOT (tier <=> 'gold') AS base, TRIM(BOTH 'a' FROM name) AS trimmed, name COLLATE utf8mb4_bin = 'x' AS same, IF(credit > 5 XOR customer_id > 9, 1, 2) AS odd, TIMESTAMPDIFF(YEAR, born, created) AS age, name REGEXP '^[a-k]' AS early FROM customers WHERE NOT (customer_id IN (3, 5) OR country = 'US') AND born IS NOT NULL;
CREATE VIEW v_mills AS SELECT channel, status, GROUP_CONCAT(DISTINCT customer_id % 5 ORDER BY customer_id % 5 SEPARATOR '|') AS them, COUNT(DISTINCT customer_id) AS n, MAX(total) - MIN(total) AS spread, SUM(CASE WHEN total > 100 THEN 1 ELSE 0 END) AS dear FROM orders WHERE !(total < 10) AND NOT (customer_id MOD 3 = 1) GROUP BY channel, status HAVING COUNT(*) > 1;
CREATE VIEW v_rolled AS SELECT status, COUNT(*) AS n FROM orders GROUP BY status WITH ROLLUP;
CREATE VIEW v_named (id, much) AS SELECT customer_id, SUM(total) FROM orders WHERE customer_id MOD 2 = 0 GROUP BY customer_id;

# By themselves.
SELECT * FROM v_paid ORDER BY customer_id, order_id;
SELECT * FROM v_paid WHERE customer_id = 3 ORDER BY order_id;
SELECT * FROM v_both WHERE customer_id = 3 ORDER BY order_id;
SELECT COUNT(*), SUM(balance) FROM v_padded;
SELECT * FROM v_groups ORDER BY channel;
SELECT * FROM v_not_in ORDER BY customer_id;
SELECT * FROM v_not_exists ORDER BY customer_id;
SELECT * FROM v_signs ORDER BY customer_id;
SELECT * FROM v_of_views ORDER BY channel;

SELECT * FROM v_words ORDER BY customer_id;
SELECT class, COUNT(*) FROM v_words GROUP BY class ORDER BY class;
-- free: 1
SELECT * FROM v_mills ORDER BY channel, status;
-- bag
SELECT * FROM v_rolled;
SELECT id, much FROM v_named ORDER BY id;
SELECT w.customer_id, w.class, m.channel, m.n FROM v_words w JOIN v_mills m ON m.n = w.m WHERE w.customer_id < 20 ORDER BY 1, 2, 3, m.status;
SELECT c.name, (SELECT COUNT(*) FROM v_words) AS n, (SELECT SUM(much) FROM v_named) AS s, (SELECT COUNT(*) FROM v_rolled) AS r FROM customers c WHERE c.customer_id = 3;

# One key is bound, the view is whole all the same.
SELECT (SELECT COUNT(*) FROM v_groups) AS n, name FROM customers WHERE customer_id = 1;
SELECT (SELECT SUM(n) FROM v_groups) AS n, name FROM customers WHERE customer_id = 1;
SELECT (SELECT COUNT(*) FROM v_totals) AS n, name FROM customers WHERE customer_id = 2;
SELECT g.channel, g.n, g.s FROM customers c, v_groups g WHERE c.customer_id = 1 ORDER BY g.channel;
SELECT g.channel, g.n FROM customers c LEFT JOIN v_groups g ON g.n > 0 WHERE c.customer_id IN (2, 2) ORDER BY g.channel;
SELECT g.channel, g.n, c.name FROM v_groups g LEFT JOIN customers c ON c.customer_id = 3 ORDER BY g.channel;
SELECT d.status, c.name FROM v_differ d JOIN customers c ON c.customer_id = 4 ORDER BY d.status;
SELECT COUNT(*) FROM v_united WHERE id NOT IN (SELECT customer_id FROM orders WHERE orders.customer_id = 3);
SELECT COUNT(*), MAX(j.by_whom) FROM v_joined j, wallets w WHERE w.customer_id = 5;
SELECT r.order_id, r.place FROM v_ranked r JOIN customers c ON c.customer_id = r.customer_id WHERE c.customer_id = 6 ORDER BY r.order_id;
SELECT f.order_id, f.total FROM v_first f, customers c WHERE c.customer_id = 7 ORDER BY f.total DESC, f.customer_id, f.order_id;
SELECT COUNT(*), SUM(v.s) FROM v_given v JOIN customers c ON c.customer_id = 8;
SELECT COUNT(*), SUM(a.customer_id) FROM v_among a JOIN wallets w ON w.customer_id = 9;
SELECT COUNT(*) FROM v_not_in n JOIN customers c WHERE c.customer_id = 10;
SELECT o.channel, o.n, o.whole FROM v_of_views o JOIN customers c ON c.customer_id = 11 ORDER BY o.channel;
WITH g AS (SELECT channel, n FROM v_groups) SELECT g.channel, g.n, c.name FROM g, customers c WHERE c.customer_id = 12 ORDER BY g.channel;
SELECT d.n, c.name FROM (SELECT SUM(n) AS n FROM v_groups) d, customers c WHERE c.customer_id = 13;
SELECT status, COUNT(*) FROM orders WHERE customer_id = 3 GROUP BY status HAVING COUNT(*) < (SELECT n FROM v_count) ORDER BY status;
SELECT name FROM customers WHERE customer_id = 3 ORDER BY (SELECT n FROM v_count);
SELECT COUNT(*), (SELECT n FROM v_count) AS n FROM customers WHERE customer_id = NULL;
SELECT s.staff_id, (SELECT n FROM v_count) AS n FROM staff s ORDER BY s.staff_id;
SELECT p.product_id, g.n FROM products p, v_count g WHERE p.product_id < 4 ORDER BY p.product_id;
SELECT d.n, c.name FROM v_dear d JOIN customers c ON c.customer_id = 3 WHERE d.product_id = 2;
SELECT p.balance, c.name FROM v_padded p JOIN customers c ON c.customer_id = p.customer_id WHERE c.customer_id = 3;

-- with: 1
SELECT (SELECT SUM(n) FROM v_groups) AS n, name FROM customers WHERE customer_id = ?;
-- with: 3, 3
SELECT COUNT(*) FROM v_united u, customers c WHERE c.customer_id IN (?, ?);

# What is stored is whole, too.
UPDATE wallets SET hits = (SELECT n FROM v_count) WHERE customer_id = 1;
UPDATE wallets SET hits = (SELECT COUNT(*) FROM v_groups) WHERE customer_id IN (2, 2);
UPDATE wallets SET balance = (SELECT SUM(total) FROM v_totals), label = 'all' WHERE customer_id = 3;
UPDATE wallets w JOIN v_groups g ON g.channel = 'web' SET w.hits = g.n WHERE w.customer_id = 4;
UPDATE wallets SET hits = hits + 1 WHERE customer_id IN (SELECT id FROM v_united WHERE id < 30);
UPDATE wallets SET hits = hits + (SELECT COUNT(*) FROM v_not_in) WHERE hits < (SELECT n FROM v_count);
UPDATE wallets SET hits = hits + 1 WHERE customer_id = 5 AND EXISTS (SELECT 1 FROM v_padded p WHERE p.customer_id = wallets.customer_id);
UPDATE staff SET salary = salary + (SELECT n FROM v_count) WHERE staff_id < 4;
UPDATE products SET price = price + (SELECT COUNT(*) FROM v_differ) WHERE product_id = 2;
DELETE FROM wallets WHERE customer_id = 6 AND hits < (SELECT n FROM v_count);
DELETE FROM wallets WHERE customer_id > 30 AND customer_id IN (SELECT customer_id FROM v_among);
DELETE w FROM wallets w JOIN v_first f ON f.customer_id = w.customer_id WHERE w.customer_id < 40;
DELETE FROM staff WHERE staff_id > 5 AND staff_id IN (SELECT id FROM v_united);
UPDATE wallets SET hits = (SELECT SUM(n) FROM v_mills) WHERE customer_id = 7;
DELETE FROM wallets WHERE customer_id < 20 AND customer_id IN (SELECT customer_id FROM v_words WHERE odd = 2);
INSERT INTO wallets (customer_id, hits) SELECT 9001, n FROM v_count;
INSERT INTO wallets (customer_id, hits) VALUES (9002, (SELECT SUM(n) FROM v_groups));
INSERT INTO wallets (customer_id, hits) SELECT 9003, MAX(g.n) FROM v_groups g, customers c WHERE c.customer_id = 1;
INSERT INTO staff (staff_id, name, salary, hired) SELECT 900, 'all', n, '2026-01-01' FROM v_count;
REPLACE INTO wallets (customer_id, hits) SELECT id + 9100, id FROM v_united WHERE id < 9;
-- with: 9001
UPDATE wallets SET hits = (SELECT COUNT(*) FROM v_united) WHERE customer_id = ?;

# Queries stand in other clauses and statements, too.
-- may be refused
SET @x = (SELECT COUNT(*) FROM orders);
SET @x = (SELECT COUNT(*) FROM products);
SELECT @x;
-- may be refused
INSERT INTO staff (staff_id, name, salary, hired) VALUES (900, 'all', 1, '2026-01-01') ON DUPLICATE KEY UPDATE salary = (SELECT COUNT(*) FROM orders);
-- may be refused
DELETE FROM wallets WHERE customer_id = 9002 ORDER BY (SELECT COUNT(*) FROM orders) LIMIT 1;
SELECT name FROM customers t WHERE t.customer_id = 3 AND EXISTS (SELECT 1 FROM orders T WHERE t.customer_id = 3 AND T.total > 400);
SELECT COUNT(*) FROM customers x LEFT JOIN wallets w ON w.customer_id = 1 LEFT JOIN orders o ON o.total = x.credit WHERE o.customer_id <=> w.customer_id AND x.customer_id = 1;

# Views of one table's rows are changed on the groups that have them.
CREATE VIEW v_wallets AS SELECT customer_id, balance, hits, label FROM wallets WHERE hits < 1000;
CREATE VIEW v_poor (who, purse) AS SELECT customer_id, balance FROM v_wallets WHERE balance < 100 WITH CHECK OPTION;
CREATE VIEW v_no_key AS SELECT hits, label FROM wallets WHERE hits > 2;
CREATE VIEW v_with_orders AS SELECT customer_id, hits FROM wallets WHERE customer_id IN (SELECT customer_id FROM orders WHERE total > 50);
UPDATE v_wallets SET hits = hits + 1 WHERE customer_id = 8;
UPDATE v_wallets w SET w.hits = w.hits + 1, w.label = 'more' WHERE w.hits > 3;
UPDATE v_poor SET purse = purse - 1 WHERE who IN (1, 2, 3, 9, 10, 11);
UPDATE v_poor SET purse = 500 WHERE who < 20;
UPDATE v_no_key SET label = 'none';
UPDATE v_with_orders SET hits = 4 WHERE hits < 9;
UPDATE v_wallets SET hits = 2000 WHERE customer_id = 10;
UPDATE v_wallets SET hits = 1 WHERE customer_id = 10;
DELETE FROM v_poor WHERE who = 12;
DELETE FROM v_no_key WHERE hits > 7;
INSERT INTO v_wallets (customer_id, hits) VALUES (9201, 1), (9202, 2), (9203, 3);
INSERT INTO v_wallets SET customer_id = 9204, label = 'set';
INSERT INTO v_poor VALUES (9205, 5), (9206, 6);
INSERT INTO v_poor VALUES (9207, 7), (9208, 800);
INSERT INTO v_poor (purse, who) VALUES (1, 9201) ON DUPLICATE KEY UPDATE purse = 17;
REPLACE INTO v_poor (who, purse) VALUES (9205, 55), (9209, 9);
INSERT IGNORE INTO v_poor VALUES (9205, 1), (9210, 900), (9211, 10);
SELECT who, purse FROM v_poor WHERE who > 9000 ORDER BY who;
SELECT customer_id, balance, hits, label FROM wallets ORDER BY customer_id;
-- may be refused
UPDATE v_differ SET status = 'new';
-- may be refused
DELETE FROM v_groups;
UPDATE v_signs SET turned = 1 WHERE customer_id = 3;
-- with: 77, 9202
UPDATE v_wallets SET hits = ? WHERE customer_id = ?;
-- with: 9212, 3
INSERT INTO v_poor (who, purse) VALUES (?, ?);
-- may be refused
UPDATE v_poor SET who = 9301 WHERE who = 9201;
-- may be refused
UPDATE v_wallets SET hits = 5 ORDER BY customer_id LIMIT 2;
-- may be refused
UPDATE v_wallets SET hits = (SELECT n FROM v_count) WHERE customer_id = 9201;
-- may be refused
INSERT INTO v_poor SELECT customer_id + 9400, 1 FROM customers WHERE customer_id < 5;
-- may be refused
INSERT INTO v_no_key VALUES (1, 'x');
-- may be refused
UPDATE v_both SET total = 1 WHERE customer_id = 3;

DROP VIEW v_with_orders, v_no_key, v_poor, v_wallets, v_named, v_rolled, v_mills, v_words, v_of_views, v_signs, v_not_exists, v_not_in, v_among, v_given, v_first, v_ranked, v_joined, v_united, v_differ, v_count, v_groups, v_dear, v_padded, v_both, v_totals, v_paid;
