//! Checks of the tree that no compiler makes. Each returns the faults that it found, one line each.

mod arrows;
mod dependencies;
mod licences;
mod maps;
mod modules;
mod words;

use crate::{figures, workspace};
use anyhow::{Result, bail};

/// Runs all checks and fails with everything that they found.
pub(crate) fn all() -> Result<()> {
    let metadata = workspace::metadata()?;
    let mut wrong = Vec::new();
    wrong.extend(arrows::check(&metadata));
    wrong.extend(modules::check()?);
    wrong.extend(licences::check(&metadata));
    wrong.extend(dependencies::unused(&metadata)?);
    wrong.extend(dependencies::duplicates(&metadata));
    wrong.extend(maps::paths_exist()?);
    wrong.extend(maps::files_say_what_they_hold()?);
    wrong.extend(words::check()?);
    wrong.extend(figures::check()?);
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{} faults\n  {}", wrong.len(), wrong.join("\n  "));
}
