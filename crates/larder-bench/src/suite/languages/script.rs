//! The program of a language: the package with the library of this build, and the peers that are installed.

use anyhow::{Context, Result, bail, ensure};
use larder_process::{Running, find_program};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// A language whose package this suite measures.
#[derive(Clone, Copy)]
pub(super) enum Language {
    Python,
    Node,
}

impl Language {
    pub(super) const ALL: [Language; 2] = [Language::Python, Language::Node];

    pub(super) fn name(self) -> &'static str {
        match self {
            Language::Python => "Python",
            Language::Node => "Node.js",
        }
    }

    pub(super) fn program(self) -> &'static str {
        match self {
            Language::Python => "python3",
            Language::Node => "node",
        }
    }

    /// How the names of its workloads begin.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Language::Python => "python-",
            Language::Node => "node-",
        }
    }

    /// Its folder in `bindings`.
    fn folder(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Node => "node",
        }
    }

    /// The library in the folder of this program.
    fn library(self) -> &'static str {
        match self {
            Language::Python => "lib_core.so",
            Language::Node => "liblarder_node.so",
        }
    }
}

/// A running program.
pub(super) struct Script {
    pub(super) language: Language,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    _running: Running,
    _folder: TempDir,
}

impl Script {
    /// Starts it with the address of Redis.
    pub(super) fn start(language: Language, redis: &str) -> Result<Self> {
        let program = find_program(language.program()).context("it is not installed")?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings").join(language.folder());
        let this = std::env::current_exe().context("cannot find this program")?;
        let build = this.parent().context("a program has a folder")?;
        let library = build.join(language.library());
        ensure!(
            library.is_file(),
            "{} is missing: cargo build --release --workspace makes it",
            library.display()
        );
        let installed = build.parent().context("a build has a folder")?.join(language.folder());
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(program);
        match language {
            Language::Python => stage_python(&source, &library, &installed, folder.path(), &mut command)?,
            Language::Node => stage_node(&source, &library, &installed, folder.path(), &mut command)?,
        }
        command.arg(redis).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = Running::start(&mut command)?;
        let stdin = running.child().stdin.take().context("stdin is piped")?;
        let stdout = running.child().stdout.take().context("stdout is piped")?;
        Ok(Script { language, stdin, stdout: BufReader::new(stdout), _running: running, _folder: folder })
    }

    /// The nanoseconds of a call.
    pub(super) fn measure(&mut self, workload: &str, subject: &str, calls: usize) -> Result<f64> {
        writeln!(self.stdin, "{workload}\t{subject}\t{calls}")?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        match answer.trim_end().parse() {
            Ok(nanoseconds) => Ok(nanoseconds),
            Err(_) if answer.is_empty() => bail!("the program has ended"),
            Err(_) => bail!("{}", answer.trim_end()),
        }
    }
}

fn stage_python(
    source: &Path,
    library: &Path,
    installed: &Path,
    folder: &Path,
    command: &mut Command,
) -> Result<()> {
    copy_files(&source.join("python/larder_cache"), &folder.join("larder_cache"))?;
    std::fs::copy(library, folder.join("larder_cache/_core.abi3.so"))?;
    let path = std::env::join_paths([folder.to_owned(), installed.join("packages")])?;
    command.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1").arg(source.join("bench/calls.py"));
    Ok(())
}

/// Node finds packages in the folder of a program alone, so they are linked there.
fn stage_node(
    source: &Path,
    library: &Path,
    installed: &Path,
    folder: &Path,
    command: &mut Command,
) -> Result<()> {
    let modules = folder.join("node_modules");
    let package = modules.join("larder-cache");
    copy_files(&source.join("lib"), &package.join("lib"))?;
    std::fs::copy(source.join("package.json"), package.join("package.json"))?;
    // As Node names this platform.
    let processor = std::env::consts::ARCH.replace("x86_64", "x64").replace("aarch64", "arm64");
    // A link would be a file of another kind for Node, which looks at what it leads to.
    std::fs::copy(library, package.join(format!("lib/{}-{processor}.node", std::env::consts::OS)))?;
    for entry in std::fs::read_dir(installed.join("node_modules")).into_iter().flatten().flatten() {
        if entry.file_name() != "larder-cache" {
            std::os::unix::fs::symlink(entry.path(), modules.join(entry.file_name()))?;
        }
    }
    let script = folder.join("calls.js");
    std::fs::copy(source.join("bench/calls.js"), &script)?;
    command.arg(script);
    Ok(())
}

/// The files of a folder that its language has made none of.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    let listed = std::fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    let files = listed.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    let is_source =
        |path: &PathBuf| !path.extension().is_some_and(|ending| ending == "so" || ending == "node");
    for file in files.filter(is_source) {
        let name = file.file_name().context("a file has a name")?;
        std::fs::copy(&file, to.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
    }
    Ok(())
}
