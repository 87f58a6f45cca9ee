//! Waiting for the end of a process, whoever has started it.
//!
//! Must not know: what the process is, and what its end leads to.

use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Ends when the process has ended, and is true then. Where the kernel does not tell, it ends after `look`: whoever waits has to
/// look himself.
pub async fn end_of(pid: u32, look: Duration) -> bool {
    let Some(process) = descriptor(pid) else {
        tokio::time::sleep(look).await;
        return false;
    };
    process.readable().await.is_ok()
}

/// A descriptor that can be read once the process has ended.
#[expect(
    deprecated,
    reason = "what replaces it is unsafe, for descriptors that may be closed: this one is owned"
)]
fn descriptor(pid: u32) -> Option<AsyncFd<OwnedFd>> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::NONBLOCK).ok()?;
    AsyncFd::with_interest(process, Interest::READABLE).ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn an_end_is_told() {
        let mut child = Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("a process");
        let (pid, long) = (child.id(), Duration::from_secs(600));
        let ended = tokio::spawn(end_of(pid, long));
        tokio::task::yield_now().await;
        assert!(!ended.is_finished());
        child.kill().expect("it is ours");
        let told = ended.await.expect("no panic");
        child.wait().expect("it is ours");
        // A kernel that does not tell would have had the test wait for ten minutes.
        assert!(told);
        assert!(!end_of(pid, Duration::ZERO).await, "nobody is there");
    }
}
