//! The tarball: for systems without packages of Debian.

use super::{Dist, put, set_mode};
use crate::workspace::{files_below, root};
use anyhow::Result;
use std::path::{Path, PathBuf};

impl Dist {
    /// Packs the tarball.
    pub(super) fn tarball(&self) -> Result<PathBuf> {
        let name = format!("larder-{}-{}-linux-gnu", self.version, std::env::consts::ARCH);
        let folder = self.work("tarball")?.join(&name);
        put(&self.files.program(), &folder.join("larder"), 0o755)?;
        put(&root().join("config/larder.toml"), &folder.join("config/larder.toml"), 0o644)?;
        let folders = [
            (root().join("packaging/config"), "config"),
            (root().join("packaging/systemd"), "systemd"),
            (self.files.man(), "man/man1"),
            (self.files.completions("bash")?.with_file_name(""), "completions"),
        ];
        for (from, to) in folders {
            put_all(&from, &folder.join(to))?;
        }
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
            put(&root().join(file), &folder.join(file), 0o644)?;
        }
        for file in [self.files.sbom(), self.files.licences()] {
            put(&file, &folder.join(file.file_name().unwrap_or_default()), 0o644)?;
        }
        let archive = self.folder.join(format!("{name}.tar.gz"));
        self.pack(&folder, &archive)?;
        Ok(archive)
    }
}

/// Copies the files of a folder into another one.
pub(super) fn put_all(from: &Path, to: &Path) -> Result<()> {
    for file in files_below(from, "") {
        put(&file, &to.join(file.strip_prefix(from)?), 0o644)?;
    }
    set_mode(to, 0o755)
}
