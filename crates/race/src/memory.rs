//! The memory of a heat: how much there is, and 2 MiB pages, so that a race of a million items
//! measures caches and not page tables: a kernel's memory has them.

use std::fs;
use std::ops::Range;

/// The size of a large page on the machines that have them in this way.
const PAGE_BYTES: usize = 2 << 20;
/// Makes large pages of what is in use, at once; Linux 6.1 and later. As in `linux/mman.h`.
const MADV_COLLAPSE: libc::c_int = 25;

/// Asks for large pages wherever this process has written 2 MiB of memory or more that is no
/// file's. A kernel that has none to give says so, and the race goes on with small ones.
pub fn ask_for_large() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for range in maps.lines().filter_map(anonymous) {
        let begin = range.start.next_multiple_of(PAGE_BYTES);
        let bytes = (range.end / PAGE_BYTES * PAGE_BYTES).saturating_sub(begin);
        if bytes == 0 {
            continue;
        }
        for advice in [libc::MADV_HUGEPAGE, MADV_COLLAPSE] {
            // SAFETY: neither changes what memory holds or who may use it, and a range that is
            // gone meanwhile is refused.
            unsafe { libc::madvise(begin as *mut libc::c_void, bytes, advice) };
        }
    }
}

/// The bytes of this process that are in large pages; `None` where the system does not say.
pub fn large_bytes() -> Option<u64> {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    kib_after(&rollup, "AnonHugePages:")
}

/// Bytes that the system can still give; `None` where it does not say.
pub fn available_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    kib_after(&meminfo, "MemAvailable:")
}

/// The bytes that a line of the system's tables names.
fn kib_after(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The addresses of a line of /proc/self/maps, if it is memory to be written that is no file's.
fn anonymous(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let (rights, inode) = (words.next()?, words.nth(2)?);
    let name = words.next().unwrap_or("[heap]");
    if rights != "rw-p" || inode != "0" || name != "[heap]" {
        return None;
    }
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(begin)?..address(end)?)
}

#[cfg(test)]
mod tests {
    //! Goal: only our own memory is asked for. Method: lines as Linux writes them.

    use super::*;

    #[test]
    fn memory_that_is_no_files_is_seen() {
        for (line, seen) in [
            ("7f0000000000-7f0000400000 rw-p 00000000 00:00 0 ", true),
            ("55d000000000-55d000200000 rw-p 00000000 00:00 0                  [heap]", true),
            ("7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                  [stack]", false),
            ("7f0000000000-7f0000400000 r--p 00000000 00:00 0 ", false),
            ("7f0000000000-7f0000400000 rw-s 00000000 00:01 7 /dev/zero (deleted)", false),
            ("7f0000000000-7f0000400000 rw-p 00001000 fe:00 513 /usr/lib/libc.so.6", false),
            ("", false),
        ] {
            assert_eq!(anonymous(line).is_some(), seen, "{line}");
        }
        let maps = "7f0000000000-7f0000400000 rw-p 00000000 00:00 0";
        assert_eq!(anonymous(maps), Some(0x7f00_0000_0000..0x7f00_0040_0000));
    }

    #[test]
    fn what_memory_holds_stays() {
        let memory: Vec<u64> = (0..1 << 20).collect();
        ask_for_large();
        assert!(memory.iter().enumerate().all(|(place, &held)| place as u64 == held));
        if cfg!(target_os = "linux") {
            assert!(large_bytes().is_some());
            assert!(available_bytes() > Some(1 << 20));
        }
    }
}
