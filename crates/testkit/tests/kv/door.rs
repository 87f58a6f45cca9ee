//! The key-value door of `heddle up`: what memcached clients hear, byte for byte, and what is in the
//! tables behind it.

use std::process::Command;
use std::time::Duration;

use testkit::raw::{Raw, show};
use testkit::{Farm, Release, skip, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn farm(release: Release, flags: &[&str]) -> Option<Farm> {
    Farm::start_on(release, &[&["--replicas", "0"], flags].concat())
}

fn a_client_hears_what_memcached_says(release: Release) {
    let Some(farm) = farm(release, &[]) else {
        return;
    };
    let mut raw = Raw::connect(farm.kv);
    classic(&mut raw);
    meta(&mut raw);
    bad_lines(&mut raw);
    pipelines(&mut raw);
    large_values(&mut raw);
    counters(&mut raw, &farm);
    the_rows_are_there(&farm);
    ends(&farm, raw);
}

fn classic(raw: &mut Raw) {
    raw.asks("get a\r\n", "END\r\n");
    raw.asks("set a 7 0 5\r\nhello\r\n", "STORED\r\n");
    raw.asks(
        "get a b a\r\n",
        "VALUE a 7 5\r\nhello\r\nVALUE a 7 5\r\nhello\r\nEND\r\n",
    );
    raw.asks(
        "add a 0 0 1\r\nx\r\nadd b 0 0 1\r\nx\r\n",
        "NOT_STORED\r\nSTORED\r\n",
    );
    raw.asks(
        "replace c 0 0 1\r\nx\r\nreplace b 1 0 2\r\nyz\r\n",
        "NOT_STORED\r\nSTORED\r\n",
    );
    raw.asks(
        "append b 0 0 1\r\n!\r\nprepend b 0 0 1\r\n?\r\n",
        "STORED\r\nSTORED\r\n",
    );
    raw.asks("append c 0 0 1\r\n!\r\n", "NOT_STORED\r\n");
    raw.asks("get b\r\n", "VALUE b 1 4\r\n?yz!\r\nEND\r\n");
    raw.say("gets b\r\n");
    let line = raw.line();
    let cas = line.rsplit(' ').next().expect("a number").to_owned();
    raw.hears("?yz!\r\nEND\r\n");
    let wrong = cas.parse::<u64>().expect("a number") ^ 1;
    raw.asks(format!("cas b 0 0 1 {wrong}\r\nx\r\n"), "EXISTS\r\n");
    raw.asks(format!("cas b 0 0 1 {cas}\r\nx\r\n"), "STORED\r\n");
    raw.asks(format!("cas none 0 0 1 {cas}\r\nx\r\n"), "NOT_FOUND\r\n");
    raw.asks("set n 0 0 2\r\n10\r\n", "STORED\r\n");
    raw.asks(
        "incr n 5\r\ndecr n 100\r\nincr none 1\r\n",
        "15\r\n0\r\nNOT_FOUND\r\n",
    );
    let not = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    raw.asks("incr a 1\r\n", not);
    raw.asks("delete n\r\ndelete n\r\n", "DELETED\r\nNOT_FOUND\r\n");
    raw.asks("touch a 100\r\ntouch n 1\r\n", "TOUCHED\r\nNOT_FOUND\r\n");
    raw.asks("gat 0 a n\r\n", "VALUE a 7 5\r\nhello\r\nEND\r\n");
    raw.asks("set old 0 -1 1\r\nx\r\nget old\r\n", "STORED\r\nEND\r\n");
    raw.say("set q 0 0 1 noreply\r\nx\r\nincr q 1 noreply\r\ndelete b noreply\r\n");
    raw.asks("get q b\r\n", "VALUE q 0 1\r\nx\r\nEND\r\n");
    raw.asks("verbosity 1\r\nmn\r\n", "OK\r\nMN\r\n");
    raw.say("version\r\n");
    assert!(raw.line().starts_with("VERSION 1.6."));
    raw.asks("flush_all\r\nget a\r\n", "OK\r\nEND\r\n");
    // What a client asked first takes effect first, although reads and changes go different ways.
    for turn in 0..50 {
        raw.asks(
            format!("set o{turn} 0 0 1\r\n1\r\nget o{turn}\r\n"),
            format!("STORED\r\nVALUE o{turn} 0 1\r\n1\r\nEND\r\n"),
        );
        raw.asks(
            format!("get o{turn}\r\nset o{turn} 0 0 1\r\n2\r\nflush_all\r\nmg o{turn} v\r\n"),
            format!("VALUE o{turn} 0 1\r\n1\r\nEND\r\nSTORED\r\nOK\r\nEN\r\n"),
        );
    }
    flushes_later(raw);
}

/// What was said last counts; what is stored until then goes, too.
fn flushes_later(raw: &mut Raw) {
    raw.asks("set a 0 0 1\r\n1\r\nflush_all 3600\r\n", "STORED\r\nOK\r\n");
    raw.asks("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
    raw.asks("flush_all 1\r\nset b 0 0 1\r\n2\r\n", "OK\r\nSTORED\r\n");
    wait_until(PATIENCE, "all is gone", || {
        raw.say("get a b\r\n");
        let gone = raw.line() == "END";
        if !gone {
            while raw.line() != "END" {}
        }
        gone
    });
    raw.asks(
        "set a 0 0 1\r\n3\r\nget a\r\n",
        "STORED\r\nVALUE a 0 1\r\n3\r\nEND\r\n",
    );
}

fn meta(raw: &mut Raw) {
    raw.asks(
        "mg m v\r\nmg m v q\r\nmg m v k Ox\r\n",
        "EN\r\nEN km Ox\r\n",
    );
    raw.asks("ms m 2 F5 T0 k Oab\r\nhi\r\n", "HD km Oab\r\n");
    raw.asks("mg m s v f t k Oab\r\n", "VA 2 s2 f5 t-1 km Oab\r\nhi\r\n");
    raw.asks("mg m s\r\nmg m\r\n", "HD s2\r\nHD\r\n");
    raw.asks("ms m 2 ME\r\nxx\r\n", "NS\r\n");
    raw.asks(
        "ms m 1 MA\r\n!\r\nms m 1 MP\r\n?\r\nmg m v\r\n",
        "HD\r\nHD\r\nVA 4\r\n?hi!\r\n",
    );
    raw.asks("ms none 1 MR\r\nx\r\nms none 1 MA\r\nx\r\n", "NS\r\nNS\r\n");
    raw.asks("ms app 1 MA N0\r\nx\r\nmg app v\r\n", "HD\r\nVA 1\r\nx\r\n");
    raw.asks("ms m 1 C1\r\nx\r\n", "EX\r\n");
    raw.asks("ms m 1 q\r\ny\r\nmg m v\r\n", "VA 1\r\ny\r\n");
    raw.asks(
        "ma n\r\nma n N0 J13 v\r\nma n v D30\r\nma n MD D50 v\r\n",
        "NF\r\nVA 2\r\n13\r\nVA 2\r\n43\r\nVA 1\r\n0\r\n",
    );
    raw.asks(
        "ms AAEC/w== 1 b\r\nz\r\nmg AAEC/w== b k v\r\n",
        "HD\r\nVA 1 kAAEC/w== b\r\nz\r\n",
    );
    raw.asks("mg turn s v N30 t\r\n", "VA 0 s0 t30 W\r\n\r\n");
    raw.asks("mg turn s v N30\r\n", "VA 0 s0 Z\r\n\r\n");
    raw.asks(
        "ms turn 4\r\nmade\r\nmg turn v\r\n",
        "HD\r\nVA 4\r\nmade\r\n",
    );
    raw.asks("md turn x\r\nmg turn v\r\n", "HD\r\nVA 0\r\n\r\n");
    raw.asks(
        "md turn\r\nmd turn\r\nmd turn q\r\nmn\r\n",
        "HD\r\nNF\r\nNF\r\nMN\r\n",
    );
    raw.asks(
        "ms m 1\r\n5\r\nmg m T-1 v t\r\nmg m v\r\n",
        "HD\r\nVA 1 t0\r\n5\r\nEN\r\n",
    );
    raw.asks(
        "ma made N30 T60 t\r\nmd made x F9\r\nmg made f s\r\n",
        "HD t60\r\nHD\r\nHD f9 s0\r\n",
    );
    raw.asks(
        "ms m 1 M\r\ny\r\nma m M\r\n",
        "CLIENT_ERROR invalid mode for ms M token\r\nCLIENT_ERROR invalid mode for ma M token\r\n",
    );
    raw.asks("ms m 1\r\ny\r\n", "HD\r\n");
    raw.asks("me none\r\n", "EN\r\n");
    raw.say("me m\r\n");
    assert!(raw.line().starts_with("ME m exp=-1 "));
    raw.asks(
        "md m I\r\n",
        "CLIENT_ERROR flag I: rows have no mark for stale values\r\n",
    );
    stamps_and_tokens(raw);
}

fn stamps_and_tokens(raw: &mut Raw) {
    raw.asks(
        "ms stamped 1 E770 c\r\n1\r\nmg stamped c v\r\n",
        "HD c770\r\nVA 1 c770\r\n1\r\n",
    );
    raw.asks(
        "ms stamped 1 C770 E9007199254740991\r\n2\r\nma stamped C9007199254740991 E5 c v\r\n",
        "HD\r\nVA 1 c5\r\n3\r\n",
    );
    raw.asks(
        "ms stamped 1 C5 E0\r\n9\r\nmg stamped c v\r\nms stamped 1 C5\r\n4\r\n",
        "CLIENT_ERROR flag E: a cas is a number from 1 to 9007199254740991 here\r\n\
         VA 1 c5\r\n3\r\nHD\r\n",
    );
    raw.asks(
        "md stamped E9\r\n",
        "CLIENT_ERROR flag E: nothing is stored by this\r\n",
    );
    raw.asks(
        "mg m v Gnonsense\r\n",
        "CLIENT_ERROR flag G: it is not a token: it does not begin with '1;'\r\n",
    );
    raw.say("ms m 1 G k\r\nt\r\n");
    let line = raw.line();
    let token = line
        .strip_prefix("HD G")
        .and_then(|rest| rest.strip_suffix(" km"));
    let token = token.unwrap_or_else(|| panic!("no token: {line}"));
    raw.asks(format!("mg m v G{token}\r\n"), "VA 1\r\nt\r\n");
    raw.asks(format!("mg none v G{token}\r\n"), "EN\r\n");
}

fn bad_lines(raw: &mut Raw) {
    let bad = "CLIENT_ERROR bad command line format\r\n";
    raw.asks("nonsense\r\n", "ERROR\r\n");
    raw.asks("get\r\n", bad);
    raw.asks(format!("get {}\r\n", "k".repeat(251)), bad);
    raw.asks("set a b 0 2\r\nhi\r\n", bad);
    raw.asks("set a 0 0 2\r\nhip\r\n", "CLIENT_ERROR bad data chunk\r\n");
    // What is behind the two bytes and their end is a line.
    raw.hears(bad);
    raw.asks(
        "incr a x\r\n",
        "CLIENT_ERROR invalid numeric delta argument\r\n",
    );
    raw.asks("shutdown\r\n", "SERVER_ERROR: shutdown not enabled\r\n");
    raw.asks(
        "get @@nowhere.k\r\n",
        "CLIENT_ERROR there is no container nowhere\r\n",
    );
    raw.asks(
        "set @@nowhere.k 0 0 1\r\nx\r\n",
        "CLIENT_ERROR there is no container nowhere\r\n",
    );
    raw.asks(
        "stats cachedump 1 1\r\n",
        "CLIENT_ERROR stats cachedump not allowed\r\n",
    );
    raw.asks("stats items\r\nstats slabs\r\n", "END\r\nEND\r\n");
}

/// Requests that come all at once are answered in their order.
fn pipelines(raw: &mut Raw) {
    let (mut requests, mut replies) = (String::new(), String::new());
    for i in 0..3000 {
        requests += &format!("set p{} 0 0 4\r\n{:04}\r\n", i % 50, i);
        replies += "STORED\r\n";
        if i % 7 == 0 {
            requests += &format!("get p{}\r\n", i % 50);
            replies += &format!("VALUE p{} 0 4\r\n{:04}\r\nEND\r\n", i % 50, i);
        }
    }
    raw.asks(requests, replies);
    let keys: Vec<String> = (0..4000).map(|i| format!("p{}", i % 50)).collect();
    let items = (0..4000).map(|i| format!("VALUE p{} 0 4\r\n{:04}\r\n", i % 50, 2950 + i % 50));
    let items: String = items.collect();
    raw.asks(
        format!("get {}\r\n", keys.join(" ")),
        format!("{items}END\r\n"),
    );
}

fn large_values(raw: &mut Raw) {
    let large = "x".repeat(1 << 20);
    raw.asks(
        format!("set large 0 0 {}\r\n{large}\r\n", large.len()),
        "STORED\r\n",
    );
    let item = format!("VALUE large 0 {}\r\n{large}\r\n", large.len());
    raw.asks("get large large\r\n", format!("{item}{item}END\r\n"));
    let more = format!("set more 0 0 {}\r\n{large}x\r\n", large.len() + 1);
    raw.asks(more, "SERVER_ERROR object too large for cache\r\n");
    raw.asks("get more\r\n", "END\r\n");
    // A value that comes in pieces.
    raw.say("set pieces 0 0 6\r\nab");
    raw.say("cd");
    raw.asks(
        "ef\r\nget pieces\r\n",
        "STORED\r\nVALUE pieces 0 6\r\nabcdef\r\nEND\r\n",
    );
}

fn counters(raw: &mut Raw, farm: &Farm) {
    raw.say("stats\r\n");
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line| line != "END") {
        lines.push(raw.line());
    }
    for name in [
        "pid",
        "uptime",
        "version",
        "curr_connections 1",
        "cmd_get",
        "get_hits",
    ] {
        let stat = format!("STAT {name}");
        assert!(
            lines.iter().any(|line| line.starts_with(&stat)),
            "{stat}: {lines:?}"
        );
    }
    listed(raw, farm);
}

/// Clients, and the sessions of Heddle's own that run their statements, stand in lists as what they are.
fn listed(raw: &mut Raw, farm: &Farm) {
    let rows = farm.json(&["session", "list"]);
    let of = |door: &str| {
        rows.iter()
            .filter(|row| row["door"] == door)
            .collect::<Vec<_>>()
    };
    let client = of("kv");
    assert_eq!(client.len(), 1, "{rows:?}");
    assert_eq!(
        (&client[0]["command"], &client[0]["state"]),
        (&"Sleep".into(), &"idle".into())
    );
    let own = of("own");
    assert!(!own.is_empty(), "{rows:?}");
    for row in own {
        assert_eq!(row["client"], "", "{row}");
        assert_eq!(
            (&row["command"], &row["state"]),
            (&"Sleep".into(), &"idle".into()),
            "{row}"
        );
    }
    // While a row is held past the router, its client waits.
    let mut holder = farm.members()[0].client();
    raw.asks("set held 0 0 1\r\n1\r\n", "STORED\r\n");
    holder.run("BEGIN");
    holder.run("UPDATE heddle.kv SET v = '2' WHERE k = 'held'");
    raw.say("append held 0 0 1\r\n3\r\n");
    wait_until(PATIENCE, "both run", || {
        let rows = farm.json(&["session", "list"]);
        let is = |door: &str, command: &str| {
            rows.iter().any(|row| {
                row["door"] == door && row["command"] == command && row["state"] == "running"
            })
        };
        is("kv", "memcached") && is("own", "COM_QUERY")
    });
    holder.run("COMMIT");
    raw.hears("STORED\r\n");
}

fn the_rows_are_there(farm: &Farm) {
    let mut sql = farm.client();
    assert_eq!(
        sql.value("SELECT v FROM heddle.kv WHERE k = 'pieces'"),
        "abcdef"
    );
    let rows = farm.json(&["kv", "list"]);
    assert_eq!(rows[0]["name"], "default");
    assert_eq!(rows[0]["table"], "heddle.kv");
}

fn ends(farm: &Farm, mut raw: Raw) {
    raw.asks("get none\r\nquit\r\nget none\r\n", "END\r\n");
    raw.is_closed();
    let mut web = Raw::connect(farm.kv);
    web.say("GET / HTTP/1.1\r\n\r\n");
    web.is_closed();
    let mut noise = Raw::connect(farm.kv);
    noise.say([0x80; 4096]);
    noise.is_closed();
    // An operator ends a client that waits.
    let mut waits = Raw::connect(farm.kv);
    waits.asks("mn\r\n", "MN\r\n");
    let rows = farm.json(&["session", "list"]);
    let id = rows.iter().filter_map(|row| row["id"].as_u64()).max();
    let id = id.expect("the client is in the list").to_string();
    let killed = farm.command(&["session", "kill", &id]);
    assert!(killed.status.success(), "{}", show(&killed.stderr));
    waits.is_closed();
}

fn containers_are_chosen_by_name(release: Release) {
    let Some(mut farm) = farm(release, &[]) else {
        return;
    };
    let mut sql = farm.client();
    sql.run("CREATE DATABASE shop");
    sql.run(
        "CREATE TABLE shop.city (id VARCHAR(20) PRIMARY KEY, name VARCHAR(20), country CHAR(2), \
         extra INT NOT NULL DEFAULT 5)",
    );
    sql.run("INSERT INTO shop.city VALUES ('b', 'Berlin', 'de', 1)");
    farm.make_container("city --table=shop.city --key=id --values=name,country");
    let mut raw = Raw::connect(farm.kv);
    raw.asks(
        "get @@city.b\r\n",
        "VALUE @@city.b 0 9\r\nBerlin|de\r\nEND\r\n",
    );
    // It counts from there on, for every command.
    raw.asks(
        "get b\r\ndelete b\r\n",
        "VALUE b 0 9\r\nBerlin|de\r\nEND\r\nDELETED\r\n",
    );
    raw.asks("set p 0 0 8\r\nParis|fr\r\n", "STORED\r\n");
    assert_eq!(
        sql.value("SELECT CONCAT(name, country, extra) FROM shop.city"),
        "Parisfr5"
    );
    raw.asks(
        "get @@default\r\n",
        "VALUE @@default 0 9\r\nheddle/kv\r\nEND\r\n",
    );
    raw.asks("get p\r\n", "END\r\n");
    raw.asks(
        "delete @@city.p\r\nget @@city\r\n",
        "DELETED\r\nVALUE @@city 0 9\r\nshop/city\r\nEND\r\n",
    );
    let dropped = farm.command(&["kv", "drop", "city"]);
    assert!(dropped.status.success(), "{}", show(&dropped.stderr));
    raw.asks(
        "get p\r\n",
        "CLIENT_ERROR the container city is gone; choose another\r\n",
    );
    // The router ends, and its clients with it.
    assert!(farm.stop().success());
    raw.is_closed();
}

fn clients_log_in_where_that_is_asked_for(release: Release) {
    let Some(farm) = farm(release, &["--set", "kv_auth=on"]) else {
        return;
    };
    farm.client()
        .run("CREATE USER kv IDENTIFIED BY 'secret word'");
    farm.client().run("GRANT ALL ON heddle.* TO kv");
    let mut raw = Raw::connect(farm.kv);
    raw.asks("get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
    raw.asks(
        "set x 0 0 8\r\nkv wrong\r\n",
        "CLIENT_ERROR authentication failure\r\n",
    );
    raw.asks("set x 0 0 14\r\nkv secret word\r\n", "STORED\r\n");
    raw.asks(
        "set a 0 0 1\r\nx\r\nget a\r\n",
        "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
    );
    let rows = farm.json(&["session", "list"]);
    assert!(rows.iter().any(|row| row["user"] == "kv"), "{rows:?}");
    rights_on_tables_count(&farm);
    let mut guesses = Raw::connect(farm.kv);
    for _ in 0..5 {
        guesses.asks(
            "set x 0 0 8\r\nkv guess\r\n",
            "CLIENT_ERROR authentication failure\r\n",
        );
    }
    guesses.is_closed();
}

/// Another account reads only, and a third one nothing.
fn rights_on_tables_count(farm: &Farm) {
    let mut sql = farm.client();
    for user in ["looker", "nobody"] {
        sql.run(&format!("CREATE USER {user} IDENTIFIED BY 'pw'"));
    }
    sql.run("GRANT SELECT ON heddle.kv TO looker");
    let lacks = "CLIENT_ERROR the account lacks the right for this on container default\r\n";
    let mut raw = Raw::connect(farm.kv);
    raw.asks("set x 0 0 9\r\nlooker pw\r\n", "STORED\r\n");
    raw.asks("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    for request in [
        "set a 0 0 1\r\ny\r\n",
        "delete a\r\n",
        "incr a 1\r\n",
        "touch a 1\r\n",
        "gat 1 a\r\n",
        "flush_all\r\n",
        "mg none N30 v\r\n",
        "md a\r\n",
    ] {
        raw.asks(request, lacks);
    }
    let mut raw = Raw::connect(farm.kv);
    raw.asks("set x 0 0 9\r\nnobody pw\r\n", "STORED\r\n");
    raw.asks("get a\r\nget @@default\r\n", [lacks, lacks].concat());
}

/// What is installed of them; `make compat-kv` has those of registries, too.
#[test]
fn clients_that_people_use_hear_what_memcached_tells_them() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let ran = Command::new("python3")
        .current_dir(root)
        .arg("test/compat/kv.py")
        .arg("--heddle")
        .arg(testkit::farm::heddle())
        .args([
            "--only",
            "memcapable,libmemcached-tools,pymemcache,python-memcached,php",
        ])
        .env("PIP_NO_INDEX", "1")
        .output();
    let Ok(ran) = ran else {
        return skip(&"python3 is not installed");
    };
    let said = show(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", show(&ran.stderr));
    if said.contains(" skipped") {
        skip(&said);
    }
}

testkit::on_both_engines! {
    a_client_hears_what_memcached_says,
    containers_are_chosen_by_name,
    clients_log_in_where_that_is_asked_for,
}
