//! Who is at the other end of a Unix socket, as the kernel says: the process, and the user that it runs as.

#![expect(unsafe_code, reason = "the kernel and the C library are asked")]

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process that connected, or that listens where this process connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// 0 for a process that this one's namespace does not have.
    pub process: i32,
    pub user: u32,
}

/// Room for what is known of a user; doubled when it does not do.
const ENTRY_BYTES: usize = 1024;
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// As they were when the connection, or the listening socket, was made.
pub(crate) fn of_peer(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
    let mut found = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes into `found`, which has as many and is plain numbers.
    let answered = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &mut bytes,
        )
    };
    // What is no Unix socket has nobody.
    if answered != 0 || found.uid == u32::MAX {
        return Err(io::Error::last_os_error());
    }
    Ok(Credentials {
        process: found.pid,
        user: found.uid,
    })
}

/// The name of this machine's user; `None` when there is no such user. Blocks: the system's databases of
/// users may be elsewhere.
pub fn user_name(user: u32) -> Option<String> {
    let mut room = ENTRY_BYTES;
    loop {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut texts = vec![0; room];
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are to memory of this function; `texts` has as many bytes as is said.
        let error = unsafe {
            libc::getpwuid_r(
                user,
                entry.as_mut_ptr(),
                texts.as_mut_ptr(),
                texts.len(),
                &mut found,
            )
        };
        if error == libc::ERANGE && room < ENTRY_BYTES_MAX {
            room *= 2;
            continue;
        }
        if error != 0 || found.is_null() {
            return None;
        }
        // SAFETY: the entry was found, so it is filled, and its name is a C string in `texts`.
        let name = unsafe { CStr::from_ptr((*found).pw_name) };
        return name.to_str().ok().map(str::to_owned);
    }
}
