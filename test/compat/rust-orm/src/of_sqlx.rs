//! sqlx: a pool, prepared statements with its cache, migrations, streams, transactions.

use chrono::{NaiveDate, NaiveDateTime};
use futures_util::TryStreamExt;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions, MySqlSslMode};
use sqlx::{Acquire, Column, Connection, Executor, MySqlConnection, Row, TypeInfo};
use std::borrow::Cow;
use std::str::FromStr;

use crate::{TEXT, say, url};

type Outcome = Result<(), sqlx::Error>;

fn options() -> MySqlConnectOptions {
    let options = MySqlConnectOptions::from_str(&url()).expect("a URL");
    options.ssl_mode(MySqlSslMode::Disabled)
}

async fn pool(most: u32) -> Result<MySqlPool, sqlx::Error> {
    MySqlPoolOptions::new()
        .max_connections(most)
        .connect_with(options())
        .await
}

fn say_error<T: std::fmt::Debug>(outcome: Result<T, sqlx::Error>) {
    match outcome {
        Ok(value) => println!("no error {value:?}"),
        Err(sqlx::Error::Database(told)) => {
            println!(
                "{:?} {} {:?} {:?}",
                told.code(),
                told.message(),
                told.kind(),
                told.constraint()
            );
        }
        Err(error) => println!("{error}"),
    }
}

async fn migrations() -> Outcome {
    let pool = pool(2).await?;
    let make = |version, sql: &'static str| {
        let kind = MigrationType::Simple;
        Migration::new(
            version,
            Cow::Borrowed("made"),
            kind,
            Cow::Borrowed(sql),
            false,
        )
    };
    let all = vec![
        make(
            1,
            "CREATE TABLE groups_ (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(60) UNIQUE) DEFAULT CHARSET utf8mb4",
        ),
        make(
            2,
            "CREATE TABLE users (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, nick VARCHAR(60), age TINYINT, big BIGINT UNSIGNED, \
                 ratio DOUBLE, doc JSON, image LONGBLOB, joined DATETIME(6), day DATE, group_id INT REFERENCES groups_ (id)) \
                 DEFAULT CHARSET utf8mb4; INSERT INTO groups_ (name) VALUES ('first')",
        ),
    ];
    let migrator = Migrator {
        migrations: Cow::Owned(all),
        ..Migrator::DEFAULT
    };
    for _ in 0..2 {
        migrator.run(&pool).await?;
    }
    let rows = sqlx::query("SELECT version, description, success FROM _sqlx_migrations")
        .fetch_all(&pool)
        .await?;
    say(rows
        .iter()
        .map(|row| {
            (
                row.get::<i64, _>(0),
                row.get::<String, _>(1),
                row.get::<bool, _>(2),
            )
        })
        .collect::<Vec<_>>());
    let described = pool.describe("SELECT * FROM users WHERE id = ?").await?;
    for column in described.columns() {
        say((
            column.name(),
            column.type_info().name(),
            described.nullable(column.ordinal()),
        ));
    }
    Ok(())
}

async fn values() -> Outcome {
    let pool = pool(3).await?;
    let moment = NaiveDate::from_ymd_opt(1999, 12, 31)
        .and_then(|day| day.and_hms_micro_opt(23, 59, 59, 123_456));
    let image: Vec<u8> = b"\x00\xff'\\".repeat(700_000);
    let insert = "INSERT INTO users (nick, age, big, ratio, doc, image, joined, day, group_id) VALUES (?,?,?,?,?,?,?,?,?)";
    let done = sqlx::query(insert)
        .bind(TEXT)
        .bind(-128i8)
        .bind(u64::MAX)
        .bind(-1.25e100)
        .bind(serde_json::json!({"a": [1, null, "ü"]}))
        .bind(&image)
        .bind(moment)
        .bind(moment.map(|at| at.date()))
        .bind(None::<i32>)
        .execute(&pool)
        .await?;
    say((done.last_insert_id(), done.rows_affected()));
    let row = sqlx::query("SELECT * FROM users WHERE nick = ?")
        .bind(TEXT)
        .fetch_one(&pool)
        .await?;
    say((
        row.get::<u64, _>("id"),
        row.get::<String, _>("nick"),
        row.get::<i8, _>("age"),
        row.get::<u64, _>("big"),
        row.get::<f64, _>("ratio"),
    ));
    say((
        row.get::<Vec<u8>, _>("image") == image,
        row.get::<NaiveDateTime, _>("joined"),
        row.get::<NaiveDate, _>("day"),
        row.get::<Option<i32>, _>("group_id"),
    ));
    let raw: Vec<(String, Option<i8>)> = sqlx::query_as("SELECT nick, age FROM users ORDER BY id")
        .fetch_all(&pool)
        .await?;
    say(raw);
    let text = sqlx::raw_sql("SELECT 1 AS a; SELECT 'x' AS b, NULL AS c")
        .fetch_all(&pool)
        .await?;
    say(text.iter().map(|row| row.len()).collect::<Vec<_>>());
    Ok(())
}

async fn statements() -> Outcome {
    let mut connection =
        MySqlConnection::connect_with(&options().statement_cache_capacity(10)).await?;
    let mut wrong = 0;
    for n in 0..60i64 {
        let text = format!("SELECT ? + {}", n % 25);
        let sum: i64 = sqlx::query_scalar(&text)
            .bind(n)
            .fetch_one(&mut connection)
            .await?;
        wrong += i32::from(sum != n + n % 25);
    }
    say(("wrong", wrong, connection.cached_statements_size()));
    connection.clear_cached_statements().await?;
    connection.ping().await?;
    let mut rows =
        sqlx::query("SELECT seq FROM compat_numbers.seq_1_to_20000").fetch(&mut connection);
    let mut total = 0;
    while let Some(row) = rows.try_next().await? {
        total += row.try_get_unchecked::<i64, _>(0)?;
    }
    drop(rows);
    // One that is dropped half way leaves the rest of its rows to be read.
    let first = sqlx::query("SELECT seq FROM compat_numbers.seq_1_to_5000")
        .fetch(&mut connection)
        .try_next()
        .await?;
    let alive: i32 = sqlx::query_scalar("SELECT 7")
        .fetch_one(&mut connection)
        .await?;
    say((total, first.is_some(), alive));
    connection.close().await
}

async fn transactions() -> Outcome {
    let pool = pool(3).await?;
    let mut one = pool.begin().await?;
    sqlx::query("INSERT INTO groups_ (name) VALUES ('kept')")
        .execute(&mut *one)
        .await?;
    let mut inner = one.begin().await?;
    sqlx::query("INSERT INTO groups_ (name) VALUES ('inner')")
        .execute(&mut *inner)
        .await?;
    inner.rollback().await?;
    let seen: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM groups_ WHERE name = 'kept'")
        .fetch_one(&pool)
        .await?;
    one.commit().await?;
    let mut lost = pool.begin().await?;
    sqlx::query("INSERT INTO groups_ (name) VALUES ('lost')")
        .execute(&mut *lost)
        .await?;
    drop(lost);
    let names: Vec<String> = sqlx::query_scalar("SELECT name FROM groups_ ORDER BY id")
        .fetch_all(&pool)
        .await?;
    say((seen, names));
    Ok(())
}

async fn two_connections() -> Outcome {
    let (one, other) = (pool(1).await?, pool(1).await?);
    let mut wrong = 0;
    for n in 0..50 {
        let done = sqlx::query("INSERT INTO groups_ (name) VALUES (?)")
            .bind(format!("w{n}"))
            .execute(&one)
            .await?;
        let found = sqlx::query("SELECT name FROM groups_ WHERE id = ?")
            .bind(done.last_insert_id())
            .fetch_optional(&other)
            .await?;
        wrong += i32::from(found.is_none());
    }
    say(("wrong", wrong));
    Ok(())
}

async fn pools() -> Outcome {
    let pool = MySqlPoolOptions::new()
        .max_connections(4)
        .after_connect(|connection, _| {
            Box::pin(async move {
                connection
                    .execute("SET time_zone = '+03:00', @mine = 7")
                    .await
                    .map(drop)
            })
        })
        .connect_with(options())
        .await?;
    let ask = || {
        sqlx::query_as::<_, (String, i64)>("SELECT @@time_zone, CAST(@mine AS SIGNED)")
            .fetch_one(&pool)
    };
    let all = futures_util::future::try_join_all((0..30).map(|_| ask())).await?;
    say(all
        .iter()
        .all(|(zone, mine)| zone == "+03:00" && *mine == 7));
    pool.close().await;
    Ok(())
}

async fn errors() -> Outcome {
    let pool = pool(2).await?;
    say_error(
        sqlx::query("INSERT INTO groups_ (name) VALUES ('kept')")
            .execute(&pool)
            .await,
    );
    say_error(sqlx::query("SELEC").execute(&pool).await);
    say_error(
        sqlx::query("SELECT * FROM not_there")
            .fetch_all(&pool)
            .await,
    );
    say_error(
        sqlx::query("INSERT INTO users (group_id) VALUES (?)")
            .bind(4711)
            .execute(&pool)
            .await,
    );
    say_error(
        sqlx::query("SELECT 1 FROM users WHERE id = 0")
            .fetch_one(&pool)
            .await
            .map(|row| row.len()),
    );
    say_error(
        MySqlConnection::connect_with(&options().password("wrong"))
            .await
            .map(|_| ()),
    );
    say_error(
        MySqlConnection::connect_with(&options().database("not_there"))
            .await
            .map(|_| ()),
    );
    Ok(())
}

/// An unexpected error ends only its step.
pub async fn run() {
    let told = |name: &str, outcome: Outcome| {
        if let Err(error) = outcome {
            println!("unexpected: {name}: {error}");
        }
    };
    println!("== migrations");
    told("migrations", migrations().await);
    println!("== values");
    told("values", values().await);
    println!("== statements");
    told("statements", statements().await);
    println!("== transactions");
    told("transactions", transactions().await);
    println!("== two_connections");
    told("two_connections", two_connections().await);
    println!("== pools");
    told("pools", pools().await);
    println!("== errors");
    told("errors", errors().await);
}
