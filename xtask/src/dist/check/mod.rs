//! Stage `dist` of the tests: everything is packaged, installed where nothing else is, used, upgraded and removed. It packages
//! the program of the stage `build`.

mod image;
mod package;
mod root;
mod server;
mod units;

use super::{Dist, FAST, run};
use crate::workspace::target;
use anyhow::{Context, Result, ensure};
use larder_process::find_program;
use std::path::Path;
use std::process::Command;

/// What this needs in addition to a system of Debian or Ubuntu.
const PROGRAMS: [&str; 8] = [
    "buildah",
    "dpkg-shlibdeps",
    "lintian",
    "mmdebstrap",
    "redis-cli",
    "strip",
    "systemd-analyze",
    "systemd-socket-activate",
];

/// A test of the packages.
type Test = fn(&Dist) -> Result<()>;

/// Tests the packages. Returns how many tests passed, and those that were skipped.
pub(crate) fn check() -> Result<(u64, Vec<String>)> {
    let missing = PROGRAMS.iter().filter(|name| find_program(name).is_none());
    let mut skipped: Vec<String> = missing.map(|name| format!("dist: {name} is not installed")).collect();
    if !is_root()? {
        skipped.push("dist: only root can install in another root directory".to_owned());
    }
    if !skipped.is_empty() {
        return Ok((0, skipped));
    }
    let dist = Dist::begin(&target().join("debug/larder"), target().join("dist-test"), FAST)?;
    let tests: [(&str, Test); 5] = [
        ("packages are made, twice the same", packages_are_reproducible),
        ("units are valid and give few rights", units::check),
        ("lintian accepts the package", package::lint),
        ("package is installed, upgraded with data, removed and purged", package::live),
        ("image is built, serves without root and is healthy", image::check),
    ];
    let mut passed = 0;
    for (name, test) in tests {
        test(&dist).context(name)?;
        println!("dist: {name} ... ok");
        passed += 1;
    }
    Ok((passed, skipped))
}

/// Installs what the tests of the packages need beside programs. Only root can.
pub(crate) fn install() -> Result<()> {
    if is_root()? { root::install() } else { Ok(()) }
}

fn is_root() -> Result<bool> {
    Ok(super::output(Command::new("id").arg("-u"))?.trim() == "0")
}

fn packages_are_reproducible(dist: &Dist) -> Result<()> {
    let made = dist.all()?;
    let check = || {
        run(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&dist.folder))
    };
    check()?;
    made.iter().try_for_each(std::fs::remove_file)?;
    // The sums of the first time are those of the second.
    let sums = dist.folder.join("SHA256SUMS");
    let first = std::fs::read(&sums)?;
    dist.all()?;
    ensure!(std::fs::read(&sums)? == first, "the same files make other packages");
    check()
}

/// A command that runs below another root directory, as this user.
fn in_root(root: &Path, user: u32) -> Command {
    let mut command = Command::new("chroot");
    command.arg(format!("--userspec={user}:{user}")).arg(root);
    command
}
