//! Memory that was freed and is not used again: the C library's allocator keeps it, and gives it back when
//! it is told to.

/// Bytes of this process' own memory that are resident and that nobody uses; 0 where that is not known. While the
/// process has no more than `least` in all, the allocator is not asked, which holds up whoever allocates meanwhile.
pub fn spare_bytes(least: usize) -> usize {
    // Not `statm`, which counts pages: to ask for a page's size ends the process under Valgrind.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let own = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:")?.strip_suffix("kB"));
    let Some(own) = own.and_then(|kilobytes| kilobytes.trim().parse::<usize>().ok()) else {
        return 0;
    };
    let own = own << 10;
    if own <= least {
        return 0;
    }
    match allocator::used_bytes() {
        Some(used) => own.saturating_sub(used),
        None => 0,
    }
}

/// Has the allocator give back what it keeps. It holds up whoever allocates meanwhile, for milliseconds when it
/// is much: meant for what lasts, not for every moment. Blocks.
pub fn give_spare_back() {
    allocator::trim();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod allocator {
    #![expect(unsafe_code, reason = "the C library is asked")]

    /// What was allocated and not freed.
    pub fn used_bytes() -> Option<usize> {
        // SAFETY: it reads the allocator's own counts, under its locks.
        let info = unsafe { libc::mallinfo2() };
        Some(info.uordblks + info.hblkhd)
    }

    pub fn trim() {
        // SAFETY: it only gives whole free pages to the kernel, under the allocator's locks.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod allocator {
    pub fn used_bytes() -> Option<usize> {
        None
    }

    pub fn trim() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_is_given_back() {
        let mut blocks: Vec<Vec<u8>> = (0..20_000).map(|_| vec![1; 2048]).collect();
        // One in a hundred stays, so that no heap ends in free memory, which would go by itself.
        let mut number = 0;
        blocks.retain(|_| {
            number += 1;
            number % 100 == 0
        });
        let before = spare_bytes(0);
        give_spare_back();
        let after = spare_bytes(0);
        assert!(before > 20 << 20, "{before}");
        assert!(after < before / 2, "{before} {after}");
        drop(blocks);
    }
}
