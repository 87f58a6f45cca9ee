//! Sockets that this process was started with, in the way of systemd: from descriptor 3 on, counted by
//! LISTEN_FDS, named by LISTEN_FDNAMES, meant for the process LISTEN_PID.

#![expect(unsafe_code, reason = "descriptors by their numbers are taken over")]

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;

/// The first descriptor behind stdin, stdout and stderr.
const FIRST: RawFd = 3;

/// More than anybody passes; a number beyond it is a mistake.
const DESCRIPTORS_MAX: RawFd = 64;

/// The sockets with their names, which may be empty. They are given once: a second call finds none.
/// Children of this process do not inherit them. To be called before this process opens any socket of
/// its own: one of that number could not be told from one that was passed.
pub fn inherited() -> Vec<(String, OwnedFd)> {
    static GIVEN: AtomicBool = AtomicBool::new(false);
    let variable = |name| std::env::var(name).unwrap_or_default();
    let is_for_us = variable("LISTEN_PID") == std::process::id().to_string();
    if !is_for_us || GIVEN.swap(true, Ordering::AcqRel) {
        return Vec::new();
    }
    let count: RawFd = variable("LISTEN_FDS").parse().unwrap_or(0);
    let names = variable("LISTEN_FDNAMES");
    let names = names.split(':').chain(std::iter::repeat(""));
    let numbers = FIRST..FIRST + count.clamp(0, DESCRIPTORS_MAX);
    let all = numbers.zip(names).filter_map(|(number, name)| {
        // SAFETY: LISTEN_PID and LISTEN_FDS say that whoever started this process opened this number
        // for it, so nobody in here owns it; it is only looked at.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        // An error says that it is not open after all, or is no socket.
        rustix::net::sockopt::socket_type(borrowed).ok()?;
        rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC).ok()?;
        // SAFETY: it is open, as was just seen, and this is the only owner: GIVEN lets one call by.
        let owned = unsafe { OwnedFd::from_raw_fd(number) };
        Some((name.to_owned(), owned))
    });
    all.collect()
}
