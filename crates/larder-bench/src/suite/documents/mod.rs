//! The suites `document-0` to `document-4`, together `documents`: the tables of the five documents, measured again with the
//! tools that they used.
//!
//! ```text
//!  documents/N.toml: what the document printed ───────────────┐
//!  tool (siege, ab, redis-benchmark) ──► child process:        ├─► the page of the documents
//!        the design of the document, a peer, or larder ──► figures of the same table
//! ```
//!
//! Servers are child processes, so that their processor time is counted for each alone. They start anew for each run;
//! subjects take turns in rounds. What is not installed is named and left out.

mod case;
mod child;
mod collection;
mod database;
mod figures;
pub(crate) mod http;
mod links;
mod million;
mod pages;
mod readthis;
mod redis;
mod responses;
mod restart;

pub(crate) use case::{Case, Outcome, run as run_cases};
pub(crate) use child::Child;
pub(crate) use collection::Collection;
pub(crate) use figures::{Chart, Column, Document, Picture, Row, Table};

use super::{Findings, Plan, Suite, Target};
use crate::tool::{program_name, version_of};
use anyhow::Result;
use indicatif::ProgressBar;
use larder_process::find_program;
use std::path::Path;

/// The number of rounds of a full run.
const ROUNDS: usize = 3;

/// The suite of one document.
pub(crate) struct DocumentSuite {
    name: &'static str,
    description: &'static str,
    crates: &'static [&'static str],
    /// The programs that it runs, and their Debian packages.
    programs: &'static [(&'static str, &'static str)],
    measure: fn(&Plan, &ProgressBar, &mut Findings) -> Result<()>,
}

pub(crate) const DOCUMENT_0: DocumentSuite = DocumentSuite {
    name: "document-0",
    description: "redirects from a database, from a cache behind a queue and from ours, by siege; a million pairs",
    crates: &["larder-engine", "larder-links", "axum", "rusqlite", "tokio"],
    programs: &[
        ("siege", "siege"),
        ("elixir", "elixir"),
        ("redis-server", "redis-server"),
        #[cfg(feature = "postgres")]
        larder_process::POSTGRES,
    ],
    measure: links::measure,
};

pub(crate) const DOCUMENT_1: DocumentSuite = DocumentSuite {
    name: "document-1",
    description: "responses of 0.2 KB to 212 MB, encoded for each request and from the response layer",
    crates: &["larder-http", "axum", "hyper", "serde_json"],
    programs: &[],
    measure: responses::measure,
};

pub(crate) const DOCUMENT_2: DocumentSuite = DocumentSuite {
    name: "document-2",
    description: "many keys at once, drivers and serializers, beside the stores of ActiveSupport and Readthis' design in Ruby",
    crates: &["larder", "redis", "postcard", "serde_json", "rmp-serde"],
    programs: &readthis::PROGRAMS,
    measure: readthis::measure,
};

pub(crate) const DOCUMENT_3: DocumentSuite = DocumentSuite {
    name: "document-3",
    description: "a mini Redis in stages, in Rust and in Elixir, beside redis-server and larder, by redis-benchmark",
    crates: &["larder-server", "larder-resp", "tokio"],
    programs: &[("redis-server", "redis-server"), ("redis-benchmark", "redis-tools"), ("elixir", "elixir")],
    measure: redis::measure,
};

pub(crate) const DOCUMENT_4: DocumentSuite = DocumentSuite {
    name: "document-4",
    description: "a page from a database, from one task, from a table, and from stored responses, by ab",
    crates: &["larder-http", "larder-engine", "axum", "rusqlite", "tokio"],
    programs: &[
        ("ab", "apache2-utils"),
        ("elixir", "elixir"),
        #[cfg(feature = "postgres")]
        larder_process::POSTGRES,
    ],
    measure: pages::measure,
};

impl Suite for DocumentSuite {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> &'static str {
        self.description
    }

    fn crates(&self) -> &'static [&'static str] {
        self.crates
    }

    fn targets(&self) -> Vec<Target> {
        Vec::new()
    }

    fn group(&self) -> Option<&'static str> {
        Some("documents")
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        self.programs
    }

    fn keeps_measurements(&self) -> bool {
        true
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let mut findings = Findings::default();
        for (program, package) in self.programs {
            if !is_installed(program) {
                let note =
                    format!("{program} (Debian package {package}) is not installed: --install brings it.");
                findings.notes.push(note);
            }
        }
        findings.notes.push("Servers and clients share the processor.".to_owned());
        let version = |program: &str| Some((program_name(program).to_owned(), version_of(program)?));
        let is_program = |program: &&str| !program.starts_with("/usr/share");
        let programs = self.programs.iter().map(|(program, _)| *program);
        findings.versions.extend(programs.filter(is_program).filter_map(version));
        (self.measure)(plan, bar, &mut findings)?;
        Ok(findings)
    }
}

/// Whether a program is in `PATH`, or, for the path of a program or a library, exists.
fn is_installed(program: &str) -> bool {
    if program.contains('/') { Path::new(program).exists() } else { find_program(program).is_some() }
}

fn rounds(plan: &Plan) -> usize {
    if plan.quick { 1 } else { ROUNDS }
}
