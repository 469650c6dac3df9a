//! The development commands of the project.
//!
//! ```text
//! cargo xtask test [--install] [--soak]   lints, checks, builds, and runs every test; --install first installs the
//!                                         dependencies of the tests, --soak runs the soak tests for minutes. Tests of
//!                                         the shared tier run twice: on redis-server, and on the built `larder server`
//! cargo xtask test --stage STAGE           one stage of it: format, checks, clippy, build, tests, doctests, python,
//!                                         node, ruby, elixir, languages, on-larder, examples, guard, docs, package, dist
//! cargo xtask sanitize                    the engine's tests under AddressSanitizer and, where present, valgrind
//! cargo xtask check                       only the checks of the tree: dependencies, layers, licences, documents
//! cargo xtask guard [--accept] [--no-build]
//!                                         compares the instructions of the hot paths with xtask/guard.json, or replaces
//!                                         that; --no-build counts those of the last build
//! cargo xtask docs [--pictures]           updates the figures in the documents from docs/results; --pictures also takes
//!                                         the pictures of the pages, which lasts minutes
//! cargo xtask install                     installs the dependencies of the tests
//! cargo xtask shops [--no-build]          a shop in five languages over one Redis, and a page that shows all of them;
//!                                         --no-build starts those of the last build
//! cargo xtask cost                        builds the default program from nothing and prints what that costs, and what each
//!                                         direct dependency brings
//! cargo xtask dist [--program FILE]       builds the release program and packages it in target/dist: tarball, package of Debian,
//!                                         context of an image, SBOM, sums; --program packages this one
//! cargo xtask soak --hours N [--program FILE] [--former FILE] [--no-rounds] [--seed N]
//!                                         everything at once under load and faults for N hours, such as 0.1: memory, descriptors,
//!                                         latency and coherence are in target/soak/report.html; called again, it goes on from its
//!                                         samples. --program runs this one instead of a new release build, --former lets an
//!                                         earlier version run beside it, --no-rounds leaves the tests out
//! cargo xtask features                    checks each library without features, and with each of its features alone
//! ```

mod bindings;
mod check;
mod cost;
mod dist;
mod examples;
mod features;
mod graph;
mod guard;
mod install;
mod on_larder;
mod pictures;
mod soak;
mod stages;
mod test_programs;
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
        ["test", "--stage", stage] => stages::test(false, Some(stage), None),
        ["test", flags @ ..] if flags.iter().all(|flag| ["--install", "--soak"].contains(flag)) => {
            let mut for_tests = None;
            if flags.contains(&"--install") {
                install::for_build()?;
                for_tests = Some(std::thread::spawn(install::for_tests));
            }
            stages::test(flags.contains(&"--soak"), None, for_tests)
        }
        ["sanitize"] => stages::sanitize(),
        ["check"] => check::all().map(|()| println!("the tree passes all checks")),
        ["docs"] => stages::write_documents(),
        ["docs", "--pictures"] => stages::write_documents().and_then(|()| pictures::take()),
        ["guard", flags @ ..] if flags.iter().all(|flag| ["--accept", "--no-build"].contains(flag)) => {
            if !flags.contains(&"--no-build") {
                stages::build()?;
            }
            if flags.contains(&"--accept") { guard::accept() } else { stages::guard() }
        }
        ["install"] => install::install(),
        ["shops"] => bindings::shops::build().and_then(|()| bindings::shops::serve()),
        ["shops", "--no-build"] => bindings::shops::serve(),
        ["cost"] => cost::print(),
        ["dist"] => dist::build(None),
        ["dist", "--program", program] => dist::build(Some(program)),
        ["soak", flags @ ..] => soak::soak(flags),
        // A process of the soak.
        ["soak-origin", address, folder] => soak::serve_origin(address, folder),
        ["features"] => features::check(),
        _ => bail!(
            "usage: cargo xtask test [--install] [--soak] | test --stage STAGE | sanitize | check | guard [--accept] [--no-build] | \
             docs [--pictures] | install | shops [--no-build] | cost | \
             dist [--program FILE] | soak --hours N [--program FILE] [--former FILE] [--no-rounds] [--seed N] | \
             features"
        ),
    }
}
