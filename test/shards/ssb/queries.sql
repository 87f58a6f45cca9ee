# The 13 queries of the star schema benchmark, with its date table called `dates`. Where it leaves the order of
# equal revenues open, their groups follow. The small data has two manufacturers, four nations, eight cities.

# 1.1: revenue of a year's small discounts
SELECT SUM(lo_extendedprice * lo_discount) AS revenue
FROM lineorder, dates
WHERE lo_orderdate = d_datekey AND d_year = 1993 AND lo_discount BETWEEN 1 AND 3 AND lo_quantity < 25;

# 1.2: the same of a month
SELECT SUM(lo_extendedprice * lo_discount) AS revenue
FROM lineorder, dates
WHERE lo_orderdate = d_datekey AND d_yearmonthnum = 199401 AND lo_discount BETWEEN 4 AND 6
  AND lo_quantity BETWEEN 26 AND 35;

# 1.3: the same of a week
SELECT SUM(lo_extendedprice * lo_discount) AS revenue
FROM lineorder, dates
WHERE lo_orderdate = d_datekey AND d_weeknuminyear = 6 AND d_year = 1994 AND lo_discount BETWEEN 5 AND 7
  AND lo_quantity BETWEEN 26 AND 35;

# 2.1: revenue of a category by brand and year
SELECT SUM(lo_revenue) AS revenue, d_year, p_brand1
FROM lineorder, dates, part, supplier
WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey
  AND p_category = 'MFGR#12' AND s_region = 'AMERICA'
GROUP BY d_year, p_brand1
ORDER BY d_year, p_brand1;

# 2.2: the same of eight brands
SELECT SUM(lo_revenue) AS revenue, d_year, p_brand1
FROM lineorder, dates, part, supplier
WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey
  AND p_brand1 BETWEEN 'MFGR#2221' AND 'MFGR#2228' AND s_region = 'ASIA'
GROUP BY d_year, p_brand1
ORDER BY d_year, p_brand1;

# 2.3: the same of one brand
SELECT SUM(lo_revenue) AS revenue, d_year, p_brand1
FROM lineorder, dates, part, supplier
WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey
  AND p_brand1 = 'MFGR#2239' AND s_region = 'EUROPE'
GROUP BY d_year, p_brand1
ORDER BY d_year, p_brand1;

# 3.1: revenue of a region by nations and year
SELECT c_nation, s_nation, d_year, SUM(lo_revenue) AS revenue
FROM customer, lineorder, supplier, dates
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
  AND c_region = 'ASIA' AND s_region = 'ASIA' AND d_year >= 1992 AND d_year <= 1997
GROUP BY c_nation, s_nation, d_year
ORDER BY d_year ASC, revenue DESC, c_nation, s_nation;

# 3.2: the same of a nation by cities
SELECT c_city, s_city, d_year, SUM(lo_revenue) AS revenue
FROM customer, lineorder, supplier, dates
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
  AND c_nation = 'UNITED STATES' AND s_nation = 'UNITED STATES' AND d_year >= 1992 AND d_year <= 1997
GROUP BY c_city, s_city, d_year
ORDER BY d_year ASC, revenue DESC, c_city, s_city;

# 3.3: the same of two cities
SELECT c_city, s_city, d_year, SUM(lo_revenue) AS revenue
FROM customer, lineorder, supplier, dates
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
  AND (c_city = 'UNITED KI1' OR c_city = 'UNITED KI5') AND (s_city = 'UNITED KI1' OR s_city = 'UNITED KI5')
  AND d_year >= 1992 AND d_year <= 1997
GROUP BY c_city, s_city, d_year
ORDER BY d_year ASC, revenue DESC, c_city, s_city;

# 3.4: the same of a month
SELECT c_city, s_city, d_year, SUM(lo_revenue) AS revenue
FROM customer, lineorder, supplier, dates
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
  AND (c_city = 'UNITED KI1' OR c_city = 'UNITED KI5') AND (s_city = 'UNITED KI1' OR s_city = 'UNITED KI5')
  AND d_yearmonth = 'Dec1997'
GROUP BY c_city, s_city, d_year
ORDER BY d_year ASC, revenue DESC, c_city, s_city;

# 4.1: profit by year and nation
SELECT d_year, c_nation, SUM(lo_revenue - lo_supplycost) AS profit
FROM dates, customer, supplier, part, lineorder
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey AND lo_orderdate = d_datekey
  AND c_region = 'AMERICA' AND s_region = 'AMERICA' AND (p_mfgr = 'MFGR#1' OR p_mfgr = 'MFGR#2')
GROUP BY d_year, c_nation
ORDER BY d_year, c_nation;

# 4.2: the same of two years by category
SELECT d_year, s_nation, p_category, SUM(lo_revenue - lo_supplycost) AS profit
FROM dates, customer, supplier, part, lineorder
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey AND lo_orderdate = d_datekey
  AND c_region = 'AMERICA' AND s_region = 'AMERICA' AND (d_year = 1997 OR d_year = 1998)
  AND (p_mfgr = 'MFGR#1' OR p_mfgr = 'MFGR#2')
GROUP BY d_year, s_nation, p_category
ORDER BY d_year, s_nation, p_category;

# 4.3: the same of a category by brand and city
SELECT d_year, s_city, p_brand1, SUM(lo_revenue - lo_supplycost) AS profit
FROM dates, customer, supplier, part, lineorder
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey AND lo_orderdate = d_datekey
  AND c_region = 'AMERICA' AND s_nation = 'UNITED STATES' AND (d_year = 1997 OR d_year = 1998)
  AND p_category = 'MFGR#14'
GROUP BY d_year, s_city, p_brand1
ORDER BY d_year, s_city, p_brand1;

# Dimensions alone, which are on every group.
SELECT d_year, COUNT(*) FROM dates GROUP BY d_year ORDER BY d_year;
SELECT s_region, c_region, COUNT(*) FROM supplier, customer WHERE s_nation = c_nation GROUP BY s_region, c_region
ORDER BY s_region, c_region;

# Facts of an order, which are on one shard.
SELECT lo_linenumber, p_brand1, lo_revenue FROM lineorder JOIN part ON p_partkey = lo_partkey WHERE lo_orderkey = 7
ORDER BY lo_linenumber;

# Facts against each other: by the shard key, and by another column.
SELECT COUNT(*) FROM lineorder a JOIN lineorder b ON b.lo_orderkey = a.lo_orderkey AND b.lo_linenumber > a.lo_linenumber;
SELECT COUNT(*) FROM lineorder a JOIN lineorder b ON b.lo_custkey = a.lo_custkey
WHERE a.lo_quantity < 3 AND b.lo_quantity > 48;

# What each customer's best order brought, against the average of the customer's nation.
SELECT c_nation, COUNT(*) AS n FROM customer
WHERE (SELECT MAX(lo_ordtotalprice) FROM lineorder WHERE lo_custkey = c_custkey) > 150000
GROUP BY c_nation ORDER BY c_nation;

# The share of a year's revenue by region.
SELECT d_year, s_region, SUM(lo_revenue) / SUM(SUM(lo_revenue)) OVER (PARTITION BY d_year) AS share
FROM lineorder, supplier, dates WHERE lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
GROUP BY d_year, s_region ORDER BY d_year, s_region;
# MySQL calls the year a BIGINT where it puts rows into a temporary table first, as those of a join, and else an INT.
-- engine: mariadb
SELECT d_year, SUM(lo_revenue) AS revenue FROM lineorder JOIN dates ON d_datekey = lo_orderdate
GROUP BY d_year WITH ROLLUP;
