package compat;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.FileReader;
import java.util.Properties;
import java.util.regex.Pattern;
import org.springframework.dao.PessimisticLockingFailureException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Takes the application.properties of docs/APPLICATIONS.md as Spring Boot does: each name is a property of HikariCP. */
public final class SpringSettings {
  private static final String PREFIX = "spring.datasource.";

  private SpringSettings() {}

  private static String camel(String name) {
    return Pattern.compile("-(.)").matcher(name).replaceAll(found -> found.group(1).toUpperCase());
  }

  public static void main(String[] arguments) throws Exception {
    var file = new Properties();
    file.load(new FileReader(arguments[0]));
    var settings = new Properties();
    for (String name : file.stringPropertyNames()) {
      String own = name.substring(PREFIX.length()).replaceFirst("^hikari\\.", "");
      settings.setProperty(own.equals("url") ? "jdbcUrl" : camel(own), file.getProperty(name));
    }
    var source = new HikariDataSource(new HikariConfig(settings));
    var jdbc = new JdbcTemplate(source);
    jdbc.execute("CREATE TABLE spring (id INT AUTO_INCREMENT PRIMARY KEY, title VARCHAR(20))");
    new TransactionTemplate(new DataSourceTransactionManager(source))
        .executeWithoutResult(status -> jdbc.update("INSERT INTO spring (title) VALUES (?), (?)", "ü🧵", "b"));
    boolean again = false;
    try {
      jdbc.execute("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213");
    } catch (PessimisticLockingFailureException error) {
      again = true;
    }
    System.out.println(jdbc.queryForObject("SELECT COUNT(*) FROM spring", Long.class) + " "
        + jdbc.queryForObject("SELECT @@heddle_consistency", String.class) + " " + again);
    System.exit(0);
  }
}
