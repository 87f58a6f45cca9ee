import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Connector/J's Fabric driver, told what to do line by line (clients.py says which lines). Beside those, for releases
 * whose statements turn in a loop of the driver: `ping` answers the address of the server that the connection uses
 * after a ping of it, and `begins` answers where a statement is that does not end.
 */
public final class ConnectorJ {
  /** So many looks in a row find a statement in the same method: it turns there. */
  private static final int LOOKS = 2000;

  private String url;
  private Connection connection;
  private int failures;

  public static void main(String[] arguments) throws Exception {
    ConnectorJ driver = new ConnectorJ();
    System.out.println("ready");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(driver.answer(line));
      System.out.flush();
    }
    // A thread that turns would keep the program.
    Runtime.getRuntime().halt(0);
  }

  private String answer(String line) {
    try {
      String said = carryOut(line.split(" ", 2));
      failures = 0;
      return "ok " + said;
    } catch (Exception error) {
      // The driver goes on by itself after one failure; after two the application connects anew.
      if (++failures > 1) {
        close();
      }
      return "error " + error.toString().replaceAll("\\s+", " ");
    }
  }

  private String carryOut(String[] words) throws Exception {
    switch (words[0]) {
      case "key":
        String[] key = words[1].split(" ");
        return choose("fabricShardTable=" + key[0] + "&fabricShardKey=" + key[1]);
      case "group":
        return choose("fabricServerGroup=" + words[1]);
      case "sql":
        return first(words[1]);
      case "ping":
        com.mysql.jdbc.MySQLConnection used = (com.mysql.jdbc.MySQLConnection) connection();
        used.ping();
        return used.getHostPortPair();
      case "begins":
        return where(words[1]);
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  private String choose(String what) throws SQLException {
    close();
    url = "jdbc:mysql:fabric://" + System.getenv("FABRIC") + "/d?" + what + "&fabricReportErrors=true"
      + "&useSSL=false&connectTimeout=5000&socketTimeout=30000&retriesAllDown=4";
    return connection().isClosed() ? "closed" : "chosen";
  }

  private Connection connection() throws SQLException {
    if (connection == null || connection.isClosed()) {
      connection = DriverManager.getConnection(url, System.getenv("MYSQL_USER"), System.getenv("MYSQL_PASSWORD"));
    }
    return connection;
  }

  private void close() {
    try {
      if (connection != null) {
        connection.close();
      }
    } catch (SQLException ignored) {
      // It was broken.
    }
    connection = null;
  }

  private String first(String text) throws SQLException {
    try (Statement statement = connection().createStatement()) {
      if (!statement.execute(text)) {
        return "done";
      }
      ResultSet rows = statement.getResultSet();
      return rows.next() ? rows.getString(1) : "done";
    }
  }

  private String where(String text) throws Exception {
    connection();
    Thread runs = new Thread(() -> {
      try {
        first(text);
      } catch (SQLException ignored) {
        // It ended, which is what is asked.
      }
    });
    runs.setDaemon(true);
    runs.start();
    int looks = 0;
    while (runs.isAlive() && looks < LOOKS) {
      boolean turns = false;
      for (StackTraceElement frame : runs.getStackTrace()) {
        turns |= frame.getMethodName().equals("statementBegins");
      }
      looks = turns ? looks + 1 : 0;
    }
    connection = null;
    return runs.isAlive() ? "statementBegins" : "ended";
  }
}
