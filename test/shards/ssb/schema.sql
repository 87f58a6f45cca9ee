# The tables of the star schema benchmark: facts are spread by their orders, dimensions are on every group.
# Columns that no query names are left out.

-- global: ssb
CREATE TABLE dates (
  d_datekey INT NOT NULL PRIMARY KEY,
  d_date CHAR(18) NOT NULL,
  d_dayofweek CHAR(9) NOT NULL,
  d_month CHAR(9) NOT NULL,
  d_year INT NOT NULL,
  d_yearmonthnum INT NOT NULL,
  d_yearmonth CHAR(7) NOT NULL,
  d_weeknuminyear INT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- global: ssb
CREATE TABLE customer (
  c_custkey INT NOT NULL PRIMARY KEY,
  c_name VARCHAR(25) NOT NULL,
  c_city CHAR(10) NOT NULL,
  c_nation CHAR(15) NOT NULL,
  c_region CHAR(12) NOT NULL,
  c_mktsegment CHAR(10) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- global: ssb
CREATE TABLE supplier (
  s_suppkey INT NOT NULL PRIMARY KEY,
  s_name CHAR(25) NOT NULL,
  s_city CHAR(10) NOT NULL,
  s_nation CHAR(15) NOT NULL,
  s_region CHAR(12) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- global: ssb
CREATE TABLE part (
  p_partkey INT NOT NULL PRIMARY KEY,
  p_name VARCHAR(22) NOT NULL,
  p_mfgr CHAR(6) NOT NULL,
  p_category CHAR(7) NOT NULL,
  p_brand1 CHAR(9) NOT NULL,
  p_size INT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- sharded: ssb lo_orderkey
CREATE TABLE lineorder (
  lo_orderkey INT NOT NULL,
  lo_linenumber INT NOT NULL,
  lo_custkey INT NOT NULL,
  lo_partkey INT NOT NULL,
  lo_suppkey INT NOT NULL,
  lo_orderdate INT NOT NULL,
  lo_quantity INT NOT NULL,
  lo_extendedprice INT NOT NULL,
  lo_ordtotalprice INT NOT NULL,
  lo_discount INT NOT NULL,
  lo_revenue INT NOT NULL,
  lo_supplycost INT NOT NULL,
  PRIMARY KEY (lo_orderkey, lo_linenumber),
  KEY (lo_custkey)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
