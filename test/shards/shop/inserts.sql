# INSERT and REPLACE in all their forms. After each statement the tables it names are compared.
INSERT INTO wallets (customer_id, balance) VALUES (1001, 10.00);
INSERT INTO wallets (balance, customer_id) VALUES (20.00, 1002);
INSERT INTO wallets VALUES (1003, 30.00, 3, 'three', '2026-01-01 00:00:00');
INSERT wallets (customer_id) VALUE (1004);
INSERT INTO wallets SET customer_id = 1005, balance = 50.00, label = 'five';
INSERT INTO shop.wallets (customer_id, balance) VALUES (1006, 60);
INSERT INTO `wallets` (`balance`, `customer_id`, `label`) VALUES (70, 1007, 'se''ven');
INSERT INTO wallets (customer_id, balance) VALUES (1010, 1), (1011, 2), (1012, 3), (1013, 4), (1014, 5), (1015, 6), (1016, 7), (1017, 8);
INSERT INTO wallets (label, hits, balance, customer_id) VALUES ('a, (b)', 1, 2, 1020), ('c\'); --', 1 + 1, 2 * 3.5, 1021), (NULL, DEFAULT, DEFAULT, 1022), (CONCAT('x', 'y'), LENGTH('abc'), -5, 1023);
INSERT INTO wallets VALUES (1030, 1, 1, 'p', NULL), (1031, 2, 2, 'q', NULL), (1032, 3, 3, 'r', '2026-01-01');
INSERT INTO wallets (customer_id, balance) VALUES ('1040', '1.5'), (1041.0, 2.5), (0x412, 3.5), (1043, '4.5');
INSERT INTO wallets (customer_id, balance) VALUES (1000 + 50, 1), (-(-1051), 2);
INSERT INTO wallets (customer_id, balance) VALUES (1001, 99);
INSERT INTO wallets (customer_id, balance) VALUES (1060, 1), (1061, 1), (1001, 99), (1062, 1);
SELECT customer_id FROM wallets WHERE customer_id BETWEEN 1060 AND 1069 ORDER BY 1;
INSERT INTO wallets (customer_id, balance) VALUES (1063, 1), (1064, 1), (1063, 2);
INSERT IGNORE INTO wallets (customer_id, balance) VALUES (1001, 98), (1070, 1), (1071, 2), (1002, 98);
INSERT IGNORE INTO wallets (customer_id, balance) VALUES (1001, 98);
INSERT LOW_PRIORITY INTO wallets (customer_id) VALUES (1072);
INSERT INTO wallets (customer_id, balance) VALUES (1001, 5) ON DUPLICATE KEY UPDATE balance = balance + VALUES(balance), hits = hits + 1;
INSERT INTO wallets (customer_id, balance) VALUES (1001, 5), (1080, 6), (1002, 7), (1081, 8) ON DUPLICATE KEY UPDATE balance = balance + VALUES(balance), hits = hits + 1;
INSERT INTO wallets (customer_id, balance) VALUES (1001, 5), (1001, 6) ON DUPLICATE KEY UPDATE balance = VALUES(balance);
INSERT INTO wallets (customer_id, balance) VALUES (1002, 27.00) ON DUPLICATE KEY UPDATE balance = balance;
REPLACE INTO wallets (customer_id, balance) VALUES (1001, 1.11);
REPLACE INTO wallets (customer_id, balance, label) VALUES (1002, 2.22, 'r'), (1090, 3.33, 's'), (1003, 4.44, 't'), (1091, 5.55, NULL);
REPLACE INTO wallets VALUES (1092, 1, 1, 'x', NULL);
REPLACE INTO wallets SET customer_id = 1092, balance = 7;
REPLACE wallets (customer_id) VALUES (1092), (1093);
-- engine: mariadb
INSERT INTO wallets (customer_id, balance) VALUES (1100, 1) RETURNING customer_id, balance + 1 AS b, hits;
-- engine: mariadb
-- bag
INSERT INTO wallets (customer_id, balance) VALUES (1101, 1), (1102, 2), (1103, 3), (1104, 4) RETURNING customer_id, balance;
-- engine: mariadb
-- bag
REPLACE INTO wallets (customer_id, balance) VALUES (1101, 9), (1105, 9) RETURNING *;
INSERT INTO orders (order_id, customer_id, status, placed, total, channel) VALUES (9001, 1, 'new', '2026-01-01 10:00:00', 12.34, 'web'), (9002, 2, 'paid', '2026-01-01 11:00:00.5', 56.78, 'shop'), (9003, 3, 3, '2026-01-01', 90.12, 'phone');
INSERT INTO items (customer_id, order_id, line_no, product_id, quantity, price, options) VALUES (1, 9001, 1, 1, 1, 12.34, 'gift'), (2, 9002, 1, 2, 1, 56.78, 'gift,express'), (3, 9003, 1, 3, 1, 90.12, 5);
INSERT INTO customers (customer_id, name, country, created) VALUES (1200, 'Ümläut', 'DE', '2026-01-01'), (1201, '😀', 'FR', '2026-01-01'), (1202, '', 'US', '2026-01-01');
INSERT INTO customers (customer_id, name, country, created, prefs, code) VALUES (1203, 'json', 'DE', '2026-01-01', '{"lang": "de", "tags": []}', x'00FF');
INSERT INTO customers (customer_id, name, country, created, prefs) VALUES (1204, 'json', 'DE', '2026-01-01', 'not json');
INSERT INTO customers (customer_id, name) VALUES (1205, 'no country');
INSERT INTO customers (customer_id, name, country, created, tier) VALUES (1206, 'bad tier', 'DE', '2026-01-01', 'copper');
INSERT INTO customers (customer_id, name, country, created, born) VALUES (1207, 'bad day', 'DE', '2026-01-01', '2026-02-31');
INSERT IGNORE INTO customers (customer_id, name, country, created, tier) VALUES (1208, 'bad tier', 'DE', '2026-01-01', 'copper'), (1209, 'x', 'FRANCE', '2026-01-01', 'gold');
INSERT INTO wallets (customer_id, balance) VALUES (2147483648, 1);
INSERT INTO wallets (customer_id, balance) VALUES ('abc', 1);
INSERT INTO wallets (customer_id, balance) VALUES (NULL, 1);
INSERT INTO wallets (balance) VALUES (1);
INSERT INTO wallets (customer_id, balance) VALUES (1210, 1, 2);
INSERT INTO wallets (customer_id, balance) VALUES (1211, 1), (1212);
INSERT INTO wallets (customer_id, nosuch) VALUES (1213, 1);
INSERT INTO nosuch (customer_id) VALUES (1);
INSERT INTO visits VALUES (5001, 7, '/x', '2026-01-01 00:00:00', 5, b'0', '00:00:01.25'), (5002, 8, '/y', '2026-01-01 00:00:01', 6, b'1', NULL), (5003, NULL, '/z', '2026-01-01 00:00:02', 7, 0, '838:59:59'), (5004, NULL, '/z', '2026-01-01 00:00:03', 8, 1, '-00:30:00');
INSERT INTO stock (sku, product_id, place, quantity) VALUES ('A-new', 1, 'north', 1), ('Z-new', 2, 'south', 2), ('m-new', 3, 'West', 3), ('', 3, 'West', 3);
INSERT INTO products (product_id, name, category, price) VALUES (501, 'global one', 'Tools', 1.00), (502, 'global two', 'tools', 2.00);
INSERT INTO products (product_id, name, category, price) VALUES (501, 'again', 'Tools', 1.00);
INSERT INTO products (product_id, name, category, price) VALUES (501, 'again', 'Tools', 3.00) ON DUPLICATE KEY UPDATE price = VALUES(price);
REPLACE INTO products (product_id, name, category, price) VALUES (502, 'replaced', 'books', 4.00), (503, 'fresh', 'books', 5.00);
INSERT INTO countries VALUES ('XX', 'Nowhere', 'None', 0, NULL), ('XY', 'Elsewhere', 'None', 18446744073709551615, 9.99);
INSERT INTO staff (staff_id, name, salary, hired) VALUES (101, 'New', 1000.00, '2026-01-01');
INSERT INTO staff VALUES (102, 'Newer', 101, 'DE', 1000.00, '2026-01-02'), (103, 'Newest', 101, 'FR', 999.99, '2026-01-03');

# INSERT ... SELECT.
INSERT INTO wallets (customer_id, balance) SELECT customer_id + 2000, credit FROM customers WHERE credit IS NOT NULL AND customer_id BETWEEN 1 AND 40;
INSERT INTO wallets (customer_id, balance, hits) SELECT customer_id + 3000, SUM(total), COUNT(*) FROM orders WHERE customer_id BETWEEN 1 AND 100 GROUP BY customer_id;
INSERT INTO wallets (customer_id, label) SELECT 4000 + product_id, name FROM products WHERE product_id < 10;
INSERT INTO wallets (customer_id, label) SELECT 4100 + staff_id, name FROM staff;
INSERT INTO wallets (customer_id, balance) SELECT customer_id, 1 FROM wallets WHERE customer_id < 1010;
INSERT IGNORE INTO wallets (customer_id, balance) SELECT customer_id, 1 FROM customers WHERE customer_id < 30;
INSERT INTO wallets (customer_id, balance) SELECT customer_id, 1 FROM customers WHERE customer_id < 30 ON DUPLICATE KEY UPDATE hits = hits + 1;
INSERT INTO wallets (customer_id, balance) SELECT 4250, 5 UNION ALL SELECT 4251, 6 UNION ALL SELECT 4252, 7;
INSERT INTO wallets (customer_id) SELECT 4300 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM wallets WHERE customer_id = 4300);
INSERT INTO wallets (customer_id) SELECT 4300 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM wallets WHERE customer_id = 4300);
INSERT INTO orders SELECT order_id + 100000, customer_id, status, placed, due, total, discount, channel, ship_country, remark FROM orders WHERE customer_id = 7;
INSERT INTO orders (order_id, customer_id, status, placed, total, channel) SELECT order_id + 200000, customer_id, 'new', placed, total, channel FROM orders WHERE status = 'returned';
INSERT INTO staff (staff_id, name, salary, hired) SELECT 200 + customer_id, LEFT(name, 10), 1, '2026-01-01' FROM customers WHERE tier = 'gold' AND customer_id BETWEEN 1 AND 60;
INSERT INTO products (product_id, name, category, price) SELECT 600 + product_id, name, 'copy', price FROM products WHERE product_id < 5;
INSERT INTO products (product_id, name, category, price) SELECT 700 + customer_id, 'from shards', 'copy', 1 FROM customers WHERE customer_id BETWEEN 1 AND 5;
REPLACE INTO wallets (customer_id, balance) SELECT customer_id, total FROM orders WHERE order_id BETWEEN 100 AND 110 ORDER BY customer_id, order_id;
INSERT INTO wallets TABLE nosuch;
-- engine: mariadb
INSERT INTO wallets (customer_id) WITH n AS (SELECT 4400 AS i) SELECT i FROM n;
INSERT INTO visits (visit_id, customer_id, page, at, ms, bot) SELECT 6000 + order_id, customer_id, 'order', placed, 1, 0 FROM orders WHERE customer_id = 9;
INSERT INTO wallets (customer_id, balance) VALUES (5 * 400, 1), (2000 + 1, 2), (CHAR_LENGTH(REPEAT('x', 2002)), 3);
INSERT INTO products (product_id, name, category, price) VALUES (600, CONCAT('n', RAND() >= 0), 'Tools', LENGTH(UUID()));
REPLACE INTO products (product_id, name, category, price) VALUES (600, 'plain', 'Tools', CONNECTION_ID() > 0);
