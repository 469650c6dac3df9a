//! The command line itself: where settings come from, and how mistakes are told.

use crate::dashboard::{part, stats, tier};
use crate::http::get;
use crate::process::{FREE, Process, Up, larder, run, start_server};
use crate::resp::command;
use crate::shortener::{create, follow};
use larder_testkit::program;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn a_default_port_that_is_taken_is_replaced_and_said_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // If it cannot be had here, somebody else has it: it is taken in any case.
    let _taken = TcpListener::bind("127.0.0.1:8080");
    let database = format!("sqlite:{}", folder.path().join("links.db").display());
    let mut process = Process::start(&mut larder(["links", "--database", &database]));
    let address = process.await_line("larder links listens on http://");
    let address: SocketAddr = address.trim_end_matches('/').parse().expect("an address");
    assert_ne!(address.port(), 8080);
    assert_eq!(process.stderr(), "larder: port 8080 is taken, a free one is used instead\n");
    assert_eq!(get(address, "/healthz").status, 200);
}

#[test]
fn a_port_that_was_asked_for_and_is_taken_is_an_error() {
    let taken = TcpListener::bind(FREE).expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let database = format!("sqlite:{}", folder.path().join("links.db").display());
    let failure =
        |name: &str| format!("larder {name}: cannot bind {address}: Address already in use (os error 98)");
    run(&mut larder(["server", "--listen", &address])).assert_failure(&failure("server"));
    run(&mut larder(["links", "--listen", &address, "--database", &database]))
        .assert_failure(&failure("links"));
    for port in ["--resp", "--http", "--admin"] {
        let mut command = larder(["up", "--data"]);
        command.arg(&data).args([port, &address]);
        for other in ["--resp", "--http", "--admin"].into_iter().filter(|other| *other != port) {
            command.args([other, FREE]);
        }
        run(&mut command).assert_failure(&failure("up"));
    }
}

#[test]
fn bad_usage_exits_with_2_and_shows_the_way() {
    for words in [
        &["sever"][..],
        &["up", "--resp", "nowhere"],
        &["up", "--unknown"],
        &["server", "--max-memory", "much"],
        &["links", "import"],
        &["completions", "tcsh"],
        &[],
    ] {
        let ended = run(&mut larder(words));
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains("--help") || ended.stderr.contains("Usage"), "{words:?}: {ended:?}");
    }
}

#[test]
fn failures_are_one_line() {
    let missing = "/nonexistent/larder.toml";
    let message = "cannot read /nonexistent/larder.toml: No such file or directory (os error 2)";
    run(&mut larder(["server", "--config", missing])).assert_failure(&format!("larder server: {message}"));
    let import = run(&mut larder(["links", "import", "/nonexistent.csv"]));
    import.assert_failure(
        "larder links import: cannot open /nonexistent.csv: No such file or directory (os error 2)",
    );
    let postgres = run(&mut larder(["links", "--listen", FREE, "--database", "mysql://localhost/links"]));
    postgres.assert_failure(
        "larder links: database is mysql://localhost/links, expected sqlite: and the path of a file",
    );
}

#[test]
fn an_unknown_key_is_named_with_its_file_and_place() {
    for (command, text, place) in [
        ("up", "\n[up]\nport = 1\n", "line 3: unknown field `port`"),
        ("up", "[sever]\n", "line 1: unknown field `sever`"),
        ("server", "[server]\nmax_clients = 7\n", "[server]: unknown field `max_clients`"),
        ("links", "[links]\nttl = 7\n", "[links]: unknown field `ttl`"),
        ("up", "[links]\nttl = 7\n", "[links]: unknown field `ttl`"),
        ("up", "[links]\nlisten = 7\n", "links.listen is not an address"),
        ("server", "[server]\n\nmaxclients 7\n", "line 3: "),
    ] {
        let (_folder, file) = file_with(text);
        let ended = run(larder([command, "--config"]).arg(&file));
        let start = format!("larder {command}: {}: {place}", file.display());
        assert!(ended.stderr.starts_with(&start), "{ended:?} does not begin with {start:?}");
        ended.assert_failure(ended.stderr.trim_end());
    }
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file() {
    let (_folder, file) = file_with("[server]\nmaxclients = 71\nlisten = \"127.0.0.1:0\"\n");
    let maxclients = |from: &mut Command| {
        let mut process = Process::start(from);
        let address = process.await_line("larder server listens on ").parse().expect("an address");
        let reply = command(address, "INFO clients");
        let line = reply.lines().find_map(|line| line.strip_prefix("maxclients:")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("no maxclients in {reply}"))
    };
    let with_file = || {
        let mut command = larder(["server", "--config"]);
        command.arg(&file);
        command
    };
    assert_eq!(maxclients(&mut with_file()), "71");
    assert_eq!(maxclients(with_file().env("LARDER_SERVER_MAXCLIENTS", "72")), "72");
    let flag = ["--maxclients", "73"];
    assert_eq!(maxclients(with_file().env("LARDER_SERVER_MAXCLIENTS", "72").args(flag)), "73");
    let mut by_env = larder(["server"]);
    assert_eq!(
        maxclients(by_env.env("LARDER_CONFIG", &file)),
        "71",
        "the file itself can come from the environment"
    );
}

#[test]
fn the_password_of_the_file_is_asked_for_and_up_knows_its_own() {
    let (_folder, file) = file_with("[server]\nrequirepass = \"p@ss word\"\n");
    let (_server, address) = start_server(["--config".as_ref(), file.as_os_str()]);
    assert!(command(address, "GET key").starts_with("-NOAUTH"));

    let folder = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start_with(&folder.path().join("data"), "[server]\nrequirepass = \"p@ss word\"\n");
    let slug = create(up.http, "https://example.com/");
    follow(up.http, &slug);
    let lookups = tier(part(&stats(up.admin), "links"), "redis")["lookups"].clone();
    assert_eq!((&lookups["miss"], &lookups["error"], &lookups["skipped"]), (&1.into(), &0.into(), &0.into()));
    up.stop();
}

#[test]
fn the_reference_that_config_prints_is_accepted() {
    let printed = run(&mut larder(["config"]));
    assert_eq!((printed.code, &*printed.stderr), (Some(0), ""));
    for section in ["[up]", "[server]", "[links]"] {
        assert!(printed.stdout.contains(section), "{}", printed.stdout);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let up = Up::start_with(&data, &printed.stdout);
    assert!(data.join("links.db").is_file(), "the database is in the data folder, as without a file");
    up.stop();
}

#[test]
fn version_help_and_completions_are_printed() {
    let version = run(&mut larder(["--version"]));
    assert_eq!((version.code, version.stdout), (Some(0), format!("larder {}\n", env!("CARGO_PKG_VERSION"))));
    let help = run(&mut larder(["--help"]));
    for command in ["up", "server", "links", "config", "completions"] {
        assert!(help.stdout.lines().any(|line| line.trim_start().starts_with(command)), "{}", help.stdout);
    }
    for command in ["up", "server", "links"] {
        let help = run(&mut larder([command, "--help"]));
        assert!(help.code == Some(0) && help.stdout.contains("[env: LARDER_"), "{}", help.stdout);
    }
}

#[test]
fn bash_takes_its_completions() {
    let Some(bash) = program("bash") else { return };
    let script = run(&mut larder(["completions", "bash"])).stdout;
    let (_folder, file) = file_with(&script);
    let asked =
        r#". "$1"; COMP_WORDS=(larder ser); COMP_CWORD=1; _larder larder ser larder; echo "${COMPREPLY[@]}""#;
    let ended = run(Command::new(bash).args(["--norc", "-c", asked, "bash"]).arg(file));
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "server"), "{}", ended.stderr);
}

fn file_with(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("larder.toml");
    std::fs::write(&file, text).expect("the file can be written");
    (folder, file)
}
