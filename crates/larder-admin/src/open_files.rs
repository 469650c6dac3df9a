//! The file descriptors of the process and their limit, where the system has them in `/proc`.

use serde::Serialize;

/// The file descriptors of the process.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct OpenFiles {
    #[serde(rename = "open_files")]
    pub(crate) open: u64,
    #[serde(rename = "max_open_files")]
    pub(crate) limit: u64,
}

impl OpenFiles {
    /// Those of this moment; `None` where they cannot be read.
    pub(crate) fn now() -> Option<OpenFiles> {
        let open = std::fs::read_dir("/proc/self/fd").ok()?.count() as u64;
        let limit = soft_limit(&std::fs::read_to_string("/proc/self/limits").ok()?)?;
        Some(OpenFiles { open, limit })
    }
}

/// The limit in the text of `/proc/self/limits`; `None` if there is none.
fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_the_soft_one() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             95767                95767                processes \n\
                      Max open files            1024                 4096                 files     \n";
        assert_eq!(soft_limit(limits), Some(1_024));
        assert_eq!(
            soft_limit("Max open files            unlimited            unlimited            files\n"),
            None
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn open_file_counts() {
        let before = OpenFiles::now().unwrap();
        let opened: Vec<_> = (0..50).map(|_| std::fs::File::open("/proc/self/limits").unwrap()).collect();
        // Other tests may close some meanwhile.
        let now = OpenFiles::now().unwrap();
        assert!(
            now.open + 25 > before.open + opened.len() as u64 && now.open < now.limit,
            "{before:?} {now:?}"
        );
    }
}
