//! `GET /v1/changes` at the HTTP door: who may have it, by which HTTP it comes, and what its lines say besides values.

mod answers;
mod circumstances;
mod tls;

use std::process::Command;

use testkit::{Farm, skip};

/// A farm with the table d.t, for curl by HTTP/2; `None` where a test cannot be run here.
fn farm_for_http_2() -> Option<Farm> {
    let features = Command::new("curl").arg("--version").output();
    let has_it = features.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("HTTP2"));
    if !has_it {
        skip(&"curl is not here, or knows no HTTP/2");
        return None;
    }
    let farm = Farm::start(&["--replicas", "0"])?;
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    Some(farm)
}
