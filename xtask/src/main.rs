//! The project's own commands.
//!
//! ```text
//! cargo xtask test [--install]   lints, checks, builds, and every test; --install brings what the tests need first
//! cargo xtask check              the checks of the tree alone: arrows, licences, duplicates, unused dependencies, maps
//! cargo xtask install            what the tests need and nothing else
//! ```

mod check;
mod install;
mod stages;
mod workspace;

use anyhow::{Result, bail};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    match words {
        ["test"] => stages::test(),
        ["test", "--install"] => {
            install::install()?;
            stages::test()
        }
        ["check"] => check::all(),
        ["install"] => install::install(),
        _ => bail!("usage: cargo xtask test [--install] | check | install"),
    }
}
