//! The files that the packages have in common: the program and what it writes of itself, and what is known of its crates.

use super::{licences, output, put, run, sbom};
use crate::graph::Graph;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shells, and the name of a file of completions in each.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "larder"), ("zsh", "_larder"), ("fish", "larder.fish")];

/// The folder with the files.
#[derive(Debug)]
pub(super) struct Files(PathBuf);

impl Files {
    /// Collects the files in an empty folder.
    pub(super) fn collect(program: &Path, folder: &Path, metadata: &Value) -> Result<Files> {
        let files = Files(folder.to_owned());
        put(program, &files.program(), 0o755)?;
        // Symbols would be half of the package.
        run(Command::new("strip").arg(files.program()))?;
        std::fs::create_dir_all(files.man())?;
        run(files.larder().arg("man").arg(files.man()))?;
        std::fs::create_dir_all(folder.join("completions"))?;
        for (shell, name) in COMPLETIONS {
            let script = output(files.larder().args(["completions", shell]))?;
            std::fs::write(folder.join("completions").join(name), script)?;
        }
        let graph = Graph::read("larder-cli")?;
        let sbom = serde_json::to_string_pretty(&sbom::describe(&graph, metadata)?)?;
        std::fs::write(files.sbom(), sbom + "\n")?;
        std::fs::write(files.licences(), licences::collect(&graph, metadata)?)?;
        Ok(files)
    }

    /// The program itself, without the settings of the caller.
    fn larder(&self) -> Command {
        let mut command = Command::new(self.program());
        let names = std::env::vars_os().map(|(name, _)| name);
        names.filter(|name| name.to_string_lossy().starts_with("LARDER_")).for_each(|name| {
            command.env_remove(name);
        });
        command
    }

    pub(super) fn program(&self) -> PathBuf {
        self.0.join("larder")
    }

    /// The folder with the manual pages.
    pub(super) fn man(&self) -> PathBuf {
        self.0.join("man")
    }

    /// The file of completions for a shell.
    pub(super) fn completions(&self, shell: &str) -> Result<PathBuf> {
        let (_, name) = COMPLETIONS.iter().find(|(known, _)| *known == shell).context("no such shell")?;
        Ok(self.0.join("completions").join(name))
    }

    /// The list of crates.
    pub(super) fn sbom(&self) -> PathBuf {
        self.0.join("larder.cdx.json")
    }

    /// The licences of these crates.
    pub(super) fn licences(&self) -> PathBuf {
        self.0.join("third-party-licences.txt")
    }
}
