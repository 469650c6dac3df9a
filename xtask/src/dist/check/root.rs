//! A bare Debian in a folder of its own: the packages without which there is no Debian, those of this system's version.

use crate::dist::{Dist, output, run};
use crate::workspace::target;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the directory from which each test gets a copy, if it is not there yet.
pub(super) fn install() -> Result<()> {
    original().map(drop)
}

fn original() -> Result<PathBuf> {
    let release = std::fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = name.context("/etc/os-release has no VERSION_CODENAME")?.trim_matches('"');
    let root = target().join("debian").join(name);
    if !root.exists() {
        eprintln!("installing a bare Debian in {}", root.display());
        let unfinished = root.with_extension("unfinished");
        _ = std::fs::remove_dir_all(&unfinished);
        std::fs::create_dir_all(target().join("debian"))?;
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--quiet", "--mode=root", "--variant=essential", name]).arg(&unfinished);
        run(&mut mmdebstrap)?;
        std::fs::rename(unfinished, &root)?;
    }
    Ok(root)
}

/// A copy of the directory.
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) fn new(dist: &Dist) -> Result<Root> {
        let root = dist.work("root")?;
        // It is on the same file system: some share the blocks of both.
        run(Command::new("cp")
            .args(["--archive", "--reflink=auto", "--no-target-directory"])
            .arg(original()?)
            .arg(&root))?;
        Ok(Root(root))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file as others see it.
    pub(super) fn file(&self, inside: &str) -> PathBuf {
        self.0.join(inside.trim_start_matches('/'))
    }

    /// Runs dpkg in it, and returns what it prints. Scripts get no answers, so that they must not ask.
    pub(super) fn dpkg(&self, words: &[&str]) -> Result<String> {
        let mut dpkg = Command::new("chroot");
        dpkg.arg(&self.0).arg("dpkg").args(words).env("DEBIAN_FRONTEND", "noninteractive");
        output(dpkg.stdin(std::process::Stdio::null()))
    }

    /// Every file and folder with its size and mode, but for what dpkg itself remembers of packages.
    pub(super) fn content(&self) -> Result<BTreeMap<PathBuf, (u32, u64)>> {
        const OF_DPKG: [&str; 2] = ["var/lib/dpkg", "var/log"];
        let (mut found, mut folders) = (BTreeMap::new(), vec![self.0.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let path = entry?.path();
                let inside = path.strip_prefix(&self.0)?.to_owned();
                if OF_DPKG.iter().any(|of_dpkg| inside == Path::new(of_dpkg)) {
                    continue;
                }
                let data = path.symlink_metadata()?;
                if data.is_dir() {
                    folders.push(path);
                    found.insert(inside, (data.mode(), 0));
                } else {
                    found.insert(inside, (data.mode(), data.len()));
                }
            }
        }
        Ok(found)
    }
}
