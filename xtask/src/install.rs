//! Installs the dependencies of the tests: Debian packages, toolchain components, and in the target folder the libraries
//! of other languages, one of which is a program: valkey-server.

use crate::workspace::{root, target};
use anyhow::{Context, Result, bail};
use larder_process::{POSTGRES, debian};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// The programs and libraries that tests run, and their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("redis-benchmark", "redis-tools"),
    ("curl", "curl"),
    ("chromium", "chromium"),
    ("prometheus", "prometheus"),
    ("promtool", "prometheus"),
    ("tmux", "tmux"),
    ("nginx", "nginx-light"),
    ("varnishd", "varnish"),
    ("apache2", "apache2"),
    ("squid", "squid"),
    ("traffic_server", "trafficserver"),
    ("h2load", "nghttp2-client"),
    ("openssl", "openssl"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("ab", "apache2-utils"),
    ("siege", "siege"),
    ("wrk", "wrk"),
    ("buildah", "buildah"),
    ("dpkg-shlibdeps", "dpkg-dev"),
    ("lintian", "lintian"),
    ("mmdebstrap", "mmdebstrap"),
    ("strip", "binutils"),
    ("systemd-analyze", "systemd"),
    ("elixir", "elixir"),
    ("valgrind", "valgrind"),
    ("memcached", "memcached"),
    (POSTGRES.0, POSTGRES.1),
    ("pip3", "python3-pip"),
    ("go", "golang-go"),
    ("javac", "default-jdk-headless"),
    ("mvn", "maven"),
    ("php", "php-cli"),
    ("/usr/share/doc/php-redis", "php-redis"),
    ("/usr/share/php/Predis", "php-predis"),
    ("/usr/share/php/Illuminate/Cache", "php-illuminate-cache"),
    ("/usr/share/php/Illuminate/Container", "php-illuminate-container"),
    ("/usr/share/php/Illuminate/Events", "php-illuminate-events"),
    ("/usr/share/php/Illuminate/Queue", "php-illuminate-queue"),
    ("/usr/share/php/Illuminate/Redis", "php-illuminate-redis"),
    ("ruby", "ruby"),
    ("puma", "puma"),
    ("unicorn", "unicorn"),
    ("/usr/share/doc/ruby-activerecord", "ruby-activerecord"),
    ("/usr/share/doc/ruby-activesupport", "ruby-activesupport"),
    ("/usr/share/doc/ruby-async", "ruby-async"),
    ("/usr/share/doc/ruby-connection-pool", "ruby-connection-pool"),
    ("/usr/share/doc/ruby-dalli", "ruby-dalli"),
    ("/usr/share/doc/ruby-hiredis", "ruby-hiredis"),
    ("/usr/share/doc/ruby-oj", "ruby-oj"),
    ("/usr/share/doc/ruby-railties", "ruby-railties"),
    ("/usr/share/doc/ruby-redis", "ruby-redis"),
    ("/usr/share/doc/ruby-sqlite3", "ruby-sqlite3"),
];

/// Libraries of another language, which tests use.
struct Libraries {
    /// The folder with their manifest.
    source: &'static str,
    /// The folder below the target folder that they are installed in.
    folder: &'static str,
    /// The manifest and the lock file; the last one lists every version.
    manifests: &'static [&'static str],
    /// Installs what the manifests in this folder require, in this folder.
    install: fn(&Path) -> Result<()>,
}

const LIBRARIES: &[Libraries] = &[
    Libraries { source: "crates/larder-cli/tests/browser", folder: "browser", manifests: NPM, install: npm },
    Libraries {
        source: "crates/larder-http/tests/graphql/clients",
        folder: "graphql-clients",
        manifests: NPM,
        install: npm,
    },
    Libraries {
        source: "crates/larder-proxy/tests/conformance",
        folder: "http-cache-tests",
        manifests: NPM,
        install: npm,
    },
    Libraries {
        source: "crates/larder-testkit/valkey",
        folder: "valkey",
        manifests: &["requirements.txt"],
        install: pip,
    },
    Libraries {
        source: "bindings/python/tests",
        folder: crate::bindings::python::LIBRARIES,
        manifests: &["requirements.txt"],
        install: pip,
    },
    Libraries {
        source: "bindings/python/tests",
        folder: crate::bindings::python::SOURCES,
        manifests: &["sources.txt"],
        install: pip_sources,
    },
    Libraries {
        source: "bindings/node/test",
        folder: crate::bindings::node::LIBRARIES,
        manifests: &[".npmrc", "package.json", "package-lock.json"],
        install: npm,
    },
    Libraries {
        source: "bindings/ruby/test/rails",
        folder: crate::bindings::ruby::RAILS,
        manifests: &["source.rb", "sources.txt"],
        install: rails_source,
    },
    Libraries {
        source: "crates/larder-server/tests/client_libraries/node",
        folder: "client-libraries/node",
        manifests: NPM,
        install: npm,
    },
    Libraries {
        source: "crates/larder-server/tests/client_libraries/python",
        folder: "client-libraries/python",
        manifests: &["requirements.txt"],
        install: pip,
    },
    Libraries {
        source: "crates/larder-server/tests/client_libraries/go",
        folder: "client-libraries/go",
        manifests: &["go.mod", "go.sum"],
        install: go,
    },
    Libraries {
        source: "crates/larder-server/tests/client_libraries/java",
        folder: "client-libraries/java",
        manifests: &["pom.xml"],
        install: maven,
    },
];

const NPM: &[&str] = &["package.json", "package-lock.json"];

/// Everything that the tests need.
pub(crate) fn install() -> Result<()> {
    for_build().and_then(|()| for_tests())
}

/// What lints and the build need too.
pub(crate) fn for_build() -> Result<()> {
    debian::install(PROGRAMS).context("cannot install Debian packages")?;
    run("toolchain components", Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))
}

/// What only the tests need. It waits for the network most of the time.
pub(crate) fn for_tests() -> Result<()> {
    LIBRARIES.iter().try_for_each(Libraries::install_if_changed)?;
    crate::dist::check::install()
}

impl Libraries {
    /// Installs the libraries into an empty folder, unless the file `installed` there is a copy of the lock file: it is
    /// written last.
    fn install_if_changed(&self) -> Result<()> {
        let (source, folder) = (root().join(self.source), target().join(self.folder));
        let lock = source.join(self.manifests[self.manifests.len() - 1]);
        let required = std::fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
        if std::fs::read(folder.join("installed")).is_ok_and(|installed| installed == required) {
            return Ok(());
        }
        eprintln!("installing the libraries of {}", lock.display());
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", folder.display()));
            }
            _ => std::fs::create_dir_all(&folder)?,
        }
        for file in self.manifests {
            let from = source.join(file);
            std::fs::copy(&from, folder.join(file))
                .with_context(|| format!("cannot copy {}", from.display()))?;
        }
        (self.install)(&folder)?;
        Ok(std::fs::write(folder.join("installed"), required)?)
    }
}

fn npm(folder: &Path) -> Result<()> {
    run("npm", Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(folder))
}

fn pip(folder: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--root-user-action", "ignore", "--no-deps"]);
    pip.args(["--target", "packages", "--requirement", "requirements.txt"]);
    run("pip", pip.current_dir(folder))
}

/// The source distributions in `sources.txt`, unpacked.
fn pip_sources(folder: &Path) -> Result<()> {
    let mut download = Command::new("python3");
    download.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--require-hashes",
    ]);
    run("pip", download.args(["--dest", "archives", "--requirement", "sources.txt"]).current_dir(folder))?;
    let archives = std::fs::read_dir(folder.join("archives")).context("pip has downloaded nothing")?;
    for archive in archives {
        let mut unpack = Command::new("python3");
        unpack.args(["-m", "tarfile", "--extract"]).arg(archive?.path()).current_dir(folder);
        run("python3 -m tarfile", &mut unpack)?;
    }
    Ok(())
}

/// The tests of Rails, which are in its source alone.
fn rails_source(folder: &Path) -> Result<()> {
    run("ruby", Command::new("ruby").args(["source.rb", "."]).current_dir(folder))
}

fn go(folder: &Path) -> Result<()> {
    let mut go = Command::new("go");
    // Files of Go's cache are read-only unless it is told otherwise: nobody could remove the target folder.
    go.args(["mod", "download", "-modcacherw"]).env("GOMODCACHE", folder.join("modules"));
    run("go", go.current_dir(folder))
}

fn maven(folder: &Path) -> Result<()> {
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=libraries"]);
    maven.arg(format!("-Dmaven.repo.local={}", folder.join("repository").display()));
    run("mvn", maven.current_dir(folder))
}

fn run(what: &str, command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {what}"))?;
    if status.success() { Ok(()) } else { bail!("{what} failed: {status}") }
}
