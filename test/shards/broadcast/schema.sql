# Tables that are joined otherwise than by their shard keys: facts and their notes lie together; smalls and tags lie
# elsewhere and are small enough to be sent to the facts. Equal texts differ in their bytes, values repeat, and what may
# be NULL is at times.

-- sharded: main k
CREATE TABLE facts (
  id INT NOT NULL,
  k INT NOT NULL,
  a INT DEFAULT NULL,
  b BIGINT UNSIGNED DEFAULT NULL,
  c VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL,
  d VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL,
  e DECIMAL(10,2) DEFAULT NULL,
  f DATE DEFAULT NULL,
  g ENUM('new', 'old', 'odd') CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,
  l CHAR(6) CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,
  amount DECIMAL(12,2) NOT NULL,
  PRIMARY KEY (k, id),
  KEY a (a),
  KEY c (c)
) ENGINE=InnoDB;

-- sharded: main k
CREATE TABLE notes (
  k INT NOT NULL,
  n INT NOT NULL,
  a INT DEFAULT NULL,
  c VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL,
  PRIMARY KEY (k, n)
) ENGINE=InnoDB;

-- sharded: main s
CREATE TABLE smalls (
  s INT NOT NULL PRIMARY KEY,
  a INT DEFAULT NULL,
  b BIGINT UNSIGNED DEFAULT NULL,
  c VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL,
  d VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL,
  e DECIMAL(10,2) DEFAULT NULL,
  f DATE DEFAULT NULL,
  g ENUM('new', 'old', 'odd') CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,
  l CHAR(6) CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,
  m TIMESTAMP(3) NULL DEFAULT NULL,
  doc JSON DEFAULT NULL,
  raw VARBINARY(16) DEFAULT NULL,
  KEY a (a)
) ENGINE=InnoDB;

-- sharded: other t
CREATE TABLE tags (
  t INT NOT NULL,
  a INT DEFAULT NULL,
  c VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL,
  w INT NOT NULL,
  PRIMARY KEY (t, w)
) ENGINE=InnoDB;

-- global: main
CREATE TABLE kinds (
  g ENUM('new', 'old', 'odd') CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL PRIMARY KEY,
  a INT DEFAULT NULL,
  title VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL
) ENGINE=InnoDB;

-- single
CREATE TABLE places (
  p INT NOT NULL PRIMARY KEY,
  a INT DEFAULT NULL,
  c VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL
) ENGINE=InnoDB;
