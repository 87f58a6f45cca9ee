//! How much memory the router may use: the machine's, or that of its control group where that is less.

use std::fs;
use std::path::Path;

/// Bytes; `None` where the kernel does not tell.
pub fn memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok()?;
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limits_above(Path::new("/sys/fs/cgroup"), group_path(&group));
    limits.into_iter().chain(total(&machine)).min()
}

/// The total in `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|it| it.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The process's group in the one hierarchy of cgroup v2, from `/proc/self/cgroup`.
fn group_path(groups: &str) -> &str {
    let found = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    found.unwrap_or_default()
}

/// The limits of a group and of those that it is in: each of them holds.
fn limits_above(root: &Path, group: &str) -> Vec<u64> {
    let group = root.join(group);
    let above = group.ancestors().take_while(|it| it.starts_with(root));
    let limits = above.filter_map(|it| fs::read_to_string(it.join("memory.max")).ok());
    // A group without a limit says `max`.
    limits.filter_map(|text| text.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_above_a_group_counts() {
        let root = tempfile::tempdir().expect("a directory");
        let service = root.path().join("system.slice/heddle.service");
        fs::create_dir_all(&service).expect("a directory in it");
        fs::write(service.join("memory.max"), "max\n").expect("written");
        fs::write(root.path().join("system.slice/memory.max"), "1073741824\n").expect("written");
        let group = group_path("1:name=old:/x\n0::/system.slice/heddle.service\n");
        assert_eq!(group, "system.slice/heddle.service");
        assert_eq!(limits_above(root.path(), group), [1 << 30]);
        assert_eq!(limits_above(root.path(), ""), [0; 0]);
    }

    #[test]
    fn the_machine_says_what_it_has() {
        let meminfo = "MemTotal:       24684308 kB\nMemFree:        1 kB\n";
        assert_eq!(total(meminfo), Some(24_684_308 << 10));
        assert!(memory_bytes() > Some(0));
    }
}
