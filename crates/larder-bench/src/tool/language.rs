//! Programs in other languages: each with the package of its language, whose library is that of this build, and with the libraries
//! that are installed.

use anyhow::{Context, Result, ensure};
use larder_process::find_program;
use std::path::Path;
use std::process::{Command, Stdio};

/// A language with a package.
#[derive(Clone, Copy)]
pub(crate) enum Language {
    Python,
    Node,
    Ruby,
    Elixir,
}

impl Language {
    pub(crate) const ALL: [Language; 4] =
        [Language::Python, Language::Node, Language::Ruby, Language::Elixir];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Language::Python => "Python",
            Language::Node => "Node.js",
            Language::Ruby => "Ruby",
            Language::Elixir => "Elixir",
        }
    }

    pub(crate) fn program(self) -> &'static str {
        match self {
            Language::Python => "python3",
            Language::Node => "node",
            Language::Ruby => "ruby",
            Language::Elixir => "elixir",
        }
    }

    /// Its folder in `bindings`.
    fn folder(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Node => "node",
            Language::Ruby => "ruby",
            Language::Elixir => "elixir",
        }
    }

    /// The library in the folder of this program.
    fn library(self) -> &'static str {
        match self {
            Language::Python => "lib_core.so",
            Language::Node => "liblarder_node.so",
            Language::Ruby => "liblarder_ruby.so",
            Language::Elixir => "liblarder_elixir.so",
        }
    }

    /// The command of a program in the folder of its package. `folder` is an empty one for what the language needs.
    ///
    /// # Errors
    /// If the language or the library of its package is missing.
    pub(crate) fn command(self, script: &str, folder: &Path) -> Result<Command> {
        let program = find_program(self.program()).context("it is not installed")?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings").join(self.folder());
        let this = std::env::current_exe().context("cannot find this program")?;
        let build = this.parent().context("a program has a folder")?;
        let library = build.join(self.library());
        ensure!(
            library.is_file(),
            "{} is missing: cargo build --release --workspace makes it",
            library.display()
        );
        let installed = build.parent().context("a build has a folder")?.join(self.folder());
        let mut command = Command::new(program);
        match self {
            Language::Python => stage_python(&source, &library, &installed, folder, &mut command)?,
            Language::Node => stage_node(&source, &library, &installed, folder)?,
            Language::Ruby => stage_ruby(&source, &library, folder, &mut command)?,
            Language::Elixir => stage_elixir(&source, &library, folder, &mut command)?,
        }
        let script = source.join(script);
        match self {
            // It finds packages in the folder of a program alone.
            Language::Node => {
                let copy = folder.join("program.js");
                std::fs::copy(script, &copy)?;
                command.arg(copy)
            }
            Language::Python | Language::Ruby | Language::Elixir => command.arg(script),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command)
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
    command.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(())
}

fn stage_node(source: &Path, library: &Path, installed: &Path, folder: &Path) -> Result<()> {
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
    Ok(())
}

fn stage_ruby(source: &Path, library: &Path, folder: &Path, command: &mut Command) -> Result<()> {
    copy_files(&source.join("lib"), folder)?;
    std::fs::copy(library, folder.join("larder/core.so"))?;
    command.arg("-I").arg(folder);
    Ok(())
}

/// Its modules are compiled first, and find the library in the application that they belong to.
fn stage_elixir(source: &Path, library: &Path, folder: &Path, command: &mut Command) -> Result<()> {
    copy_files(&source.join("lib"), &folder.join("lib"))?;
    std::fs::copy(source.join("mix.exs"), folder.join("mix.exs"))?;
    std::fs::create_dir_all(folder.join("priv"))?;
    std::fs::copy(library, folder.join("priv/larder_elixir.so"))?;
    let mut compile = Command::new("mix");
    compile
        .arg("compile")
        .current_dir(folder)
        .env("MIX_ENV", "prod")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    ensure!(compile.status().context("cannot run mix")?.success(), "its package does not compile");
    command.arg("-pa").arg(folder.join("_build/prod/lib/larder_cache/ebin"));
    Ok(())
}

/// The files below a folder that its language has made none of.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    let listed = std::fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    let is_made = |path: &Path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ["so", "node", "pyc"].contains(&ending))
    };
    for path in listed.flatten().map(|entry| entry.path()).filter(|path| !is_made(path)) {
        let copy = to.join(path.file_name().context("a file has a name")?);
        if path.is_dir() {
            copy_files(&path, &copy)?;
        } else {
            std::fs::copy(&path, copy).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}
