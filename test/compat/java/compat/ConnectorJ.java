package compat;

import static compat.Steps.query;
import static compat.Steps.say;

import com.mysql.cj.jdbc.JdbcConnection;
import java.sql.Connection;
import java.sql.SQLException;

/** MySQL Connector/J: client and server prepares, rewritten batches, cursor fetch, reset, change user. */
public final class ConnectorJ {
  private ConnectorJ() {}

  public static void main(String[] arguments) {
    Steps steps = new Steps("mysql", (Steps.TLS ? "&sslMode=REQUIRED" : "&sslMode=DISABLED") + "&allowPublicKeyRetrieval=true&characterEncoding=UTF-8&connectionTimeZone=UTC");
    Jdbc.register(steps, "client", "");
    Jdbc.register(steps, "server", "&useServerPrepStmts=true&cachePrepStmts=true&useCursorFetch=true");
    Jdbc.register(steps, "rewritten", "&rewriteBatchedStatements=true&useAffectedRows=true&useLocalSessionState=true&cacheServerConfiguration=true");
    steps.step("bulk", () -> Jdbc.bulk(steps, "&allowLoadLocalInfile=true&allowMultiQueries=true"));
    steps.step("reset_and_change_user", () -> {
      try (Connection connection = steps.connect()) {
        Steps.execute(connection, "SET @x = 1");
        JdbcConnection own = connection.unwrap(JdbcConnection.class);
        own.resetServerState();
        query(connection, "SELECT @x, DATABASE()");
        own.changeUser(System.getenv("COMPAT_USER"), System.getenv("COMPAT_PASSWORD"));
        query(connection, "SELECT @x, DATABASE()");
        own.ping();
        say(own.getSession().getServerSession().getServerVersion().toString());
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
    steps.run();
  }
}
