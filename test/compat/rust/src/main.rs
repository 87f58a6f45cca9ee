//! Uses mysql_async as Rust services do: pools, prepared and text, transactions, streams, batches,
//! LOAD DATA LOCAL. Prints what it saw, step by step; an unexpected error ends only its step.

use std::env;
use std::fmt::Debug;
use std::time::Duration;

use futures_util::StreamExt;
use mysql_async::prelude::*;
use mysql_async::{Conn, Error, IsolationLevel, Opts, OptsBuilder, Pool, Row, TxOpts, Value, params};

type Outcome = Result<(), Error>;

fn setting(name: &str) -> String {
    env::var(format!("COMPAT_{name}")).unwrap_or_default()
}

fn options() -> OptsBuilder {
    OptsBuilder::default()
        .ip_or_hostname(setting("HOST"))
        .tcp_port(setting("PORT").parse().unwrap_or(0))
        .user(Some(setting("USER")))
        .pass(Some(setting("PASSWORD")))
        .db_name(Some(setting("DATABASE")))
        .prefer_socket(false)
}

async fn connect() -> Result<Conn, Error> {
    Conn::new(Opts::from(options())).await
}

fn say(value: impl Debug) {
    println!("{value:?}");
}

fn say_error<T: Debug>(outcome: Result<T, Error>) {
    match outcome {
        Ok(value) => println!("no error {value:?}"),
        Err(Error::Server(told)) => println!("{} {} {}", told.code, told.state, told.message),
        Err(error) => println!("{error}"),
    }
}

fn values(rows: Vec<Row>) -> Vec<Vec<Value>> {
    rows.into_iter().map(Row::unwrap).collect()
}

async fn round_trips() -> Outcome {
    let mut conn = connect().await?;
    conn.query_drop(
        "CREATE TABLE everything (id INT AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED, dec_ DECIMAL(30,6), \
         dbl DOUBLE, txt TEXT, bin LONGBLOB, moment DATETIME(6), doc JSON, nothing INT) DEFAULT CHARSET utf8mb4",
    )
    .await?;
    let insert = "INSERT INTO everything (tiny, big, dec_, dbl, txt, bin, moment, doc, nothing) VALUES \
                  (:tiny, :big, :dec_, -1.25e100, :txt, :bin, :moment, :doc, :nothing)";
    let text = "naïve 日本語 🧵 'q' \\";
    conn.exec_drop(
        insert,
        params! {
            "tiny" => -128, "big" => u64::MAX, "dec_" => "-12345678901234567.890123", "txt" => text,
            "bin" => (0..=255).collect::<Vec<u8>>(), "moment" => Value::Date(1999, 12, 31, 23, 59, 59, 123_456),
            "doc" => r#"{"a": [1, null, "ü"]}"#, "nothing" => Value::NULL,
        },
    )
    .await?;
    say((conn.last_insert_id(), conn.affected_rows(), conn.info().to_string()));
    let rows: Vec<Row> = conn.exec("SELECT * FROM everything WHERE txt = ?", (text,)).await?;
    for column in rows[0].columns_ref() {
        say((column.name_str(), column.column_type(), column.flags(), column.column_length(), column.decimals()));
    }
    say(values(rows));
    say(values(conn.query("SELECT * FROM everything").await?));
    let big = vec![b'x'; 5_000_000];
    say(conn.exec_first::<(usize, bool), _, _>("SELECT LENGTH(?), ? = ''", (&big, &big)).await?);
    conn.disconnect().await
}

async fn transactions() -> Outcome {
    let (mut conn, mut other) = (connect().await?, connect().await?);
    let count = "/*ms=master*/ SELECT COUNT(*) FROM account";
    conn.query_drop("CREATE TABLE account (id INT PRIMARY KEY, balance INT)").await?;
    let mut tx = conn.start_transaction(TxOpts::default()).await?;
    tx.exec_drop("INSERT INTO account VALUES (?, ?)", (1, 100)).await?;
    say(other.query_first::<u32, _>(count).await?);
    tx.commit().await?;
    say(other.query_first::<u32, _>(count).await?);
    let mut serializable = TxOpts::default();
    serializable.with_isolation_level(IsolationLevel::Serializable).with_consistent_snapshot(true);
    let mut tx = conn.start_transaction(serializable).await?;
    tx.query_drop("DELETE FROM account").await?;
    tx.rollback().await?;
    {
        let mut dropped = conn.start_transaction(TxOpts::default()).await?;
        dropped.query_drop("DELETE FROM account").await?;
    }
    say(conn.query_first::<u32, _>("SELECT COUNT(*) FROM account").await?);
    let mut read_only = TxOpts::default();
    read_only.with_readonly(true);
    let mut tx = conn.start_transaction(read_only).await?;
    say_error(tx.query_drop("DELETE FROM account").await);
    tx.rollback().await?;
    conn.disconnect().await?;
    other.disconnect().await
}

async fn errors() -> Outcome {
    let mut conn = connect().await?;
    for text in ["SELECT * FROM not_there", "SELEC", "INSERT INTO account VALUES (1, 1)", "USE no_such_database", "CALL no_such_routine()"] {
        say_error(conn.query_drop(text).await);
        say_error(conn.exec_drop(text, ()).await);
    }
    for wrong in [options().pass(Some("wrong")), options().user(Some("nobody")), options().db_name(Some("no_such_database"))] {
        say_error(Conn::new(Opts::from(wrong)).await.map(|_| ()));
    }
    conn.disconnect().await
}

async fn several() -> Outcome {
    let mut conn = connect().await?;
    conn.query_drop(
        "CREATE PROCEDURE several(IN n INT, OUT doubled INT) BEGIN SELECT n; SELECT n + 1, 'ü'; SET doubled = n * 2; END",
    )
    .await?;
    let mut result = conn.query_iter("SELECT 1; SELECT 2, 'ü'; DO 0; CALL several(21, @d); SELECT @d").await?;
    while !result.is_empty() {
        say((values(result.collect().await?), result.affected_rows()));
    }
    drop(result);
    let mut result = conn.exec_iter("CALL several(?, @d)", (4,)).await?;
    while !result.is_empty() {
        say(values(result.collect().await?));
    }
    drop(result);
    say_error(conn.query_drop("SELECT 1; SELECT * FROM not_there; SELECT 3").await);
    say(conn.query_first::<String, _>("SELECT 'alive'").await?);
    conn.disconnect().await
}

async fn statements() -> Outcome {
    let mut conn = connect().await?;
    conn.query_drop("CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, n INT)").await?;
    conn.exec_batch("INSERT INTO item (n) VALUES (?)", (0..300).map(|n| (n,))).await?;
    let mut wrong = 0;
    for n in 0..150 {
        let text = format!("SELECT n, {} FROM item WHERE id = ?", n % 50);
        let row: Option<(i32, i32)> = conn.exec_first(text, (n + 1,)).await?;
        wrong += usize::from(row != Some((n, n % 50)));
    }
    say(wrong);
    let statement = conn.prep("SELECT CAST(? + ? AS SIGNED)").await?;
    say((statement.num_params(), statement.num_columns()));
    say(conn.exec_first::<i32, _, _>(&statement, (1, 2)).await?);
    conn.close(statement).await?;
    let mut sum = 0u64;
    let mut stream = conn.exec_stream::<(u64, String), _, _>("SELECT seq, REPEAT('x', 100) FROM compat_numbers.seq_1_to_20000", ()).await?;
    while let Some(row) = stream.next().await {
        sum += row?.0;
    }
    drop(stream);
    say(sum);
    conn.disconnect().await
}

async fn pools() -> Outcome {
    let pool = Pool::new(Opts::from(options()));
    let tasks = (0..40).map(|n| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let mut conn = pool.get_conn().await?;
            conn.query_drop(format!("SET @me = {n}")).await?;
            conn.exec_first::<i32, _, _>("SELECT @me + ?", (1,)).await
        })
    });
    let mut wrong = 0;
    for (n, task) in tasks.collect::<Vec<_>>().into_iter().enumerate() {
        let seen = task.await.ok().and_then(Result::ok).flatten();
        wrong += usize::from(seen != i32::try_from(n + 1).ok());
    }
    say(("wrong", wrong));
    let mut conn = pool.get_conn().await?;
    say(conn.query_first::<Option<i32>, _>("SELECT @me").await?);
    conn.query_drop("SET @me = 1").await?;
    conn.reset().await?;
    say(conn.query_first::<Option<i32>, _>("SELECT @me").await?);
    conn.change_user(mysql_async::ChangeUserOpts::default().with_db_name(Some("information_schema".to_owned()))).await?;
    say(conn.query_first::<String, _>("SELECT DATABASE()").await?);
    conn.ping().await?;
    drop(conn);
    pool.disconnect().await
}

async fn load_data_local() -> Outcome {
    let mut conn = connect().await?;
    let lines = (0..5000).map(|n| Ok(format!("{n}\tname {n}\n").into()));
    conn.set_infile_handler(async move { Ok(futures_util::stream::iter(lines).boxed()) });
    conn.query_drop("CREATE TABLE loaded (n INT, name VARCHAR(20))").await?;
    conn.query_drop("LOAD DATA LOCAL INFILE 'anything' INTO TABLE loaded").await?;
    say((conn.affected_rows(), conn.info().to_string()));
    say(conn.query_first::<(u32, u64), _>("SELECT COUNT(*), SUM(n) FROM loaded").await?);
    conn.disconnect().await
}

async fn killed() -> Outcome {
    let (mut conn, mut killer) = (connect().await?, connect().await?);
    let id = conn.id();
    let sleeping = tokio::spawn(async move {
        let _ = conn.query_drop("SELECT SLEEP(20)").await;
        conn
    });
    for _ in 0..40 {
        if sleeping.is_finished() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        killer.query_drop(format!("KILL QUERY {id}")).await?;
    }
    say(sleeping.is_finished());
    if let Ok(mut conn) = sleeping.await {
        say(conn.query_first::<String, _>("SELECT 'alive'").await?);
    }
    killer.disconnect().await
}

#[tokio::main]
async fn main() {
    let steps: [(&str, std::pin::Pin<Box<dyn Future<Output = Outcome>>>); 8] = [
        ("round_trips", Box::pin(round_trips())),
        ("transactions", Box::pin(transactions())),
        ("errors", Box::pin(errors())),
        ("several", Box::pin(several())),
        ("statements", Box::pin(statements())),
        ("pools", Box::pin(pools())),
        ("load_data_local", Box::pin(load_data_local())),
        ("killed", Box::pin(killed())),
    ];
    for (name, step) in steps {
        println!("== {name}");
        if let Err(error) = step.await {
            println!("unexpected: {error}");
        }
    }
}
