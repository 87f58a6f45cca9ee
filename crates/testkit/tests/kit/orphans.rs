//! Nothing stays: a test process that is killed leaves no server behind, and a router no memory.

use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::router::Router;
use testkit::{Release, Server, wait_until};

/// Set for the second process of the test below.
const DIES: &str = "HEDDLE_TEST_DIES";

#[test]
fn servers_end_with_a_test_process_that_is_killed() {
    if std::env::var_os(DIES).is_some() {
        // Never dropped: the process ends without unwinding.
        let server = Server::start(Release::Installed)
            .map(Box::new)
            .map(Box::leak);
        let pid = server.map_or(0, |server| server.pid());
        std::fs::write(std::env::var_os(DIES).expect("it is set"), pid.to_string()).expect("told");
        std::process::abort();
    }
    if Release::Installed.binary().is_err() {
        return;
    }
    let told = tempfile::NamedTempFile::new().expect("a temporary file");
    let this = std::env::current_exe().expect("a test knows its own program");
    let mut second = Command::new(this);
    second.arg("servers_end_with").env(DIES, told.path());
    second.stdout(Stdio::null()).stderr(Stdio::null());
    let status = second.status().expect("it can be run again");
    assert!(!status.success(), "it aborted");
    let pid = std::fs::read_to_string(told.path()).expect("it told the pid");
    wait_until(Duration::from_secs(30), "the end of the orphan", || {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        !line.contains("heddle-server-")
    });
}

#[test]
fn what_a_router_keeps_in_memory_goes_with_its_handle() {
    let router = Router::start("");
    let live = router.state_dir().join("trace/live");
    let rings = std::fs::read_link(live).expect("it leads to the last steps");
    assert!(rings.is_dir(), "{rings:?}");
    drop(router);
    assert!(!rings.exists(), "{rings:?}");
}
