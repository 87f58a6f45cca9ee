# The gem mysql2 (on MariaDB's Connector/C): queries, prepared statements, streams, several results, async, errors.
require 'bigdecimal'
require 'mysql2'
require_relative 'steps'

def connect(**more)
  Mysql2::Client.new(SETTINGS.merge(more))
end

def told
  yield
  say 'no error'
rescue Mysql2::Error => e
  say e.class, e.errno, e.sql_state, e.message
end

VALUES = [-128, 18_446_744_073_709_551_615, BigDecimal('-12345678901234567.890123'), 0.25, "naïve 日本語 🧵 'q' \\",
          (0..255).to_a.pack('C*'), Time.utc(1999, 12, 31, 23, 59, 59, 123_456), Date.new(2024, 2, 29), nil].freeze

step 'connects' do
  client = connect
  say client.query('SELECT DATABASE() AS db, @@autocommit AS auto').to_a, client.ping, client.encoding
  say client.server_info.keys, client.escape("a'b\\c")
  client.close
end

step 'values' do
  client = connect(database_timezone: :utc)
  client.query('CREATE TABLE everything (id INT AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED, dec_ DECIMAL(30,6),
    dbl DOUBLE, txt TEXT, bin VARBINARY(300), moment DATETIME(6), day DATE, nothing INT) DEFAULT CHARSET utf8mb4')
  insert = client.prepare('INSERT INTO everything (tiny, big, dec_, dbl, txt, bin, moment, day, nothing) VALUES (?,?,?,?,?,?,?,?,?)')
  insert.execute(*VALUES)
  say insert.last_id, insert.affected_rows
  client.query("INSERT INTO everything (txt, bin) VALUES ('#{client.escape(VALUES[4])}', 0x00ff)")
  say client.last_id, client.affected_rows
  client.query('SELECT * FROM everything ORDER BY id').each { |row| say row }
  client.prepare('SELECT * FROM everything WHERE txt = ? ORDER BY id').execute(VALUES[4], as: :array).each { |row| say row }
  result = client.query('SELECT * FROM everything', cast: false)
  say result.fields, result.size
end

step 'many_statements' do
  client = connect
  client.query('CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))')
  insert = client.prepare('INSERT INTO item (name) VALUES (?)')
  read = client.prepare('SELECT name FROM item WHERE id = ?')
  wrong = (1..200).count do |n|
    insert.execute("n#{n}")
    read.execute(insert.last_id).to_a != [{ 'name' => "n#{n}" }]
  end
  say 'wrong', wrong
  [insert, read].each(&:close)
end

step 'streams_and_big_rows' do
  client = connect
  rows = client.query('SELECT seq FROM compat_numbers.seq_1_to_20000', stream: true, cache_rows: false, as: :array)
  say rows.sum(&:first)
  client.query('SET SESSION group_concat_max_len = 5000000')
  say client.query("SELECT REPEAT('ü', 4000000) AS big").first['big'].size
  client.query('CREATE TABLE big (id INT PRIMARY KEY, data LONGBLOB)')
  client.prepare('INSERT INTO big VALUES (1, ?)').execute("\0\xFF".b * 3_000_000)
  say client.query('SELECT LENGTH(data) AS n, MD5(data) AS sum FROM big').to_a
end

step 'several_results' do
  client = connect(flags: Mysql2::Client::MULTI_STATEMENTS)
  say client.query('SELECT 1 AS a; SELECT 2 AS b; SELEC').to_a
  told do
    while client.next_result
      say client.store_result&.to_a
    end
  end
  client.query('CREATE PROCEDURE several() BEGIN SELECT 1 AS x; SELECT 2 AS y; END')
  say client.query('CALL several()').to_a
  say client.store_result.to_a while client.next_result && client.more_results?
  client.abandon_results!
  say client.query('SELECT 3 AS c').to_a
end

step 'transactions' do
  one, other = connect, connect
  one.query('CREATE TABLE account (id INT PRIMARY KEY, balance INT)')
  one.query('BEGIN')
  one.query('INSERT INTO account VALUES (1, 10)')
  say other.query('SELECT COUNT(*) AS n FROM account').to_a
  one.query('COMMIT')
  one.query('START TRANSACTION READ ONLY')
  told { one.query('DELETE FROM account') }
  one.query('ROLLBACK')
  wrong = (2..60).count do |n|
    one.query("INSERT INTO account VALUES (#{n}, 0)")
    other.query("SELECT id FROM account WHERE id = #{n}").size != 1
  end
  say 'wrong', wrong
end

step 'async_and_reset' do
  client = connect
  client.query('SELECT SLEEP(0.1) AS slept', async: true)
  say client.async_result.to_a
  client.query("SET @mine = 1, sql_mode = 'ANSI_QUOTES'")
  client.query('CREATE TEMPORARY TABLE mine (a INT)')
  say client.query('SELECT @mine AS mine, @@sql_mode AS mode, (SELECT COUNT(*) FROM mine) AS n').to_a
  client.select_db('compat_numbers')
  say client.query('SELECT DATABASE() AS db').to_a
  say client.query('SELECT * FROM seq_1_to_50 LIMIT 0').fields, client.warning_count
  client.query("SELECT CAST('x' AS SIGNED)")
  say client.warning_count, client.query('SHOW WARNINGS').to_a
end

step 'errors' do
  client = connect
  ['SELEC', 'SELECT * FROM not_there', 'INSERT INTO account VALUES (1, 1)', 'CALL nothing()', "SELECT '\xFF"].each do |text|
    told { client.query(text) }
  end
  told { client.prepare('SELECT ? FROM not_there') }
  told { client.prepare('SELECT ?').execute }
  told { connect(password: 'wrong') }
  told { connect(database: 'not_there') }
  told { connect(username: 'nobody', password: '') }
end
