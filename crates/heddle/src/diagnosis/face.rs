//! `heddle doctor` as people and monitoring see it: findings printed, mended, watched.
//!
//! Invariant: the router judges and mends; here is asked, shown and agreed to.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use catalog::event::{epoch_ms, when};
use serde_json::{Value, json};

use super::flags::Flags;
use crate::cli::ask;
use crate::failure::Failure;
use crate::printing::{complain, put};
use crate::router::runtime;

/// How the program ends where nobody could look.
const UNKNOWN: u8 = 3;

/// Looks, and mends or watches where that is wanted.
///
/// # Errors
/// The router does not answer, or refuses; with an exit code, that something is wrong.
pub fn run(flags: &Flags) -> Result<(), Failure> {
    if let Some(seconds) = flags.watch {
        return watch(flags, Duration::from_secs(seconds));
    }
    let rows = ask::rows(&flags.look()).map_err(|failure| match flags.exit_code {
        true => Failure {
            code: UNKNOWN,
            ..failure
        },
        false => failure,
    })?;
    if flags.fix {
        return fix(flags, &rows);
    }
    match flags.json {
        true => put(&format!("{}\n", Value::from(rows.clone()))),
        false => put(&shown(&rows)),
    }
    match (flags.exit_code, gravest(&rows)) {
        (true, code) if code > 0 => Err(Failure {
            text: summary(&rows),
            code,
        }),
        _ => Ok(()),
    }
}

fn text<'a>(row: &'a Value, column: &str) -> &'a str {
    row[column].as_str().unwrap_or_default()
}

fn count(rows: &[Value], severity: &str) -> usize {
    let of = rows.iter().filter(|row| text(row, "severity") == severity);
    of.count()
}

/// 2 where there is an error, 1 where there is a warning, else 0.
fn gravest(rows: &[Value]) -> u8 {
    match (count(rows, "error"), count(rows, "warning")) {
        (0, 0) => 0,
        (0, _) => 1,
        _ => 2,
    }
}

fn summary(rows: &[Value]) -> String {
    let plural = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    format!(
        "{}, {}, {}",
        plural(count(rows, "error"), "error", "errors"),
        plural(count(rows, "warning"), "warning", "warnings"),
        plural(count(rows, "info"), "note", "notes")
    )
}

/// Findings for people, a paragraph each.
fn shown(rows: &[Value]) -> String {
    let mut all = String::new();
    for row in rows {
        let group = match text(row, "group") {
            "" => String::new(),
            group if group == text(row, "server") => String::new(),
            group => format!(" of group {group}"),
        };
        all.push_str(&format!(
            "{} {}: {} {}{group}\n  found:  {}\n  breaks: {}\n  cure:   {}\n\n",
            text(row, "severity"),
            text(row, "check"),
            text(row, "scope"),
            text(row, "server"),
            text(row, "evidence").replace('\n', " "),
            text(row, "breaks"),
            text(row, "cure"),
        ));
    }
    all.push_str(&summary(rows));
    all.push('\n');
    all
}

/// What became of one finding.
struct Outcome<'a> {
    row: &'a Value,
    /// `mended`, `left` or `failed`.
    what: &'static str,
    why: String,
}

/// Mends what may be mended, one after the other.
fn fix(flags: &Flags, rows: &[Value]) -> Result<(), Failure> {
    let mut outcomes = Vec::new();
    for row in rows {
        let outcome = fix_one(flags, row);
        if !flags.json {
            put(&line(&outcome));
        }
        outcomes.push(outcome);
    }
    if flags.json {
        let all: Vec<Value> = outcomes.iter().map(object).collect();
        put(&format!("{}\n", Value::from(all)));
    } else if outcomes.is_empty() {
        put("nothing to mend\n");
    }
    let failed = outcomes.iter().filter(|it| it.what == "failed").count();
    match failed {
        0 => Ok(()),
        failed => Err(Failure::new(format!("{failed} of the cures failed"))),
    }
}

fn fix_one<'a>(flags: &Flags, row: &'a Value) -> Outcome<'a> {
    let why = text(row, "why_not");
    let left = |why: &str| Outcome {
        row,
        what: "left",
        why: why.to_owned(),
    };
    let sure = match text(row, "fix") {
        "safe" => false,
        "asks" if flags.yes => true,
        "asks" if flags.json || !std::io::stdin().is_terminal() => {
            return left(&format!("{why} (--yes agrees to it)"));
        }
        "asks" if agrees(row) => true,
        "asks" => return left("nobody agreed"),
        _ => return left(why),
    };
    let question = flags.mend(text(row, "check"), text(row, "server"), sure);
    match ask::rows(&question) {
        Ok(done) if done.first().is_some_and(|it| it["mended"] == true) => Outcome {
            row,
            what: "mended",
            why: String::new(),
        },
        Ok(done) => Outcome {
            row,
            what: "failed",
            why: format!(
                "the statement ran, and the check still finds: {}",
                done.first().map_or("", |it| text(it, "evidence"))
            ),
        },
        Err(failure) => Outcome {
            row,
            what: "failed",
            why: failure.text,
        },
    }
}

/// Asks on the terminal; anything but a yes is a no.
fn agrees(row: &Value) -> bool {
    let mut err = std::io::stderr().lock();
    let _ = write!(
        err,
        "{} at {}: {}\n  run {}? {} [y/N] ",
        text(row, "check"),
        text(row, "server"),
        text(row, "evidence"),
        text(row, "statement"),
        text(row, "why_not"),
    );
    let _ = err.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

fn line(outcome: &Outcome<'_>) -> String {
    let Outcome { row, what, why } = outcome;
    let (check, server) = (text(row, "check"), text(row, "server"));
    match *what {
        "mended" => format!("mended {check} at {server}: {}\n", text(row, "statement")),
        "left" => format!(
            "left   {check} at {server}: {why}; cure: {}\n",
            text(row, "cure")
        ),
        _ => format!("failed {check} at {server}: {why}\n"),
    }
}

fn object(outcome: &Outcome<'_>) -> Value {
    let Outcome { row, what, why } = outcome;
    json!({
        "check": row["check"],
        "server": row["server"],
        "outcome": what,
        "statement": row["statement"],
        "why": why,
        "cure": row["cure"],
    })
}

/// Findings by check and place.
type Known = BTreeMap<(String, String), Value>;

/// Looks until a signal ends it, and prints what has changed since the last look. The exit code is that of the last
/// look.
fn watch(flags: &Flags, every: Duration) -> Result<(), Failure> {
    let ended = ended_by_signal()?;
    let mut known = Known::new();
    let mut silent = false;
    loop {
        let code = match ask::rows(&flags.look()) {
            Ok(rows) => {
                let code = gravest(&rows);
                silent = false;
                follow(flags, &mut known, rows);
                code
            }
            Err(failure) if failure.code == 2 => return Err(failure),
            Err(failure) => {
                if !silent {
                    complain(&failure.text);
                }
                silent = true;
                UNKNOWN
            }
        };
        if ended.recv_timeout(every).is_ok() {
            return ended_with(code, known);
        }
    }
}

fn ended_with(code: u8, known: Known) -> Result<(), Failure> {
    let text = match code {
        0 => return Ok(()),
        UNKNOWN => "nobody could look".to_owned(),
        _ => summary(&known.into_values().collect::<Vec<_>>()),
    };
    Err(Failure { text, code })
}

fn follow(flags: &Flags, known: &mut Known, rows: Vec<Value>) {
    let key = |row: &Value| {
        (
            text(row, "check").to_owned(),
            text(row, "server").to_owned(),
        )
    };
    let now: Known = rows.into_iter().map(|row| (key(&row), row)).collect();
    for (place, row) in &now {
        if !known.contains_key(place) {
            tell(flags, "found", row);
        }
    }
    for (place, row) in known.iter() {
        if !now.contains_key(place) {
            tell(flags, "cured", row);
        }
    }
    *known = now;
}

fn tell(flags: &Flags, event: &str, row: &Value) {
    let at = when(epoch_ms());
    if flags.json {
        let mut told = json!({"when": at, "event": event});
        if let (Some(told), Some(row)) = (told.as_object_mut(), row.as_object()) {
            told.extend(row.clone());
        }
        return put(&format!("{told}\n"));
    }
    put(&format!(
        "{at} {event} {} {} at {}: {}\n",
        text(row, "severity"),
        text(row, "check"),
        text(row, "server"),
        text(row, "evidence").replace('\n', " ")
    ));
}

/// Receives a word when a signal asks the program to end.
fn ended_by_signal() -> Result<std::sync::mpsc::Receiver<()>, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let (told, ended) = std::sync::mpsc::channel();
    let runtime = runtime()?;
    let thread = std::thread::Builder::new().name("signals".to_owned());
    let spawned = thread.spawn(move || {
        runtime.block_on(async {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
            let [Ok(mut interrupt), Ok(mut terminate)] = kinds.map(signal) else {
                return;
            };
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            // Who waited may have ended by himself.
            let _ = told.send(());
        });
    });
    spawned.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(check: &str, severity: &str) -> Value {
        json!({
            "check": check, "severity": severity, "server": "h:1", "evidence": "a\nb",
            "breaks": "c", "cure": "d", "scope": "server", "group": "g", "fix": "refused",
            "why_not": "e", "statement": "",
        })
    }

    #[test]
    fn the_exit_code_is_that_of_the_gravest() {
        let of = |all: &[&str]| {
            let rows: Vec<Value> = all.iter().map(|it| row("x", it)).collect();
            (gravest(&rows), summary(&rows))
        };
        assert_eq!(of(&[]), (0, "0 errors, 0 warnings, 0 notes".to_owned()));
        assert_eq!(of(&["info"]).0, 0);
        assert_eq!(of(&["info", "warning"]).0, 1);
        assert_eq!(
            of(&["warning", "error", "error"]),
            (2, "2 errors, 1 warning, 0 notes".to_owned())
        );
    }

    #[test]
    fn findings_are_paragraphs() {
        assert_eq!(
            shown(&[row("binlog_format", "warning")]),
            "warning binlog_format: server h:1 of group g\n  found:  a b\n  breaks: c\n  cure:   d\n\n\
             0 errors, 1 warning, 0 notes\n"
        );
    }

    #[test]
    fn what_is_left_is_told_with_its_reason() {
        let row = row("server_id", "error");
        let outcome = Outcome {
            row: &row,
            what: "left",
            why: "it needs a restart".to_owned(),
        };
        assert_eq!(
            line(&outcome),
            "left   server_id at h:1: it needs a restart; cure: d\n"
        );
        assert_eq!(object(&outcome)["outcome"], "left");
    }
}
