//! The package of Debian: what lintian says of it, and its life in a bare Debian.

use super::in_root;
use super::root::Root;
use super::server::{InstalledServer, USER};
use crate::dist::{Dist, output, run};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// The folder for the states of services whose users exist only while they run.
const PRIVATE: &str = "/var/lib/private";
/// The folder in which the server keeps its snapshot.
const STATE: &str = "/var/lib/private/larder-server";

pub(super) fn lint(dist: &Dist) -> Result<()> {
    let package = dist.debian_package(&dist.debian_version())?;
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--no-tag-display-limit", "--fail-on=error,warning", "--color=never"]);
    run(lintian.arg(package))
}

pub(super) fn live(dist: &Dist) -> Result<()> {
    let root = Root::new(dist)?;
    // That of systemd, which is not there.
    std::fs::create_dir_all(root.file(PRIVATE))?;
    let before = root.content()?;
    install(&root, &dist.debian_package(&dist.debian_version())?, &dist.debian_version())?;
    check_program(dist, &root)?;

    make_state(&root)?;
    let server = InstalledServer::start(&root)?;
    server.expect(&["PING"], "PONG")?;
    server.expect(&["SET", "greeting", "hello"], "OK")?;
    server.expect(&["RPUSH", "list", "a", "b", "c"], "3")?;
    let options = root.file("/etc/larder/server.toml");
    let changed = std::fs::read_to_string(&options)? + "max_memory = \"64mb\"\n";
    std::fs::write(&options, &changed)?;

    // The program is replaced while it runs, and goes on until systemd restarts it.
    let newer = format!("{}-2", dist.version);
    install(&root, &dist.debian(&newer)?, &newer)?;
    ensure!(std::fs::read_to_string(&options)? == changed, "an upgrade has changed an option");
    server.expect(&["GET", "greeting"], "hello")?;
    server.stop()?;
    let server = InstalledServer::start(&root)?;
    server.expect(&["GET", "greeting"], "hello")?;
    server.expect(&["LRANGE", "list", "0", "-1"], "a\nb\nc")?;
    server.expect(&["CONFIG", "GET", "maxmemory"], "maxmemory\n67108864")?;
    server.stop()?;

    root.dpkg(&["--remove", "larder"])?;
    for (file, stays) in [("/usr/bin/larder", false), ("/etc/larder/server.toml", true), (STATE, true)] {
        ensure!(root.file(file).exists() == stays, "{file} after a removal");
    }
    root.dpkg(&["--purge", "larder"])?;
    let after = root.content()?;
    let left: Vec<_> = after.iter().filter(|(path, data)| before.get(*path) != Some(data)).collect();
    ensure!(left.is_empty(), "a purge leaves {left:?}");
    let lost: Vec<_> = before.keys().filter(|path| !after.contains_key(*path)).collect();
    ensure!(lost.is_empty(), "a purge removes {lost:?}, which the package did not bring");
    Ok(())
}

fn install(root: &Root, package: &Path, version: &str) -> Result<()> {
    let inside = Path::new("/").join(package.file_name().context("a file has a name")?);
    let inside = inside.to_str().context("a name in Unicode")?;
    std::fs::copy(package, root.file(inside))?;
    root.dpkg(&["--install", inside])?;
    std::fs::remove_file(root.file(inside))?;
    let installed = root.dpkg(&["--status", "larder"])?;
    ensure!(installed.contains("Status: install ok installed"), "{installed}");
    ensure!(installed.contains(&format!("Version: {version}\n")), "{installed}");
    Ok(())
}

/// The program starts there, with the libraries of a bare Debian, and every page and script that belongs to it is where it is
/// looked for.
fn check_program(dist: &Dist, root: &Root) -> Result<()> {
    let version = output(in_root(root.path(), USER).args(["/usr/bin/larder", "--version"]))?;
    ensure!(version == format!("larder {}\n", dist.version), "{version}");
    for file in [
        "/usr/share/man/man1/larder.1.gz",
        "/usr/share/man/man1/larder-server.1.gz",
        "/usr/share/man/man1/larder-links-token-add.1.gz",
        "/usr/share/bash-completion/completions/larder",
        "/usr/lib/systemd/system/larder-server.socket",
        "/etc/larder/proxy.toml",
    ] {
        ensure!(root.file(file).is_file(), "the package has no {file}");
    }
    // The other options are read by their parts too; a part that starts nothing reads all sections.
    for (options, command) in [("proxy.toml", "stats"), ("up.toml", "stats")] {
        let mut stats = in_root(root.path(), USER);
        stats.args(["/usr/bin/larder", command, "--admin=http://127.0.0.1:1", "--config"]);
        let ended = stats.arg(format!("/etc/larder/{options}")).output()?;
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        ensure!(error.starts_with("larder stats: cannot reach"), "{options}: {error}");
    }
    Ok(())
}

/// Makes the folder of the server's state as systemd does: in private, with a link where it is looked for.
fn make_state(root: &Root) -> Result<()> {
    let state = root.file(STATE);
    std::fs::create_dir(&state)?;
    std::os::unix::fs::chown(&state, Some(USER), Some(USER))?;
    Ok(std::os::unix::fs::symlink("private/larder-server", root.file("/var/lib/larder-server"))?)
}
