//! The units of systemd: systemd itself finds no fault, and rates what they are allowed to do.

use crate::dist::{Dist, output, put};
use crate::workspace::{files_below, root};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// The highest accepted exposure of a service as `systemd-analyze security` rates it, in tenths, from 0 to 100. That is the rating
/// of what they have, and a little for other versions of systemd, which may rate more.
const MAX_EXPOSURE: u32 = 15;

pub(super) fn check(dist: &Dist) -> Result<()> {
    // With the program where the units expect it: below a root directory of its own only the program can be found.
    let folder = dist.work("units")?;
    let units: Vec<PathBuf> = files_below(&root().join("packaging/systemd"), "");
    ensure!(!units.is_empty(), "there are no units");
    let mut copies = Vec::new();
    for unit in &units {
        let copy = folder.join(unit.file_name().context("a file has a name")?);
        put(unit, &copy, 0o644)?;
        let text = std::fs::read_to_string(&copy)?;
        let program = dist.files.program().display().to_string();
        std::fs::write(&copy, text.replace("/usr/bin/larder", &program))?;
        copies.push(copy);
    }
    // It fails for what it cannot run. What it ignores it prints, as it does for other units of the system.
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&copies).output()?;
    let remarks = String::from_utf8_lossy(&verified.stderr).into_owned();
    let is_ours = |line: &&str| line.contains("larder");
    let faults: Vec<&str> = remarks.lines().filter(is_ours).collect();
    ensure!(verified.status.success() && faults.is_empty(), "systemd-analyze verify: {remarks}");
    let services = copies.iter().filter(|unit| unit.extension().is_some_and(|kind| kind == "service"));
    for service in services {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["security", "--offline=true", "--no-pager", &format!("--threshold={MAX_EXPOSURE}")]);
        output(analyze.arg(service))?;
    }
    Ok(())
}
