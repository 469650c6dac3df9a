//! Runs a program to its end, with a deadline.

use anyhow::{Context, Result, ensure};
use larder_process::Running;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs a program and returns what it has written to its standard output.
///
/// # Errors
/// If it cannot be started, does not end within `limit`, or fails: then with the last line that it wrote.
pub(crate) fn output_within(command: &mut Command, limit: Duration) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(command).with_context(|| format!("cannot start {name}"))?;
    let stdout = running.child().stdout.take().context("stdout is piped")?;
    let stderr = running.child().stderr.take().context("stderr is piped")?;
    let readers = [Box::new(stdout) as Box<dyn Read + Send>, Box::new(stderr)].map(|mut pipe| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // A program that is killed closes its pipes.
            _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    let status = running.wait_within(limit)?;
    drop(running);
    let [output, errors] = readers.map(|reader| reader.join().expect("reading does not panic"));
    let status = status.with_context(|| format!("{name} did not end within {} s", limit.as_secs()))?;
    let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    ensure!(status.success(), "{name} failed: {last}");
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<String> {
        output_within(Command::new("sh").args(["-c", script]), limit)
    }

    #[test]
    fn output_is_that_of_a_program_that_succeeds() {
        let minute = Duration::from_secs(60);
        assert_eq!(shell("echo one; echo two >&2", minute).unwrap(), "one\n");
        assert_eq!(shell("echo no >&2; exit 3", minute).unwrap_err().to_string(), "sh failed: no");
    }

    #[test]
    fn program_that_does_not_end_is_an_error() {
        let error = shell("exec sleep 60", Duration::from_millis(50)).unwrap_err().to_string();
        assert_eq!(error, "sh did not end within 0 s");
    }
}
