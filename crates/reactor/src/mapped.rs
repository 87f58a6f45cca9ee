//! Memory that outlives the process: a file mapped as words.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;

use rustix::fs::FallocateFlags;

/// The first `bytes` of the file, as memory that its other readers see. The file gets so long, and its room on the disk is
/// taken at once: a disk that is full is an error here, where later it would end the process. The mapping stays until
/// the process ends, and nobody may make the file shorter meanwhile.
///
/// # Errors
/// There is no room, or the file system cannot do it.
#[expect(unsafe_code)]
pub fn mapped(file: &File, bytes: usize) -> io::Result<&'static [AtomicU64]> {
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes as u64)?;
    // SAFETY: the kernel chooses the address, so no memory of ours is replaced.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping begins at a page, so words are aligned; it has `bytes` readable and writable bytes, is zero
    // or what others wrote, is never unmapped, and is only ever accessed as atomic words by this process.
    Ok(unsafe { std::slice::from_raw_parts(address.cast(), bytes / size_of::<AtomicU64>()) })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn what_is_stored_stands_in_the_file() {
        let path = std::env::temp_dir().join(format!("heddle-mapped-{}", std::process::id()));
        let open = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        let mut file = open.expect("a file");
        let words = mapped(&file, 64).expect("mapped");
        assert_eq!(words.len(), 8);
        words[7].store(u64::from_ne_bytes(*b"the last"), Relaxed);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("read");
        assert_eq!(&bytes[56..], b"the last");
        std::fs::remove_file(&path).expect("removed");
        assert!(mapped(&file, 0).is_err());
    }
}
