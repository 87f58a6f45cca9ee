// {{settings}}

(async () => {
  const [writes, reads] = [await pool.getConnection(), await pool.getConnection()];
  await writes.query('CREATE TABLE mysql2 (id INT AUTO_INCREMENT PRIMARY KEY, title VARCHAR(20))');
  await writes.execute('INSERT INTO mysql2 (title) VALUES (?), (?)', ['ü🧵', 'b']);
  const [[{ count }]] = await reads.execute('SELECT COUNT(*) AS count FROM mysql2');
  const [[{ level }]] = await reports.query('SELECT @@heddle_consistency AS level');
  const again = await pool.query("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213").catch((error) => error.errno === 1213);
  console.log(`${count} ${level} ${again}`);
  process.exit(0);
})();
