//! `docs/DOCTOR.md` has a row for each check, as the table has it. `HEDDLE_WRITE_DOCS=1` rewrites it.

const HEAD: &str = "# What is wrong with my farm

For operators. `heddle doctor` looks at every server, group and router, and at the routers' machines. It says what is wrong, how grave it
is, what it breaks, what was read, and the statement or line that mends it. It changes nothing unless it is told to.

```sh
heddle doctor                                # everything
heddle doctor g1 10.0.0.5:3306               # a group and a server
heddle doctor --before-add 10.0.0.9:3306     # a server that is not in the farm yet
heddle doctor g1 --before-add 10.0.0.9:3306  # the same, compared with the servers of g1
heddle doctor --fix                          # mends what can be mended without a risk
heddle doctor --watch --json                 # a line for each change, until it is ended
heddle doctor --exit-code                    # for monitoring
```

| severity | meaning |
| --- | --- |
| `error` | something is broken, or an acknowledged commit can be lost |
| `warning` | something breaks after a fault that is to be expected |
| `info` | worth knowing; nothing breaks now |

With `--json` each finding is an object with `check`, `severity`, `server` (the address of a server, or the name of a group or router),
`evidence`, `breaks`, `cure`, `scope` (`server`, `group` or `router`), `group`, `fix` (`safe`, `asks` or `refused`), `why_not` and
`statement`. The names of checks do not change. What could not be read is no finding: an account that may not see the table of
accounts is told by `privileges`, and the checks of accounts say nothing.

## Mending

`--fix` runs the statements of findings whose `fix` is `safe`, one after the other, and prints each. What is marked `asks` it does after a
yes on the terminal, or with `--yes`. Of the rest it says why it is left. On MySQL settings are kept over restarts (`SET PERSIST`). MariaDB
cannot do that: write them into its configuration as well. Each cure is an event `doctor_mended`.

The router runs the statements, by its own account. It looks again before each one, and runs only what its own check says. A
single finding is mended by `heddle manage mend CHECK SERVER [--sure]`.

## Monitoring

`--exit-code` ends the program with 0 where nothing is wrong or there are notes only, with 1 where the gravest finding is a warning,
with 2 where it is an error, and with 3 where no router answers. `--watch` ends so, too, when a signal ends it. It looks every 60 seconds, or as
`--watch=SECONDS` says, and prints a line when a finding comes (`found`) and when it is gone (`cured`).

The router that leads looks by itself every `doctor_interval_s` (3600), and ten seconds after `group add`. Errors and warnings that are new, and
are still there ten seconds later, are events `doctor_found`; `doctor_cured` follows when they are over. `event_command` hears of both.

`group add` refuses a server that could not be a member, as before ([REJOIN.md](REJOIN.md)).

## The checks

";

const TAIL: &str = "
In a Galera group what concerns binary logs, GTIDs, replication, semi-sync and durability is not checked.
";

fn page() -> String {
    format!("{HEAD}{}{TAIL}", doctor::page())
}

#[test]
fn the_page_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/DOCTOR.md");
    if std::env::var_os("HEDDLE_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).expect("docs/ can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/DOCTOR.md is old: HEDDLE_WRITE_DOCS=1 cargo test --workspace --test doctor_doc"
    );
}
