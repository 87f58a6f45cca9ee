# Lists of a group's values, of which every shard has a part: with and without an order, cut at
# group_concat_max_len, and what stands beside them. Where the order is open, all values are the same.
SELECT GROUP_CONCAT(order_id ORDER BY order_id) FROM orders WHERE customer_id < 12;
SELECT GROUP_CONCAT(customer_id ORDER BY customer_id DESC SEPARATOR ' | ') FROM customers WHERE customer_id % 3 = 0;
SELECT status, GROUP_CONCAT(order_id ORDER BY order_id DESC) FROM orders WHERE customer_id < 30 GROUP BY status;
SELECT status, GROUP_CONCAT(total ORDER BY total SEPARATOR ';'), COUNT(*), SUM(total), MAX(due) FROM orders WHERE customer_id < 25 GROUP BY status ORDER BY status;
SELECT tier, GROUP_CONCAT(born ORDER BY born SEPARATOR ', ') FROM customers WHERE customer_id < 60 GROUP BY tier;
SELECT country, GROUP_CONCAT(created ORDER BY created DESC) AS them FROM customers WHERE customer_id < 40 GROUP BY country ORDER BY country DESC LIMIT 3;
-- free: 1
SELECT channel, GROUP_CONCAT(due ORDER BY due DESC, order_id) FROM orders WHERE customer_id < 20 GROUP BY channel HAVING COUNT(*) > 1;
SELECT country, GROUP_CONCAT(credit ORDER BY credit) AS credits, COUNT(*) AS n FROM customers WHERE customer_id < 50 GROUP BY country ORDER BY n DESC, country LIMIT 4;
SELECT quantity, GROUP_CONCAT(line_no ORDER BY line_no), GROUP_CONCAT(price ORDER BY price DESC SEPARATOR ' ~ ') FROM items WHERE customer_id < 15 GROUP BY quantity;
-- free: 1
SELECT p.category, GROUP_CONCAT(i.line_no ORDER BY i.line_no), COUNT(*) FROM items i JOIN products p ON p.product_id = i.product_id WHERE i.customer_id < 9 GROUP BY p.category;
SELECT status, due IS NULL AS d, GROUP_CONCAT(total ORDER BY total) FROM orders WHERE customer_id < 15 GROUP BY status, d;
SELECT status, due IS NULL AS d, GROUP_CONCAT(total ORDER BY total) FROM orders WHERE customer_id < 15 GROUP BY status, d ORDER BY d, status;
SELECT GROUP_CONCAT(reserved ORDER BY reserved), GROUP_CONCAT(quantity ORDER BY quantity DESC), BIT_OR(quantity) FROM stock;
SELECT GROUP_CONCAT(launched ORDER BY launched), COUNT(*) FROM items i JOIN products p ON p.product_id = i.product_id WHERE i.customer_id < 9;
SELECT GROUP_CONCAT(c.customer_id ORDER BY c.customer_id), GROUP_CONCAT(o.order_id ORDER BY o.order_id) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.total > 900 WHERE c.customer_id < 30;
SELECT GROUP_CONCAT(total ORDER BY total), GROUP_CONCAT(status) FROM orders WHERE 1 = 0;
SELECT status, GROUP_CONCAT(total ORDER BY total) FROM orders WHERE 1 = 0 GROUP BY status;
SELECT GROUP_CONCAT(referrer ORDER BY referrer) FROM customers WHERE referrer IS NULL;
SELECT status, GROUP_CONCAT(status), GROUP_CONCAT(status SEPARATOR ''), GROUP_CONCAT('x', '-', 1 SEPARATOR '\n') FROM orders WHERE customer_id < 20 GROUP BY status;
SELECT ship_country IS NULL AS n, GROUP_CONCAT(ship_country IS NULL) FROM orders WHERE customer_id < 20 GROUP BY n;
SELECT status, JSON_ARRAYAGG(status), COUNT(*) FROM orders WHERE customer_id < 20 GROUP BY status;
SELECT JSON_ARRAYAGG(1), JSON_ARRAYAGG(NULL), JSON_ARRAYAGG('a"b') FROM orders WHERE customer_id < 8;
SELECT JSON_ARRAYAGG(total) FROM orders WHERE 1 = 0;
SELECT due IS NULL AS d, JSON_ARRAYAGG(due IS NULL) FROM orders WHERE customer_id < 10 GROUP BY d;
-- with: 30
SELECT status, GROUP_CONCAT(order_id ORDER BY order_id), COUNT(*) FROM orders WHERE customer_id < ? GROUP BY status;
# What the merge does not put together.
SELECT status, GROUP_CONCAT(order_id ORDER BY placed, order_id, customer_id) FROM orders WHERE customer_id < 20 GROUP BY status;
SELECT status, CONCAT('[', GROUP_CONCAT(order_id ORDER BY order_id), ']') FROM orders WHERE customer_id < 20 GROUP BY status;
SELECT GROUP_CONCAT(order_id ORDER BY order_id SEPARATOR '0') FROM orders WHERE customer_id < 20;
SELECT GROUP_CONCAT(email ORDER BY email SEPARATOR ' ') FROM customers WHERE customer_id < 20;
SELECT GROUP_CONCAT(order_id + customer_id ORDER BY order_id + customer_id) FROM orders WHERE customer_id < 20;
SELECT tier, JSON_LENGTH(JSON_ARRAYAGG(customer_id)) FROM customers GROUP BY tier;
SELECT JSON_OBJECTAGG(customer_id, credit) FROM customers WHERE customer_id = 9;
SELECT JSON_LENGTH(JSON_OBJECTAGG(customer_id, credit)) FROM customers;
# Servers cut them, and warn.
SELECT GROUP_CONCAT(order_id ORDER BY order_id) FROM orders;
SELECT status, GROUP_CONCAT(order_id ORDER BY order_id DESC) FROM orders GROUP BY status;
SELECT status, GROUP_CONCAT(status) FROM orders GROUP BY status;
SET group_concat_max_len = 40;
SELECT GROUP_CONCAT(order_id ORDER BY order_id) FROM orders WHERE customer_id < 6;
SELECT status, GROUP_CONCAT(order_id ORDER BY order_id), GROUP_CONCAT(status) FROM orders WHERE customer_id < 20 GROUP BY status;
SELECT tier, GROUP_CONCAT(customer_id ORDER BY customer_id) FROM customers WHERE customer_id < 9 GROUP BY tier;
SELECT status, GROUP_CONCAT(order_id ORDER BY order_id SEPARATOR '/') FROM orders WHERE customer_id < 20 GROUP BY status ORDER BY status DESC LIMIT 2;
SET group_concat_max_len = 4;
SELECT GROUP_CONCAT(quantity ORDER BY quantity) FROM items WHERE customer_id < 5;
SELECT GROUP_CONCAT(quantity ORDER BY quantity) FROM items WHERE customer_id = 5 AND line_no = 1 LIMIT 1;
SET group_concat_max_len = DEFAULT;
# Any value of a group is one; all of them are the same here.
-- engine: mysql
SELECT status, ANY_VALUE(status), COUNT(*) FROM orders GROUP BY status;
-- engine: mysql
SELECT status, ANY_VALUE(status), COUNT(*) + 1, SUM(total) / 2 FROM orders GROUP BY status;
-- engine: mysql
SELECT country, ANY_VALUE(country), ANY_VALUE(1 + 1), MAX(credit) FROM customers GROUP BY country ORDER BY country;
-- engine: mysql
SELECT ANY_VALUE(due), COUNT(*) + 0 FROM orders WHERE due IS NOT NULL GROUP BY due ORDER BY COUNT(*) DESC, due LIMIT 5;
-- engine: mysql
SELECT status, ANY_VALUE(status), COUNT(*) FROM orders GROUP BY status WITH ROLLUP;
-- engine: mysql
SELECT ANY_VALUE(customer_id) FROM customers WHERE customer_id < 7;
-- engine: mysql
SELECT ANY_VALUE(1), COUNT(*) FROM customers;
# Bits.
SELECT status, BIT_AND(order_id), BIT_OR(customer_id), BIT_XOR(order_id + 1) FROM orders GROUP BY status ORDER BY BIT_OR(customer_id), status LIMIT 4;
-- free: 1
SELECT channel, BIT_XOR(customer_id) AS x FROM orders GROUP BY channel HAVING BIT_XOR(customer_id) > 5 ORDER BY x, channel;

# Objects: MariaDB keeps each name as often as it comes, MySQL once.
SELECT status, JSON_OBJECTAGG('k', 1), COUNT(*) FROM orders WHERE customer_id < 20 GROUP BY status;
SELECT JSON_OBJECTAGG(customer_id, status) FROM orders WHERE 1 = 0;
SELECT JSON_OBJECTAGG(customer_id, '}, {"a": [') FROM customers WHERE customer_id = 7;
-- engine: mysql
SELECT JSON_OBJECTAGG(customer_id, name) FROM customers;
-- engine: mysql
SELECT tier, JSON_OBJECTAGG(customer_id, JSON_ARRAY(name, tier, '"},', NULL)) FROM customers GROUP BY tier;
-- engine: mysql
SELECT status, JSON_OBJECTAGG(customer_id, customer_id) FROM orders GROUP BY status;
-- engine: mysql
SELECT JSON_OBJECTAGG(NULL, name) FROM customers;
