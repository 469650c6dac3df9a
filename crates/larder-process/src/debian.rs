//! Installs Debian packages without starting their services.

use crate::find_program;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs the packages of those programs that are not in `PATH`, as root or with sudo. Services are not started.
///
/// # Errors
/// If apt-get is not installed, or does not succeed.
pub fn install<'a>(programs: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> io::Result<()> {
    let missing: BTreeSet<&str> = programs
        .into_iter()
        .filter(|(program, _)| !is_installed(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("installing {}", missing.iter().copied().collect::<Vec<_>>().join(", "));
    let _services_off = ServicesOff::new()?;
    run("apt-get update", as_root("apt-get").args(["-qq", "update"]))?;
    let mut command = as_root("apt-get");
    command.args(["-qq", "install", "--yes", "--no-install-recommends"]).args(&missing);
    run("apt-get install", command.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Whether a program is in `PATH`, or, for a path such as that of a library, exists.
fn is_installed(program: &str) -> bool {
    if program.contains('/') { Path::new(program).exists() } else { find_program(program).is_some() }
}

/// A policy file that prevents Debian from starting the services of installed packages. Dropping it removes the file,
/// unless the file existed before.
struct ServicesOff(Option<PathBuf>);

impl ServicesOff {
    fn new() -> io::Result<Self> {
        let policy = Path::new("/usr/sbin/policy-rc.d");
        if policy.exists() {
            return Ok(ServicesOff(None));
        }
        let script = format!("printf '#!/bin/sh\\nexit 101\\n' > {0} && chmod 755 {0}", policy.display());
        run("the service policy", as_root("sh").args(["-c", &script]))?;
        Ok(ServicesOff(Some(policy.to_owned())))
    }
}

impl Drop for ServicesOff {
    fn drop(&mut self) {
        if let Some(policy) = &self.0 {
            // A policy file that cannot be removed is no reason to fail.
            _ = as_root("rm").arg("-f").arg(policy).status();
        }
    }
}

/// A command that runs as root, directly or with sudo.
fn as_root(program: &str) -> Command {
    if rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.arg(program);
    command
}

fn run(what: &str, command: &mut Command) -> io::Result<()> {
    let status = command.status().map_err(|error| io::Error::other(format!("cannot run {what}: {error}")))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{what} failed: {status}"))) }
}
