//! Keys and answers in, screens out: goldens that a person can read (`testdata/top`), and what keys must not do.

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

use super::columns;
use super::once;
use super::screen::draw;
use super::state::{Input, Key, Top, View, Wish};

const AT_MS: u64 = 1_770_000_000_000;

fn picture() -> Value {
    let server = |group: &str, number: u32, status: &str, severity: &str, state: &str| {
        json!({
            "group": group, "name": format!("{group}-{number}"), "address": format!("10.0.0.{number}:3306"),
            "status": status, "version": "10.11.6-MariaDB", "severity": severity, "state": state, "lag_ms": f64::from(number),
        })
    };
    let traffic: serde_json::Map<String, Value> = (0..60u64)
        .map(|second| {
            let sample = json!({"statements": 100 * (second % 10), "errors": 1, "sessions": 40, "held": 3, "p50_ms": 0.4, "p99_ms": second % 7});
            ((AT_MS + second * 1000).to_string(), sample)
        })
        .collect();
    json!({
        "farm": {"in_doubt": 1, "store_silent_s": 0, "sql_serves": true},
        "groups": {
            "g1": {"severity": "well", "why": [], "primary": "u1"},
            "g2": {"severity": "down", "why": ["its primary g2-3 does not answer: connection refused: writes wait"], "primary": "u3"},
            "g3": {"severity": "hurt", "why": ["g3-6 does not replicate: Error 1062"], "primary": "u5"},
        },
        "servers": {
            "u1": server("g1", 1, "primary", "well", "takes writes"),
            "u2": server("g1", 2, "replica", "well", "replicates"),
            "u3": server("g2", 3, "primary", "down", "does not answer: connection refused"),
            "u4": server("g2", 4, "replica", "well", "replicates"),
            "u5": server("g3", 5, "primary", "well", "takes writes"),
            "u6": server("g3", 6, "replica", "hurt", "does not replicate: Error 1062"),
        },
        "events": {
            "1-0": {"at_ms": AT_MS, "kind": "primary_lost", "group": "g1", "address": "10.0.0.1:3306", "detail": "two probes say so"},
            "2-0": {"at_ms": AT_MS + 71, "kind": "server_promoted", "group": "g1", "address": "10.0.0.2:3306", "detail": "clients waited 71 ms"},
        },
        "traffic": traffic,
    })
}

fn sessions() -> Vec<Value> {
    let session = |id: u32, user: &str, time_ms: u32| {
        json!({
            "id": id, "user": user, "client": format!("10.1.0.9:{id}"), "database": "shop", "command": "Query",
            "time_ms": time_ms, "server": "10.0.0.1:3306", "pins": "", "state": "waits for the server", "router": "r1",
        })
    };
    vec![
        session(1, "web", 20),
        session(2, "batch", 90_000),
        session(3, "web", 400),
    ]
}

fn digests() -> Vec<Value> {
    let digest = |name: &str, calls: u32, ms: f64, text: &str| {
        json!({
            "digest": name, "calls": calls, "errors": calls / 100, "time_ms_sum": ms, "time_ms_p50": 0.4, "time_ms_p99": 12.0,
            "time_ms_max": 900.0, "bytes": 123_456, "tag": "main.php:12", "text": text,
        })
    };
    vec![
        digest(
            "aaaabbbbccccdddd",
            12_345,
            54_000.0,
            "SELECT name FROM t WHERE id = ?",
        ),
        digest(
            "1111222233334444",
            500,
            99_000.0,
            "UPDATE t SET \u{1b}[31mn\u{202e} = ?",
        ),
    ]
}

/// A program that has heard of the farm.
fn top() -> Top {
    let mut top = Top::new();
    let answer = json!({"access": "admin", "picture": picture()});
    assert_eq!(top.step(Input::Picture(Ok(answer))), None);
    top.step(Input::Rows(View::Sessions, Ok(sessions())));
    top.step(Input::Rows(View::Digests, Ok(digests())));
    top
}

fn press(top: &mut Top, keys: &str) -> Option<Wish> {
    let mut wish = None;
    for key in keys.chars() {
        wish = top.step(Input::Key(Key::Char(key)));
    }
    wish
}

fn screen(top: &mut Top) -> String {
    let mut terminal = Terminal::new(TestBackend::new(110, 20)).expect("a screen");
    terminal.draw(|frame| draw(frame, top)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(buffer.area.width));
    let text = lines.map(|line| {
        let line: String = line.iter().map(|cell| cell.symbol()).collect();
        format!("{}\n", line.trim_end())
    });
    text.collect()
}

/// Compares with `testdata/top/NAME.txt`; HEDDLE_WRITE_GOLDEN=1 writes it.
fn golden(name: &str, shown: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/top/{name}.txt"));
    if std::env::var_os("HEDDLE_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, shown).expect("written");
    }
    let wanted = std::fs::read_to_string(&path).expect("HEDDLE_WRITE_GOLDEN=1 writes it");
    assert_eq!(shown, wanted, "{name}");
}

#[test]
fn the_views() {
    for (keys, name) in [
        ("", "overview"),
        ("2", "groups"),
        ("3", "digests"),
        ("4", "sessions"),
        ("6", "events"),
        ("?", "keys"),
    ] {
        let mut top = top();
        press(&mut top, keys);
        golden(name, &screen(&mut top));
    }
}

#[test]
fn sorting_filtering_pausing() {
    let mut top = top();
    press(&mut top, "4<<<<r/web");
    top.step(Input::Key(Key::Enter));
    golden("sessions_filtered", &screen(&mut top));
    assert_eq!(top.shown().len(), 2);
    top.step(Input::Key(Key::Esc));
    assert_eq!(top.shown().len(), 3);
    press(&mut top, "p");
    top.step(Input::Rows(View::Sessions, Ok(Vec::new())));
    assert_eq!(top.shown().len(), 3, "paused");
    assert!(screen(&mut top).contains("PAUSED"));
    press(&mut top, "p");
    top.step(Input::Rows(View::Sessions, Ok(Vec::new())));
    assert_eq!(top.shown().len(), 0);
    // Every column can be sorted by, both ways round the list.
    for key in ['>', '<'] {
        for _ in 0..2 * View::Sessions.columns().len() {
            press(&mut top, &key.to_string());
        }
    }
}

#[test]
fn a_session_is_ended_behind_a_question_only() {
    let mut top = top();
    assert_eq!(press(&mut top, "k"), None, "another view");
    assert_eq!(press(&mut top, "4"), Some(Wish::Ask(View::Sessions)));
    // The longest comes first.
    assert_eq!(press(&mut top, "k"), None);
    golden("question", &screen(&mut top));
    assert_eq!(press(&mut top, "n"), None);
    assert_eq!(press(&mut top, "k"), None);
    assert_eq!(
        press(&mut top, "y"),
        Some(Wish::Kill {
            id: 2,
            query: false
        })
    );
    assert_eq!(press(&mut top, "c"), None);
    assert_eq!(
        press(&mut top, "Y"),
        Some(Wish::Kill { id: 2, query: true })
    );
    let done = Input::Killed(Ok("done".to_owned()));
    assert_eq!(top.step(done), Some(Wish::Ask(View::Sessions)));
    top.step(Input::Killed(Err("this needs the admin right".to_owned())));
    assert!(screen(&mut top).contains("admin right"));
}

#[test]
fn the_chosen_row_stays_chosen() {
    let mut top = top();
    press(&mut top, "4");
    top.step(Input::Key(Key::Down));
    assert_eq!(top.shown()[top.chosen]["id"], 3);
    let mut rows = sessions();
    rows.insert(
        0,
        json!({"id": 9, "user": "new", "client": "x", "time_ms": 1_000_000}),
    );
    top.step(Input::Rows(View::Sessions, Ok(rows)));
    assert_eq!(top.shown()[top.chosen]["id"], 3);
    assert_eq!(press(&mut top, "k"), None);
    // What comes while the question waits does not change whom it is about.
    top.step(Input::Rows(View::Sessions, Ok(Vec::new())));
    assert_eq!(
        press(&mut top, "y"),
        Some(Wish::Kill {
            id: 3,
            query: false
        })
    );
}

#[test]
fn a_silent_router_is_told_and_the_end_is_the_end() {
    let mut top = top();
    top.step(Input::Picture(Err("connection refused".to_owned())));
    let shown = screen(&mut top);
    assert!(
        shown.contains("this router does not answer: connection refused"),
        "{shown}"
    );
    assert_eq!(press(&mut top, "q"), Some(Wish::Quit));
    press(&mut top, "/q");
    assert_eq!(top.filter, "q", "typed, not obeyed");
    assert_eq!(top.step(Input::Key(Key::Interrupt)), Some(Wish::Quit));
}

#[test]
fn no_text_moves_the_cursor() {
    let mut top = top();
    press(&mut top, "3");
    let shown = screen(&mut top);
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    assert_eq!(columns::plain(&json!("a\r\nb\u{7}")), "a  b ");
}

#[test]
fn every_size_of_a_terminal_is_drawn() {
    for (width, height) in [(1, 1), (20, 3), (40, 8), (300, 100)] {
        for view in "123456?".chars() {
            let mut top = top();
            press(&mut top, &view.to_string());
            let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
            terminal.draw(|frame| draw(frame, &mut top)).expect("drawn");
        }
    }
}

#[test]
fn once_has_the_worst_first_and_the_last_sample() {
    let object = once::object(&picture(), AT_MS);
    assert_eq!(object["time"], "2026-02-02T02:40:00.000Z");
    assert_eq!(object["severity"], "down");
    assert_eq!(object["verdict"], "no writes: g2; hurt: g3");
    assert_eq!(object["traffic"]["statements"], 900);
    assert_eq!(object["traffic"]["waiting"], Value::Null);
    assert_eq!(object["groups"][0]["name"], "g2");
    assert_eq!(object["groups"][1]["lag_ms"], 6.0);
    let text = once::table(&picture());
    assert!(
        text.starts_with("no writes: g2; hurt: g3\nstatements=900 "),
        "{text}"
    );
}
