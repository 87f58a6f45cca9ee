//! An applier acknowledges a subscription: the farm knows how far its target is, over restarts of both.

use testkit::server::Server;
use testkit::{Farm, Release, wait_until};

use crate::apply::{said, start};
use crate::reading::{SOON, metrics};

fn has(target: &Server, number: i64) -> bool {
    let sql = format!("SELECT a FROM d.t WHERE a = {number}");
    let rows = target.client().query(&sql);
    rows.is_ok() && !target.client().rows(&sql).is_empty()
}

fn token(farm: &Farm) -> String {
    let shown = farm.json(&["subscription", "show", "copy"]);
    shown[0]["token"].as_str().unwrap_or_default().to_owned()
}

/// The lag in ms, by the metrics.
fn lag(farm: &Farm) -> Option<f64> {
    let text = metrics(farm);
    let head = "heddle_subscription_lag_ms{subscription=\"copy\"} ";
    let line = text.lines().find_map(|line| line.strip_prefix(head));
    line.and_then(|value| value.parse().ok())
}

#[test]
fn a_farm_knows_how_far_an_applier_is() {
    let Some(mut farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let Some(target) = Server::start(Release::Installed) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    let flags = ["--subscription", "copy"];
    let mut applier = start(&farm, &target, &flags);
    wait_until(SOON, "it has begun", || said(&farm).contains("begins"));
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    client.run("INSERT INTO d.t VALUES (1)");
    wait_until(SOON, "the row", || has(&target, 1));
    wait_until(SOON, "what the target has is acknowledged", || {
        let reached = target
            .client()
            .value("SELECT token FROM heddle_apply.progress");
        token(&farm) == reached
    });
    wait_until(SOON, "a lag", || lag(&farm).is_some());
    applier.kill().expect("it runs");
    applier.wait().expect("it ends");
    client.run("INSERT INTO d.t VALUES (2)");
    wait_until(SOON, "the farm sees that it is behind", || {
        lag(&farm).is_some_and(|ms| ms > 0.0)
    });
    let before = token(&farm);
    assert!(farm.stop().success());
    farm.start_again();
    assert_eq!(token(&farm), before);
    // A target that knows nothing of the stream goes on where the farm knows it.
    let fresh = [&flags[..], &["--name", "fresh"]].concat();
    let mut applier = start(&farm, &target, &fresh);
    wait_until(SOON, "what was while it was dead", || {
        let ended = applier.try_wait().expect("a child");
        assert!(ended.is_none(), "{}", said(&farm));
        has(&target, 2)
    });
    wait_until(SOON, "it is acknowledged, too", || token(&farm) != before);
    applier.kill().expect("it runs");
    applier.wait().expect("it ends");
    let other = [&flags[..], &["--order", "global", "--name", "third"]].concat();
    let mut applier = start(&farm, &target, &other);
    wait_until(SOON, "a refusal", || {
        applier.try_wait().expect("a child").is_some()
    });
    assert!(said(&farm).contains("has other order"), "{}", said(&farm));
}
