//! Installs the dependencies of the tests: Debian packages, toolchain components, and npm packages in the target
//! folder.

use crate::workspace::{root, target};
use anyhow::{Context, Result, bail};
use larder_process::debian;
use std::process::Command;

/// The programs and libraries that tests run, and their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("redis-benchmark", "redis-tools"),
    ("chromium", "chromium"),
    ("nginx", "nginx-light"),
    ("varnishd", "varnish"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("ab", "apache2-utils"),
    ("siege", "siege"),
    ("elixir", "elixir"),
    ("valgrind", "valgrind"),
    ("memcached", "memcached"),
    ("ruby", "ruby"),
    ("/usr/share/doc/ruby-activesupport", "ruby-activesupport"),
    ("/usr/share/doc/ruby-connection-pool", "ruby-connection-pool"),
    ("/usr/share/doc/ruby-dalli", "ruby-dalli"),
    ("/usr/share/doc/ruby-hiredis", "ruby-hiredis"),
    ("/usr/share/doc/ruby-oj", "ruby-oj"),
    ("/usr/share/doc/ruby-redis", "ruby-redis"),
];

/// The folders with the manifests of npm packages for tests, and the folders below the target folder that they are
/// installed in.
const NPM_PACKAGES: &[(&str, &str)] = &[
    ("crates/larder-cli/tests/browser", "browser"),
    ("crates/larder-http/tests/graphql/clients", "graphql-clients"),
];

pub(crate) fn install() -> Result<()> {
    debian::install(PROGRAMS).context("cannot install Debian packages")?;
    run("toolchain components", Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))?;
    NPM_PACKAGES.iter().try_for_each(|(source, folder)| install_npm_packages(source, folder))
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

fn run(what: &str, command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {what}"))?;
    if status.success() { Ok(()) } else { bail!("{what} failed: {status}") }
}
