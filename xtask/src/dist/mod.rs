//! `cargo xtask dist`: what an operator installs, below `target/dist`: a tarball, a Debian package, the context of a container
//! image, a list of the crates in the program, and the sums of these files.
//!
//! ```text
//! the program ──► man, completions ─┐
//! cargo tree ───► SBOM, licences ───┼──► work/files ──► tarball, .deb, context ──► SHA256SUMS
//! packaging/, config/ ──────────────┘
//! ```

pub(crate) mod check;
mod container;
mod debian;
mod files;
mod licences;
mod sbom;
mod tarball;

use crate::workspace::{self, root, target, text};
use anyhow::{Context, Result, bail, ensure};
use files::Files;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages a program, or one that is built for it. The files are below the folder, which is emptied first.
#[derive(Debug)]
pub(crate) struct Dist {
    folder: PathBuf,
    version: String,
    files: Files,
    /// The time of the last commit in seconds, which every file gets: the same tree makes the same packages.
    epoch: String,
    /// The flags of dpkg-deb for it.
    compression: [&'static str; 2],
}

/// Of a package that somebody downloads.
const SMALL: [&str; 2] = ["-Zxz", "-z6"];
/// Of a package that a test installs once. The former takes ten times as long.
const FAST: [&str; 2] = ["-Zgzip", "-z1"];

/// `cargo xtask dist`. Without a program, that of the release profile is built.
pub(crate) fn build(program: Option<&str>) -> Result<()> {
    let program = match program {
        Some(program) => PathBuf::from(program),
        None => release_program()?,
    };
    let dist = Dist::begin(&program, target().join("dist"), SMALL)?;
    let made = dist.all()?;
    for file in &made {
        println!("{}", file.display());
    }
    Ok(())
}

fn release_program() -> Result<PathBuf> {
    let built = crate::stages::command(&["build", "--release", "--locked", "-p", "larder-cli"]).status()?;
    ensure!(built.success(), "the build failed");
    Ok(target().join("release/larder"))
}

impl Dist {
    /// Collects the files of the packages.
    fn begin(program: &Path, folder: PathBuf, compression: [&'static str; 2]) -> Result<Dist> {
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot empty {}", folder.display()));
            }
            _ => std::fs::create_dir_all(&folder)?,
        }
        let metadata = workspace::metadata()?;
        let of_program = |package: &&serde_json::Value| package["name"] == "larder-cli";
        let package = workspace::members(&metadata).find(of_program).context("there is no larder-cli")?;
        let version = text(&package["version"]).to_owned();
        let epoch = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))?;
        let files = Files::collect(program, &folder.join("work/files"), &metadata)?;
        Ok(Dist { folder, version, files, epoch: epoch.trim().to_owned(), compression })
    }

    /// Makes every package, and the sums of them.
    fn all(&self) -> Result<Vec<PathBuf>> {
        let sbom = self.folder.join(format!("larder-{}.cdx.json", self.version));
        std::fs::copy(self.files.sbom(), &sbom)?;
        let made = vec![self.tarball()?, self.debian(&self.debian_version())?, self.container()?, sbom];
        let names = made.iter().map(|file| file.file_name().expect("a file has a name"));
        let sums = output(Command::new("sha256sum").args(names).current_dir(&self.folder))?;
        std::fs::write(self.folder.join("SHA256SUMS"), sums)?;
        Ok(made)
    }

    /// The folder of this name for files on their way into a package, empty.
    fn work(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join("work").join(name);
        _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Packs a folder of the work folder. Neither owners nor times of this machine get in.
    fn pack(&self, folder: &Path, archive: &Path) -> Result<()> {
        let (parent, name) = folder.parent().zip(folder.file_name()).context("a folder in another one")?;
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--create"]);
        tar.arg(format!("--mtime=@{}", self.epoch)).args(["--use-compress-program", "gzip -n"]);
        run(tar.arg("--file").arg(archive).arg("--directory").arg(parent).arg(name))
    }
}

/// Copies a file to a place whose folders may be missing, with these rights.
fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let folder = to.parent().context("a file is in a folder")?;
    std::fs::create_dir_all(folder)?;
    std::fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    set_mode(to, mode)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?)
}

/// Compresses a file in place, without its name and time.
fn gzip(file: &Path) -> Result<()> {
    run(Command::new("gzip").args(["-9n", "--force"]).arg(file))
}

/// Runs a command, which prints only if it fails.
fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// What a command prints.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        bail!("{command:?} failed: {}{}", text(&output.stdout), text(&output.stderr).trim_end());
    }
    Ok(text(&output.stdout))
}
