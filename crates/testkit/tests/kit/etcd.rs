//! The etcd that tests start is a real one, and dies and comes back as a test wants it.

use std::time::Duration;

use testkit::certificates::Authority;
use testkit::etcd::{Etcd, Options};
use testkit::wait_until;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn three_members_elect_a_leader_and_outlive_it() {
    let Some(mut etcd) = Etcd::start(3) else {
        return;
    };
    etcd.ctl(&["put", "/a", "1"]).expect("written");
    let first = etcd.leader();
    etcd.kill(first);
    wait_until(PATIENCE, "a new leader that has the key", || {
        let next = etcd.leader();
        let read = etcd.ctl_at(next, &["get", "/a", "--print-value-only"]);
        next != first && read == Ok("1\n".to_owned())
    });
    etcd.restart(first);
    etcd.freeze(first);
    assert!(etcd.ctl_at(first, &["endpoint", "health"]).is_err());
    etcd.thaw(first);
    wait_until(PATIENCE, "an answer of the thawed member", || {
        etcd.ctl_at(first, &["endpoint", "health"]).is_ok()
    });
    etcd.compact();
    let old = etcd.ctl(&["get", "/a", "--rev=1"]);
    assert!(old.expect_err("forgotten").contains("compacted"));
}

#[test]
fn tls_accounts_and_a_quota_are_etcds_own() {
    let authority = Authority::new("etcd");
    let Some(etcd) = Etcd::start_with(Options {
        certificate: Some(authority.sign("server", &["127.0.0.1"])),
        client_certificate: Some(authority.sign("client", &["client"])),
        authority: Some(authority.file()),
        root_password: Some("secret".to_owned()),
        quota_bytes: Some(64 << 10),
        ..Options::default()
    }) else {
        return;
    };
    assert!(etcd.url(0).starts_with("https://127.0.0.1:"));
    etcd.add_user("loom", "pw", "/loom");
    let text = "x".repeat(32 << 10);
    wait_until(PATIENCE, "a full etcd", || {
        let put = etcd.ctl(&["put", "/loom/a", &text]);
        put.is_err_and(|error| error.contains("space exceeded"))
    });
}
