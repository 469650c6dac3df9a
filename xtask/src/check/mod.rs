//! Checks of the tree in addition to those of the compiler. Each returns its faults, one line each.

mod arrows;
mod dependencies;
mod layers;
mod licences;
mod maps;

use crate::{examples, workspace};
use anyhow::{Result, bail};

/// Runs all checks and fails with all their faults.
pub(crate) fn all() -> Result<()> {
    let metadata = workspace::metadata()?;
    let mut faults = Vec::new();
    faults.extend(arrows::check(&metadata));
    faults.extend(layers::check()?);
    faults.extend(licences::check(&metadata));
    faults.extend(dependencies::unused(&metadata)?);
    faults.extend(dependencies::duplicates(&metadata));
    faults.extend(crate::cost::engine_faults()?);
    faults.extend(maps::paths_exist()?);
    faults.extend(maps::check_descriptions()?);
    faults.extend(examples::check_tutorial()?);
    faults.extend(examples::check_incidents()?);
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{} faults\n  {}", faults.len(), faults.join("\n  "));
}
