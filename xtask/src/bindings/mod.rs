//! The packages for other languages: their tests, the proof between languages, and a shop in all of them.

pub(crate) mod elixir;
pub(crate) mod languages;
pub(crate) mod node;
pub(crate) mod python;
pub(crate) mod ruby;
pub(crate) mod shops;

use crate::workspace::files_below;
use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::path::Path;

/// Makes a folder a copy of another one, without what a language has made there or an installation has left.
fn replace_folder(from: &Path, to: &Path) -> Result<()> {
    match std::fs::remove_dir_all(to) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", to.display()));
        }
        _ => {}
    }
    let is_made = |file: &Path| {
        file.extension().is_some_and(|ending| ["pyc", "so", "node"].iter().any(|made| ending == *made))
    };
    for file in files_below(from, "").into_iter().filter(|file| !is_made(file)) {
        copy(&file, &to.join(file.strip_prefix(from).expect("it is below")))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("a file has a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let copied = std::fs::copy(from, to);
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display())).map(drop)
}
