//! HTTP/2 inside TLS for who asks for it, and HTTP/1.1 for who does not.

use std::process::Command;

use testkit::{Farm, wait_until};

use super::farm_for_http_2;
use crate::reading::{SOON, admin, metric};

/// Reads changes by curl with these flags, and gives the version of HTTP that was spoken.
fn told_by(farm: &Farm, flags: &[&str], number: i64) -> String {
    let bearer = format!("Authorization: Bearer {}", admin(farm));
    let out = farm.dir().join(format!("told-{number}"));
    let head = farm.dir().join(format!("head-{number}"));
    let mut stream = Command::new("curl")
        .args(["--insecure", "--no-buffer", "--silent", "--header", &bearer])
        .args(flags)
        .arg("--dump-header")
        .arg(&head)
        .arg("--output")
        .arg(&out)
        .arg(format!("https://{}/v1/changes?table=d.t", farm.http))
        .spawn()
        .expect("curl runs");
    let told = || std::fs::read_to_string(&out).unwrap_or_default();
    wait_until(SOON, "the stream begins", || told().contains("heartbeat"));
    let mut client = farm.client();
    client.run(&format!("INSERT INTO d.t VALUES ({number})"));
    let row = format!("\"after\":{{\"a\":{number}}}");
    wait_until(SOON, "a row", || told().contains(&row));
    stream.kill().expect("it runs");
    stream.wait().expect("it ends");
    wait_until(SOON, "its place is free", || {
        metric(farm, "heddle_change_streams") == 0.0
    });
    let head = std::fs::read_to_string(&head).expect("curl writes it");
    head.split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn changes_are_told_over_http_2_inside_tls() {
    let Some(farm) = farm_for_http_2() else {
        return;
    };
    for (number, flags, version) in [
        (1, &["--http2"][..], "HTTP/2"),
        (2, &["--http1.1"], "HTTP/1.1"),
        // It asks for nothing, as clients that know no ALPN do.
        (3, &["--http2", "--no-alpn"], "HTTP/1.1"),
    ] {
        assert_eq!(told_by(&farm, flags, number), version, "{flags:?}");
    }
}
