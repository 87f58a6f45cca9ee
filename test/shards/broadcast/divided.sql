# Joins by the shard key of one side, so that the other one can be divided among the groups of that: NULLs, keys that
# nobody has, duplicates, outer joins in both directions, more tables, and aggregates of what each group joins.

SELECT f.k, f.id, s.s, s.s, f.amount, s.e FROM facts f JOIN smalls s ON f.a = s.s ORDER BY f.k, f.id, s.s, s.s, f.amount, s.e;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.amount), AVG(s.e) FROM facts f, smalls s WHERE f.a = s.s AND f.amount > 50;

SELECT f.k, f.id, s.s, s.s, s.e FROM facts f LEFT JOIN smalls s ON f.a = s.s ORDER BY f.k, f.id, s.s, s.s, s.e;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.a = s.s AND s.s < 9 ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.a = s.s AND f.g = 'new' ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.a = s.s WHERE s.s IS NULL ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f RIGHT JOIN smalls s ON f.a = s.s ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f RIGHT JOIN smalls s ON f.a = s.s AND f.g = 'new' WHERE s.s < 9 ORDER BY f.k, f.id, s.s, s.s;

SELECT s.s, COUNT(*) AS n, COUNT(f.id) AS m, SUM(f.amount) FROM smalls s LEFT JOIN facts f ON f.a = s.s GROUP BY s.s ORDER BY s.s;

SELECT f.a AS x, COUNT(*) AS n, COUNT(s.s) AS m FROM facts f LEFT JOIN smalls s ON f.a = s.s GROUP BY f.a ORDER BY x;

SELECT DISTINCT f.a, s.s FROM facts f LEFT JOIN smalls s ON f.a = s.s ORDER BY f.a, s.s;

SELECT DISTINCT f.amount FROM facts f JOIN smalls s ON f.a = s.s ORDER BY f.amount DESC LIMIT 7;

SELECT COUNT(DISTINCT f.a), COUNT(DISTINCT f.id), COUNT(DISTINCT s.s) FROM facts f LEFT JOIN smalls s ON f.a = s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.a = s.s AND s.s < 9) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT 1 FROM smalls s WHERE f.a = s.s) ORDER BY f.k, f.id;

SELECT s.s, s.s FROM smalls s WHERE EXISTS (SELECT * FROM facts f WHERE f.a = s.s AND f.g = 'new') ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE NOT EXISTS (SELECT * FROM facts f WHERE f.a = s.s) ORDER BY s.s, s.s;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.a = s.s) AS n FROM facts f ORDER BY f.k, f.id;

SELECT s.s, s.s, (SELECT MAX(f.amount) FROM facts f WHERE f.a = s.s) AS n FROM smalls s ORDER BY s.s, s.s;

SELECT f.k, f.id FROM facts f WHERE f.a IN (SELECT s.s FROM smalls s WHERE s.c = 'ann') ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a NOT IN (SELECT s.s FROM smalls s WHERE s.s < 9) ORDER BY f.k, f.id;

SELECT s.s, s.s FROM smalls s WHERE s.s IN (SELECT f.a FROM facts f WHERE f.g = 'new') ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE s.s NOT IN (SELECT f.a FROM facts f) ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE s.s NOT IN (SELECT f.a FROM facts f WHERE f.a IS NOT NULL) ORDER BY s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f JOIN smalls s ON f.a = s.s WHERE f.a = 5 ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.a = s.s WHERE f.a IN (2, 5, NULL) OR f.a IS NULL ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.a = s.s WHERE f.a <=> NULL ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.a = s.s WHERE f.a BETWEEN 3 AND 9 ORDER BY f.k, f.id, s.s, s.s;

SELECT COUNT(*) FROM facts f JOIN smalls s ON f.a <=> s.s;

SELECT COUNT(*) FROM facts f LEFT JOIN smalls s ON f.a <=> s.s;

SELECT f.k, SUM(f.amount) OVER (PARTITION BY f.a) AS w FROM facts f LEFT JOIN smalls s ON f.a = s.s ORDER BY f.k, w;

SELECT q.x, COUNT(*), SUM(q.n) FROM (SELECT f.a AS x, COUNT(s.s) AS n FROM facts f LEFT JOIN smalls s ON f.a = s.s GROUP BY f.a) q GROUP BY q.x ORDER BY q.x;

SELECT s.s, q.n FROM smalls s JOIN (SELECT f.a AS x, COUNT(*) AS n FROM facts f GROUP BY f.a) q ON q.x = s.s ORDER BY s.s, q.n;

SELECT s.s, SUM(f.amount) / COUNT(*) FROM facts f JOIN smalls s ON f.a = s.s GROUP BY s.s HAVING COUNT(*) > 1 ORDER BY s.s;

SELECT f.k, f.id, s.s, s.s, f.amount, s.e FROM facts f JOIN smalls s ON f.b = s.s ORDER BY f.k, f.id, s.s, s.s, f.amount, s.e;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.amount), AVG(s.e) FROM facts f, smalls s WHERE f.b = s.s AND f.amount > 50;

SELECT f.k, f.id, s.s, s.s, s.e FROM facts f LEFT JOIN smalls s ON f.b = s.s ORDER BY f.k, f.id, s.s, s.s, s.e;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.b = s.s AND s.s < 9 ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.b = s.s AND f.g = 'new' ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.b = s.s WHERE s.s IS NULL ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f RIGHT JOIN smalls s ON f.b = s.s ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f RIGHT JOIN smalls s ON f.b = s.s AND f.g = 'new' WHERE s.s < 9 ORDER BY f.k, f.id, s.s, s.s;

SELECT s.s, COUNT(*) AS n, COUNT(f.id) AS m, SUM(f.amount) FROM smalls s LEFT JOIN facts f ON f.b = s.s GROUP BY s.s ORDER BY s.s;

SELECT f.b AS x, COUNT(*) AS n, COUNT(s.s) AS m FROM facts f LEFT JOIN smalls s ON f.b = s.s GROUP BY f.b ORDER BY x;

SELECT DISTINCT f.b, s.s FROM facts f LEFT JOIN smalls s ON f.b = s.s ORDER BY f.b, s.s;

SELECT DISTINCT f.amount FROM facts f JOIN smalls s ON f.b = s.s ORDER BY f.amount DESC LIMIT 7;

SELECT COUNT(DISTINCT f.b), COUNT(DISTINCT f.id), COUNT(DISTINCT s.s) FROM facts f LEFT JOIN smalls s ON f.b = s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.b = s.s AND s.s < 9) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT 1 FROM smalls s WHERE f.b = s.s) ORDER BY f.k, f.id;

SELECT s.s, s.s FROM smalls s WHERE EXISTS (SELECT * FROM facts f WHERE f.b = s.s AND f.g = 'new') ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE NOT EXISTS (SELECT * FROM facts f WHERE f.b = s.s) ORDER BY s.s, s.s;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.b = s.s) AS n FROM facts f ORDER BY f.k, f.id;

SELECT s.s, s.s, (SELECT MAX(f.amount) FROM facts f WHERE f.b = s.s) AS n FROM smalls s ORDER BY s.s, s.s;

SELECT f.k, f.id FROM facts f WHERE f.b IN (SELECT s.s FROM smalls s WHERE s.c = 'ann') ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.b NOT IN (SELECT s.s FROM smalls s WHERE s.s < 9) ORDER BY f.k, f.id;

SELECT s.s, s.s FROM smalls s WHERE s.s IN (SELECT f.b FROM facts f WHERE f.g = 'new') ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE s.s NOT IN (SELECT f.b FROM facts f) ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE s.s NOT IN (SELECT f.b FROM facts f WHERE f.b IS NOT NULL) ORDER BY s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f JOIN smalls s ON f.b = s.s WHERE f.b = 5 ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.b = s.s WHERE f.b IN (2, 5, NULL) OR f.b IS NULL ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.b = s.s WHERE f.b <=> NULL ORDER BY f.k, f.id, s.s, s.s;

SELECT f.k, f.id, s.s, s.s FROM facts f LEFT JOIN smalls s ON f.b = s.s WHERE f.b BETWEEN 3 AND 9 ORDER BY f.k, f.id, s.s, s.s;

SELECT COUNT(*) FROM facts f JOIN smalls s ON f.b <=> s.s;

SELECT COUNT(*) FROM facts f LEFT JOIN smalls s ON f.b <=> s.s;

SELECT f.k, SUM(f.amount) OVER (PARTITION BY f.b) AS w FROM facts f LEFT JOIN smalls s ON f.b = s.s ORDER BY f.k, w;

SELECT q.x, COUNT(*), SUM(q.n) FROM (SELECT f.b AS x, COUNT(s.s) AS n FROM facts f LEFT JOIN smalls s ON f.b = s.s GROUP BY f.b) q GROUP BY q.x ORDER BY q.x;

SELECT s.s, q.n FROM smalls s JOIN (SELECT f.b AS x, COUNT(*) AS n FROM facts f GROUP BY f.b) q ON q.x = s.s ORDER BY s.s, q.n;

SELECT s.s, SUM(f.amount) / COUNT(*) FROM facts f JOIN smalls s ON f.b = s.s GROUP BY s.s HAVING COUNT(*) > 1 ORDER BY s.s;

SELECT s.s, s.s, f.k, f.id, s.e, f.amount FROM smalls s JOIN facts f ON s.a = f.k ORDER BY s.s, s.s, f.k, f.id, s.e, f.amount;

SELECT COUNT(*), SUM(s.e), MIN(f.amount), MAX(s.e), AVG(f.amount) FROM smalls s, facts f WHERE s.a = f.k AND s.s < 9;

SELECT s.s, s.s, f.k, f.id, f.amount FROM smalls s LEFT JOIN facts f ON s.a = f.k ORDER BY s.s, s.s, f.k, f.id, f.amount;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON s.a = f.k AND f.amount > 50 ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON s.a = f.k AND s.c = 'ann' ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON s.a = f.k WHERE f.k IS NULL ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s RIGHT JOIN facts f ON s.a = f.k ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s RIGHT JOIN facts f ON s.a = f.k AND s.c = 'ann' WHERE f.amount > 50 ORDER BY s.s, s.s, f.k, f.id;

SELECT f.k, COUNT(*) AS n, COUNT(s.s) AS m, SUM(s.e) FROM facts f LEFT JOIN smalls s ON s.a = f.k GROUP BY f.k ORDER BY f.k;

SELECT s.a AS x, COUNT(*) AS n, COUNT(f.id) AS m FROM smalls s LEFT JOIN facts f ON s.a = f.k GROUP BY s.a ORDER BY x;

SELECT DISTINCT s.a, f.k FROM smalls s LEFT JOIN facts f ON s.a = f.k ORDER BY s.a, f.k;

SELECT DISTINCT s.e FROM smalls s JOIN facts f ON s.a = f.k ORDER BY s.e DESC LIMIT 7;

SELECT COUNT(DISTINCT s.a), COUNT(DISTINCT s.s), COUNT(DISTINCT f.k) FROM smalls s LEFT JOIN facts f ON s.a = f.k;

SELECT s.s, s.s FROM smalls s WHERE EXISTS (SELECT 1 FROM facts f WHERE s.a = f.k AND f.amount > 50) ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE NOT EXISTS (SELECT 1 FROM facts f WHERE s.a = f.k) ORDER BY s.s, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT * FROM smalls s WHERE s.a = f.k AND s.c = 'ann') ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE s.a = f.k) ORDER BY f.k, f.id;

SELECT s.s, s.s, (SELECT COUNT(*) FROM facts f WHERE s.a = f.k) AS n FROM smalls s ORDER BY s.s, s.s;

SELECT f.k, f.id, (SELECT MAX(s.e) FROM smalls s WHERE s.a = f.k) AS n FROM facts f ORDER BY f.k, f.id;

SELECT s.s, s.s FROM smalls s WHERE s.a IN (SELECT f.k FROM facts f WHERE f.g = 'new') ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE s.a NOT IN (SELECT f.k FROM facts f WHERE f.amount > 50) ORDER BY s.s, s.s;

SELECT f.k, f.id FROM facts f WHERE f.k IN (SELECT s.a FROM smalls s WHERE s.c = 'ann') ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.k NOT IN (SELECT s.a FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.k NOT IN (SELECT s.a FROM smalls s WHERE s.a IS NOT NULL) ORDER BY f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s JOIN facts f ON s.a = f.k WHERE s.a = 5 ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON s.a = f.k WHERE s.a IN (2, 5, NULL) OR s.a IS NULL ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON s.a = f.k WHERE s.a <=> NULL ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON s.a = f.k WHERE s.a BETWEEN 3 AND 9 ORDER BY s.s, s.s, f.k, f.id;

SELECT COUNT(*) FROM smalls s JOIN facts f ON s.a <=> f.k;

SELECT COUNT(*) FROM smalls s LEFT JOIN facts f ON s.a <=> f.k;

SELECT s.s, SUM(s.e) OVER (PARTITION BY s.a) AS w FROM smalls s LEFT JOIN facts f ON s.a = f.k ORDER BY s.s, w;

SELECT q.x, COUNT(*), SUM(q.n) FROM (SELECT s.a AS x, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON s.a = f.k GROUP BY s.a) q GROUP BY q.x ORDER BY q.x;

SELECT f.k, q.n FROM facts f JOIN (SELECT s.a AS x, COUNT(*) AS n FROM smalls s GROUP BY s.a) q ON q.x = f.k ORDER BY f.k, q.n;

SELECT f.k, SUM(s.e) / COUNT(*) FROM smalls s JOIN facts f ON s.a = f.k GROUP BY f.k HAVING COUNT(*) > 1 ORDER BY f.k;

SELECT f.k, f.n, s.s, s.s, f.n, s.e FROM notes f JOIN smalls s ON f.n = s.s ORDER BY f.k, f.n, s.s, s.s, f.n, s.e;

SELECT COUNT(*), SUM(f.n), MIN(s.e), MAX(f.n), AVG(s.e) FROM notes f, smalls s WHERE f.n = s.s AND f.n > 20;

SELECT f.k, f.n, s.s, s.s, s.e FROM notes f LEFT JOIN smalls s ON f.n = s.s ORDER BY f.k, f.n, s.s, s.s, s.e;

SELECT f.k, f.n, s.s, s.s FROM notes f LEFT JOIN smalls s ON f.n = s.s AND s.s < 9 ORDER BY f.k, f.n, s.s, s.s;

SELECT f.k, f.n, s.s, s.s FROM notes f LEFT JOIN smalls s ON f.n = s.s AND f.c = 'ann' ORDER BY f.k, f.n, s.s, s.s;

SELECT f.k, f.n, s.s, s.s FROM notes f LEFT JOIN smalls s ON f.n = s.s WHERE s.s IS NULL ORDER BY f.k, f.n, s.s, s.s;

SELECT f.k, f.n, s.s, s.s FROM notes f RIGHT JOIN smalls s ON f.n = s.s ORDER BY f.k, f.n, s.s, s.s;

SELECT f.k, f.n, s.s, s.s FROM notes f RIGHT JOIN smalls s ON f.n = s.s AND f.c = 'ann' WHERE s.s < 9 ORDER BY f.k, f.n, s.s, s.s;

SELECT s.s, COUNT(*) AS n, COUNT(f.n) AS m, SUM(f.n) FROM smalls s LEFT JOIN notes f ON f.n = s.s GROUP BY s.s ORDER BY s.s;

SELECT f.n AS x, COUNT(*) AS n, COUNT(s.s) AS m FROM notes f LEFT JOIN smalls s ON f.n = s.s GROUP BY f.n ORDER BY x;

SELECT DISTINCT f.n, s.s FROM notes f LEFT JOIN smalls s ON f.n = s.s ORDER BY f.n, s.s;

SELECT DISTINCT f.n FROM notes f JOIN smalls s ON f.n = s.s ORDER BY f.n DESC LIMIT 7;

SELECT COUNT(DISTINCT f.n), COUNT(DISTINCT f.n), COUNT(DISTINCT s.s) FROM notes f LEFT JOIN smalls s ON f.n = s.s;

SELECT f.k, f.n FROM notes f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.n = s.s AND s.s < 9) ORDER BY f.k, f.n;

SELECT f.k, f.n FROM notes f WHERE NOT EXISTS (SELECT 1 FROM smalls s WHERE f.n = s.s) ORDER BY f.k, f.n;

SELECT s.s, s.s FROM smalls s WHERE EXISTS (SELECT * FROM notes f WHERE f.n = s.s AND f.c = 'ann') ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE NOT EXISTS (SELECT * FROM notes f WHERE f.n = s.s) ORDER BY s.s, s.s;

SELECT f.k, f.n, (SELECT COUNT(*) FROM smalls s WHERE f.n = s.s) AS n FROM notes f ORDER BY f.k, f.n;

SELECT s.s, s.s, (SELECT MAX(f.n) FROM notes f WHERE f.n = s.s) AS n FROM smalls s ORDER BY s.s, s.s;

SELECT f.k, f.n FROM notes f WHERE f.n IN (SELECT s.s FROM smalls s WHERE s.c = 'ann') ORDER BY f.k, f.n;

SELECT f.k, f.n FROM notes f WHERE f.n NOT IN (SELECT s.s FROM smalls s WHERE s.s < 9) ORDER BY f.k, f.n;

SELECT s.s, s.s FROM smalls s WHERE s.s IN (SELECT f.n FROM notes f WHERE f.c = 'ann') ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE s.s NOT IN (SELECT f.n FROM notes f) ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE s.s NOT IN (SELECT f.n FROM notes f WHERE f.n IS NOT NULL) ORDER BY s.s, s.s;

SELECT f.k, f.n, s.s, s.s FROM notes f JOIN smalls s ON f.n = s.s WHERE f.n = 5 ORDER BY f.k, f.n, s.s, s.s;

SELECT f.k, f.n, s.s, s.s FROM notes f LEFT JOIN smalls s ON f.n = s.s WHERE f.n IN (2, 5, NULL) OR f.n IS NULL ORDER BY f.k, f.n, s.s, s.s;

SELECT f.k, f.n, s.s, s.s FROM notes f LEFT JOIN smalls s ON f.n = s.s WHERE f.n <=> NULL ORDER BY f.k, f.n, s.s, s.s;

SELECT f.k, f.n, s.s, s.s FROM notes f LEFT JOIN smalls s ON f.n = s.s WHERE f.n BETWEEN 3 AND 9 ORDER BY f.k, f.n, s.s, s.s;

SELECT COUNT(*) FROM notes f JOIN smalls s ON f.n <=> s.s;

SELECT COUNT(*) FROM notes f LEFT JOIN smalls s ON f.n <=> s.s;

SELECT f.k, SUM(f.n) OVER (PARTITION BY f.n) AS w FROM notes f LEFT JOIN smalls s ON f.n = s.s ORDER BY f.k, w;

SELECT q.x, COUNT(*), SUM(q.n) FROM (SELECT f.n AS x, COUNT(s.s) AS n FROM notes f LEFT JOIN smalls s ON f.n = s.s GROUP BY f.n) q GROUP BY q.x ORDER BY q.x;

SELECT s.s, q.n FROM smalls s JOIN (SELECT f.n AS x, COUNT(*) AS n FROM notes f GROUP BY f.n) q ON q.x = s.s ORDER BY s.s, q.n;

SELECT s.s, SUM(f.n) / COUNT(*) FROM notes f JOIN smalls s ON f.n = s.s GROUP BY s.s HAVING COUNT(*) > 1 ORDER BY s.s;

SELECT s.s, s.s, f.k, f.id, s.e, f.amount FROM smalls s JOIN facts f ON f.k = s.b AND s.c = f.c ORDER BY s.s, s.s, f.k, f.id, s.e, f.amount;

SELECT COUNT(*), SUM(s.e), MIN(f.amount), MAX(s.e), AVG(f.amount) FROM smalls s, facts f WHERE f.k = s.b AND s.c = f.c AND s.s < 9;

SELECT s.s, s.s, f.k, f.id, f.amount FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c ORDER BY s.s, s.s, f.k, f.id, f.amount;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c AND f.amount > 50 ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c AND s.c = 'ann' ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c WHERE f.k IS NULL ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s RIGHT JOIN facts f ON f.k = s.b AND s.c = f.c ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s RIGHT JOIN facts f ON f.k = s.b AND s.c = f.c AND s.c = 'ann' WHERE f.amount > 50 ORDER BY s.s, s.s, f.k, f.id;

SELECT f.k, COUNT(*) AS n, COUNT(s.s) AS m, SUM(s.e) FROM facts f LEFT JOIN smalls s ON f.k = s.b AND s.c = f.c GROUP BY f.k ORDER BY f.k;

SELECT s.b AS x, COUNT(*) AS n, COUNT(f.id) AS m FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c GROUP BY s.b ORDER BY x;

SELECT DISTINCT s.b, f.k FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c ORDER BY s.b, f.k;

SELECT DISTINCT s.e FROM smalls s JOIN facts f ON f.k = s.b AND s.c = f.c ORDER BY s.e DESC LIMIT 7;

SELECT COUNT(DISTINCT s.b), COUNT(DISTINCT s.s), COUNT(DISTINCT f.k) FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c;

SELECT s.s, s.s FROM smalls s WHERE EXISTS (SELECT 1 FROM facts f WHERE f.k = s.b AND s.c = f.c AND f.amount > 50) ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE NOT EXISTS (SELECT 1 FROM facts f WHERE f.k = s.b AND s.c = f.c) ORDER BY s.s, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT * FROM smalls s WHERE f.k = s.b AND s.c = f.c AND s.c = 'ann') ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.k = s.b AND s.c = f.c) ORDER BY f.k, f.id;

SELECT s.s, s.s, (SELECT COUNT(*) FROM facts f WHERE f.k = s.b AND s.c = f.c) AS n FROM smalls s ORDER BY s.s, s.s;

SELECT f.k, f.id, (SELECT MAX(s.e) FROM smalls s WHERE f.k = s.b AND s.c = f.c) AS n FROM facts f ORDER BY f.k, f.id;

SELECT s.s, s.s FROM smalls s WHERE s.b IN (SELECT f.k FROM facts f WHERE f.g = 'new') ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE s.b NOT IN (SELECT f.k FROM facts f WHERE f.amount > 50) ORDER BY s.s, s.s;

SELECT f.k, f.id FROM facts f WHERE f.k IN (SELECT s.b FROM smalls s WHERE s.c = 'ann') ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.k NOT IN (SELECT s.b FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.k NOT IN (SELECT s.b FROM smalls s WHERE s.b IS NOT NULL) ORDER BY f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s JOIN facts f ON f.k = s.b AND s.c = f.c WHERE s.b = 5 ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c WHERE s.b IN (2, 5, NULL) OR s.b IS NULL ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c WHERE s.b <=> NULL ORDER BY s.s, s.s, f.k, f.id;

SELECT s.s, s.s, f.k, f.id FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c WHERE s.b BETWEEN 3 AND 9 ORDER BY s.s, s.s, f.k, f.id;

SELECT COUNT(*) FROM smalls s JOIN facts f ON s.b <=> f.k;

SELECT COUNT(*) FROM smalls s LEFT JOIN facts f ON s.b <=> f.k;

SELECT s.s, SUM(s.e) OVER (PARTITION BY s.b) AS w FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c ORDER BY s.s, w;

SELECT q.x, COUNT(*), SUM(q.n) FROM (SELECT s.b AS x, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.k = s.b AND s.c = f.c GROUP BY s.b) q GROUP BY q.x ORDER BY q.x;

SELECT f.k, q.n FROM facts f JOIN (SELECT s.b AS x, COUNT(*) AS n FROM smalls s GROUP BY s.b) q ON q.x = f.k ORDER BY f.k, q.n;

SELECT f.k, SUM(s.e) / COUNT(*) FROM smalls s JOIN facts f ON f.k = s.b AND s.c = f.c GROUP BY f.k HAVING COUNT(*) > 1 ORDER BY f.k;

SELECT s.t, s.w, f.k, f.id, s.w, f.amount FROM tags s JOIN facts f ON s.a = f.k ORDER BY s.t, s.w, f.k, f.id, s.w, f.amount;

SELECT COUNT(*), SUM(s.w), MIN(f.amount), MAX(s.w), AVG(f.amount) FROM tags s, facts f WHERE s.a = f.k AND s.w > 4;

SELECT s.t, s.w, f.k, f.id, f.amount FROM tags s LEFT JOIN facts f ON s.a = f.k ORDER BY s.t, s.w, f.k, f.id, f.amount;

SELECT s.t, s.w, f.k, f.id FROM tags s LEFT JOIN facts f ON s.a = f.k AND f.amount > 50 ORDER BY s.t, s.w, f.k, f.id;

SELECT s.t, s.w, f.k, f.id FROM tags s LEFT JOIN facts f ON s.a = f.k AND s.c = 'zoe' ORDER BY s.t, s.w, f.k, f.id;

SELECT s.t, s.w, f.k, f.id FROM tags s LEFT JOIN facts f ON s.a = f.k WHERE f.k IS NULL ORDER BY s.t, s.w, f.k, f.id;

SELECT s.t, s.w, f.k, f.id FROM tags s RIGHT JOIN facts f ON s.a = f.k ORDER BY s.t, s.w, f.k, f.id;

SELECT s.t, s.w, f.k, f.id FROM tags s RIGHT JOIN facts f ON s.a = f.k AND s.c = 'zoe' WHERE f.amount > 50 ORDER BY s.t, s.w, f.k, f.id;

SELECT f.k, COUNT(*) AS n, COUNT(s.w) AS m, SUM(s.w) FROM facts f LEFT JOIN tags s ON s.a = f.k GROUP BY f.k ORDER BY f.k;

SELECT s.a AS x, COUNT(*) AS n, COUNT(f.id) AS m FROM tags s LEFT JOIN facts f ON s.a = f.k GROUP BY s.a ORDER BY x;

SELECT DISTINCT s.a, f.k FROM tags s LEFT JOIN facts f ON s.a = f.k ORDER BY s.a, f.k;

SELECT DISTINCT s.w FROM tags s JOIN facts f ON s.a = f.k ORDER BY s.w DESC LIMIT 7;

SELECT COUNT(DISTINCT s.a), COUNT(DISTINCT s.w), COUNT(DISTINCT f.k) FROM tags s LEFT JOIN facts f ON s.a = f.k;

SELECT s.t, s.w FROM tags s WHERE EXISTS (SELECT 1 FROM facts f WHERE s.a = f.k AND f.amount > 50) ORDER BY s.t, s.w;

SELECT s.t, s.w FROM tags s WHERE NOT EXISTS (SELECT 1 FROM facts f WHERE s.a = f.k) ORDER BY s.t, s.w;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT * FROM tags s WHERE s.a = f.k AND s.c = 'zoe') ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM tags s WHERE s.a = f.k) ORDER BY f.k, f.id;

SELECT s.t, s.w, (SELECT COUNT(*) FROM facts f WHERE s.a = f.k) AS n FROM tags s ORDER BY s.t, s.w;

SELECT f.k, f.id, (SELECT MAX(s.w) FROM tags s WHERE s.a = f.k) AS n FROM facts f ORDER BY f.k, f.id;

SELECT s.t, s.w FROM tags s WHERE s.a IN (SELECT f.k FROM facts f WHERE f.g = 'new') ORDER BY s.t, s.w;

SELECT s.t, s.w FROM tags s WHERE s.a NOT IN (SELECT f.k FROM facts f WHERE f.amount > 50) ORDER BY s.t, s.w;

SELECT f.k, f.id FROM facts f WHERE f.k IN (SELECT s.a FROM tags s WHERE s.c = 'zoe') ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.k NOT IN (SELECT s.a FROM tags s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.k NOT IN (SELECT s.a FROM tags s WHERE s.a IS NOT NULL) ORDER BY f.k, f.id;

SELECT s.t, s.w, f.k, f.id FROM tags s JOIN facts f ON s.a = f.k WHERE s.a = 5 ORDER BY s.t, s.w, f.k, f.id;

SELECT s.t, s.w, f.k, f.id FROM tags s LEFT JOIN facts f ON s.a = f.k WHERE s.a IN (2, 5, NULL) OR s.a IS NULL ORDER BY s.t, s.w, f.k, f.id;

SELECT s.t, s.w, f.k, f.id FROM tags s LEFT JOIN facts f ON s.a = f.k WHERE s.a <=> NULL ORDER BY s.t, s.w, f.k, f.id;

SELECT s.t, s.w, f.k, f.id FROM tags s LEFT JOIN facts f ON s.a = f.k WHERE s.a BETWEEN 3 AND 9 ORDER BY s.t, s.w, f.k, f.id;

SELECT COUNT(*) FROM tags s JOIN facts f ON s.a <=> f.k;

SELECT COUNT(*) FROM tags s LEFT JOIN facts f ON s.a <=> f.k;

SELECT s.t, SUM(s.w) OVER (PARTITION BY s.a) AS w FROM tags s LEFT JOIN facts f ON s.a = f.k ORDER BY s.t, w;

SELECT q.x, COUNT(*), SUM(q.n) FROM (SELECT s.a AS x, COUNT(f.id) AS n FROM tags s LEFT JOIN facts f ON s.a = f.k GROUP BY s.a) q GROUP BY q.x ORDER BY q.x;

SELECT f.k, q.n FROM facts f JOIN (SELECT s.a AS x, COUNT(*) AS n FROM tags s GROUP BY s.a) q ON q.x = f.k ORDER BY f.k, q.n;

SELECT f.k, SUM(s.w) / COUNT(*) FROM tags s JOIN facts f ON s.a = f.k GROUP BY f.k HAVING COUNT(*) > 1 ORDER BY f.k;

SELECT f.k, f.id, s.t, s.w, f.amount, s.w FROM facts f JOIN tags s ON f.a = s.t ORDER BY f.k, f.id, s.t, s.w, f.amount, s.w;

SELECT COUNT(*), SUM(f.amount), MIN(s.w), MAX(f.amount), AVG(s.w) FROM facts f, tags s WHERE f.a = s.t AND f.amount > 50;

SELECT f.k, f.id, s.t, s.w, s.w FROM facts f LEFT JOIN tags s ON f.a = s.t ORDER BY f.k, f.id, s.t, s.w, s.w;

SELECT f.k, f.id, s.t, s.w FROM facts f LEFT JOIN tags s ON f.a = s.t AND s.w > 4 ORDER BY f.k, f.id, s.t, s.w;

SELECT f.k, f.id, s.t, s.w FROM facts f LEFT JOIN tags s ON f.a = s.t AND f.g = 'new' ORDER BY f.k, f.id, s.t, s.w;

SELECT f.k, f.id, s.t, s.w FROM facts f LEFT JOIN tags s ON f.a = s.t WHERE s.t IS NULL ORDER BY f.k, f.id, s.t, s.w;

SELECT f.k, f.id, s.t, s.w FROM facts f RIGHT JOIN tags s ON f.a = s.t ORDER BY f.k, f.id, s.t, s.w;

SELECT f.k, f.id, s.t, s.w FROM facts f RIGHT JOIN tags s ON f.a = s.t AND f.g = 'new' WHERE s.w > 4 ORDER BY f.k, f.id, s.t, s.w;

SELECT s.t, COUNT(*) AS n, COUNT(f.id) AS m, SUM(f.amount) FROM tags s LEFT JOIN facts f ON f.a = s.t GROUP BY s.t ORDER BY s.t;

SELECT f.a AS x, COUNT(*) AS n, COUNT(s.w) AS m FROM facts f LEFT JOIN tags s ON f.a = s.t GROUP BY f.a ORDER BY x;

SELECT DISTINCT f.a, s.t FROM facts f LEFT JOIN tags s ON f.a = s.t ORDER BY f.a, s.t;

SELECT DISTINCT f.amount FROM facts f JOIN tags s ON f.a = s.t ORDER BY f.amount DESC LIMIT 7;

SELECT COUNT(DISTINCT f.a), COUNT(DISTINCT f.id), COUNT(DISTINCT s.t) FROM facts f LEFT JOIN tags s ON f.a = s.t;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM tags s WHERE f.a = s.t AND s.w > 4) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT 1 FROM tags s WHERE f.a = s.t) ORDER BY f.k, f.id;

SELECT s.t, s.w FROM tags s WHERE EXISTS (SELECT * FROM facts f WHERE f.a = s.t AND f.g = 'new') ORDER BY s.t, s.w;

SELECT s.t, s.w FROM tags s WHERE NOT EXISTS (SELECT * FROM facts f WHERE f.a = s.t) ORDER BY s.t, s.w;

SELECT f.k, f.id, (SELECT COUNT(*) FROM tags s WHERE f.a = s.t) AS n FROM facts f ORDER BY f.k, f.id;

SELECT s.t, s.w, (SELECT MAX(f.amount) FROM facts f WHERE f.a = s.t) AS n FROM tags s ORDER BY s.t, s.w;

SELECT f.k, f.id FROM facts f WHERE f.a IN (SELECT s.t FROM tags s WHERE s.c = 'zoe') ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a NOT IN (SELECT s.t FROM tags s WHERE s.w > 4) ORDER BY f.k, f.id;

SELECT s.t, s.w FROM tags s WHERE s.t IN (SELECT f.a FROM facts f WHERE f.g = 'new') ORDER BY s.t, s.w;

SELECT s.t, s.w FROM tags s WHERE s.t NOT IN (SELECT f.a FROM facts f) ORDER BY s.t, s.w;

SELECT s.t, s.w FROM tags s WHERE s.t NOT IN (SELECT f.a FROM facts f WHERE f.a IS NOT NULL) ORDER BY s.t, s.w;

SELECT f.k, f.id, s.t, s.w FROM facts f JOIN tags s ON f.a = s.t WHERE f.a = 5 ORDER BY f.k, f.id, s.t, s.w;

SELECT f.k, f.id, s.t, s.w FROM facts f LEFT JOIN tags s ON f.a = s.t WHERE f.a IN (2, 5, NULL) OR f.a IS NULL ORDER BY f.k, f.id, s.t, s.w;

SELECT f.k, f.id, s.t, s.w FROM facts f LEFT JOIN tags s ON f.a = s.t WHERE f.a <=> NULL ORDER BY f.k, f.id, s.t, s.w;

SELECT f.k, f.id, s.t, s.w FROM facts f LEFT JOIN tags s ON f.a = s.t WHERE f.a BETWEEN 3 AND 9 ORDER BY f.k, f.id, s.t, s.w;

SELECT COUNT(*) FROM facts f JOIN tags s ON f.a <=> s.t;

SELECT COUNT(*) FROM facts f LEFT JOIN tags s ON f.a <=> s.t;

SELECT f.k, SUM(f.amount) OVER (PARTITION BY f.a) AS w FROM facts f LEFT JOIN tags s ON f.a = s.t ORDER BY f.k, w;

SELECT q.x, COUNT(*), SUM(q.n) FROM (SELECT f.a AS x, COUNT(s.w) AS n FROM facts f LEFT JOIN tags s ON f.a = s.t GROUP BY f.a) q GROUP BY q.x ORDER BY q.x;

SELECT s.t, q.n FROM tags s JOIN (SELECT f.a AS x, COUNT(*) AS n FROM facts f GROUP BY f.a) q ON q.x = s.t ORDER BY s.t, q.n;

SELECT s.t, SUM(f.amount) / COUNT(*) FROM facts f JOIN tags s ON f.a = s.t GROUP BY s.t HAVING COUNT(*) > 1 ORDER BY s.t;

SELECT s.s, s.s, f.k, f.n, s.e, f.n FROM smalls s JOIN notes f ON s.a = f.k ORDER BY s.s, s.s, f.k, f.n, s.e, f.n;

SELECT COUNT(*), SUM(s.e), MIN(f.n), MAX(s.e), AVG(f.n) FROM smalls s, notes f WHERE s.a = f.k AND s.s < 9;

SELECT s.s, s.s, f.k, f.n, f.n FROM smalls s LEFT JOIN notes f ON s.a = f.k ORDER BY s.s, s.s, f.k, f.n, f.n;

SELECT s.s, s.s, f.k, f.n FROM smalls s LEFT JOIN notes f ON s.a = f.k AND f.n > 20 ORDER BY s.s, s.s, f.k, f.n;

SELECT s.s, s.s, f.k, f.n FROM smalls s LEFT JOIN notes f ON s.a = f.k AND s.c = 'ann' ORDER BY s.s, s.s, f.k, f.n;

SELECT s.s, s.s, f.k, f.n FROM smalls s LEFT JOIN notes f ON s.a = f.k WHERE f.k IS NULL ORDER BY s.s, s.s, f.k, f.n;

SELECT s.s, s.s, f.k, f.n FROM smalls s RIGHT JOIN notes f ON s.a = f.k ORDER BY s.s, s.s, f.k, f.n;

SELECT s.s, s.s, f.k, f.n FROM smalls s RIGHT JOIN notes f ON s.a = f.k AND s.c = 'ann' WHERE f.n > 20 ORDER BY s.s, s.s, f.k, f.n;

SELECT f.k, COUNT(*) AS n, COUNT(s.s) AS m, SUM(s.e) FROM notes f LEFT JOIN smalls s ON s.a = f.k GROUP BY f.k ORDER BY f.k;

SELECT s.a AS x, COUNT(*) AS n, COUNT(f.n) AS m FROM smalls s LEFT JOIN notes f ON s.a = f.k GROUP BY s.a ORDER BY x;

SELECT DISTINCT s.a, f.k FROM smalls s LEFT JOIN notes f ON s.a = f.k ORDER BY s.a, f.k;

SELECT DISTINCT s.e FROM smalls s JOIN notes f ON s.a = f.k ORDER BY s.e DESC LIMIT 7;

SELECT COUNT(DISTINCT s.a), COUNT(DISTINCT s.s), COUNT(DISTINCT f.k) FROM smalls s LEFT JOIN notes f ON s.a = f.k;

SELECT s.s, s.s FROM smalls s WHERE EXISTS (SELECT 1 FROM notes f WHERE s.a = f.k AND f.n > 20) ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE NOT EXISTS (SELECT 1 FROM notes f WHERE s.a = f.k) ORDER BY s.s, s.s;

SELECT f.k, f.n FROM notes f WHERE EXISTS (SELECT * FROM smalls s WHERE s.a = f.k AND s.c = 'ann') ORDER BY f.k, f.n;

SELECT f.k, f.n FROM notes f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE s.a = f.k) ORDER BY f.k, f.n;

SELECT s.s, s.s, (SELECT COUNT(*) FROM notes f WHERE s.a = f.k) AS n FROM smalls s ORDER BY s.s, s.s;

SELECT f.k, f.n, (SELECT MAX(s.e) FROM smalls s WHERE s.a = f.k) AS n FROM notes f ORDER BY f.k, f.n;

SELECT s.s, s.s FROM smalls s WHERE s.a IN (SELECT f.k FROM notes f WHERE f.c = 'ann') ORDER BY s.s, s.s;

SELECT s.s, s.s FROM smalls s WHERE s.a NOT IN (SELECT f.k FROM notes f WHERE f.n > 20) ORDER BY s.s, s.s;

SELECT f.k, f.n FROM notes f WHERE f.k IN (SELECT s.a FROM smalls s WHERE s.c = 'ann') ORDER BY f.k, f.n;

SELECT f.k, f.n FROM notes f WHERE f.k NOT IN (SELECT s.a FROM smalls s) ORDER BY f.k, f.n;

SELECT f.k, f.n FROM notes f WHERE f.k NOT IN (SELECT s.a FROM smalls s WHERE s.a IS NOT NULL) ORDER BY f.k, f.n;

SELECT s.s, s.s, f.k, f.n FROM smalls s JOIN notes f ON s.a = f.k WHERE s.a = 5 ORDER BY s.s, s.s, f.k, f.n;

SELECT s.s, s.s, f.k, f.n FROM smalls s LEFT JOIN notes f ON s.a = f.k WHERE s.a IN (2, 5, NULL) OR s.a IS NULL ORDER BY s.s, s.s, f.k, f.n;

SELECT s.s, s.s, f.k, f.n FROM smalls s LEFT JOIN notes f ON s.a = f.k WHERE s.a <=> NULL ORDER BY s.s, s.s, f.k, f.n;

SELECT s.s, s.s, f.k, f.n FROM smalls s LEFT JOIN notes f ON s.a = f.k WHERE s.a BETWEEN 3 AND 9 ORDER BY s.s, s.s, f.k, f.n;

SELECT COUNT(*) FROM smalls s JOIN notes f ON s.a <=> f.k;

SELECT COUNT(*) FROM smalls s LEFT JOIN notes f ON s.a <=> f.k;

SELECT s.s, SUM(s.e) OVER (PARTITION BY s.a) AS w FROM smalls s LEFT JOIN notes f ON s.a = f.k ORDER BY s.s, w;

SELECT q.x, COUNT(*), SUM(q.n) FROM (SELECT s.a AS x, COUNT(f.n) AS n FROM smalls s LEFT JOIN notes f ON s.a = f.k GROUP BY s.a) q GROUP BY q.x ORDER BY q.x;

SELECT f.k, q.n FROM notes f JOIN (SELECT s.a AS x, COUNT(*) AS n FROM smalls s GROUP BY s.a) q ON q.x = f.k ORDER BY f.k, q.n;

SELECT f.k, SUM(s.e) / COUNT(*) FROM smalls s JOIN notes f ON s.a = f.k GROUP BY f.k HAVING COUNT(*) > 1 ORDER BY f.k;

# Three tables, and more.
SELECT f.k, f.id, n.n, s.s FROM facts f JOIN notes n ON n.k = f.k JOIN smalls s ON s.a = f.k ORDER BY f.k, f.id, n.n, s.s;

SELECT f.k, f.id, n.n, s.s FROM smalls s LEFT JOIN facts f ON f.k = s.a LEFT JOIN notes n ON n.k = f.k ORDER BY f.k, f.id, n.n, s.s;

SELECT f.k, f.id, n.n, s.s FROM smalls s LEFT JOIN facts f ON f.k = s.a LEFT JOIN notes n ON n.k = s.a ORDER BY f.k, f.id, n.n, s.s;

SELECT f.k, f.id, n.n, s.s FROM smalls s LEFT JOIN (facts f JOIN notes n ON n.k = f.k) ON f.k = s.a ORDER BY f.k, f.id, n.n, s.s;

SELECT f.k, f.id, t.w, s.s FROM facts f JOIN smalls s ON s.a = f.k JOIN tags t ON t.a = f.k ORDER BY f.k, f.id, t.w, s.s;

SELECT f.k, f.id, t.w, s.s FROM smalls s JOIN tags t ON t.a = s.a JOIN facts f ON f.k = s.a ORDER BY f.k, f.id, t.w, s.s;

SELECT f.k, f.id, t.w, s.s FROM smalls s LEFT JOIN tags t ON t.a = s.a LEFT JOIN facts f ON f.k = s.a ORDER BY f.k, f.id, t.w, s.s;

SELECT f.k, f.id, t.w, s.s FROM smalls s LEFT JOIN tags t ON t.a = s.a LEFT JOIN facts f ON f.k = t.a ORDER BY f.k, f.id, t.w, s.s;

SELECT COUNT(*), SUM(f.amount), COUNT(t.w) FROM smalls s JOIN facts f ON f.k = s.a LEFT JOIN tags t ON t.t = s.s;

SELECT s.g, COUNT(*), SUM(f.amount), COUNT(DISTINCT t.w) FROM smalls s JOIN facts f ON f.k = s.a LEFT JOIN tags t ON t.a = s.a GROUP BY s.g ORDER BY s.g;

SELECT k.title, COUNT(*), SUM(f.amount) FROM facts f JOIN smalls s ON s.s = f.a LEFT JOIN kinds k ON k.g = s.g GROUP BY k.title ORDER BY k.title;

SELECT x.s, y.s, f.id FROM smalls x JOIN smalls y ON y.a = x.a JOIN facts f ON f.k = y.a ORDER BY x.s, y.s, f.id;

SELECT x.s, y.s, f.id FROM smalls x JOIN smalls y ON y.b = x.a JOIN facts f ON f.k = y.b ORDER BY x.s, y.s, f.id;

SELECT x.s, y.s FROM smalls x JOIN smalls y ON y.s = x.a ORDER BY x.s, y.s;

SELECT x.s, y.s FROM smalls x LEFT JOIN smalls y ON y.s = x.a ORDER BY x.s, y.s;

SELECT x.id, y.id FROM facts x JOIN facts y ON y.k = x.a WHERE x.amount > 300 ORDER BY x.id, y.id;

SELECT x.id, y.id FROM facts x LEFT JOIN facts y ON y.k = x.a AND y.amount > 300 ORDER BY x.id, y.id;

SELECT f.id, p.p, s.s FROM facts f JOIN smalls s ON s.s = f.a JOIN places p ON p.p = s.s ORDER BY f.id, p.p, s.s;

SELECT f.id, p.p FROM facts f JOIN places p ON p.p = f.k ORDER BY f.id, p.p;

SELECT f.id, p.p FROM places p LEFT JOIN facts f ON p.a = f.k ORDER BY f.id, p.p;

SELECT p.a, COUNT(*), COUNT(f.id) FROM places p LEFT JOIN facts f ON p.a = f.k GROUP BY p.a ORDER BY p.a;

SELECT f.id, s.s FROM facts f, smalls s WHERE (f.a = s.s AND f.g = 'new') OR (f.a = s.s AND s.g = 'old') ORDER BY f.id, s.s;

SELECT f.id, s.s FROM facts f, smalls s WHERE f.a = s.s OR f.k = s.a ORDER BY f.id, s.s;

SELECT f.id, s.s FROM facts f JOIN smalls s ON f.a + 0 = s.s ORDER BY f.id, s.s;

SELECT f.id, s.s FROM facts f JOIN smalls s ON f.e = s.s ORDER BY f.id, s.s;

SELECT f.k, n.n FROM notes n LEFT JOIN facts f ON f.k = n.a WHERE (n.a, 1) IN (SELECT s.s, 1 FROM smalls s) ORDER BY f.k, n.n;

SELECT f.id FROM facts f WHERE (f.a, f.g) IN (SELECT s.s, s.g FROM smalls s) ORDER BY f.id;

SELECT f.id FROM facts f WHERE f.a = ANY (SELECT s.s FROM smalls s WHERE s.s > 3) ORDER BY f.id;

SELECT f.id FROM facts f WHERE f.a <> ALL (SELECT s.s FROM smalls s) ORDER BY f.id;

SELECT n.k, n.n, s.s FROM notes n JOIN smalls s ON s.a = n.k AND s.s IN (SELECT t.t FROM tags t) ORDER BY n.k, n.n, s.s;

SELECT n.k, COUNT(*) FROM smalls s LEFT JOIN notes n ON s.a = n.k WHERE NOT EXISTS (SELECT 1 FROM facts f WHERE f.k = s.a AND f.amount > 200) GROUP BY n.k ORDER BY n.k;

SELECT s.s, (SELECT COUNT(*) FROM notes n WHERE n.k = f.k) AS m FROM smalls s LEFT JOIN facts f ON f.k = s.a ORDER BY s.s, m;

SELECT s.s, (SELECT COUNT(*) FROM notes n WHERE n.k = s.a) AS m FROM smalls s LEFT JOIN facts f ON f.k = s.a ORDER BY s.s, m;

SELECT s.a, MAX(f.amount), GROUP_CONCAT(DISTINCT f.k ORDER BY f.k) FROM smalls s LEFT JOIN facts f ON f.k = s.a GROUP BY s.a ORDER BY s.a;

SELECT s.a, ROW_NUMBER() OVER (PARTITION BY s.a ORDER BY s.s, f.id) AS r FROM smalls s LEFT JOIN facts f ON f.k = s.a ORDER BY s.a, r;

SELECT SUM(n) FROM (SELECT s.a, COUNT(*) AS n FROM smalls s LEFT JOIN notes x ON x.k = s.a GROUP BY s.a) d;

SELECT a FROM notes JOIN smalls USING (a) ORDER BY a;

SELECT s.s, f.id FROM smalls s LEFT JOIN facts f ON f.k = s.a ORDER BY s.s DESC, f.id LIMIT 5, 10;

SELECT s.g, COUNT(*) FROM smalls s LEFT JOIN facts f ON f.k = s.a WHERE f.amount IS NULL OR f.amount > 100 GROUP BY s.g ORDER BY COUNT(*), s.g;
