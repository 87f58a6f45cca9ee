# Scalar subqueries of aggregates that depend on nothing around them: the farm asks them first. Of numbers and dates,
# over rows with NULLs, with rows that are equal, and over none.
SELECT sku, quantity FROM stock WHERE quantity > (SELECT AVG(quantity) FROM stock) ORDER BY 1;
SELECT customer_id, order_id FROM orders WHERE total > (SELECT AVG(total) FROM orders WHERE discount IS NULL) ORDER BY 1, 2;
SELECT customer_id, order_id FROM orders WHERE total >= (SELECT MAX(total) FROM orders) ORDER BY 1, 2;
SELECT customer_id FROM customers WHERE credit > (SELECT AVG(credit) FROM customers WHERE credit > 0) ORDER BY 1;
SELECT customer_id FROM customers WHERE credit <= (SELECT 0.5 * AVG(credit) FROM customers) OR credit = (SELECT MAX(credit) FROM customers) ORDER BY 1;
SELECT customer_id FROM customers WHERE NOT (credit < (SELECT MIN(credit) + 2 * MAX(credit) FROM customers) / 3) ORDER BY 1;
SELECT customer_id FROM customers WHERE born = (SELECT MIN(born) FROM customers) ORDER BY 1;
SELECT customer_id FROM customers WHERE (SELECT MAX(c.born) FROM customers c WHERE c.country = 'DE') < born ORDER BY 1;
SELECT customer_id, order_id FROM orders WHERE placed = (SELECT MAX(placed) FROM orders) ORDER BY 1, 2;
SELECT customer_id, order_id FROM orders WHERE placed < (SELECT MIN(o.placed) FROM orders o WHERE o.status = 'paid') ORDER BY 1, 2;
SELECT customer_id, order_id FROM orders WHERE due <> (SELECT MAX(due) FROM orders) ORDER BY 1, 2;
SELECT customer_id FROM wallets WHERE changed > (SELECT MIN(changed) FROM wallets) ORDER BY 1;
SELECT customer_id FROM wallets WHERE changed > (SELECT MIN(placed) FROM orders) ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id = (SELECT MAX(customer_id) FROM orders);
SELECT customer_id FROM customers WHERE customer_id = (SELECT MIN(customer_id) FROM orders);
SELECT visit_id FROM visits WHERE ms > (SELECT AVG(ms) FROM visits) AND customer_id <> (SELECT MAX(customer_id) FROM customers) ORDER BY 1;
# Over no rows, and over NULLs alone.
SELECT customer_id FROM customers WHERE credit > (SELECT AVG(credit) FROM customers WHERE credit > 1e9) ORDER BY 1;
SELECT customer_id FROM customers WHERE credit > (SELECT SUM(credit) FROM customers WHERE credit IS NULL) OR customer_id = 3 ORDER BY 1;
SELECT customer_id FROM customers WHERE NOT (credit > (SELECT MAX(credit) FROM customers WHERE credit IS NULL)) ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id > (SELECT COUNT(*) FROM orders WHERE total < 0) ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id > (SELECT COUNT(credit) * 2 - SUM(customer_id) FROM customers WHERE customer_id < 4) ORDER BY 1;
SELECT customer_id FROM customers WHERE born > (SELECT MAX(born) FROM customers WHERE born IS NULL) ORDER BY 1;
# Quotients that are exact, and such that are not.
SELECT customer_id FROM customers WHERE customer_id = (SELECT AVG(customer_id) FROM customers WHERE customer_id BETWEEN 10 AND 20);
SELECT customer_id, order_id FROM orders WHERE total = (SELECT AVG(total) FROM orders WHERE customer_id = 7) ORDER BY 1, 2;
SELECT customer_id FROM customers WHERE customer_id / 3 = (SELECT SUM(customer_id) / 3 FROM customers WHERE customer_id IN (10, 11));
SELECT customer_id FROM customers WHERE customer_id * 1.0 > (SELECT SUM(hits) / COUNT(*) FROM wallets) ORDER BY 1;
SELECT customer_id FROM wallets WHERE balance > (SELECT SUM(balance) / (COUNT(*) - COUNT(*)) FROM wallets) ORDER BY 1;
# Beside groups, joins and other subqueries.
SELECT customer_id, SUM(total) AS s FROM orders GROUP BY customer_id HAVING s > (SELECT SUM(total) / 60 FROM orders) ORDER BY 1;
SELECT status, SUM(total), COUNT(*) FROM orders GROUP BY status HAVING COUNT(*) > (SELECT COUNT(*) / 6 FROM orders) ORDER BY 1;
SELECT customer_id, SUM(price * quantity) AS s FROM items GROUP BY customer_id HAVING SUM(price * quantity) > (SELECT SUM(price * quantity) * 0.02 FROM items) ORDER BY s DESC, customer_id;
SELECT s.product_id, SUM(s.quantity) FROM stock s JOIN products p ON p.product_id = s.product_id WHERE s.quantity >= (SELECT AVG(t.quantity) FROM stock t JOIN products q ON q.product_id = t.product_id WHERE q.price > 20) GROUP BY s.product_id ORDER BY 1;
SELECT c.customer_id, o.order_id FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.total > 900 WHERE c.credit > (SELECT AVG(credit) FROM customers) ORDER BY 1, 2;
SELECT v.customer_id, COUNT(*) FROM visits v WHERE v.ms > (SELECT AVG(ms) FROM visits) AND NOT EXISTS (SELECT * FROM orders o WHERE o.customer_id = v.customer_id AND o.total > (SELECT AVG(total) FROM orders)) GROUP BY v.customer_id ORDER BY 1;
SELECT t.country, COUNT(*) AS n, SUM(t.credit) FROM (SELECT LEFT(c.country, 2) AS country, c.credit FROM customers c WHERE c.country IN ('DE', 'FR', 'US') AND c.credit > (SELECT AVG(d.credit) FROM customers d WHERE d.credit > 0 AND d.country IN ('DE', 'FR', 'US')) AND NOT EXISTS (SELECT * FROM visits v WHERE v.customer_id = c.customer_id)) t GROUP BY t.country ORDER BY 1;
SELECT customer_id FROM customers WHERE credit > (SELECT AVG(credit) FROM customers) UNION SELECT customer_id FROM wallets WHERE balance > (SELECT AVG(balance) FROM wallets) ORDER BY 1;
SELECT COUNT(*) FROM items WHERE product_id IN (SELECT product_id FROM stock WHERE quantity = (SELECT MAX(quantity) FROM stock));
# What looks like it: it depends on rows around it, compares texts, or says a number of a text.
SELECT customer_id, order_id FROM orders o WHERE total > (SELECT AVG(total) FROM orders i WHERE i.customer_id = o.customer_id) ORDER BY 1, 2;
SELECT customer_id FROM customers c WHERE credit > (SELECT AVG(balance) FROM wallets WHERE balance < c.credit) ORDER BY 1;
SELECT sku FROM stock WHERE place = (SELECT MAX(place) FROM stock) ORDER BY 1;
SELECT customer_id FROM customers WHERE score > (SELECT AVG(score) FROM customers) ORDER BY 1;
SELECT customer_id FROM customers WHERE score > (SELECT AVG(credit) FROM customers) ORDER BY 1;
SELECT visit_id FROM visits WHERE customer_id + 0.5 > (SELECT MAX(customer_id) FROM customers WHERE name < 'n') ORDER BY 1;
SELECT customer_id FROM customers WHERE credit > (SELECT MAX(credit) FROM customers WHERE code = 3) ORDER BY 1;
SELECT customer_id FROM customers WHERE credit > (SELECT AVG(credit) FROM customers HAVING COUNT(*) > 999) ORDER BY 1;
