package compat;

import static compat.Steps.say;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.FetchType;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.LockModeType;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.Table;
import jakarta.persistence.Version;
import java.math.BigDecimal;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.hibernate.exception.ConstraintViolationException;

/** Hibernate over Connector/J and HikariCP: schema update, sequences of its own, batches, locks, lazy loads. */
public final class Hibernate {
  private Hibernate() {}

  @Entity(name = "Author")
  @Table(name = "authors")
  public static class Author {
    @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
    @Column(length = 60, unique = true, nullable = false) String name;
    @OneToMany(mappedBy = "author") List<Book> books = new ArrayList<>();

    Author() {}

    Author(String name) {
      this.name = name;
    }
  }

  @Entity(name = "Book")
  @Table(name = "books")
  public static class Book {
    @Id @GeneratedValue(strategy = GenerationType.TABLE) Long id;
    @Version int version;
    @Column(nullable = false) String title;
    @Column(precision = 20, scale = 6) BigDecimal price;
    @Column(columnDefinition = "longblob") byte[] cover;
    LocalDateTime published;
    Boolean sold;
    @ManyToOne(fetch = FetchType.LAZY) Author author;

    Book() {}

    Book(String title, String price, Author author) {
      this.title = title;
      this.price = price == null ? null : new BigDecimal(price);
      this.author = author;
    }
  }

  private static SessionFactory open(String more) {
    Configuration configuration = new Configuration().addAnnotatedClass(Author.class).addAnnotatedClass(Book.class);
    configuration.setProperty("hibernate.connection.url", new Steps("mysql", options()).url(more));
    configuration.setProperty("hibernate.hbm2ddl.auto", "update");
    configuration.setProperty("hibernate.connection.pool_size", "5");
    configuration.setProperty("hibernate.jdbc.batch_size", "50");
    configuration.setProperty("hibernate.order_inserts", "true");
    return configuration.buildSessionFactory();
  }

  static String options() {
    return Steps.TLS ? "&sslMode=REQUIRED" : "&sslMode=DISABLED&allowPublicKeyRetrieval=true";
  }

  private static long count(Session session, String name) {
    return session.createQuery("select count(a) from Author a where a.name = :name", Long.class).setParameter("name", name).getSingleResult();
  }

  public static void main(String[] arguments) {
    java.util.logging.LogManager.getLogManager().reset();
    Steps steps = new Steps("mysql", options());
    for (String kind : new String[] {"text", "prepared"}) {
      String more = kind.equals("text") ? "&rewriteBatchedStatements=true" : "&useServerPrepStmts=true&cachePrepStmts=true";
      steps.step("rows_" + kind, () -> rows(kind, more));
      steps.step("transactions_" + kind, () -> transactions(kind, more));
    }
    steps.step("two_connections", () -> {
      try (SessionFactory one = open(""); SessionFactory other = open("")) {
        int wrong = 0;
        for (int n = 0; n < 50; n++) {
          String name = "w" + n;
          one.inTransaction(session -> session.persist(new Author(name)));
          wrong += other.fromSession(session -> count(session, name)) == 1 ? 0 : 1;
        }
        say("wrong", wrong);
      }
    });
    steps.step("errors", () -> errors(steps));
    steps.run();
  }

  private static void rows(String kind, String more) {
    try (SessionFactory factory = open(more)) {
      LocalDateTime moment = LocalDateTime.of(1999, 12, 31, 23, 59, 59, 123_456_000);
      Long id = factory.fromTransaction(session -> {
        Author author = new Author("ü 🧵 " + kind);
        session.persist(author);
        Book book = new Book("a 'b' \\ ?", "-12345678901234.567890", author);
        book.cover = new byte[2_000_000];
        book.cover[99] = 7;
        book.published = moment;
        session.persist(book);
        for (int n = 1; n <= 300; n++) {
          session.persist(new Book("t" + n, String.valueOf(n), n % 2 == 0 ? author : null));
        }
        return author.id;
      });
      factory.inTransaction(session -> {
        Author author = session.find(Author.class, id);
        Book book = session.createQuery("from Book where title like 'a %' and author.id = :id", Book.class).setParameter("id", id).getSingleResult();
        say(author.name, author.books.size(), book.price, book.cover.length, book.cover[99], book.published, book.sold, book.version);
        say(session.createQuery("select b.author.name, count(b), max(b.price) from Book b where b.author.id = :id group by b.author.name", Object[].class)
            .setParameter("id", id).getSingleResult()[1]);
        say(session.createMutationQuery("update Book set price = price + 1 where title like 't1%'").executeUpdate());
        say(session.createMutationQuery("delete from Book where price > 290").executeUpdate());
        say(session.createQuery("select title from Book where price between 5 and 8 order by price, title", String.class).setFirstResult(1).setMaxResults(3).getResultList());
        say(session.createNativeQuery("select count(*) from books b left join authors a on a.id = b.author_id where a.id is null", Long.class).getSingleResult());
        book.sold = true;
        session.flush();
        say(book.version);
        session.createMutationQuery("delete from Book where title like 't%'").executeUpdate();
      });
    }
  }

  private static void transactions(String kind, String more) {
    try (SessionFactory factory = open(more)) {
      factory.inTransaction(session -> session.persist(new Author("kept " + kind)));
      try {
        factory.inTransaction(session -> {
          session.persist(new Author("lost " + kind));
          session.flush();
          throw new IllegalStateException("roll back");
        });
      } catch (IllegalStateException error) {
        say(error.getMessage());
      }
      factory.inTransaction(session -> {
        Author locked = session.createQuery("from Author where name = :name", Author.class).setParameter("name", "kept " + kind)
            .setLockMode(LockModeType.PESSIMISTIC_WRITE).getSingleResult();
        say(locked.name, factory.fromSession(other -> count(other, "lost " + kind)));
      });
      Session one = factory.openSession();
      Session other = factory.openSession();
      Book first = one.createQuery("from Book where title like 'a %'", Book.class).setMaxResults(1).getSingleResult();
      Book second = other.find(Book.class, first.id);
      one.beginTransaction();
      first.title = "a first";
      one.getTransaction().commit();
      other.beginTransaction();
      second.title = "a second";
      try {
        other.getTransaction().commit();
        say("no error");
      } catch (RuntimeException error) {
        say(error.getClass().getSimpleName());
      }
      one.close();
      other.close();
    }
  }

  private static void errors(Steps steps) {
    try (SessionFactory factory = open("")) {
      try {
        factory.inTransaction(session -> {
          session.persist(new Author("kept text"));
          session.flush();
        });
      } catch (ConstraintViolationException error) {
        say(error.getErrorCode(), error.getSQLState(), error.getConstraintName(), error.getSQLException().getMessage());
      }
      try {
        factory.inSession(session -> session.createNativeQuery("select * from not_there", Object.class).getResultList());
      } catch (RuntimeException error) {
        say(error.getCause() == null ? error.getMessage() : error.getCause().getMessage());
      }
    }
    try (var connection = steps.connect("&password=wrong")) {
      say("no error");
    } catch (java.sql.SQLException error) {
      say(error.getErrorCode(), error.getSQLState());
    }
  }
}
