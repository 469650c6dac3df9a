//! Installs the dependencies of the tests: Debian packages, toolchain components, and npm packages in the target
//! folder.

use crate::workspace::{root, target};
use anyhow::{Context, Result, bail};
use larder_process::find_program;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that tests run, and their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("redis-benchmark", "redis-tools"),
    ("chromium", "chromium"),
    ("nginx", "nginx-light"),
    ("varnishd", "varnish"),
    ("node", "nodejs"),
    ("npm", "npm"),
];

/// The folders with the manifests of npm packages for tests, and the folders below the target folder that they are
/// installed in.
const NPM_PACKAGES: &[(&str, &str)] = &[
    ("crates/larder-cli/tests/browser", "browser"),
    ("crates/larder-http/tests/graphql/clients", "graphql-clients"),
];

pub(crate) fn install() -> Result<()> {
    install_packages()?;
    run("toolchain components", Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))?;
    NPM_PACKAGES.iter().try_for_each(|(source, folder)| install_npm_packages(source, folder))
}

fn install_packages() -> Result<()> {
    let mut missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| find_program(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {}", missing.join(", "));
    let _services_off = ServicesOff::new()?;
    run("apt-get update", as_root("apt-get").args(["-qq", "update"]))?;
    let mut command = as_root("apt-get");
    command.args(["-qq", "install", "--yes", "--no-install-recommends"]).args(&missing);
    run("apt-get install", command.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Installs npm packages below the target folder, in the versions of the lock file.
fn install_npm_packages(source: &str, folder: &str) -> Result<()> {
    let folder = target().join(folder);
    std::fs::create_dir_all(&folder)?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(root().join(source).join(file), folder.join(file))
            .with_context(|| format!("cannot copy {source}/{file}"))?;
    }
    run(
        "npm ci",
        Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(&folder),
    )
}

/// A policy file that prevents Debian from starting the services of installed packages. Dropping it removes the file,
/// unless the file existed before.
struct ServicesOff(Option<PathBuf>);

impl ServicesOff {
    fn new() -> Result<Self> {
        let policy = Path::new("/usr/sbin/policy-rc.d");
        if policy.exists() {
            return Ok(ServicesOff(None));
        }
        let script = format!("printf '#!/bin/sh\\nexit 101\\n' > {0} && chmod 755 {0}", policy.display());
        run("the service policy", as_root("sh").args(["-c", &script]))?;
        Ok(ServicesOff(Some(policy.to_owned())))
    }
}

impl Drop for ServicesOff {
    fn drop(&mut self) {
        if let Some(policy) = &self.0 {
            // A policy file that cannot be removed is no reason to fail.
            _ = as_root("rm").arg("-f").arg(policy).status();
        }
    }
}

/// A command that runs as root, directly or with sudo.
fn as_root(program: &str) -> Command {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    if is_root {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.arg(program);
    command
}

fn run(what: &str, command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {what}"))?;
    if status.success() { Ok(()) } else { bail!("{what} failed: {status}") }
}
