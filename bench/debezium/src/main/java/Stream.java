import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.util.List;
import java.util.Properties;

/**
 * Reads the changes of two tables with Debezium's embedded engine and throws them away. A row of the first table is
 * answered with the line "streams"; of the second, the line "done" follows each so many rows.
 *
 * Arguments: host, port, user, the two tables as database.table, so many rows.
 */
public class Stream {
    public static void main(String[] args) throws Exception {
        String first = "bench." + args[3], second = "bench." + args[4];
        long rows = Long.parseLong(args[5]);
        long[] seen = {0};
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(settings(args))
            .using((success, message, error) -> {
                Throwable cause = error;
                while (cause != null && cause.getCause() != null) {
                    cause = cause.getCause();
                }
                System.out.println("failed: " + message + " " + cause);
                System.exit(1);
            })
            .notifying((List<ChangeEvent<String, String>> events,
                        DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) -> {
                for (ChangeEvent<String, String> event : events) {
                    if (event.value() != null && event.destination().equals(first)) {
                        System.out.println("streams");
                    }
                    if (event.value() != null && event.destination().equals(second) && ++seen[0] % rows == 0) {
                        System.out.println("done");
                    }
                    committer.markProcessed(event);
                }
                committer.markBatchFinished();
            })
            .build();
        engine.run();
    }

    static Properties settings(String[] args) {
        Properties set = new Properties();
        set.setProperty("name", "bench");
        set.setProperty("connector.class", "io.debezium.connector.mysql.MySqlConnector");
        set.setProperty("connector.adapter", "mariadb");
        set.setProperty("database.protocol", "jdbc:mariadb");
        set.setProperty("database.jdbc.driver", "org.mariadb.jdbc.Driver");
        set.setProperty("database.hostname", args[0]);
        set.setProperty("database.port", args[1]);
        set.setProperty("database.user", args[2]);
        set.setProperty("database.password", "");
        set.setProperty("database.server.id", "4242");
        set.setProperty("database.ssl.mode", "disabled");
        set.setProperty("offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore");
        set.setProperty("schema.history.internal", "io.debezium.relational.history.MemorySchemaHistory");
        set.setProperty("topic.prefix", "bench");
        set.setProperty("table.include.list", args[3] + "," + args[4]);
        set.setProperty("snapshot.mode", "no_data");
        set.setProperty("key.converter.schemas.enable", "false");
        set.setProperty("value.converter.schemas.enable", "false");
        return set;
    }
}
