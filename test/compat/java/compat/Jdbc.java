package compat;

import static compat.Steps.execute;
import static compat.Steps.query;
import static compat.Steps.rows;
import static compat.Steps.say;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.ByteArrayInputStream;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** What every JDBC application does, whichever driver it has. */
final class Jdbc {
  private static final String VALUES = """
      CREATE TABLE everything (id INT AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED, dec_ DECIMAL(30,6), dbl DOUBLE,
      txt TEXT, bin LONGBLOB, day DATE, moment DATETIME(6), doc JSON, flag BIT(1), nothing INT) DEFAULT CHARSET utf8mb4""";

  private Jdbc() {}

  /** Adds the steps for one way to prepare: by the driver (client) or by the server. */
  static void register(Steps steps, String way, String options) {
    steps.step("values_" + way, () -> values(steps, options));
    steps.step("transactions_" + way, () -> transactions(steps, options));
    steps.step("errors_" + way, () -> errors(steps, options));
    steps.step("batches_" + way, () -> batches(steps, options));
    steps.step("procedures_" + way, () -> procedures(steps, options));
    steps.step("streaming_" + way, () -> streaming(steps, options));
    steps.step("statements_" + way, () -> statements(steps, options));
    steps.step("pool_" + way, () -> pool(steps, options));
    steps.step("timeouts_" + way, () -> timeouts(steps, options));
    steps.step("metadata_" + way, () -> metadata(steps, options));
  }

  private static void values(Steps steps, String options) throws Exception {
    try (Connection connection = steps.connect(options)) {
      execute(connection, "DROP TABLE IF EXISTS everything");
      execute(connection, VALUES);
      byte[] bytes = new byte[100_000];
      for (int i = 0; i < bytes.length; i++) {
        bytes[i] = (byte) i;
      }
      try (PreparedStatement insert = connection.prepareStatement("INSERT INTO everything (tiny, big, dec_, dbl, txt, bin, day, "
          + "moment, doc, flag, nothing) VALUES (?,?,?,?,?,?,?,?,?,?,?)", Statement.RETURN_GENERATED_KEYS)) {
        for (int round = 0; round < 2; round++) {
          insert.setByte(1, (byte) -128);
          insert.setBigDecimal(2, new BigDecimal("18446744073709551615"));
          insert.setBigDecimal(3, new BigDecimal("-12345678901234567.890123"));
          insert.setDouble(4, -1.25e100);
          insert.setString(5, "naïve 日本語 🧵 'q' \\");
          insert.setBinaryStream(6, new ByteArrayInputStream(bytes));
          insert.setObject(7, LocalDate.of(2024, 2, 29));
          insert.setObject(8, LocalDateTime.of(1999, 12, 31, 23, 59, 59, 123_456_000));
          insert.setString(9, "{\"a\": [1, null, \"ü\"]}");
          insert.setBoolean(10, true);
          insert.setNull(11, Types.INTEGER);
          say(insert.executeUpdate());
          try (ResultSet keys = insert.getGeneratedKeys()) {
            rows(keys, false);
          }
        }
      }
      try (PreparedStatement select = connection.prepareStatement("SELECT id, tiny, big, dec_, dbl, txt, SUBSTR(bin, 1, 300) AS bin, "
          + "MD5(bin), day, moment, doc, flag, nothing FROM everything WHERE txt = ? ORDER BY id")) {
        select.setString(1, "naïve 日本語 🧵 'q' \\");
        try (ResultSet found = select.executeQuery()) {
          rows(found, true);
        }
      }
    }
  }

  private static void transactions(Steps steps, String options) throws Exception {
    try (Connection connection = steps.connect(options); Connection other = steps.connect(options)) {
      execute(connection, "DROP TABLE IF EXISTS account");
      execute(connection, "CREATE TABLE account (id INT PRIMARY KEY, balance INT)");
      connection.setAutoCommit(false);
      execute(connection, "INSERT INTO account VALUES (1, 100), (2, 0)");
      query(other, "/*ms=master*/ SELECT COUNT(*) FROM account");
      connection.commit();
      query(other, "/*ms=master*/ SELECT COUNT(*) FROM account");
      execute(connection, "DELETE FROM account");
      var here = connection.setSavepoint("here");
      execute(connection, "INSERT INTO account VALUES (9, 9)");
      connection.rollback(here);
      query(connection, "SELECT COUNT(*) FROM account");
      connection.rollback();
      query(connection, "SELECT * FROM account ORDER BY id");
      connection.rollback();
      connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
      say(connection.getTransactionIsolation());
      connection.setReadOnly(true);
      try {
        execute(connection, "DELETE FROM account");
        say("no error");
      } catch (SQLException error) {
        say(error);
      }
      connection.rollback();
      connection.setReadOnly(false);
      connection.setAutoCommit(true);
      try (Statement update = connection.createStatement()) {
        say(update.executeUpdate("UPDATE account SET balance = balance"), update.executeUpdate("UPDATE account SET balance = 1"));
      }
    }
  }

  private static void errors(Steps steps, String options) throws Exception {
    try (Connection connection = steps.connect(options)) {
      for (String text : new String[] {"SELECT * FROM not_there", "SELEC", "SELECT 1; SELECT 2", "INSERT INTO account VALUES (1, 1)",
          "USE no_such_database", "CALL no_such_routine()"}) {
        try (PreparedStatement statement = connection.prepareStatement(text)) {
          statement.execute();
          say(text, "no error");
        } catch (SQLException error) {
          say(text, error.getClass().getSimpleName());
          say(error);
        }
      }
      try (Statement statement = connection.createStatement()) {
        statement.execute("SELECT 1/0");
        for (var warning = statement.getWarnings(); warning != null; warning = warning.getNextWarning()) {
          say(warning.getErrorCode(), warning.getMessage());
        }
      }
    }
  }

  private static void batches(Steps steps, String options) throws Exception {
    try (Connection connection = steps.connect(options)) {
      execute(connection, "DROP TABLE IF EXISTS item");
      execute(connection, "CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), n INT UNIQUE)");
      try (PreparedStatement insert = connection.prepareStatement("INSERT INTO item (name, n) VALUES (?, ?)",
          Statement.RETURN_GENERATED_KEYS)) {
        for (int n = 0; n < 500; n++) {
          insert.setString(1, n % 3 == 0 ? null : "n" + n);
          insert.setInt(2, n);
          insert.addBatch();
        }
        say(insert.executeBatch().length);
        int count = 0;
        try (ResultSet keys = insert.getGeneratedKeys()) {
          while (keys.next()) {
            count++;
          }
        }
        say("keys", count);
        insert.setString(1, "again");
        insert.setInt(2, 600);
        insert.addBatch();
        insert.setInt(2, 3);
        insert.addBatch();
        try {
          insert.executeBatch();
          say("no error");
        } catch (SQLException error) {
          say(error);
        }
      }
      try (Statement batch = connection.createStatement()) {
        for (int n = 700; n < 720; n++) {
          batch.addBatch("INSERT INTO item (n) VALUES (" + n + ")");
        }
        batch.addBatch("UPDATE item SET name = 'x' WHERE n < 10");
        say(batch.executeBatch());
      }
      query(connection, "SELECT COUNT(*), COUNT(name), SUM(n) FROM item");
    }
  }

  private static void procedures(Steps steps, String options) throws Exception {
    try (Connection connection = steps.connect(options)) {
      execute(connection, "DROP PROCEDURE IF EXISTS several");
      execute(connection, "CREATE PROCEDURE several(IN n INT, OUT doubled INT, INOUT word VARCHAR(50)) BEGIN SELECT n; "
          + "SELECT n + 1 AS a, 'ü' AS b; SET doubled = n * 2; SET word = CONCAT(word, '!'); END");
      try (var call = connection.prepareCall("{CALL several(?, ?, ?)}")) {
        call.setInt(1, 21);
        call.registerOutParameter(2, Types.INTEGER);
        call.setString(3, "hü");
        call.registerOutParameter(3, Types.VARCHAR);
        for (boolean more = call.execute(); more; more = call.getMoreResults()) {
          rows(call.getResultSet(), false);
        }
        say(call.getInt(2), call.getString(3));
      }
      execute(connection, "DROP FUNCTION IF EXISTS plus_one");
      execute(connection, "CREATE FUNCTION plus_one(n INT) RETURNS INT DETERMINISTIC RETURN n + 1");
      try (var call = connection.prepareCall("{? = CALL plus_one(?)}")) {
        call.registerOutParameter(1, Types.INTEGER);
        call.setInt(2, 41);
        call.execute();
        say(call.getInt(1));
      }
    }
  }

  private static void streaming(Steps steps, String options) throws Exception {
    try (Connection connection = steps.connect(options); Statement statement = connection.createStatement()) {
      statement.setFetchSize(options.contains("useCursorFetch") ? 100 : streamSize(connection));
      long sum = 0;
      try (ResultSet found = statement.executeQuery("SELECT seq, REPEAT('x', 100) FROM compat_numbers.seq_1_to_20000")) {
        while (found.next()) {
          sum += found.getLong(1);
        }
      }
      say(sum);
      try (ResultSet found = statement.executeQuery("SELECT seq FROM compat_numbers.seq_1_to_20000")) {
        found.next();
        say(found.getLong(1));
      }
      query(connection, "SELECT 'alive'");
    }
  }

  /** Connector/J streams with the smallest integer, MariaDB's driver with any number of rows. */
  private static int streamSize(Connection connection) throws SQLException {
    return connection.getMetaData().getDriverName().startsWith("MySQL") ? Integer.MIN_VALUE : 100;
  }

  private static void statements(Steps steps, String options) throws Exception {
    try (Connection connection = steps.connect(options)) {
      execute(connection, "DROP TABLE IF EXISTS numbered");
      execute(connection, "CREATE TABLE numbered (id INT AUTO_INCREMENT PRIMARY KEY, n INT)");
      int wrong = 0;
      for (int n = 1; n <= 100; n++) {
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO numbered (n) VALUES (?)")) {
          insert.setInt(1, n);
          insert.executeUpdate();
        }
        try (PreparedStatement select = connection.prepareStatement("SELECT n, " + n % 30 + " FROM numbered WHERE id = ?")) {
          select.setInt(1, n);
          try (ResultSet found = select.executeQuery()) {
            wrong += found.next() && found.getInt(1) == n && found.getInt(2) == n % 30 ? 0 : 1;
          }
        }
      }
      say("wrong", wrong);
      try (PreparedStatement select = connection.prepareStatement("SELECT * FROM numbered WHERE n = ?")) {
        for (String alter : new String[] {"", "ALTER TABLE numbered ADD COLUMN extra INT DEFAULT 5"}) {
          if (!alter.isEmpty()) {
            execute(connection, alter);
          }
          select.setInt(1, 7);
          try (ResultSet found = select.executeQuery()) {
            rows(found, false);
          } catch (SQLException error) {
            // Connector/J trips over its own cache of the columns when the table has changed.
            say(error.getMessage());
          }
        }
      }
    }
  }

  private static void pool(Steps steps, String options) throws Exception {
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(steps.url(options));
    config.setMaximumPoolSize(3);
    config.setMinimumIdle(1);
    config.setIsolateInternalQueries(false);
    config.setConnectionInitSql("SET @from_init = 7");
    try (HikariDataSource pool = new HikariDataSource(config)) {
      String seen = IntStream.range(0, 30).parallel().mapToObj(n -> {
        try (Connection connection = pool.getConnection();
            PreparedStatement select = connection.prepareStatement("SELECT ?, @from_init")) {
          select.setInt(1, n);
          ResultSet found = select.executeQuery();
          found.next();
          return (found.getInt(1) == n) + "/" + found.getInt(2) + connection.isValid(2);
        } catch (SQLException error) {
          return error.toString();
        }
      }).distinct().collect(Collectors.joining(" "));
      say(seen);
      try (Connection connection = pool.getConnection()) {
        connection.setAutoCommit(false);
        connection.setCatalog("information_schema");
        query(connection, "SELECT DATABASE()");
      }
      try (Connection connection = pool.getConnection()) {
        say(connection.getAutoCommit(), connection.getCatalog());
      }
    }
  }

  private static void timeouts(Steps steps, String options) throws Exception {
    try (Connection connection = steps.connect(options)) {
      try (Statement statement = connection.createStatement()) {
        statement.setQueryTimeout(1);
        statement.executeQuery("SELECT SLEEP(20)");
        say("no error");
      } catch (SQLException error) {
        say(error.getClass().getSimpleName());
      }
      query(connection, "SELECT 'alive'");
      try (Statement statement = connection.createStatement()) {
        Instant begin = Instant.now();
        Thread canceller = new Thread(() -> {
          try {
            Thread.sleep(500);
            statement.cancel();
          } catch (Exception error) {
            say(error.toString());
          }
        });
        canceller.start();
        try {
          statement.executeQuery("SELECT SLEEP(20)").close();
        } catch (SQLException error) {
          // Whether SLEEP returns 1 or the statement fails: it ended early.
        }
        canceller.join();
        say(Instant.now().isBefore(begin.plusSeconds(15)));
      }
      query(connection, "SELECT 'alive'");
    }
  }

  private static void metadata(Steps steps, String options) throws Exception {
    try (Connection connection = steps.connect(options)) {
      var meta = connection.getMetaData();
      say(meta.getDatabaseProductName(), meta.getDatabaseProductVersion(), meta.getDatabaseMajorVersion());
      try (ResultSet columns = meta.getColumns(Steps.DATABASE, null, "everything", "%")) {
        while (columns.next()) {
          say(columns.getString("COLUMN_NAME"), columns.getInt("DATA_TYPE"), columns.getString("TYPE_NAME"), columns.getInt("NULLABLE"));
        }
      }
      try (ResultSet keys = meta.getPrimaryKeys(Steps.DATABASE, null, "everything")) {
        rows(keys, false);
      }
      try (ResultSet tables = meta.getTables(Steps.DATABASE, null, "%", new String[] {"TABLE"})) {
        while (tables.next()) {
          say(tables.getString("TABLE_NAME"));
        }
      }
    }
  }

  /** LOAD DATA LOCAL and several statements in one text; both need an option of the driver's. */
  static void bulk(Steps steps, String options) throws Exception {
    Path path = Path.of(Steps.FOLDER, "jdbc.csv");
    Files.writeString(path, IntStream.range(0, 5000).mapToObj(n -> n + ",name " + n + "\n").collect(Collectors.joining()));
    try (Connection connection = steps.connect(options); Statement statement = connection.createStatement()) {
      statement.execute("CREATE TABLE loaded (n INT, name VARCHAR(20))");
      say(statement.executeUpdate("LOAD DATA LOCAL INFILE '" + path + "' INTO TABLE loaded FIELDS TERMINATED BY ','"));
      query(connection, "SELECT COUNT(*), SUM(n) FROM loaded");
      boolean more = statement.execute("SELECT 1; INSERT INTO loaded VALUES (1, 'x'), (2, 'y'); SELECT 2, 'ü'");
      while (more || statement.getUpdateCount() != -1) {
        if (more) {
          rows(statement.getResultSet(), false);
        } else {
          say("updated", statement.getUpdateCount());
        }
        more = statement.getMoreResults();
      }
    }
  }
}
