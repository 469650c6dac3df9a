//! Takes the pictures of the documentation: runs the browser test under load, and copies what it has taken to
//! `docs/pictures`.

use crate::workspace::{root, target};
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// The pictures as the test names them, and as the documentation does.
const PICTURES: &[(&str, &str)] = &[
    ("overview.png", "dashboard.png"),
    ("misses.png", "misses.png"),
    ("links.png", "links.png"),
    ("link.png", "link.png"),
];
const TEST: &str = "pages::dashboard_shows_the_load_in_a_browser";
/// As long as the charts show.
const LOAD_SECONDS: &str = "180";
/// So that a page of the documentation loads at once.
const MAX_BYTES: u64 = 150_000;

/// Takes and copies all pictures.
pub(crate) fn take() -> Result<()> {
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--locked", "-p", "larder-cli", "--test", "cli", "--", "--exact", TEST]);
    // With CI, a test that lacks a program fails.
    test.current_dir(root()).env("LOAD_SECONDS", LOAD_SECONDS).env("CI", "true");
    ensure!(test.status().context("cannot run cargo")?.success(), "the browser test failed");
    let folder = root().join("docs/pictures");
    std::fs::create_dir_all(&folder).context("cannot make docs/pictures")?;
    for (taken, name) in PICTURES {
        let taken = target().join("browser/screenshots").join(taken);
        let bytes = std::fs::copy(&taken, folder.join(name))
            .with_context(|| format!("cannot copy {}", taken.display()))?;
        ensure!(bytes <= MAX_BYTES, "docs/pictures/{name} has {bytes} bytes, more than {MAX_BYTES}");
        println!("docs/pictures/{name}");
    }
    Ok(())
}
