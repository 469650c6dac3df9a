//! Copies the pictures of the documentation, which the browser tests take below the target folder, to `docs/pictures`.

use crate::workspace::{root, target};
use anyhow::{Context, Result};

/// The pictures that the documentation shows.
const PICTURES: &[&str] = &["dashboard.png"];

/// Copies all pictures.
pub(crate) fn copy() -> Result<()> {
    let folder = root().join("docs/pictures");
    std::fs::create_dir_all(&folder).context("cannot make docs/pictures")?;
    for name in PICTURES {
        let taken = target().join("browser/screenshots").join(name);
        std::fs::copy(&taken, folder.join(name)).with_context(|| {
            format!("cannot copy {}: run `cargo test -p larder-cli --test cli pages` first", taken.display())
        })?;
        println!("docs/pictures/{name}");
    }
    Ok(())
}
