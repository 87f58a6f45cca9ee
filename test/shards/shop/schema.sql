# The shop: three tables that lie together by customer, two global ones, one of no map, and two on maps
# of their own. Keys repeat on purpose where nothing forbids it, texts are equal in their collation and
# differ in their bytes, and what may be NULL is at times.

-- sharded: shop customer_id
CREATE TABLE customers (
  customer_id INT NOT NULL PRIMARY KEY,
  name VARCHAR(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL,
  email VARCHAR(80) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  city VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL,
  country CHAR(2) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL,
  tier ENUM('platinum', 'gold', 'silver', 'bronze') DEFAULT NULL,
  credit DECIMAL(12,2) DEFAULT NULL,
  score DOUBLE DEFAULT NULL,
  born DATE DEFAULT NULL,
  created DATETIME(3) NOT NULL,
  prefs JSON DEFAULT NULL,
  referrer INT DEFAULT NULL,
  code VARBINARY(8) DEFAULT NULL,
  KEY referrer (referrer),
  KEY name (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- sharded: shop customer_id
CREATE TABLE orders (
  order_id BIGINT NOT NULL,
  customer_id INT NOT NULL,
  status ENUM('new', 'paid', 'shipped', 'returned', 'cancelled') NOT NULL,
  placed DATETIME(3) NOT NULL,
  due DATE DEFAULT NULL,
  total DECIMAL(12,2) NOT NULL,
  discount DECIMAL(5,4) DEFAULT NULL,
  channel VARCHAR(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
  ship_country CHAR(2) CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,
  remark TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  PRIMARY KEY (customer_id, order_id),
  KEY order_id (order_id),
  KEY placed (placed)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- sharded: shop customer_id
CREATE TABLE items (
  customer_id INT NOT NULL,
  order_id BIGINT NOT NULL,
  line_no TINYINT UNSIGNED NOT NULL,
  product_id INT NOT NULL,
  quantity SMALLINT UNSIGNED NOT NULL,
  price DECIMAL(10,2) NOT NULL,
  tax DECIMAL(6,4) DEFAULT NULL,
  options SET('gift', 'express', 'insured') NOT NULL DEFAULT '',
  shipped TIMESTAMP NULL DEFAULT NULL,
  mass FLOAT DEFAULT NULL,
  PRIMARY KEY (customer_id, order_id, line_no),
  KEY product_id (product_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- sharded: shop customer_id
CREATE TABLE wallets (
  customer_id INT NOT NULL PRIMARY KEY,
  balance DECIMAL(12,2) NOT NULL DEFAULT 0.00,
  hits INT NOT NULL DEFAULT 0,
  label VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL,
  changed DATETIME DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- global: shop
CREATE TABLE products (
  product_id INT NOT NULL PRIMARY KEY,
  name VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL,
  category VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
  price DECIMAL(10,2) NOT NULL,
  tags JSON DEFAULT NULL,
  launched YEAR DEFAULT NULL,
  parent INT DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- global: shop
CREATE TABLE countries (
  code CHAR(2) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL PRIMARY KEY,
  name VARCHAR(40) NOT NULL,
  region VARCHAR(20) NOT NULL,
  population BIGINT UNSIGNED NOT NULL,
  vat DECIMAL(4,2) DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- single
CREATE TABLE staff (
  staff_id INT NOT NULL PRIMARY KEY,
  name VARCHAR(40) NOT NULL,
  boss INT DEFAULT NULL,
  country CHAR(2) CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,
  salary DECIMAL(10,2) NOT NULL,
  hired DATE NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- sharded: pages visit_id
CREATE TABLE visits (
  visit_id BIGINT NOT NULL PRIMARY KEY,
  customer_id INT DEFAULT NULL,
  page VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL,
  at DATETIME(6) NOT NULL,
  ms INT UNSIGNED NOT NULL,
  bot BIT(1) NOT NULL,
  spent TIME(2) DEFAULT NULL,
  KEY customer_id (customer_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- sharded: goods sku
CREATE TABLE stock (
  sku VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  product_id INT NOT NULL,
  place VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
  quantity INT NOT NULL,
  reserved MEDIUMINT DEFAULT NULL,
  counted DATETIME DEFAULT NULL,
  KEY product_id (product_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

# Its columns are called as those of other tables are, as words of the language, and with letters that
# have two cases beside A to Z.
-- sharded: shop customer_id
CREATE TABLE labels (
  customer_id INT NOT NULL,
  id INT NOT NULL,
  a INT DEFAULT NULL,
  b INT DEFAULT NULL,
  `order` INT DEFAULT NULL,
  `Größe` INT DEFAULT NULL,
  total DECIMAL(10,2) NOT NULL,
  s VARCHAR(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci DEFAULT NULL,
  hidden INT DEFAULT 7,
  PRIMARY KEY (customer_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
