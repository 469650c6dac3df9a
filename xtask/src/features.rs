//! Each feature of each library alone: features that only build because another crate of the workspace enables more are
//! found here.

use crate::stages::command;
use crate::workspace::{self, array, text};
use anyhow::{Result, bail};
use serde_json::Value;

/// Builds each feature of each library crate that can be published alone, and the crate without features.
pub(crate) fn check() -> Result<()> {
    let metadata = workspace::metadata()?;
    let is_library = |package: &&Value| {
        array(&package["targets"]).any(|target| array(&target["kind"]).any(|kind| kind == "lib"))
    };
    let published = |package: &&Value| package["publish"].is_null();
    for package in workspace::members(&metadata).filter(published).filter(is_library) {
        let name = text(&package["name"]);
        let features = package["features"].as_object().into_iter().flat_map(|features| features.keys());
        let alone =
            features.filter(|feature| *feature != "default").map(|feature| vec!["--features", feature]);
        for words in std::iter::once(Vec::new()).chain(alone) {
            println!("{name} --no-default-features {}", words.join(" "));
            let mut check = command(&["check", "--quiet", "--locked", "--no-default-features"]);
            if !check.args(["-p", name]).args(&words).env("RUSTFLAGS", "-D warnings").status()?.success() {
                bail!("{name} does not build with {words:?} alone");
            }
        }
    }
    Ok(())
}
