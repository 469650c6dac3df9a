//! The context of a container image: the root directory of the image, and the file that says how to build it.

use super::{Dist, output, put};
use crate::workspace::root;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

impl Dist {
    /// Packs the context.
    pub(super) fn container(&self) -> Result<PathBuf> {
        let folder = self.work("container")?.join(self.container_name());
        self.fill_image(&folder.join("root"))?;
        put(&root().join("packaging/Containerfile"), &folder.join("Containerfile"), 0o644)?;
        let archive = self.container_archive();
        self.pack(&folder, &archive)?;
        Ok(archive)
    }

    /// The name of the folder in the archive.
    pub(super) fn container_name(&self) -> String {
        format!("larder-{}-container", self.version)
    }

    pub(super) fn container_archive(&self) -> PathBuf {
        self.folder.join(self.container_name() + ".tar.gz")
    }

    /// The root directory of the image: the program and the libraries that it is linked with, which ldd names with their paths.
    fn fill_image(&self, image: &Path) -> Result<()> {
        let program = self.files.program();
        put(&program, &image.join("usr/bin/larder"), 0o755)?;
        let lines = output(Command::new("ldd").arg(&program))?;
        for library in lines.lines().filter_map(path_of_library) {
            let inside = library.strip_prefix("/").context("ldd prints whole paths")?;
            put(library, &image.join(inside), 0o755)?;
        }
        let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| root().join(name));
        for file in licences.into_iter().chain([self.files.sbom(), self.files.licences()]) {
            let name = file.file_name().context("a file has a name")?;
            put(&file, &image.join("usr/share/doc/larder").join(name), 0o644)?;
        }
        Ok(std::fs::create_dir_all(image.join("var/lib/larder"))?)
    }
}

/// The path in a line such as `libc.so.6 => /lib/libc.so.6 (0x…)` or `/lib64/ld-linux.so.2 (0x…)`. The library of the kernel
/// has none.
fn path_of_library(line: &str) -> Option<&Path> {
    line.split_whitespace().find(|word| word.starts_with('/')).map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_with_a_path() {
        let lines = "\tlinux-vdso.so.1 (0x7f)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\t/lib64/ld.so (0x7f)\n";
        let paths: Vec<_> = lines.lines().filter_map(path_of_library).collect();
        assert_eq!(paths, [Path::new("/lib/libc.so.6"), Path::new("/lib64/ld.so")]);
    }
}
