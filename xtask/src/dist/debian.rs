//! The package of Debian, made by dpkg-deb.

use super::tarball::put_all;
use super::{Dist, gzip, output, put, run};
use crate::workspace::{files_below, root};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What runs at an installation, an upgrade and a removal.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

impl Dist {
    /// The first package of this version of the program.
    pub(super) fn debian_version(&self) -> String {
        format!("{}-1", self.version)
    }

    /// The file of the package of a version.
    pub(super) fn debian_package(&self, version: &str) -> Result<PathBuf> {
        Ok(self.folder.join(format!("larder_{version}_{}.deb", architecture()?)))
    }

    /// Makes the package, of this version.
    pub(super) fn debian(&self, version: &str) -> Result<PathBuf> {
        let (tree, data) = (self.work("debian")?, root().join("packaging/debian"));
        self.fill(&tree, version)?;
        let control = tree.join("DEBIAN");
        for script in SCRIPTS {
            put(&data.join(script), &control.join(script), 0o755)?;
        }
        let files: Vec<PathBuf> = files_below(&tree, "")
            .into_iter()
            .filter(|file| !file.starts_with(&control))
            .map(|file| file.strip_prefix(&tree).map(Path::to_owned))
            .collect::<Result<_, _>>()?;
        let options = files.iter().filter(|file| file.starts_with("etc"));
        let options: String = options.map(|file| format!("/{}\n", file.display())).collect();
        std::fs::write(control.join("conffiles"), options)?;
        let sums = output(Command::new("md5sum").args(&files).current_dir(&tree))?;
        std::fs::write(control.join("md5sums"), sums)?;
        let bytes: u64 =
            files.iter().map(|file| Ok(tree.join(file).metadata()?.len())).sum::<Result<u64>>()?;
        let fields = [
            ("version", version.to_owned()),
            ("architecture", architecture()?),
            ("installed-size", bytes.div_ceil(1024).to_string()),
            ("depends", self.libraries()?),
        ];
        fill_template(&data.join("control"), &control.join("control"), &fields)?;

        let package = self.debian_package(version)?;
        let mut build = Command::new("dpkg-deb");
        build.arg("--root-owner-group").args(self.compression).arg("--build").arg(&tree).arg(&package);
        run(build.env("SOURCE_DATE_EPOCH", &self.epoch))?;
        Ok(package)
    }

    /// The files of the package, where they are installed.
    fn fill(&self, tree: &Path, version: &str) -> Result<()> {
        let (files, packaging) = (&self.files, root().join("packaging"));
        put(&files.program(), &tree.join("usr/bin/larder"), 0o755)?;
        put_all(&packaging.join("config"), &tree.join("etc/larder"))?;
        put_all(&packaging.join("systemd"), &tree.join("usr/lib/systemd/system"))?;
        let man = tree.join("usr/share/man/man1");
        put_all(&files.man(), &man)?;
        files_below(&man, ".1").iter().try_for_each(|page| gzip(page))?;
        for (shell, folder) in [
            ("bash", "bash-completion/completions"),
            ("zsh", "zsh/vendor-completions"),
            ("fish", "fish/vendor_completions.d"),
        ] {
            let from = files.completions(shell)?;
            let name = from.file_name().context("a file has a name")?;
            put(&from, &tree.join("usr/share").join(folder).join(name), 0o644)?;
        }

        let documents = tree.join("usr/share/doc/larder");
        put(&packaging.join("debian/copyright"), &documents.join("copyright"), 0o644)?;
        let overrides = tree.join("usr/share/lintian/overrides/larder");
        put(&packaging.join("debian/lintian-overrides"), &overrides, 0o644)?;
        put(&files.sbom(), &documents.join("larder.cdx.json"), 0o644)?;
        put(&root().join("config/larder.toml"), &documents.join("examples/larder.toml"), 0o644)?;
        let licences = documents.join("third-party-licences.txt");
        put(&files.licences(), &licences, 0o644)?;
        let (changes, changes_of_package) = (documents.join("changelog"), documents.join("changelog.Debian"));
        put(&root().join("CHANGELOG.md"), &changes, 0o644)?;
        let date = output(Command::new("date").args(["-R", "-u", "-d", &format!("@{}", self.epoch)]))?;
        let fields = [("version", version.to_owned()), ("date", date.trim().to_owned())];
        fill_template(&packaging.join("debian/changelog"), &changes_of_package, &fields)?;
        [licences, changes, changes_of_package].iter().try_for_each(|file| gzip(file))
    }

    /// The packages with the libraries that the program is linked with, each in the version that it needs.
    fn libraries(&self) -> Result<String> {
        let folder = self.work("shlibdeps")?;
        // The program reads this file, and needs of it that it is there.
        std::fs::create_dir(folder.join("debian"))?;
        std::fs::write(
            folder.join("debian/control"),
            "Source: larder\n\nPackage: larder\nArchitecture: any\n",
        )?;
        let mut command = Command::new("dpkg-shlibdeps");
        let line = output(command.arg("-O").arg(self.files.program()).current_dir(&folder))?;
        let libraries = line.trim().strip_prefix("shlibs:Depends=");
        Ok(libraries.with_context(|| format!("dpkg-shlibdeps printed {line:?}"))?.to_owned())
    }
}

/// What Debian calls the architecture of this system.
fn architecture() -> Result<String> {
    Ok(output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned())
}

/// Writes a file with a value in the place of each name in braces.
fn fill_template(template: &Path, to: &Path, fields: &[(&str, String)]) -> Result<()> {
    let text =
        std::fs::read_to_string(template).with_context(|| format!("cannot read {}", template.display()))?;
    let filled = fields.iter().fold(text, |text, (name, value)| text.replace(&format!("{{{name}}}"), value));
    Ok(std::fs::write(to, filled)?)
}
