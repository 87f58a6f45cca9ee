//! diesel over libmariadb: migrations, its query builder, r2d2's pool, transactions.

use chrono::NaiveDateTime;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel::result::Error;
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use crate::{TEXT, say, url};

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations");

diesel::table! {
    teams (id) { id -> Integer, name -> Varchar, }
}
diesel::table! {
    players (id) {
        id -> Unsigned<Bigint>, nick -> Varchar, age -> Nullable<Tinyint>, big -> Unsigned<Bigint>, ratio -> Double,
        image -> Nullable<Longblob>, joined -> Nullable<Datetime>, team_id -> Nullable<Integer>,
    }
}
diesel::joinable!(players -> teams (team_id));
diesel::allow_tables_to_appear_in_same_query!(teams, players);

#[derive(Debug, Insertable, Clone)]
#[diesel(table_name = players)]
struct NewPlayer {
    nick: String,
    age: Option<i8>,
    big: u64,
    ratio: f64,
    image: Option<Vec<u8>>,
    joined: Option<NaiveDateTime>,
    team_id: Option<i32>,
}

#[derive(Debug, QueryableByName)]
struct Sum {
    #[diesel(sql_type = Nullable<Integer>)]
    team_id: Option<i32>,
    #[diesel(sql_type = BigInt)]
    n: i64,
}

#[derive(Debug, QueryableByName)]
struct Name {
    #[diesel(sql_type = Text)]
    name: String,
}

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn connect() -> Result<MysqlConnection, ConnectionError> {
    MysqlConnection::establish(&url())
}

fn say_error<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    match outcome {
        Ok(value) => println!("no error {value:?}"),
        Err(Error::DatabaseError(kind, told)) => println!("{kind:?} {}", told.message()),
        Err(error) => println!("{error}"),
    }
}

fn migrations() -> Outcome {
    let mut db = connect()?;
    say(db.run_pending_migrations(MIGRATIONS)?.len());
    say(db.run_pending_migrations(MIGRATIONS)?.len());
    say(db.revert_last_migration(MIGRATIONS)?.to_string());
    say(db.run_pending_migrations(MIGRATIONS)?.len());
    Ok(())
}

fn values() -> Outcome {
    let mut db = connect()?;
    diesel::insert_into(teams::table)
        .values(teams::name.eq("ü 🧵"))
        .execute(&mut db)?;
    let player = NewPlayer {
        nick: TEXT.to_owned(),
        age: Some(-128),
        big: u64::MAX,
        ratio: -1.25e100,
        image: Some(b"\x00\xff'\\".repeat(700_000)),
        joined: NaiveDateTime::parse_from_str("1999-12-31 23:59:59.123456", "%F %T%.f").ok(),
        team_id: Some(1),
    };
    say(diesel::insert_into(players::table)
        .values(&player)
        .execute(&mut db)?);
    let many: Vec<NewPlayer> = (0..200)
        .map(|n| NewPlayer {
            nick: format!("n{n}"),
            age: Some((n % 100) as i8),
            image: None,
            team_id: (n % 2 == 0).then_some(1),
            ..player.clone()
        })
        .collect();
    say(diesel::insert_into(players::table)
        .values(&many)
        .execute(&mut db)?);
    let (nick, big, image, joined): (String, u64, Option<Vec<u8>>, Option<NaiveDateTime>) =
        players::table
            .filter(players::nick.eq(TEXT))
            .select((players::nick, players::big, players::image, players::joined))
            .first(&mut db)?;
    say((nick, big, image.map(|image| image.len()), joined));
    let joined: Vec<(String, Option<String>)> = players::table
        .left_join(teams::table)
        .filter(players::age.gt(97))
        .order(players::id)
        .select((players::nick, teams::name.nullable()))
        .load(&mut db)?;
    say(joined);
    let sums: Vec<Sum> = diesel::sql_query("SELECT team_id, COUNT(*) AS n FROM players WHERE age > ? GROUP BY team_id ORDER BY team_id")
        .bind::<Integer, _>(10)
        .load(&mut db)?;
    say(sums
        .iter()
        .map(|sum| (sum.team_id, sum.n))
        .collect::<Vec<_>>());
    say(
        diesel::update(players::table.filter(players::nick.like("n1%")))
            .set(players::ratio.eq(players::ratio + 1.0))
            .execute(&mut db)?,
    );
    say(diesel::delete(players::table.filter(players::age.ge(90))).execute(&mut db)?);
    say(diesel::replace_into(teams::table)
        .values((teams::id.eq(1), teams::name.eq("new")))
        .execute(&mut db)
        .is_err());
    let mut seen = 0;
    for row in players::table
        .select(players::nick)
        .order(players::id)
        .load_iter::<String, _>(&mut db)?
    {
        seen += usize::from(row?.starts_with('n'));
    }
    say(seen);
    Ok(())
}

fn transactions() -> Outcome {
    let mut db = connect()?;
    let mut other = connect()?;
    let count = |db: &mut MysqlConnection| teams::table.count().get_result::<i64>(db);
    db.transaction(|db| {
        diesel::insert_into(teams::table)
            .values(teams::name.eq("kept"))
            .execute(db)?;
        let inner: Result<(), Error> = db.transaction(|db| {
            diesel::insert_into(teams::table)
                .values(teams::name.eq("inner"))
                .execute(db)?;
            Err(Error::RollbackTransaction)
        });
        say(inner);
        say((count(db)?, count(&mut other)?));
        let locked: Vec<String> = teams::table
            .select(teams::name)
            .filter(teams::name.eq("kept"))
            .for_update()
            .load(db)?;
        say(locked);
        Ok::<_, Error>(())
    })?;
    let lost: Result<(), Error> = db.transaction(|db| {
        diesel::insert_into(teams::table)
            .values(teams::name.eq("lost"))
            .execute(db)?;
        Err(Error::NotFound)
    });
    say(lost);
    let names: Vec<Name> = diesel::sql_query("SELECT name FROM teams ORDER BY id").load(&mut db)?;
    say(names.iter().map(|row| &row.name).collect::<Vec<_>>());
    Ok(())
}

fn two_connections() -> Outcome {
    let (mut one, mut other) = (connect()?, connect()?);
    let mut wrong = 0;
    for n in 0..50 {
        let name = format!("w{n}");
        diesel::insert_into(teams::table)
            .values(teams::name.eq(&name))
            .execute(&mut one)?;
        let found = teams::table
            .filter(teams::name.eq(&name))
            .count()
            .get_result::<i64>(&mut other)?;
        wrong += i32::from(found != 1);
    }
    say(("wrong", wrong));
    Ok(())
}

fn pools() -> Outcome {
    let pool = Pool::builder()
        .max_size(3)
        .test_on_check_out(true)
        .build(ConnectionManager::<MysqlConnection>::new(url()))?;
    let threads: Vec<_> = (0..6)
        .map(|t| {
            let pool = pool.clone();
            std::thread::spawn(move || {
                (0..10)
                    .filter(|n| {
                        let mut db = pool.get().expect("a connection");
                        let sum =
                            diesel::select(diesel::dsl::sql::<BigInt>(&format!("{t} * 100 + {n}")))
                                .get_result::<i64>(&mut db);
                        sum.ok() != Some(t * 100 + n)
                    })
                    .count()
            })
        })
        .collect();
    say((
        "wrong",
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(99))
            .sum::<usize>(),
    ));
    Ok(())
}

fn errors() -> Outcome {
    let mut db = connect()?;
    say_error(
        diesel::insert_into(teams::table)
            .values(teams::name.eq("kept"))
            .execute(&mut db),
    );
    say_error(diesel::sql_query("SELEC").execute(&mut db));
    say_error(diesel::sql_query("SELECT * FROM not_there").load::<Name>(&mut db));
    say_error(
        diesel::update(players::table)
            .set(players::team_id.eq(4711))
            .execute(&mut db),
    );
    say_error(
        teams::table
            .find(4711)
            .select(teams::name)
            .first::<String>(&mut db),
    );
    say_error(db.batch_execute("SELECT 1; SELECT 2; SELEC"));
    say(teams::table.count().get_result::<i64>(&mut db)? > 0);
    say(
        MysqlConnection::establish(&url().replace("compat_pass", "wrong"))
            .err()
            .map(|error| error.to_string()),
    );
    Ok(())
}

/// An unexpected error ends only its step.
pub fn run() {
    let steps: [(&str, fn() -> Outcome); 6] = [
        ("migrations", migrations),
        ("values", values),
        ("transactions", transactions),
        ("two_connections", two_connections),
        ("pools", pools),
        ("errors", errors),
    ];
    for (name, step) in steps {
        println!("== {name}");
        if let Err(error) = step() {
            println!("unexpected: {error}");
        }
    }
}
