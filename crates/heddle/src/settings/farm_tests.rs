//! Documents of the farm: what is right, what is wrong and on which line, and that comments stay.

use super::*;

fn reading(document: &str) -> Reading {
    read(document, &Settings::default(), "version 3").expect("it is right")
}

fn wrong(document: &str) -> Vec<Wrong> {
    read(document, &Settings::default(), "version 3").expect_err("it is wrong")
}

const DOCUMENT: &str = "\
# Why the farm is as it is.
format = 1
version = 7

# The shop reads what it wrote.
[settings]
consistency = \"session\" # not eventual
max_lag_ms = 500
near = [\"10.1.0.0/16\"]

# Nobody drops tables.
[[rule]]
name = \"no drop\"
regex = \"(?i)drop table\"
refuse = \"no\"

[[user]]
name = \"report\"
consistency = \"eventual\"

[group.g1]
# the primary was db1
kind = \"replication\"
description = \"the shop\"
active = true

[group.g1.server.db1]
weight = 1

[group.g1.server.\"127.0.0.1:3307\"]
weight = 2.5
mode = \"OFFLINE\"
spare = true
promotable = false
";

#[test]
fn a_document_is_taken_apart() {
    let Reading { draft, settings } = reading(DOCUMENT);
    assert_eq!(draft.version, Some(7));
    assert_eq!(settings.max_lag_ms, 500);
    assert_eq!(settings.given["max_lag_ms"].from, "version 3");
    assert_eq!(
        (settings.rules.list.len(), settings.rules.users.len()),
        (1, 1)
    );
    let group = &draft.groups["g1"];
    assert_eq!(
        (group.line, group.active, &*group.description),
        (21, true, "the shop")
    );
    assert_eq!(group.kind, Some(GroupKind::Replication));
    let replica = ServerPart {
        line: 30,
        weight: 2.5,
        mode: Some(Mode::Offline),
        spare: true,
        never_primary: true,
    };
    assert_eq!(group.servers["127.0.0.1:3307"], replica);
    assert_eq!(group.servers["db1"].weight, 1.0);
    assert!(
        draft.text.starts_with("# Why the farm is as it is.\n"),
        "{}",
        draft.text
    );
    assert!(
        draft
            .text
            .contains("# The shop reads what it wrote.\n[settings]"),
        "{}",
        draft.text
    );
    assert!(draft.text.contains("\"session\" # not eventual"));
    assert!(draft.text.contains("# Nobody drops tables."));
    for gone in ["group", "version =", "format", "the shop\""] {
        assert!(!draft.text.contains(gone), "{gone}: {}", draft.text);
    }
}

#[test]
fn what_is_shown_is_read_as_the_same() {
    let Reading { draft, .. } = reading(DOCUMENT);
    let shown = show(
        Some((8, "of today, by root: a \"b\"\nc")),
        &draft.text,
        &draft.groups,
    );
    let again = reading(&shown).draft;
    assert_eq!(again.version, Some(8));
    assert_eq!(again.text, draft.text);
    let lineless = |groups: &Groups| show(None, "", groups);
    assert_eq!(lineless(&again.groups), lineless(&draft.groups));
    // The lines that errors tell are those of the shown document.
    let text = shown.replace("max_lag_ms = 500", "max_lag_ms = 5000000000");
    let line = text
        .lines()
        .position(|line| line.starts_with("max_lag_ms"))
        .expect("there");
    assert_eq!(wrong(&text)[0].0, line + 1);
    let place = &reading(&draft.text).settings.rules.list[0].place;
    let line = shown
        .lines()
        .position(|line| line == "[[rule]]")
        .expect("there")
        + 1;
    assert_eq!(*place, format!("version 3:{line}"));
    assert_eq!(reading("").draft, Draft::default());
}

#[test]
fn all_that_is_wrong_is_told_with_its_line() {
    let errors = wrong(
        "[settings]\nthreads = 2\nmax_lag = 1\nconsistency = \"weak\"\npool_wait_ms = -1\n\
         [[rule]]\nname = \"a\"\nrefuse = \"x\"\nwhat = 1\n[[rule]]\nname = \"a\"\nrefuse = \"y\"\n\
         [group.g]\nkind = \"ring\"\nweight = 1\n[group.g.server.s]\nweight = 0\nmode = 3\n\
         spare = \"yes\"\n[other]\n",
    );
    let expected = [
        (2, "threads is each router's own: it depends on the machine"),
        (3, "did you mean `max_lag_ms`?"),
        (4, "eventual, session, client"),
        (5, "pool_wait_ms: must be 1 to 3600000"),
        (9, "unknown key `what`"),
        (10, "the name \"a\" is taken"),
        (14, "replication, galera, media"),
        (15, "unknown key `weight`"),
        (17, "above 0"),
        (18, "READ_ONLY"),
        (19, "spare: write true or false"),
        (20, "there is no `other` here"),
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for ((line, what), (at, part)) in errors.iter().zip(expected) {
        assert!(
            *line == at && what.contains(part),
            "{at} {part}: {line} {what}"
        );
    }
}

#[test]
fn a_document_of_a_newer_heddle_is_told_as_such_and_nothing_else() {
    let errors = wrong("format = 2\n[layers]\nx = 1\n");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].0 == 1 && errors[0].1.contains("a newer Heddle"),
        "{errors:?}"
    );
    assert_eq!(wrong("format = \"1\"")[0].0, 1);
}

#[test]
fn settings_of_the_file_s_form_are_pointed_to_their_place() {
    for (text, part) in [
        ("hedge_ms = 1", "under [settings]"),
        ("settings = 1", "[settings]"),
        ("group = 1", "[group.NAME]"),
        ("rule = 1", "[[rule]]"),
        ("[settings]\nadmin_password = \"x\"", "passwords"),
        ("[settings]\nsql_listen = \"x\"", "two routers"),
        ("[settings]\nevent_command = \"x\"", "run programs"),
        ("[settings]\nlog_level = \"x\"", "its log"),
        ("[settings", "]"),
    ] {
        let errors = wrong(text);
        assert!(errors[0].1.contains(part), "{text}: {errors:?}");
    }
}

#[test]
fn every_setting_is_the_farm_s_or_has_a_reason_not_to_be() {
    for setting in crate::settings::TABLE {
        let of_farm = setting.applies == Applies::Live;
        assert_eq!(of_router(setting).is_none(), of_farm, "{}", setting.name);
    }
}

#[test]
fn one_setting_is_changed_where_it_stands() {
    let text = "# a\n[settings]\nhedge_ms = 5 # b\n\n[[rule]]\nname = \"r\"\nrefuse = \"x\"\n";
    let changed = assign(text, "hedge_ms", Some("7")).expect("a setting");
    assert_eq!(
        changed,
        text.replace("hedge_ms = 5 # b", "hedge_ms = 7 # b")
    );
    let more = assign(&changed, "consistency", Some("strong")).expect("a setting");
    assert!(more.contains("consistency = \"strong\"\n"), "{more}");
    assert_eq!(reading(&more).settings.hedge_ms, 7);
    let near = assign(&more, "near", Some("10.0.0.1, db2")).expect("a setting");
    assert_eq!(reading(&near).settings.near.0.len(), 2);
    let less = assign(&changed, "hedge_ms", None).expect("it is there");
    assert!(!less.contains("hedge_ms"), "{less}");
    let first = assign("", "max_lag_ms", Some("5")).expect("a setting");
    assert_eq!(first, "[settings]\nmax_lag_ms = 5\n");
    let before = assign(
        "[[rule]]\nname = \"r\"\nrefuse = \"x\"\n",
        "hedge_ms",
        Some("5"),
    );
    let before = before.expect("a setting");
    assert_eq!(reading(&before).settings.hedge_ms, 5);
    for (name, value, part) in [
        ("hedge_m", Some("1"), "did you mean"),
        ("hedge_ms", Some("x"), "whole number"),
        ("threads", Some("1"), "heddle.toml"),
        ("marks", None, "does not have `marks`"),
    ] {
        let error = assign(text, name, value).expect_err("wrong");
        assert!(error.contains(part), "{error}");
    }
}
