package compat;

import static compat.Steps.say;
import static org.jooq.impl.DSL.constraint;
import static org.jooq.impl.DSL.count;
import static org.jooq.impl.DSL.field;
import static org.jooq.impl.DSL.inline;
import static org.jooq.impl.DSL.name;
import static org.jooq.impl.DSL.rowNumber;
import static org.jooq.impl.DSL.select;
import static org.jooq.impl.DSL.sum;
import static org.jooq.impl.DSL.table;
import static org.jooq.impl.DSL.using;

import java.math.BigDecimal;
import java.sql.Connection;
import java.util.List;
import java.util.stream.IntStream;
import org.jooq.DSLContext;
import org.jooq.Field;
import org.jooq.SQLDialect;
import org.jooq.conf.Settings;
import org.jooq.conf.StatementType;
import org.jooq.exception.DataAccessException;
import org.jooq.impl.SQLDataType;

/** jOOQ over Connector/J: its DDL, metadata, batches, windows, cursors, nested transactions. */
public final class Jooq {
  private Jooq() {}

  private static final org.jooq.Table<?> ITEM = table(name("item"));
  private static final Field<Integer> ID = field(name("id"), SQLDataType.INTEGER.identity(true));
  private static final Field<String> NAME = field(name("name"), SQLDataType.VARCHAR(60).nullable(false));
  private static final Field<BigDecimal> PRICE = field(name("price"), SQLDataType.DECIMAL(20, 6));
  private static final Field<byte[]> DATA = field(name("data"), SQLDataType.BLOB);

  interface Body {
    void run(DSLContext db) throws Exception;
  }

  private static void with(Steps steps, StatementType type, String more, Body body) throws Exception {
    try (Connection connection = steps.connect(more)) {
      body.run(using(connection, SQLDialect.MYSQL, new Settings().withStatementType(type)));
    }
  }

  public static void main(String[] arguments) {
    System.setProperty("org.jooq.no-logo", "true");
    System.setProperty("org.jooq.no-tips", "true");
    java.util.logging.LogManager.getLogManager().reset();
    Steps steps = new Steps("mysql", Hibernate.options());
    for (StatementType type : StatementType.values()) {
      steps.step("rows_" + type, () -> with(steps, type, "&useServerPrepStmts=true", db -> rows(db)));
    }
    steps.step("transactions", () -> with(steps, StatementType.PREPARED_STATEMENT, "", db -> transactions(steps, db)));
    steps.step("errors", () -> with(steps, StatementType.PREPARED_STATEMENT, "", Jooq::errors));
    steps.run();
  }

  private static void rows(DSLContext db) {
    db.dropTableIfExists(ITEM).execute();
    db.createTable(ITEM).columns(ID, NAME, PRICE, DATA).constraints(constraint("pk").primaryKey(ID), constraint("by_name").unique(NAME)).execute();
    db.alterTable(ITEM).addColumn(field(name("later"), SQLDataType.BIGINT.defaultValue(7L))).execute();
    db.createIndex("by_price").on(ITEM, PRICE).execute();
    say(db.fetch("SHOW COLUMNS FROM item").format());
    say(db.insertInto(ITEM, NAME, PRICE, DATA).values("ü 🧵 'q' \\ ?", new BigDecimal("-12345678901234.567890"), new byte[] {0, -1, 39, 92}).returningResult(ID).fetchOne().value1());
    say(IntStream.of(db.batch(IntStream.range(0, 200).mapToObj(n -> db.insertInto(ITEM, NAME, PRICE).values("n" + n, BigDecimal.valueOf(n))).toList()).execute()).sum());
    say(db.insertInto(ITEM, NAME, PRICE).values("n5", BigDecimal.ONE).onDuplicateKeyUpdate().set(PRICE, BigDecimal.TEN).execute());
    say(db.insertInto(ITEM, NAME).values("n5").onDuplicateKeyIgnore().execute());
    say(db.select(NAME, PRICE).from(ITEM).where(NAME.in("n5", "n6").or(PRICE.lt(BigDecimal.ZERO))).orderBy(ID).fetch().format());
    say(db.select(PRICE.mod(inline(3)).as("third"), count(), sum(PRICE)).from(ITEM).groupBy(field(name("third"))).orderBy(1).fetch().formatCSV());
    say(db.select(NAME, rowNumber().over().orderBy(PRICE.desc(), NAME)).from(ITEM).orderBy(2).limit(3).offset(1).fetch().formatCSV());
    say(db.with("few").as(select(NAME, PRICE).from(ITEM).where(PRICE.between(BigDecimal.valueOf(20), BigDecimal.valueOf(25)))).select(count()).from(table(name("few"))).fetchOne().value1());
    say(db.update(ITEM).set(PRICE, PRICE.plus(1)).where(NAME.startsWith("n1")).execute(), db.deleteFrom(ITEM).where(PRICE.gt(BigDecimal.valueOf(190))).execute());
    int seen = 0;
    try (var cursor = db.select(NAME).from(ITEM).fetchSize(Integer.MIN_VALUE).fetchLazy()) {
      for (var row : cursor) {
        seen += row.value1().startsWith("n") ? 1 : 0;
      }
    }
    say(seen, db.fetchExists(ITEM, NAME.eq("n7")), db.selectOne().union(db.selectZero()).orderBy(1).fetch(0));
  }

  private static void transactions(Steps steps, DSLContext db) throws Exception {
    db.transaction(outer -> {
      outer.dsl().insertInto(ITEM, NAME).values("kept").execute();
      try {
        outer.dsl().transaction(inner -> {
          inner.dsl().insertInto(ITEM, NAME).values("inner").execute();
          throw new IllegalStateException("inner only");
        });
      } catch (IllegalStateException error) {
        say(error.getMessage());
      }
      say(outer.dsl().select(NAME).from(ITEM).where(NAME.eq("kept")).forUpdate().fetch(NAME));
    });
    try {
      db.transaction(outer -> {
        outer.dsl().insertInto(ITEM, NAME).values("lost").execute();
        throw new IllegalStateException("roll back");
      });
    } catch (IllegalStateException error) {
      say(error.getMessage());
    }
    say(db.select(NAME).from(ITEM).where(NAME.in(List.of("kept", "inner", "lost"))).fetch(NAME));
    with(steps, StatementType.PREPARED_STATEMENT, "", other -> {
      int wrong = 0;
      for (int n = 0; n < 50; n++) {
        db.insertInto(ITEM, NAME).values("w" + n).execute();
        wrong += other.fetchCount(ITEM, NAME.eq("w" + n)) == 1 ? 0 : 1;
      }
      say("wrong", wrong);
    });
  }

  private static void errors(DSLContext db) {
    List<Runnable> wrong = List.of(() -> db.insertInto(ITEM, NAME).values("kept").execute(), () -> db.fetch("SELEC"),
        () -> db.fetch("SELECT * FROM not_there"), () -> db.insertInto(ITEM, PRICE).values(BigDecimal.ONE).execute());
    for (Runnable one : wrong) {
      try {
        one.run();
        say("no error");
      } catch (DataAccessException error) {
        say(error.sqlState(), error.getCause(java.sql.SQLException.class).getErrorCode(), error.getCause().getMessage());
      }
    }
  }
}
