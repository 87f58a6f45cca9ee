package compat;

import static compat.Steps.say;

import com.zaxxer.hikari.HikariDataSource;
import java.math.BigDecimal;
import java.util.List;
import java.util.Map;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.EmptyResultDataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.jdbc.core.simple.SimpleJdbcInsert;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/** Spring's JDBC over Connector/J and HikariCP: templates, batches, transactions and their propagation, translated errors. */
public final class Spring {
  private static final int ROWS = 500;

  private Spring() {}

  private static void translated(Runnable action) {
    try {
      action.run();
      say("no error");
    } catch (DataAccessException error) {
      say(error.getClass().getSimpleName(), String.valueOf(error.getMostSpecificCause().getMessage()));
    }
  }

  private static void queries(JdbcTemplate jdbc) {
    jdbc.execute("CREATE TABLE books (id BIGINT AUTO_INCREMENT PRIMARY KEY, title VARCHAR(60) NOT NULL UNIQUE, price DECIMAL(12,3))");
    Number key = new SimpleJdbcInsert(jdbc).withTableName("books").usingGeneratedKeyColumns("id")
        .executeAndReturnKey(Map.of("title", "naïve 🧵 'q'", "price", new BigDecimal("12.500")));
    say(key.longValue(), jdbc.queryForMap("SELECT * FROM books WHERE id = ?", key));
    List<Object[]> rows = java.util.stream.IntStream.range(0, ROWS).mapToObj(i -> new Object[] {"t" + i, i}).toList();
    say(jdbc.batchUpdate("INSERT INTO books (title, price) VALUES (?, ?)", rows).length);
    say(jdbc.queryForObject("SELECT COUNT(*) FROM books", Long.class), jdbc.queryForObject("SELECT SUM(price) FROM books", BigDecimal.class));
    var named = new NamedParameterJdbcTemplate(jdbc);
    say(named.queryForList("SELECT title FROM books WHERE price IN (:prices) ORDER BY id", Map.of("prices", List.of(1, 2, 3)), String.class));
    say(jdbc.update("UPDATE books SET price = price + 1 WHERE price < ?", 10));
  }

  private static void transactions(JdbcTemplate jdbc, DataSourceTransactionManager manager) {
    var outer = new TransactionTemplate(manager);
    var nested = new TransactionTemplate(manager);
    nested.setPropagationBehavior(TransactionDefinition.PROPAGATION_NESTED);
    var alone = new TransactionTemplate(manager);
    alone.setPropagationBehavior(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
    outer.executeWithoutResult(status -> {
      jdbc.update("INSERT INTO books (title) VALUES ('outer')");
      nested.executeWithoutResult(inner -> {
        jdbc.update("INSERT INTO books (title) VALUES ('nested')");
        inner.setRollbackOnly();
      });
      alone.executeWithoutResult(inner -> jdbc.update("INSERT INTO books (title) VALUES ('alone')"));
    });
    outer.executeWithoutResult(status -> {
      jdbc.update("INSERT INTO books (title) VALUES ('lost')");
      status.setRollbackOnly();
    });
    say(jdbc.queryForList("SELECT title FROM books WHERE price IS NULL ORDER BY id", String.class));
    var reads = new TransactionTemplate(manager);
    reads.setReadOnly(true);
    reads.setIsolationLevel(TransactionDefinition.ISOLATION_REPEATABLE_READ);
    say(reads.<Long>execute(status -> jdbc.queryForObject("SELECT COUNT(*) FROM books", Long.class)));
    translated(() -> reads.executeWithoutResult(status -> jdbc.update("INSERT INTO books (title) VALUES ('refused')")));
  }

  private static void errors(JdbcTemplate jdbc) {
    translated(() -> jdbc.update("INSERT INTO books (title) VALUES ('outer')"));
    translated(() -> jdbc.update("INSERT INTO books (title) VALUES (NULL)"));
    translated(() -> jdbc.queryForList("SELECT * FROM nothing"));
    translated(() -> jdbc.queryForList("SELEKT"));
    try {
      jdbc.queryForObject("SELECT id FROM books WHERE title = 'none'", Long.class);
    } catch (EmptyResultDataAccessException error) {
      say(error.getExpectedSize(), error.getActualSize());
    }
  }

  public static void main(String[] arguments) {
    var steps = new Steps("mysql", Hibernate.options());
    var source = new HikariDataSource();
    source.setJdbcUrl(steps.url(""));
    source.setMaximumPoolSize(4);
    var jdbc = new JdbcTemplate(source);
    steps.step("queries", () -> queries(jdbc));
    steps.step("transactions", () -> transactions(jdbc, new DataSourceTransactionManager(source)));
    steps.step("errors", () -> errors(jdbc));
    steps.run();
  }
}
