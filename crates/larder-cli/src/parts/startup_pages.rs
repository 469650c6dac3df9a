//! Gives back the pages of the program's files that only its start needed: relocations, the parser of the command line, the
//! set-up of each part. The system keeps them in its cache, from where those that are needed again come back without a read.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;

/// Lets go of every mapped page of a file that nobody wrote to. Call it once the program is ready. An error changes nothing but
/// the memory that the process is said to have.
pub(crate) fn release() {
    let Ok(maps) = File::open("/proc/self/smaps") else { return };
    for pages in unwritten(BufReader::new(maps)) {
        let (start, length) = (pages.start as *mut _, pages.len());
        // SAFETY: no page of this mapping differs from its file, and none can be written to: what the process reads there next
        // is the same bytes, from the file.
        _ = unsafe { rustix::mm::madvise(start, length, rustix::mm::Advice::LinuxDontNeed) };
    }
}

/// The mappings of files that cannot be written to, and of which no page is a copy, as that of a relocation is.
fn unwritten(smaps: impl BufRead) -> Vec<Range<usize>> {
    let (mut found, mut mapping) = (Vec::new(), None);
    for line in smaps.lines().map_while(Result::ok) {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("Anonymous:"), Some("0")) => found.extend(mapping.take()),
            (Some(name), _) if name.ends_with(':') => {}
            (Some(range), Some(access)) => {
                let is_file = words.nth(2).is_some_and(|inode| inode != "0");
                let is_read_only = matches!(access, "r--p" | "r-xp");
                mapping = addresses(range).filter(|_| is_file && is_read_only);
            }
            _ => {}
        }
    }
    found
}

/// Such as `7f00-7f80`.
fn addresses(range: &str) -> Option<Range<usize>> {
    let (start, end) = range.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unwritten_mappings_of_files_are_released() {
        let smaps = "\
1000-2000 r--p 00000000 fe:00 77 /bin/larder\nSize: 4 kB\nAnonymous:      0 kB\nVmFlags: rd mr\n\
2000-3000 r-xp 00001000 fe:00 77 /bin/larder\nAnonymous: 0 kB\n\
3000-4000 r--p 00002000 fe:00 77 /bin/larder\nAnonymous: 4 kB\n\
4000-5000 rw-p 00003000 fe:00 77 /bin/larder\nAnonymous: 0 kB\n\
5000-6000 rw-p 00000000 00:00 0 [heap]\nAnonymous: 0 kB\n\
6000-7000 r-xp 00000000 00:00 0 [vdso]\nAnonymous: 0 kB\n\
7000-8000 ---p 00000000 fe:00 78 /lib/libc.so.6\nAnonymous: 0 kB\n\
8000-9000 r--s 00000000 fe:00 79 /shared\nAnonymous: 0 kB\n";
        assert_eq!(unwritten(smaps.as_bytes()), [0x1000..0x2000, 0x2000..0x3000]);
    }

    #[test]
    fn release_leaves_fewer_pages_of_files() {
        let pages_of_files = || -> u64 {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
            line.trim_end_matches("kB").trim().parse().unwrap()
        };
        let before = pages_of_files();
        release();
        let after = pages_of_files();
        assert!(after < before, "{before} kB before, {after} kB after");
    }
}
