# Joins, semi-joins and outer joins with tables that lie elsewhere: by columns of each kind, with NULLs, texts that
# are equal in their collation alone, and duplicates on both sides.

# Inner joins by each kind of column, with a condition on the small side.
SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.a = s.a WHERE s.s < 6 ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.a = s.a AND (s.s < 6);

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.a = s.a AND (s.s < 6) GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.a = s.a AND (s.s < 6) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.a = s.a WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.a = s.a AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.a = s.a WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.a = s.a AND (s.s < 6)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.a = s.a AND (s.s < 6)) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.a = s.a) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.a = s.a) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON s.a = f.a AND f.g = s.g WHERE s.c = 'ann' ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE s.a = f.a AND f.g = s.g AND (s.c = 'ann');

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON s.a = f.a AND f.g = s.g AND (s.c = 'ann') GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON s.a = f.a AND f.g = s.g AND (s.c = 'ann') ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON s.a = f.a AND f.g = s.g WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON s.a = f.a AND f.g = s.g AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON s.a = f.a AND f.g = s.g WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE s.a = f.a AND f.g = s.g AND (s.c = 'ann')) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE s.a = f.a AND f.g = s.g AND (s.c = 'ann')) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE s.a = f.a AND f.g = s.g) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE s.a = f.a AND f.g = s.g) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.b = s.a WHERE s.a IS NOT NULL ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.b = s.a AND (s.a IS NOT NULL);

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.b = s.a AND (s.a IS NOT NULL) GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.b = s.a AND (s.a IS NOT NULL) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.b = s.a WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.b = s.a AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.b = s.a WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.b = s.a AND (s.a IS NOT NULL)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.b = s.a AND (s.a IS NOT NULL)) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.b = s.a) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.b = s.a) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.a = s.b WHERE s.e > 0 ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.a = s.b AND (s.e > 0);

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.a = s.b AND (s.e > 0) GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.a = s.b AND (s.e > 0) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.a = s.b WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.a = s.b AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.a = s.b WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.a = s.b AND (s.e > 0)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.a = s.b AND (s.e > 0)) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.a = s.b) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.a = s.b) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.c = s.c WHERE s.g IN ('new', 'odd') ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.c = s.c AND (s.g IN ('new', 'odd'));

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.c = s.c AND (s.g IN ('new', 'odd')) GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.c = s.c AND (s.g IN ('new', 'odd')) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.c = s.c WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.c = s.c AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.c = s.c WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.c = s.c AND (s.g IN ('new', 'odd'))) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.c = s.c AND (s.g IN ('new', 'odd'))) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.c = s.c) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.c = s.c) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.d = s.d WHERE s.f IS NULL OR s.s > 9 ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.d = s.d AND (s.f IS NULL OR s.s > 9);

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.d = s.d AND (s.f IS NULL OR s.s > 9) GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.d = s.d AND (s.f IS NULL OR s.s > 9) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.d = s.d WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.d = s.d AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.d = s.d WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.d = s.d AND (s.f IS NULL OR s.s > 9)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.d = s.d AND (s.f IS NULL OR s.s > 9)) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.d = s.d) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.d = s.d) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.e = s.e WHERE s.l <> 'x' ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.e = s.e AND (s.l <> 'x');

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.e = s.e AND (s.l <> 'x') GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.e = s.e AND (s.l <> 'x') ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.e = s.e WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.e = s.e AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.e = s.e WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.e = s.e AND (s.l <> 'x')) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.e = s.e AND (s.l <> 'x')) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.e = s.e) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.e = s.e) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.f = s.f WHERE s.s < 6 ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.f = s.f AND (s.s < 6);

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.f = s.f AND (s.s < 6) GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.f = s.f AND (s.s < 6) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.f = s.f WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.f = s.f AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.f = s.f WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.f = s.f AND (s.s < 6)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.f = s.f AND (s.s < 6)) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.f = s.f) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.f = s.f) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.g = s.g WHERE s.c = 'ann' ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.g = s.g AND (s.c = 'ann');

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.g = s.g AND (s.c = 'ann') GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.g = s.g AND (s.c = 'ann') ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.g = s.g WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.g = s.g AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.g = s.g WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.g = s.g AND (s.c = 'ann')) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.g = s.g AND (s.c = 'ann')) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.g = s.g) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.g = s.g) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.l = s.l WHERE s.a IS NOT NULL ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.l = s.l AND (s.a IS NOT NULL);

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.l = s.l AND (s.a IS NOT NULL) GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.l = s.l AND (s.a IS NOT NULL) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.l = s.l WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.l = s.l AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.l = s.l WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.l = s.l AND (s.a IS NOT NULL)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.l = s.l AND (s.a IS NOT NULL)) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.l = s.l) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.l = s.l) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.a <=> s.a WHERE s.e > 0 ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.a <=> s.a AND (s.e > 0);

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.a <=> s.a AND (s.e > 0) GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.a <=> s.a AND (s.e > 0) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.a <=> s.a WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.a <=> s.a AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.a <=> s.a WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.a <=> s.a AND (s.e > 0)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.a <=> s.a AND (s.e > 0)) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.a <=> s.a) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.a <=> s.a) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.a < s.a WHERE s.g IN ('new', 'odd') ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.a < s.a AND (s.g IN ('new', 'odd'));

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.a < s.a AND (s.g IN ('new', 'odd')) GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.a < s.a AND (s.g IN ('new', 'odd')) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.a < s.a WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.a < s.a AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.a < s.a WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.a < s.a AND (s.g IN ('new', 'odd'))) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.a < s.a AND (s.g IN ('new', 'odd'))) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.a < s.a) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.a < s.a) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.a BETWEEN s.a AND s.b WHERE s.f IS NULL OR s.s > 9 ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.a BETWEEN s.a AND s.b AND (s.f IS NULL OR s.s > 9);

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.a BETWEEN s.a AND s.b AND (s.f IS NULL OR s.s > 9) GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.a BETWEEN s.a AND s.b AND (s.f IS NULL OR s.s > 9) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.a BETWEEN s.a AND s.b WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.a BETWEEN s.a AND s.b AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.a BETWEEN s.a AND s.b WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.a BETWEEN s.a AND s.b AND (s.f IS NULL OR s.s > 9)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.a BETWEEN s.a AND s.b AND (s.f IS NULL OR s.s > 9)) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.a BETWEEN s.a AND s.b) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.a BETWEEN s.a AND s.b) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.c = s.d COLLATE utf8mb4_general_ci WHERE s.l <> 'x' ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.c = s.d COLLATE utf8mb4_general_ci AND (s.l <> 'x');

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.c = s.d COLLATE utf8mb4_general_ci AND (s.l <> 'x') GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.c = s.d COLLATE utf8mb4_general_ci AND (s.l <> 'x') ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.c = s.d COLLATE utf8mb4_general_ci WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.c = s.d COLLATE utf8mb4_general_ci AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.c = s.d COLLATE utf8mb4_general_ci WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.c = s.d COLLATE utf8mb4_general_ci AND (s.l <> 'x')) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.c = s.d COLLATE utf8mb4_general_ci AND (s.l <> 'x')) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.c = s.d COLLATE utf8mb4_general_ci) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.c = s.d COLLATE utf8mb4_general_ci) > f.e;

SELECT f.k, f.id, s.s, s.c, f.amount FROM facts f JOIN smalls s ON f.c LIKE s.d COLLATE utf8mb4_general_ci WHERE s.s < 6 ORDER BY f.k, f.id, s.s;

SELECT COUNT(*), SUM(f.amount), MIN(s.e), MAX(f.f) FROM facts f, smalls s WHERE f.c LIKE s.d COLLATE utf8mb4_general_ci AND (s.s < 6);

SELECT s.g, COUNT(*) AS n, SUM(f.amount) AS total FROM smalls s JOIN facts f ON f.c LIKE s.d COLLATE utf8mb4_general_ci AND (s.s < 6) GROUP BY s.g ORDER BY s.g;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.c LIKE s.d COLLATE utf8mb4_general_ci AND (s.s < 6) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, s.s FROM facts f LEFT JOIN smalls s ON f.c LIKE s.d COLLATE utf8mb4_general_ci WHERE s.s IS NULL AND f.amount > 0 ORDER BY f.k, f.id;

SELECT s.s, COUNT(f.id) AS n FROM smalls s LEFT JOIN facts f ON f.c LIKE s.d COLLATE utf8mb4_general_ci AND f.amount > 50 GROUP BY s.s ORDER BY s.s;

SELECT f.k, f.id, s.s FROM smalls s RIGHT JOIN facts f ON f.c LIKE s.d COLLATE utf8mb4_general_ci WHERE f.k < 20 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM smalls s WHERE f.c LIKE s.d COLLATE utf8mb4_general_ci AND (s.s < 6)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT * FROM smalls s WHERE f.c LIKE s.d COLLATE utf8mb4_general_ci AND (s.s < 6)) ORDER BY f.k, f.id;

SELECT f.k, f.id, (SELECT COUNT(*) FROM smalls s WHERE f.c LIKE s.d COLLATE utf8mb4_general_ci) AS n FROM facts f WHERE f.amount < 100 ORDER BY f.k, f.id;

SELECT COUNT(*) FROM facts f WHERE (SELECT MAX(s.e) FROM smalls s WHERE f.c LIKE s.d COLLATE utf8mb4_general_ci) > f.e;


# IN and NOT IN, with NULLs on either side.
SELECT f.k, f.id FROM facts f WHERE f.a IN (SELECT s.a FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a IN (SELECT a FROM smalls WHERE s < 8) AND f.amount > 10 ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a NOT IN (SELECT s.a FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a NOT IN (SELECT s.a FROM smalls s WHERE s.a IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a NOT IN (SELECT s.a FROM smalls s WHERE s.s < 0) ORDER BY f.k, f.id;

SELECT f.k, f.id, f.a IN (SELECT s.a FROM smalls s WHERE s.s > 4) AS is_in FROM facts f ORDER BY f.k, f.id;

SELECT COUNT(*), COUNT(f.a IN (SELECT s.a FROM smalls s)) FROM facts f;

SELECT f.k, f.id FROM facts f WHERE f.a = ANY (SELECT s.a FROM smalls s WHERE s.s > 3) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a <> ALL (SELECT s.a FROM smalls s WHERE s.a IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.c IN (SELECT s.c FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.c IN (SELECT c FROM smalls WHERE s < 8) AND f.amount > 10 ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.c NOT IN (SELECT s.c FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.c NOT IN (SELECT s.c FROM smalls s WHERE s.c IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.c NOT IN (SELECT s.c FROM smalls s WHERE s.s < 0) ORDER BY f.k, f.id;

SELECT f.k, f.id, f.c IN (SELECT s.c FROM smalls s WHERE s.s > 4) AS is_in FROM facts f ORDER BY f.k, f.id;

SELECT COUNT(*), COUNT(f.c IN (SELECT s.c FROM smalls s)) FROM facts f;

SELECT f.k, f.id FROM facts f WHERE f.c = ANY (SELECT s.c FROM smalls s WHERE s.s > 3) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.c <> ALL (SELECT s.c FROM smalls s WHERE s.c IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.d IN (SELECT s.d FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.d IN (SELECT d FROM smalls WHERE s < 8) AND f.amount > 10 ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.d NOT IN (SELECT s.d FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.d NOT IN (SELECT s.d FROM smalls s WHERE s.d IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.d NOT IN (SELECT s.d FROM smalls s WHERE s.s < 0) ORDER BY f.k, f.id;

SELECT f.k, f.id, f.d IN (SELECT s.d FROM smalls s WHERE s.s > 4) AS is_in FROM facts f ORDER BY f.k, f.id;

SELECT COUNT(*), COUNT(f.d IN (SELECT s.d FROM smalls s)) FROM facts f;

SELECT f.k, f.id FROM facts f WHERE f.d = ANY (SELECT s.d FROM smalls s WHERE s.s > 3) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.d <> ALL (SELECT s.d FROM smalls s WHERE s.d IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.e IN (SELECT s.e FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.e IN (SELECT e FROM smalls WHERE s < 8) AND f.amount > 10 ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.e NOT IN (SELECT s.e FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.e NOT IN (SELECT s.e FROM smalls s WHERE s.e IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.e NOT IN (SELECT s.e FROM smalls s WHERE s.s < 0) ORDER BY f.k, f.id;

SELECT f.k, f.id, f.e IN (SELECT s.e FROM smalls s WHERE s.s > 4) AS is_in FROM facts f ORDER BY f.k, f.id;

SELECT COUNT(*), COUNT(f.e IN (SELECT s.e FROM smalls s)) FROM facts f;

SELECT f.k, f.id FROM facts f WHERE f.e = ANY (SELECT s.e FROM smalls s WHERE s.s > 3) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.e <> ALL (SELECT s.e FROM smalls s WHERE s.e IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.f IN (SELECT s.f FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.f IN (SELECT f FROM smalls WHERE s < 8) AND f.amount > 10 ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.f NOT IN (SELECT s.f FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.f NOT IN (SELECT s.f FROM smalls s WHERE s.f IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.f NOT IN (SELECT s.f FROM smalls s WHERE s.s < 0) ORDER BY f.k, f.id;

SELECT f.k, f.id, f.f IN (SELECT s.f FROM smalls s WHERE s.s > 4) AS is_in FROM facts f ORDER BY f.k, f.id;

SELECT COUNT(*), COUNT(f.f IN (SELECT s.f FROM smalls s)) FROM facts f;

SELECT f.k, f.id FROM facts f WHERE f.f = ANY (SELECT s.f FROM smalls s WHERE s.s > 3) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.f <> ALL (SELECT s.f FROM smalls s WHERE s.f IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.g IN (SELECT s.g FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.g IN (SELECT g FROM smalls WHERE s < 8) AND f.amount > 10 ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.g NOT IN (SELECT s.g FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.g NOT IN (SELECT s.g FROM smalls s WHERE s.g IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.g NOT IN (SELECT s.g FROM smalls s WHERE s.s < 0) ORDER BY f.k, f.id;

SELECT f.k, f.id, f.g IN (SELECT s.g FROM smalls s WHERE s.s > 4) AS is_in FROM facts f ORDER BY f.k, f.id;

SELECT COUNT(*), COUNT(f.g IN (SELECT s.g FROM smalls s)) FROM facts f;

SELECT f.k, f.id FROM facts f WHERE f.g = ANY (SELECT s.g FROM smalls s WHERE s.s > 3) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.g <> ALL (SELECT s.g FROM smalls s WHERE s.g IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.l IN (SELECT s.l FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.l IN (SELECT l FROM smalls WHERE s < 8) AND f.amount > 10 ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.l NOT IN (SELECT s.l FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.l NOT IN (SELECT s.l FROM smalls s WHERE s.l IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.l NOT IN (SELECT s.l FROM smalls s WHERE s.s < 0) ORDER BY f.k, f.id;

SELECT f.k, f.id, f.l IN (SELECT s.l FROM smalls s WHERE s.s > 4) AS is_in FROM facts f ORDER BY f.k, f.id;

SELECT COUNT(*), COUNT(f.l IN (SELECT s.l FROM smalls s)) FROM facts f;

SELECT f.k, f.id FROM facts f WHERE f.l = ANY (SELECT s.l FROM smalls s WHERE s.s > 3) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.l <> ALL (SELECT s.l FROM smalls s WHERE s.l IS NOT NULL) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE (f.a, f.c) IN (SELECT s.a, s.c FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE (f.a, f.c) NOT IN (SELECT s.a, s.c FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a > ALL (SELECT s.a FROM smalls s WHERE s.s < 4) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a >= (SELECT AVG(s.a) FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a = (SELECT s.a FROM smalls s WHERE s.s = 3) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a = (SELECT s.a FROM smalls s) ORDER BY f.k, f.id;


# Several tables that lie elsewhere, and those that lie with the facts.
SELECT f.k, f.id, s.s, t.t, t.w FROM facts f JOIN smalls s ON f.a = s.a JOIN tags t ON t.a = s.a WHERE t.w < 12 AND s.s < 10 ORDER BY f.k, f.id, s.s, t.t, t.w;

SELECT COUNT(*), SUM(t.w) FROM facts f JOIN smalls s ON f.a = s.a JOIN tags t ON t.a = f.a;

SELECT f.k, f.id, t.w FROM facts f LEFT JOIN tags t ON t.a = f.a AND t.w > 8 ORDER BY f.k, f.id, t.w;

SELECT f.k, f.id, s.s, t.w FROM facts f LEFT JOIN smalls s ON s.a = f.a LEFT JOIN tags t ON t.a = s.a AND t.w < 6 ORDER BY f.k, f.id, s.s, t.w;

SELECT f.k, f.id, s.s, t.w FROM facts f LEFT JOIN (smalls s JOIN tags t ON t.a = s.a) ON s.a = f.a WHERE f.amount > 200 ORDER BY f.k, f.id, s.s, t.w;

SELECT f.k, f.id, p.p FROM facts f JOIN places p ON p.a = f.a ORDER BY f.k, f.id, p.p;

SELECT p.p, COUNT(*), SUM(f.amount) FROM facts f JOIN places p ON p.a = f.a GROUP BY p.p ORDER BY p.p;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT 1 FROM places p WHERE p.a = f.a) ORDER BY f.k, f.id;

SELECT f.k, f.id, n.n, s.s FROM facts f JOIN notes n ON n.k = f.k JOIN smalls s ON s.a = n.a WHERE s.s > 5 ORDER BY f.k, f.id, n.n, s.s;

SELECT s.a, COUNT(*) AS n FROM facts f JOIN notes n ON n.k = f.k JOIN smalls s ON s.a = n.a AND s.a = f.a GROUP BY s.a ORDER BY s.a;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM notes n JOIN smalls s ON s.a = n.a WHERE n.k = f.k) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a IN (SELECT s.a FROM smalls s WHERE s.a IN (SELECT t.a FROM tags t WHERE t.w < 15)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a IN (SELECT s.a FROM smalls s WHERE NOT EXISTS (SELECT 1 FROM tags t WHERE t.a = s.a)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.a IN (SELECT s.a FROM smalls s WHERE s.a IN (SELECT g.a FROM facts g WHERE g.k = f.k)) ORDER BY f.k, f.id;

SELECT f.k, f.id, k.title, s.s FROM facts f JOIN kinds k ON k.g = f.g JOIN smalls s ON s.a = f.a ORDER BY f.k, f.id, s.s;

SELECT k.title, COUNT(*) FROM facts f JOIN smalls s ON s.a = f.a JOIN kinds k ON k.g = s.g GROUP BY k.title ORDER BY k.title;

SELECT f.k, f.id, o.s, x.s FROM facts f JOIN smalls o ON o.a = f.a JOIN smalls x ON x.a = f.a WHERE o.s < x.s ORDER BY f.k, f.id, o.s, x.s;

SELECT f.k, f.id, n.n FROM facts f JOIN notes n ON n.a = f.a WHERE n.n < 9 ORDER BY f.k, f.id, n.n;

SELECT f.k, f.id, g.k, g.id FROM facts f JOIN facts g ON g.a = f.a WHERE g.amount > 420 AND f.amount > 300 ORDER BY 1, 2, 3, 4;

SELECT n.k, n.n FROM notes n WHERE n.a IN (SELECT s.a FROM smalls s) AND n.a NOT IN (SELECT t.a FROM tags t WHERE t.a IS NOT NULL) ORDER BY n.k, n.n;

SELECT f.k, f.id, s.s, t.t, t.w FROM facts f JOIN smalls s ON f.c = s.c JOIN tags t ON t.c = s.c WHERE t.w < 12 AND s.s < 10 ORDER BY f.k, f.id, s.s, t.t, t.w;

SELECT COUNT(*), SUM(t.w) FROM facts f JOIN smalls s ON f.c = s.c JOIN tags t ON t.c = f.c;

SELECT f.k, f.id, t.w FROM facts f LEFT JOIN tags t ON t.c = f.c AND t.w > 8 ORDER BY f.k, f.id, t.w;

SELECT f.k, f.id, s.s, t.w FROM facts f LEFT JOIN smalls s ON s.c = f.c LEFT JOIN tags t ON t.c = s.c AND t.w < 6 ORDER BY f.k, f.id, s.s, t.w;

SELECT f.k, f.id, s.s, t.w FROM facts f LEFT JOIN (smalls s JOIN tags t ON t.c = s.c) ON s.c = f.c WHERE f.amount > 200 ORDER BY f.k, f.id, s.s, t.w;

SELECT f.k, f.id, p.p FROM facts f JOIN places p ON p.c = f.c ORDER BY f.k, f.id, p.p;

SELECT p.p, COUNT(*), SUM(f.amount) FROM facts f JOIN places p ON p.c = f.c GROUP BY p.p ORDER BY p.p;

SELECT f.k, f.id FROM facts f WHERE NOT EXISTS (SELECT 1 FROM places p WHERE p.c = f.c) ORDER BY f.k, f.id;

SELECT f.k, f.id, n.n, s.s FROM facts f JOIN notes n ON n.k = f.k JOIN smalls s ON s.c = n.c WHERE s.s > 5 ORDER BY f.k, f.id, n.n, s.s;

-- free: 1
SELECT s.c, COUNT(*) AS n FROM facts f JOIN notes n ON n.k = f.k JOIN smalls s ON s.c = n.c AND s.c = f.c GROUP BY s.c ORDER BY s.c;

SELECT f.k, f.id FROM facts f WHERE EXISTS (SELECT 1 FROM notes n JOIN smalls s ON s.c = n.c WHERE n.k = f.k) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.c IN (SELECT s.c FROM smalls s WHERE s.c IN (SELECT t.c FROM tags t WHERE t.w < 15)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.c IN (SELECT s.c FROM smalls s WHERE NOT EXISTS (SELECT 1 FROM tags t WHERE t.c = s.c)) ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f WHERE f.c IN (SELECT s.c FROM smalls s WHERE s.c IN (SELECT g.c FROM facts g WHERE g.k = f.k)) ORDER BY f.k, f.id;

SELECT f.k, f.id, k.title, s.s FROM facts f JOIN kinds k ON k.g = f.g JOIN smalls s ON s.c = f.c ORDER BY f.k, f.id, s.s;

SELECT k.title, COUNT(*) FROM facts f JOIN smalls s ON s.c = f.c JOIN kinds k ON k.g = s.g GROUP BY k.title ORDER BY k.title;

SELECT f.k, f.id, o.s, x.s FROM facts f JOIN smalls o ON o.c = f.c JOIN smalls x ON x.c = f.c WHERE o.s < x.s ORDER BY f.k, f.id, o.s, x.s;

SELECT f.k, f.id, n.n FROM facts f JOIN notes n ON n.c = f.c WHERE n.n < 9 ORDER BY f.k, f.id, n.n;

SELECT f.k, f.id, g.k, g.id FROM facts f JOIN facts g ON g.c = f.c WHERE g.amount > 420 AND f.amount > 300 ORDER BY 1, 2, 3, 4;

SELECT n.k, n.n FROM notes n WHERE n.c IN (SELECT s.c FROM smalls s) AND n.c NOT IN (SELECT t.c FROM tags t WHERE t.c IS NOT NULL) ORDER BY n.k, n.n;


# Groups, DISTINCT, ORDER BY, LIMIT, HAVING, expressions of aggregates, windows.
SELECT DISTINCT s.a FROM facts f JOIN smalls s ON s.a = f.a ORDER BY s.a;

SELECT f.a, COUNT(*) AS n, COUNT(DISTINCT f.k) AS keys_of FROM facts f JOIN smalls s ON s.a = f.a GROUP BY f.a ORDER BY f.a;

SELECT f.a, SUM(f.amount) AS total FROM facts f JOIN smalls s ON s.a = f.a GROUP BY f.a HAVING COUNT(*) > 3 ORDER BY total DESC, f.a;

SELECT f.a, AVG(f.amount) AS mean FROM facts f JOIN smalls s ON s.a = f.a GROUP BY f.a ORDER BY f.a;

SELECT f.a, SUM(f.amount) / COUNT(*) AS mean FROM facts f JOIN smalls s ON s.a = f.a WHERE s.s > 2 GROUP BY f.a ORDER BY f.a;

SELECT f.k, f.id, f.amount FROM facts f WHERE f.a IN (SELECT a FROM smalls WHERE s > 6) ORDER BY f.amount DESC, f.k, f.id LIMIT 7;

SELECT f.k, f.id, f.amount FROM facts f JOIN smalls s ON s.a = f.a AND s.s = 5 ORDER BY f.k DESC, f.id LIMIT 3, 4;

SELECT f.k, f.id, RANK() OVER (PARTITION BY f.k ORDER BY f.amount) AS place FROM facts f WHERE f.a IN (SELECT s.a FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id, SUM(f.amount) OVER (ORDER BY f.k, f.id) AS running FROM facts f WHERE f.a IN (SELECT s.a FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, COUNT(*) FROM facts f JOIN smalls s ON s.a = f.a GROUP BY f.k ORDER BY f.k;

SELECT x.a, x.n, COUNT(*) FROM facts f JOIN (SELECT a, COUNT(*) AS n FROM smalls GROUP BY a) x ON x.a = f.a GROUP BY x.a, x.n ORDER BY x.a;

SELECT x.k, x.n FROM (SELECT f.k, COUNT(*) AS n FROM facts f WHERE f.a IN (SELECT a FROM smalls) GROUP BY f.k) x WHERE x.n > 2 ORDER BY x.k;

-- free: 1
SELECT DISTINCT s.c FROM facts f JOIN smalls s ON s.c = f.c ORDER BY s.c;

-- free: 1
SELECT f.c, COUNT(*) AS n, COUNT(DISTINCT f.k) AS keys_of FROM facts f JOIN smalls s ON s.c = f.c GROUP BY f.c ORDER BY f.c;

-- free: 1
SELECT f.c, SUM(f.amount) AS total FROM facts f JOIN smalls s ON s.c = f.c GROUP BY f.c HAVING COUNT(*) > 3 ORDER BY total DESC, f.c;

-- free: 1
SELECT f.c, AVG(f.amount) AS mean FROM facts f JOIN smalls s ON s.c = f.c GROUP BY f.c ORDER BY f.c;

-- free: 1
SELECT f.c, SUM(f.amount) / COUNT(*) AS mean FROM facts f JOIN smalls s ON s.c = f.c WHERE s.s > 2 GROUP BY f.c ORDER BY f.c;

SELECT f.k, f.id, f.amount FROM facts f WHERE f.c IN (SELECT c FROM smalls WHERE s > 6) ORDER BY f.amount DESC, f.k, f.id LIMIT 7;

SELECT f.k, f.id, f.amount FROM facts f JOIN smalls s ON s.c = f.c AND s.s = 5 ORDER BY f.k DESC, f.id LIMIT 3, 4;

SELECT f.k, f.id, RANK() OVER (PARTITION BY f.k ORDER BY f.amount) AS place FROM facts f WHERE f.c IN (SELECT s.c FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id, SUM(f.amount) OVER (ORDER BY f.k, f.id) AS running FROM facts f WHERE f.c IN (SELECT s.c FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, COUNT(*) FROM facts f JOIN smalls s ON s.c = f.c GROUP BY f.k ORDER BY f.k;

-- free: 1
SELECT x.c, x.n, COUNT(*) FROM facts f JOIN (SELECT c, COUNT(*) AS n FROM smalls GROUP BY c) x ON x.c = f.c GROUP BY x.c, x.n ORDER BY x.c;

SELECT x.k, x.n FROM (SELECT f.k, COUNT(*) AS n FROM facts f WHERE f.c IN (SELECT c FROM smalls) GROUP BY f.k) x WHERE x.n > 2 ORDER BY x.k;

SELECT DISTINCT s.e FROM facts f JOIN smalls s ON s.e = f.e ORDER BY s.e;

SELECT f.e, COUNT(*) AS n, COUNT(DISTINCT f.k) AS keys_of FROM facts f JOIN smalls s ON s.e = f.e GROUP BY f.e ORDER BY f.e;

SELECT f.e, SUM(f.amount) AS total FROM facts f JOIN smalls s ON s.e = f.e GROUP BY f.e HAVING COUNT(*) > 3 ORDER BY total DESC, f.e;

SELECT f.e, AVG(f.amount) AS mean FROM facts f JOIN smalls s ON s.e = f.e GROUP BY f.e ORDER BY f.e;

SELECT f.e, SUM(f.amount) / COUNT(*) AS mean FROM facts f JOIN smalls s ON s.e = f.e WHERE s.s > 2 GROUP BY f.e ORDER BY f.e;

SELECT f.k, f.id, f.amount FROM facts f WHERE f.e IN (SELECT e FROM smalls WHERE s > 6) ORDER BY f.amount DESC, f.k, f.id LIMIT 7;

SELECT f.k, f.id, f.amount FROM facts f JOIN smalls s ON s.e = f.e AND s.s = 5 ORDER BY f.k DESC, f.id LIMIT 3, 4;

SELECT f.k, f.id, RANK() OVER (PARTITION BY f.k ORDER BY f.amount) AS place FROM facts f WHERE f.e IN (SELECT s.e FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id, SUM(f.amount) OVER (ORDER BY f.k, f.id) AS running FROM facts f WHERE f.e IN (SELECT s.e FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, COUNT(*) FROM facts f JOIN smalls s ON s.e = f.e GROUP BY f.k ORDER BY f.k;

SELECT x.e, x.n, COUNT(*) FROM facts f JOIN (SELECT e, COUNT(*) AS n FROM smalls GROUP BY e) x ON x.e = f.e GROUP BY x.e, x.n ORDER BY x.e;

SELECT x.k, x.n FROM (SELECT f.k, COUNT(*) AS n FROM facts f WHERE f.e IN (SELECT e FROM smalls) GROUP BY f.k) x WHERE x.n > 2 ORDER BY x.k;

SELECT DISTINCT s.g FROM facts f JOIN smalls s ON s.g = f.g ORDER BY s.g;

SELECT f.g, COUNT(*) AS n, COUNT(DISTINCT f.k) AS keys_of FROM facts f JOIN smalls s ON s.g = f.g GROUP BY f.g ORDER BY f.g;

SELECT f.g, SUM(f.amount) AS total FROM facts f JOIN smalls s ON s.g = f.g GROUP BY f.g HAVING COUNT(*) > 3 ORDER BY total DESC, f.g;

SELECT f.g, AVG(f.amount) AS mean FROM facts f JOIN smalls s ON s.g = f.g GROUP BY f.g ORDER BY f.g;

SELECT f.g, SUM(f.amount) / COUNT(*) AS mean FROM facts f JOIN smalls s ON s.g = f.g WHERE s.s > 2 GROUP BY f.g ORDER BY f.g;

SELECT f.k, f.id, f.amount FROM facts f WHERE f.g IN (SELECT g FROM smalls WHERE s > 6) ORDER BY f.amount DESC, f.k, f.id LIMIT 7;

SELECT f.k, f.id, f.amount FROM facts f JOIN smalls s ON s.g = f.g AND s.s = 5 ORDER BY f.k DESC, f.id LIMIT 3, 4;

SELECT f.k, f.id, RANK() OVER (PARTITION BY f.k ORDER BY f.amount) AS place FROM facts f WHERE f.g IN (SELECT s.g FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, f.id, SUM(f.amount) OVER (ORDER BY f.k, f.id) AS running FROM facts f WHERE f.g IN (SELECT s.g FROM smalls s) ORDER BY f.k, f.id;

SELECT f.k, COUNT(*) FROM facts f JOIN smalls s ON s.g = f.g GROUP BY f.k ORDER BY f.k;

SELECT x.g, x.n, COUNT(*) FROM facts f JOIN (SELECT g, COUNT(*) AS n FROM smalls GROUP BY g) x ON x.g = f.g GROUP BY x.g, x.n ORDER BY x.g;

SELECT x.k, x.n FROM (SELECT f.k, COUNT(*) AS n FROM facts f WHERE f.g IN (SELECT g FROM smalls) GROUP BY f.k) x WHERE x.n > 2 ORDER BY x.k;


# Shapes of TPC-H.
SELECT SUM(f.amount) AS revenue FROM facts f, smalls s WHERE (s.a = f.a AND s.g = 'new' AND f.amount BETWEEN 10 AND 300) OR (s.a = f.a AND s.g = 'odd' AND f.amount > 100) OR (s.a = f.a AND s.c = 'bob');

SELECT SUM(f.amount) / 7.0 AS yearly FROM facts f, smalls s WHERE s.a = f.a AND s.g = 'old' AND f.amount > (SELECT 0.5 * AVG(g.amount) FROM facts g WHERE g.k = f.k);

SELECT s.s, s.c FROM smalls s WHERE s.a IN (SELECT f.a FROM facts f WHERE f.amount > 100) ORDER BY s.s;

SELECT s.g, SUM(CASE WHEN f.amount > 50 THEN f.amount ELSE 0 END) / SUM(f.amount) AS share FROM facts f JOIN smalls s ON s.a = f.a GROUP BY s.g ORDER BY s.g;

-- free: 1
SELECT s.c, COUNT(*) AS waits FROM smalls s, facts f, notes n WHERE s.a = f.a AND n.k = f.k AND EXISTS (SELECT 1 FROM facts g WHERE g.k = f.k AND g.id <> f.id) AND NOT EXISTS (SELECT 1 FROM facts h WHERE h.k = f.k AND h.id <> f.id AND h.amount > 400) GROUP BY s.c ORDER BY waits DESC, s.c LIMIT 5;


# Columns of all kinds come from the table that is sent.
SELECT f.k, f.id, s.* FROM facts f JOIN smalls s ON s.a = f.a WHERE s.s < 9 ORDER BY f.k, f.id, s.s;

SELECT * FROM facts f JOIN tags t ON t.a = f.a WHERE f.k < 9 ORDER BY f.k, f.id, t.t, t.w;

SELECT f.k, f.id, s.m, s.doc, s.raw, HEX(s.raw), s.l FROM facts f JOIN smalls s ON s.a = f.a ORDER BY f.k, f.id, s.s;

SELECT MAX(s.m), MIN(s.raw), COUNT(s.doc) FROM facts f JOIN smalls s ON s.a = f.a;

SELECT smalls.s, broadcast.facts.id, broadcast.smalls.a + 1 FROM broadcast.facts JOIN broadcast.smalls ON broadcast.smalls.a = broadcast.facts.a WHERE broadcast.smalls.s > 3 ORDER BY facts.k, facts.id, smalls.s;

SELECT f.k, f.id, a, s.s FROM facts f JOIN smalls s USING (a) ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id, (SELECT s.c FROM smalls s WHERE s.s = 4), (SELECT COUNT(*) FROM smalls) FROM facts f WHERE f.k < 6 ORDER BY f.k, f.id;

SELECT f.k, f.id FROM facts f JOIN smalls s ON s.m < '2024-04-01' AND s.a = f.a ORDER BY f.k, f.id, s.s;

SELECT STRAIGHT_JOIN f.k, s.s FROM smalls s JOIN facts f ON f.a = s.a ORDER BY f.k, f.id, s.s;

SELECT f.k, s.s FROM facts f CROSS JOIN smalls s WHERE f.k = 3 AND s.s < 4 ORDER BY f.k, f.id, s.s;

SELECT f.k, f.id FROM facts f NATURAL JOIN notes n ORDER BY f.k, f.id, n.n;

SELECT COUNT(*) FROM smalls s JOIN tags t ON t.a = s.a;

SELECT s.s, t.t, t.w FROM smalls s LEFT JOIN tags t ON t.a = s.a ORDER BY s.s, t.t, t.w;

SELECT s.s FROM smalls s WHERE s.a NOT IN (SELECT t.a FROM tags t) ORDER BY s.s;

SELECT t.t, t.w FROM tags t WHERE EXISTS (SELECT 1 FROM smalls s WHERE s.a = t.a AND s.c = t.c) ORDER BY t.t, t.w;

SELECT t.t, SUM(s.e) FROM tags t JOIN smalls s ON s.c = t.c GROUP BY t.t ORDER BY t.t;

-- bag
WITH few AS (SELECT a, c FROM smalls WHERE s < 9) SELECT f.k, f.id FROM facts f JOIN few ON few.a = f.a ORDER BY f.k, f.id, few.c;

SELECT f.k, f.id FROM facts f WHERE f.a IN (SELECT a FROM smalls UNION SELECT a FROM tags) ORDER BY f.k, f.id;

SELECT f.k, NOW() > f.f AS past FROM facts f JOIN smalls s ON s.a = f.a ORDER BY f.k, f.id, s.s;
