//! Scalar subqueries that are asked first: the questions, the statement with what they give in their places, and how that
//! is answered.
//!
//! `testdata/scalars.txt` has statements behind `> `, and what a row of each question gives behind `row `, separated by
//! blanks; without such lines each is asked with numbers. `HEDDLE_WRITE_GOLDEN=1 cargo test -p planner` writes what is
//! indented anew; read what has changed.

use std::fmt::Write as _;

use planner::{Asked, Finish, Scalar, answer, scalars, with_scalars};

use super::gathered::Tpch;

/// The values of a row of a question, where a scenario gives none: numbers, or days.
fn likely(columns: usize) -> [Vec<Option<String>>; 3] {
    let row = |first: &str, rest: &str| {
        let first = std::iter::once(first);
        let all = first.chain(std::iter::repeat(rest)).take(columns);
        all.map(|it| Some(it.to_owned())).collect()
    };
    [
        row("7.50", "3"),
        row("2020-02-29", ""),
        row("2020-02-29 10:00:00", ""),
    ]
}

fn with_likely(text: &str, all: &[Scalar]) -> Option<String> {
    let mut text = text.to_owned();
    // From behind, so that places stay.
    for one in all.iter().rev() {
        let one = std::slice::from_ref(one);
        let rows = likely(one[0].unknown().len());
        let mut tried = rows.into_iter();
        text = tried.find_map(|row| with_scalars(&text, one, &[row]))?;
    }
    Some(text)
}

fn shown(text: &str, rows: &[Vec<Option<String>>], asked: &Asked<'_>) -> String {
    let all = scalars(text, asked);
    if all.is_empty() {
        return "nothing is asked first\n".to_owned();
    }
    let mut shown = String::new();
    for one in &all {
        let _ = writeln!(shown, "first: {}", one.question);
    }
    let with = match rows.is_empty() {
        true => with_likely(text, &all),
        false => with_scalars(text, &all, rows),
    };
    let Some(with) = with else {
        return shown + "a value cannot be written out\n";
    };
    let _ = writeln!(shown, "then: {with}");
    match answer(&with, asked) {
        Ok(answer) => {
            let _ = write!(shown, "{}", format!("{:?}", answer.tier).to_lowercase());
            for fragment in &answer.fragments {
                let _ = write!(shown, "\n  {}", fragment.text.replace('\n', " "));
            }
            if let Finish::Scratch(scratch) = &answer.finish {
                let _ = write!(shown, "\n  {}", scratch.text);
            }
            shown.push('\n');
        }
        Err(why) => {
            let _ = writeln!(shown, "{why:?}");
        }
    }
    shown
}

/// The file as it should be.
fn play(scenarios: &str) -> String {
    let tpch = Tpch::new();
    let asked = tpch.asked();
    let lines: Vec<&str> = scenarios
        .lines()
        .filter(|it| !it.starts_with("    "))
        .collect();
    let mut out = String::new();
    for (at, given) in lines.iter().enumerate() {
        let _ = writeln!(out, "{given}");
        let row = |line: &&str| line.strip_prefix("row ").map(str::to_owned);
        // The rows stand behind their statement.
        if lines.get(at + 1).and_then(row).is_some() {
            continue;
        }
        let rows: Vec<String> = lines[..=at].iter().rev().map_while(row).collect();
        let begin = at - rows.len();
        if let Some(text) = lines[begin].strip_prefix("> ") {
            let value = |it: &str| (it != "NULL").then(|| it.replace('_', " "));
            let rows = rows.iter().rev();
            let rows: Vec<Vec<Option<String>>> = rows
                .map(|row| row.split(' ').map(value).collect())
                .collect();
            for line in shown(text, &rows, &asked).lines() {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
    out
}

#[test]
fn scalar_subqueries_are_asked_first_as_written_down() {
    super::is_as_written_down("scalars.txt", play);
}
