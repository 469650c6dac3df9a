//! Output to the terminal. A full disk is an error, and not a panic.

use anyhow::{Error, Result};
use std::io::{ErrorKind, Write, stderr, stdout};

/// What precedes the reason of the system in the message about a result that cannot be written.
pub const PRINT_FAILURE: &str = "cannot write to the standard output";

/// Writes to the standard output. A reader that closes the pipe early, as `head` does, is no error.
///
/// # Errors
/// What the system reports otherwise, such as a full disk.
pub fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::new(error).context(PRINT_FAILURE)),
        _ => Ok(()),
    }
}

/// Writes a line to the standard error. If that fails, there is no place left to report it.
pub fn remark(line: &str) {
    _ = writeln!(stderr(), "{line}");
}

/// Prints an error of the command line, or what was asked for instead of a command, such as the help, and exits with its
/// status. The method of clap ignores that it cannot write the help.
pub fn exit(program: &str, error: &clap::Error) -> ! {
    let printed = error.print().and_then(|()| stdout().flush());
    let status = match printed {
        Err(reason) if error.exit_code() == 0 && reason.kind() != ErrorKind::BrokenPipe => {
            remark(&format!("{program}: {PRINT_FAILURE}: {reason}"));
            1
        }
        _ => error.exit_code(),
    };
    std::process::exit(status)
}
