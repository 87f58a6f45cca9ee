package compat;

import java.sql.Blob;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What the Java programs share: where to connect, and steps whose output is compared. */
final class Steps {
  static final String DATABASE = System.getenv("COMPAT_DATABASE");
  /** Every connection is by TLS; whose certificate it is does not matter here. */
  static final boolean TLS = !System.getenv("COMPAT_TLS").isEmpty();
  static final String FOLDER = System.getenv("COMPAT_FOLDER");

  interface Step {
    void run() throws Exception;
  }

  private final String scheme;
  private final String options;
  private final Map<String, Step> steps = new LinkedHashMap<>();

  /** @param scheme the driver's: mysql or mariadb; @param options of every connection */
  Steps(String scheme, String options) {
    this.scheme = scheme;
    this.options = options;
  }

  String url(String more) {
    return "jdbc:" + scheme + "://" + System.getenv("COMPAT_HOST") + ":" + System.getenv("COMPAT_PORT") + "/" + DATABASE
        + "?user=" + System.getenv("COMPAT_USER") + "&password=" + System.getenv("COMPAT_PASSWORD")
        + options + more;
  }

  Connection connect(String more) throws SQLException {
    return DriverManager.getConnection(url(more));
  }

  Connection connect() throws SQLException {
    return connect("");
  }

  void step(String name, Step step) {
    steps.put(name, step);
  }

  void run() {
    steps.forEach((name, step) -> {
      System.out.println("== " + name);
      try {
        step.run();
      } catch (Throwable error) {
        System.out.println("unexpected: " + error);
      }
    });
    System.out.flush();
    System.exit(0);
  }

  static void say(Object... words) {
    List<String> shown = new ArrayList<>();
    for (Object word : words) {
      shown.add(show(word));
    }
    System.out.println(String.join(" ", shown));
  }

  private static String show(Object word) {
    if (word instanceof byte[] bytes) {
      return "0x" + HexFormat.of().formatHex(bytes);
    }
    if (word instanceof Blob blob) {
      try {
        return "blob " + show(blob.getBytes(1, (int) blob.length()));
      } catch (SQLException error) {
        return error.toString();
      }
    }
    if (word instanceof int[] numbers) {
      return java.util.Arrays.toString(numbers);
    }
    return word + (word == null ? "" : ":" + word.getClass().getSimpleName());
  }

  static void say(SQLException error) {
    say(error.getErrorCode(), error.getSQLState(), error.getMessage().replaceAll("\\(conn=\\d+\\)", "(conn=N)"));
  }

  /** Prints all rows; with {@code columns}, the metadata too. */
  static void rows(ResultSet rows, boolean columns) throws SQLException {
    ResultSetMetaData meta = rows.getMetaData();
    for (int i = 1; columns && i <= meta.getColumnCount(); i++) {
      say(meta.getColumnLabel(i), meta.getTableName(i), meta.getColumnTypeName(i), meta.getColumnType(i), meta.getPrecision(i),
          meta.getScale(i), meta.isNullable(i), meta.isAutoIncrement(i), meta.isSigned(i));
    }
    while (rows.next()) {
      Object[] row = new Object[meta.getColumnCount()];
      for (int i = 0; i < row.length; i++) {
        row[i] = rows.getObject(i + 1);
      }
      say(row);
    }
  }

  static void query(Connection connection, String text) throws SQLException {
    try (var statement = connection.createStatement(); var rows = statement.executeQuery(text)) {
      rows(rows, false);
    }
  }

  static void execute(Connection connection, String text) throws SQLException {
    try (var statement = connection.createStatement()) {
      statement.execute(text);
    }
  }
}
