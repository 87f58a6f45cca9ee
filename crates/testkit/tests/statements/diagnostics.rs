//! The SQL door: what a session asks about its last statement is right even when another session
//! has used the connection since.

use testkit::client::Reply;
use testkit::door::Door;
use testkit::{Client, Release, Server};

fn servers() -> Vec<Server> {
    let servers = Release::ALL.into_iter().filter_map(Server::start);
    servers
        .inspect(|server| {
            let mut client = server.client();
            client.run("CREATE DATABASE diag");
            client.run("CREATE TABLE diag.t (a TINYINT)");
            client.run("INSERT INTO diag.t VALUES (1), (2), (3)");
        })
        .collect()
}

/// A door whose sessions all share one server connection.
fn narrow(server: &Server) -> Door {
    Door::start(&[server], |tuning| {
        tuning.settings.pool.connections_max = 1;
    })
}

/// Everything that a reply shows but flags, with column types where the servers gave them.
fn all(client: &mut Client, sql: &str) -> String {
    match client.query(sql) {
        Ok(replies) => {
            let one = |reply: &Reply| match reply {
                Reply::Rows(rows) => format!("{:?} {:?}", rows.columns, rows.text()),
                Reply::Done(done) => {
                    format!("{} rows, {} warnings", done.affected_rows, done.warnings)
                }
            };
            replies.iter().map(one).collect::<Vec<_>>().join("; ")
        }
        Err(failure) => failure.to_string(),
    }
}

/// What is run, and what asks about it.
const STATEMENTS: [&str; 20] = [
    "SELECT a FROM t",
    "SELECT a FROM t WHERE a > 100",
    "SELECT a FROM t LIMIT 2",
    "SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1",
    "SELECT a FROM t UNION ALL SELECT a FROM t",
    "SELECT a FROM t LIMIT 1 INTO @a",
    "UPDATE t SET a = a + 1 WHERE a < 3",
    "UPDATE t SET a = a",
    "DELETE FROM t WHERE a = 77",
    "INSERT INTO t VALUES (7), (8)",
    "SET @x = 1",
    "SET sql_mode = ''",
    "BEGIN; ROLLBACK",
    "SHOW TABLES",
    "INSERT INTO t VALUES (1000)",
    "SELECT 1/0, CAST('x' AS SIGNED) FROM t",
    "SELECT nothing FROM t",
    "SELECT 1 FROM nowhere",
    "DROP TABLE IF EXISTS nowhere, nor_here",
    "CREATE TABLE IF NOT EXISTS t (a INT)",
];

const QUESTIONS: [&str; 12] = [
    "SELECT ROW_COUNT()",
    "SELECT FOUND_ROWS()",
    "SELECT ROW_COUNT() AS n, 5",
    "SELECT IF(FOUND_ROWS() > 2, 'many', 'few'), FOUND_ROWS() x",
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW WARNINGS LIMIT 1, 1",
    "SHOW COUNT(*) WARNINGS",
    "SHOW COUNT(*) ERRORS",
    "SELECT @@warning_count, @@session.error_count AS e",
    "DO ROW_COUNT()",
    "SET @n = FOUND_ROWS()",
];

/// The servers differ in what FOUND_ROWS() is after these, and nobody else knows it.
fn unknown(statement: &str, question: &str) -> bool {
    let writes = ["INSERT", "UPDATE", "DELETE", "DROP", "CREATE", "BEGIN"];
    question.contains("FOUND_ROWS") && writes.iter().any(|verb| statement.starts_with(verb))
}

#[test]
fn questions_about_the_last_statement_are_answered_without_its_connection() {
    for server in servers() {
        let door = narrow(&server);
        let mut other = door.client_in("diag");
        let (mut through, mut direct) = (door.client_in("diag"), server.client());
        direct.run("USE diag");
        for client in [&mut through, &mut direct] {
            client.run("SET sql_mode = ''");
        }
        for question in QUESTIONS {
            for statement in STATEMENTS {
                if unknown(statement, question) {
                    continue;
                }
                direct.run("BEGIN");
                let wanted = (all(&mut direct, statement), all(&mut direct, question));
                let wanted_again = all(&mut direct, question);
                direct.query("ROLLBACK").expect("rolled back");
                direct.run("DELETE FROM t WHERE a NOT IN (1, 2, 3)");
                restore(&mut direct);
                let said = all(&mut through, statement);
                other
                    .query("SELECT 5 FROM t WHERE CAST('y' AS SIGNED) = 0")
                    .expect("rows");
                let answer = all(&mut through, question);
                other.query("SELECT 6 FROM t").expect("rows");
                let again = all(&mut through, question);
                restore(&mut other);
                assert_eq!(said, wanted.0, "{statement}");
                assert_eq!(plain(&answer), plain(&wanted.1), "{statement}; {question}");
                assert_eq!(
                    plain(&again),
                    plain(&wanted_again),
                    "{statement}; {question}, again"
                );
            }
        }
    }
}

/// Heddle's own answers have no exact lengths and collations.
fn plain(answer: &str) -> String {
    if !answer.contains("\"Level\"") && !answer.contains("_count") {
        return answer.to_owned();
    }
    answer.split("] [").last().unwrap_or_default().to_owned()
}

fn restore(client: &mut Client) {
    client.run("DELETE FROM t");
    client.run("INSERT INTO t VALUES (1), (2), (3)");
}

#[test]
fn a_fresh_session_has_nothing_to_report() {
    for server in servers() {
        let door = narrow(&server);
        let mut other = door.client_in("diag");
        // What FOUND_ROWS() is at the beginning differs from one fresh connection to the next.
        for question in QUESTIONS.into_iter().filter(|q| !q.contains("FOUND_ROWS")) {
            let _ = other.query("SELECT a FROM t WHERE CAST('y' AS SIGNED) = 0");
            let answer = all(&mut door.client_in("diag"), question);
            let wanted = all(&mut server.client(), question);
            assert_eq!(plain(&answer), plain(&wanted), "{question}");
        }
    }
}

#[test]
fn prepared_questions_and_get_diagnostics() {
    for server in servers() {
        let door = Door::start(&[&server], |tuning| {
            tuning.settings.pool.connections_max = 2
        });
        let mut other = door.client_in("diag");
        let mut client = door.client_in("diag");
        let statement = client
            .prepare("SELECT FOUND_ROWS(), ROW_COUNT() AS r")
            .expect("prepared");
        for _ in 0..2 {
            client.query("SELECT a FROM t").expect("rows");
            other.query("SELECT a FROM t LIMIT 1").expect("rows");
            let said = client.execute(&statement, &[]).expect("rows");
            let Reply::Rows(rows) = &said[0] else {
                panic!("{said:?}")
            };
            assert_eq!(rows.text(), [[Some("3".to_owned()), Some("-1".to_owned())]]);
            assert_eq!(rows.columns[0].name, "FOUND_ROWS()");
        }
        client.run("GET DIAGNOSTICS @n = NUMBER");
        assert_eq!(client.error("SELECT nothing FROM t"), 1054);
        other.query("SELECT a FROM t LIMIT 1").expect("rows");
        client.run("GET DIAGNOSTICS CONDITION 1 @m = MYSQL_ERRNO, @t = MESSAGE_TEXT");
        assert_eq!(client.value("SELECT @m"), "1054");
    }
}
