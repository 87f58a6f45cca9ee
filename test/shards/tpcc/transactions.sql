# The five transactions of TPC-C, statement by statement, and the conditions that hold between tables.
# Data: warehouses 1..4, districts 1..3, customers 1..10 each, orders 1..10 each, items 1..40.

# New order at home.
BEGIN;
SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = 1 AND c_w_id = w_id AND c_d_id = 2 AND c_id = 3;
SELECT d_next_o_id, d_tax FROM district WHERE d_id = 2 AND d_w_id = 1 FOR UPDATE;
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 2 AND d_w_id = 1;
INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (11, 2, 1, 3, '2026-01-02 03:04:05', 2, 1);
INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (11, 2, 1);
-- bag
SELECT i_price, i_name, i_data, i_id FROM item WHERE i_id IN (5, 9);
-- bag
SELECT s_i_id, s_quantity FROM stock WHERE (s_w_id, s_i_id) IN ((1, 5), (1, 9)) FOR UPDATE;
UPDATE stock SET s_quantity = s_quantity - 3, s_ytd = s_ytd + 3, s_order_cnt = s_order_cnt + 1 WHERE s_i_id = 5 AND s_w_id = 1;
UPDATE stock SET s_quantity = s_quantity - 4, s_ytd = s_ytd + 4, s_order_cnt = s_order_cnt + 1 WHERE s_i_id = 9 AND s_w_id = 1;
INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount) VALUES (11, 2, 1, 1, 5, 1, 3, 30.30), (11, 2, 1, 2, 9, 1, 4, 44.44);
COMMIT;

# New order with stock of two other warehouses.
BEGIN;
SELECT c_discount, c_last, c_credit, w_tax FROM customer JOIN warehouse ON c_w_id = w_id WHERE w_id = 2 AND c_d_id = 1 AND c_id = 7;
SELECT d_next_o_id, d_tax FROM district WHERE d_id = 1 AND d_w_id = 2 FOR UPDATE;
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 1 AND d_w_id = 2;
INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (11, 1, 2, 7, '2026-01-02 03:05:05', 3, 0);
INSERT INTO new_order VALUES (11, 1, 2);
-- bag
SELECT s_w_id, s_i_id, s_quantity FROM stock WHERE (s_w_id, s_i_id) IN ((1, 11), (3, 12), (4, 13)) FOR UPDATE;
UPDATE stock SET s_quantity = 91, s_ytd = s_ytd + 1, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + 1 WHERE s_i_id = 11 AND s_w_id = 1;
UPDATE stock SET s_quantity = 92, s_ytd = s_ytd + 2, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + 1 WHERE s_i_id = 12 AND s_w_id = 3;
UPDATE stock SET s_quantity = 93, s_ytd = s_ytd + 3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + 1 WHERE s_i_id = 13 AND s_w_id = 4;
INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount) VALUES (11, 1, 2, 1, 11, 1, 1, 1.50), (11, 1, 2, 2, 12, 3, 2, 2.50), (11, 1, 2, 3, 13, 4, 3, 3.50);
COMMIT;

# New order with an item that does not exist.
BEGIN;
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3 AND d_w_id = 4;
INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (11, 3, 4, 1, '2026-01-02 03:06:05', 1, 0);
SELECT i_price FROM item WHERE i_id = 99999;
UPDATE stock SET s_quantity = s_quantity - 1 WHERE s_i_id = 1 AND s_w_id = 1;
ROLLBACK;

# Payment by a customer of another warehouse, found by name.
BEGIN;
UPDATE warehouse SET w_ytd = w_ytd + 123.45 WHERE w_id = 1;
SELECT w_name FROM warehouse WHERE w_id = 1;
UPDATE district SET d_ytd = d_ytd + 123.45 WHERE d_w_id = 1 AND d_id = 1;
SELECT c_id, c_first, c_balance FROM customer WHERE c_w_id = 3 AND c_d_id = 2 AND c_last = 'BAR4' ORDER BY c_first, c_id;
SELECT c_balance, c_credit FROM customer WHERE c_w_id = 3 AND c_d_id = 2 AND c_id = 4 FOR UPDATE;
UPDATE customer SET c_balance = c_balance - 123.45, c_ytd_payment = c_ytd_payment + 123.45, c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = 3 AND c_d_id = 2 AND c_id = 4;
INSERT INTO history (h_id, h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES (1001, 2, 3, 4, 1, 1, '2026-01-02 04:00:00', 123.45, 'a    b');
COMMIT;

# Order status.
SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = 2 AND o_d_id = 1 AND o_c_id = 7 ORDER BY o_id DESC LIMIT 1;
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 1 AND ol_o_id = 11 ORDER BY ol_number;

# Delivery.
BEGIN;
SELECT no_o_id FROM new_order WHERE no_w_id = 3 AND no_d_id = 1 ORDER BY no_o_id ASC LIMIT 1 FOR UPDATE;
DELETE FROM new_order WHERE no_w_id = 3 AND no_d_id = 1 AND no_o_id = 8;
SELECT o_c_id FROM orders WHERE o_id = 8 AND o_d_id = 1 AND o_w_id = 3;
UPDATE orders SET o_carrier_id = 7 WHERE (o_w_id, o_d_id, o_id) IN ((3, 1, 8), (3, 2, 8));
UPDATE order_line SET ol_delivery_d = '2026-01-03 00:00:00' WHERE ol_o_id = 8 AND ol_d_id = 1 AND ol_w_id = 3;
SELECT SUM(ol_amount) FROM order_line WHERE ol_o_id = 8 AND ol_d_id = 1 AND ol_w_id = 3;
UPDATE customer SET c_balance = c_balance + 10.00, c_delivery_cnt = c_delivery_cnt + 1 WHERE c_id = 8 AND c_d_id = 1 AND c_w_id = 3;
COMMIT;

# Stock level.
SELECT d_next_o_id FROM district WHERE d_w_id = 1 AND d_id = 2;
SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = 1 AND ol_d_id = 2 AND ol_o_id < 12 AND ol_o_id >= 12 - 20 AND s_w_id = 1 AND s_i_id = ol_i_id AND s_quantity < 60;
SELECT COUNT(DISTINCT s.s_i_id) FROM order_line ol JOIN stock s ON s.s_w_id = ol.ol_w_id AND s.s_i_id = ol.ol_i_id WHERE ol.ol_d_id = 2 AND s.s_quantity < 60;

# What must hold between the tables, over all warehouses.
SELECT w_id, w_ytd, (SELECT SUM(d_ytd) FROM district WHERE d_w_id = w_id) AS ytd FROM warehouse ORDER BY w_id;
SELECT d_w_id, d_id, d_next_o_id - 1 AS next, (SELECT MAX(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS o, (SELECT MAX(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) AS n FROM district ORDER BY d_w_id, d_id;
SELECT COUNT(*) FROM (SELECT COUNT(no_o_id) - (MAX(no_o_id) - MIN(no_o_id) + 1) AS diff FROM new_order GROUP BY no_w_id, no_d_id) t WHERE diff <> 0;
SELECT COUNT(*) FROM (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS c FROM orders GROUP BY o_w_id, o_d_id) o JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS c FROM order_line GROUP BY ol_w_id, ol_d_id) l ON o_w_id = ol_w_id AND o_d_id = ol_d_id WHERE o.c <> l.c;
SELECT COUNT(*) FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL);
SELECT COUNT(*) FROM (SELECT o_w_id, o_d_id, o_id, o_ol_cnt, COUNT(ol_number) AS n FROM orders LEFT JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id GROUP BY o_w_id, o_d_id, o_id, o_ol_cnt HAVING o_ol_cnt <> n) t;
SELECT SUM(ol_amount), COUNT(DISTINCT ol_i_id), COUNT(DISTINCT ol_w_id, ol_d_id) FROM order_line;
SELECT SUM(s_ytd), SUM(s_order_cnt), SUM(s_remote_cnt), MIN(s_quantity), MAX(s_quantity) FROM stock;
SELECT ol_supply_w_id, COUNT(*), SUM(ol_quantity) FROM order_line WHERE ol_supply_w_id <> ol_w_id GROUP BY ol_supply_w_id ORDER BY 1;
SELECT i_id, i_name, SUM(ol_quantity) AS sold FROM item JOIN order_line ON ol_i_id = i_id GROUP BY i_id, i_name ORDER BY sold DESC, i_id LIMIT 10;
SELECT c_w_id, c_d_id, c_last, COUNT(*) FROM customer WHERE c_last LIKE 'BAR%' GROUP BY c_w_id, c_d_id, c_last ORDER BY 1, 2, 3;
SELECT c_w_id, c_d_id, c_id FROM customer WHERE c_balance < 0 ORDER BY c_balance, c_w_id, c_d_id, c_id LIMIT 12;
SELECT h_w_id, SUM(h_amount), COUNT(*) FROM history GROUP BY h_w_id ORDER BY h_w_id;
