//! What commands write: results to the standard output, remarks to the standard error. `println!` panics where these return
//! an error.

use anyhow::{Context, Result};
use std::io::{Write, stderr};

/// Writes to the standard output. A reader that closes the pipe early, as `head` does, is no error.
///
/// # Errors
/// What the system reports otherwise, such as a full disk.
pub(crate) fn print(text: &str) -> Result<()> {
    larder_bench::print(text).with_context(failure)
}

/// What precedes the reason of the system in the message about a result that cannot be written.
pub(crate) fn failure() -> &'static str {
    "cannot write to the standard output"
}

/// Writes a line to the standard error. If that fails, there is no place left to report it.
pub(crate) fn remark(line: &str) {
    _ = writeln!(stderr(), "{line}");
}
