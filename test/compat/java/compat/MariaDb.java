package compat;

import static compat.Steps.query;
import static compat.Steps.say;

import java.sql.Connection;
import java.sql.SQLException;
import org.mariadb.jdbc.MariaDbDataSource;
import org.mariadb.jdbc.MariaDbPoolDataSource;

/** MariaDB Connector/J: text and binary, bulk, pipelined batches, its own pool, compression. */
public final class MariaDb {
  private MariaDb() {}

  public static void main(String[] arguments) {
    Steps steps = new Steps("mariadb", Steps.TLS ? "&sslMode=trust" : "&sslMode=disable");
    Jdbc.register(steps, "text", "");
    Jdbc.register(steps, "binary", "&useServerPrepStmts=true&useBulkStmts=true");
    Jdbc.register(steps, "pipelined", "&useServerPrepStmts=true&disablePipeline=false&useBulkStmts=false&useAffectedRows=true");
    steps.step("bulk", () -> Jdbc.bulk(steps, "&allowLocalInfile=true&allowMultiQueries=true"));
    steps.step("data_sources", () -> {
      try (Connection connection = new MariaDbDataSource(steps.url("")).getConnection()) {
        query(connection, "SELECT DATABASE(), @@autocommit");
      }
      try (MariaDbPoolDataSource pool = new MariaDbPoolDataSource(steps.url("&maxPoolSize=2&useResetConnection=true"))) {
        for (int round = 0; round < 3; round++) {
          try (Connection connection = pool.getConnection()) {
            query(connection, "SELECT @x");
            Steps.execute(connection, "SET @x = 1");
            say(connection.isValid(1));
          }
        }
      }
    });
    steps.step("wrong_login", () -> {
      for (String more : new String[] {"&user=nobody", "&password=wrong"}) {
        try (Connection connection = steps.connect(more)) {
          say("no error");
        } catch (SQLException error) {
          say(error.getErrorCode(), error.getSQLState());
        }
      }
    });
    steps.step("compressed", () -> {
      try (Connection connection = steps.connect("&useCompression=true")) {
        query(connection, "SELECT LENGTH(REPEAT('x', 1000000)), MD5(REPEAT('y', 100000))");
      }
    });
    steps.run();
  }
}
