//! Each check by what it says of a healthy farm with one fault. `testdata/*.txt` has the faults and the findings;
//! `HEDDLE_WRITE_GOLDEN=1` writes the findings anew.
//!
//! A scenario begins with `# CHECK`, followed by the faults, one `PLACE.FIELD = JSON` a line, and `--`. `g1` is a group of
//! MariaDB with the servers `s1` (the primary), `s2` and `s3`; `g2` one of MySQL with `m1` to `m3`; `r1` and `r2` are
//! routers. `null` takes a value away.

mod sample;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use doctor::{FarmFacts, Finding, Fix, TABLE, findings};
use serde_json::Value;

/// A fault as a scenario has it.
fn plant(farm: &mut Value, line: &str) {
    let (place, value) = line
        .split_once(" = ")
        .unwrap_or_else(|| panic!("{line}: write PLACE.FIELD = JSON"));
    let value: Value =
        serde_json::from_str(value).unwrap_or_else(|error| panic!("{line}: {error}"));
    let mut names = place.split('.').peekable();
    let mut at = start(farm, names.next().expect("a place"));
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            match (at, name.parse::<usize>()) {
                (Value::Array(items), Ok(index)) if value.is_null() => drop(items.remove(index)),
                (Value::Array(items), Ok(index)) => items[index] = value,
                (other, _) => {
                    let fields = other.as_object_mut().expect("a field is in an object");
                    fields.insert(name.to_owned(), value);
                }
            }
            return;
        }
        at = match name.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[name],
        };
    }
    *at = value;
}

fn start<'a>(farm: &'a mut Value, name: &str) -> &'a mut Value {
    let number = name[1..].parse::<usize>().map(|number| number - 1);
    match (&name[..1], number) {
        ("g", Ok(number)) => &mut farm["groups"][number],
        ("s", Ok(number)) => &mut farm["groups"][0]["servers"][number],
        ("m", Ok(number)) => &mut farm["groups"][1]["servers"][number],
        ("r", Ok(number)) => &mut farm["routers"][number],
        _ if name == "farm" => farm,
        _ => panic!("there is no place {name}"),
    }
}

/// Takes what a scenario set to null out of maps, whose values are texts.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, it| !it.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

fn told(finding: &Finding) -> String {
    let Finding {
        check,
        severity,
        of,
        evidence,
        breaks,
        cure,
        fix,
        statement,
        ..
    } = finding;
    let mut text =
        format!("{severity} {check} {of}: {evidence}\n  breaks: {breaks}\n  cure: {cure}\n");
    match fix {
        Fix::Refused(_) => {}
        Fix::Safe => writeln!(text, "  runs: {statement}").expect("a string takes all"),
        Fix::Asks(why) => {
            writeln!(text, "  asks ({why}): {statement}").expect("a string takes all");
        }
    }
    text
}

/// What the checks say of a farm with these faults.
fn outcome(faults: &[&str]) -> String {
    let mut farm = serde_json::to_value(sample::farm()).expect("facts are values");
    for fault in faults {
        plant(&mut farm, fault);
    }
    without_nulls(&mut farm);
    let farm: FarmFacts = serde_json::from_value(farm).expect("the faults fit");
    findings(&farm).iter().map(told).collect()
}

/// The scenario's name, its lines, and what stands behind `--`.
fn scenario(text: &str) -> (&str, Vec<&str>, &str) {
    let (head, expected) = text.split_once("\n--\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let name = lines.next().expect("a name").trim();
    let faults = lines.filter(|line| !line.trim().is_empty()).collect();
    (name, faults, expected.trim_end())
}

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let entries = fs::read_dir(dir).expect("the crate has testdata");
    let mut files: Vec<PathBuf> = entries.map(|it| it.expect("an entry").path()).collect();
    files.sort();
    files
}

#[test]
fn each_check_finds_its_fault_and_nothing_else_is_found() {
    let rewrites = std::env::var_os("HEDDLE_WRITE_GOLDEN").is_some();
    let mut tried = BTreeSet::new();
    let mut wrong = String::new();
    for file in files() {
        let text = fs::read_to_string(&file).expect("a golden file is text");
        let (head, scenarios) = text.split_once("# ").expect("a scenario");
        let mut written = head.to_owned();
        for part in scenarios.split("\n# ") {
            let (name, faults, expected) = scenario(part);
            let check = name.split(':').next().unwrap_or(name);
            let is = outcome(&faults);
            let is = is.trim_end();
            let finds = |line: &str| line.split(' ').nth(1) == Some(check);
            if !is.lines().any(finds) {
                writeln!(wrong, "{name}: the check does not find it:\n{is}").expect("a string");
            }
            if is != expected && !rewrites {
                writeln!(wrong, "{name}:\n{is}\nin place of\n{expected}\n").expect("a string");
            }
            tried.insert(check.to_owned());
            let faults = faults.join("\n");
            write!(written, "# {name}\n{faults}\n--\n{is}\n\n").expect("a string takes all");
        }
        if rewrites {
            fs::write(&file, written.trim_end().to_owned() + "\n").expect("a file of the tree");
        }
    }
    for check in TABLE.iter().filter(|it| !tried.contains(it.name)) {
        writeln!(wrong, "no scenario in testdata plants {}", check.name).expect("a string");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_healthy_farm_has_no_finding() {
    assert_eq!(outcome(&[]), "");
}

#[test]
fn what_was_not_read_is_no_fault() {
    let mut farm = sample::farm();
    farm.settings.clear();
    farm.sharded.clear();
    for server in farm.groups.iter_mut().flat_map(|it| &mut it.servers) {
        server.variables.retain(|name, _| name == "version");
        server
            .variables
            .insert("version".to_owned(), server.version.clone());
        server.counters.clear();
        server.gtid.clear();
        server.accounts = None;
        server.disk = None;
        server.clock_ahead_ms = None;
        server.time_zones = None;
    }
    for router in &mut farm.routers {
        router.settings.clear();
        router.host = Default::default();
    }
    let found = findings(&farm);
    let names: Vec<&str> = found.iter().map(|it| it.check).collect();
    assert_eq!(names, ["semi_sync_missing"; 6]);
}
