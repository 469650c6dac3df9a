//! The error of flags that contradict each other.

/// Flags that contradict each other. A command-line program exits with status 2 on this error.
#[derive(Debug)]
pub struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}
