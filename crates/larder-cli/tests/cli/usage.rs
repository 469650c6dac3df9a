//! The command line: precedence of settings, and error messages.

use crate::dashboard::{part, stats, tier};
use crate::http::get;
use crate::process::{FREE, Process, Up, larder, run, start_server};
use crate::resp::{self, command};
use crate::shortener::{create, follow};
use larder_testkit::program;
use std::fs::Permissions;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn default_port_in_use_is_replaced_with_a_message() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // If this bind fails, another process uses the port: it is in use in either case.
    let _taken = TcpListener::bind("127.0.0.1:8080");
    let database = format!("sqlite:{}", folder.path().join("links.db").display());
    let mut process = Process::start(&mut larder(["links", "--database", &database]));
    let address = process.await_line("larder links listens on http://");
    let address: SocketAddr = address.trim_end_matches('/').parse().expect("an address");
    assert_ne!(address.port(), 8080);
    assert_eq!(process.stderr(), "larder: port 8080 is in use, a free port is used instead\n");
    assert_eq!(get(address, "/healthz").status, 200);
}

#[test]
fn configured_port_in_use_is_an_error() {
    let occupied = TcpListener::bind(FREE).expect("a free port");
    let address = occupied.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let database = format!("sqlite:{}", folder.path().join("links.db").display());
    let failure = |name: &str, flag: &str| {
        format!("larder {name}: {flag}: cannot bind {address}: Address already in use (os error 98)")
    };
    run(&mut larder(["server", "--listen", &address])).assert_failure(&failure("server", "--listen"));
    run(&mut larder(["links", "--listen", &address, "--database", &database]))
        .assert_failure(&failure("links", "--listen"));
    for port in ["--resp", "--http", "--admin"] {
        let mut command = larder(["up", "--data"]);
        command.arg(&data).args([port, &address]);
        for other in ["--resp", "--http", "--admin"].into_iter().filter(|other| *other != port) {
            command.args([other, FREE]);
        }
        run(&mut command).assert_failure(&failure("up", port));
    }
    for key in ["resp", "http", "admin"] {
        let ports = ["resp", "http", "admin"]
            .map(|port| format!("{port} = {:?}\n", if port == key { &address } else { FREE }));
        let (_folder, file) = file_with(&format!("[up]\n{}", ports.concat()));
        let mut command = larder(["up", "--config"]);
        command.arg(&file).arg("--data").arg(&data);
        let place = format!("{}: [up] {key}", file.display());
        run(&mut command).assert_failure(&failure("up", &place));
    }
}

#[test]
fn usage_error_exits_with_2_and_mentions_help() {
    for words in [
        &["sever"][..],
        &["up", "--resp", "nowhere"],
        &["up", "--unknown"],
        &["server", "--max-memory", "much"],
        &["server", "--max-memory-policy", "volatile"],
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
fn usage_error_names_what_is_expected() {
    let address = "expected HOST:PORT, such as 127.0.0.1:6379 or localhost:6379, or :6379 for 127.0.0.1, with a port up to 65535";
    for (words, flag, expected) in [
        (&["server", "--listen", "localhost"][..], "--listen <ADDRESS>", address),
        (&["server", "--admin", "::6379"], "--admin <ADDRESS>", address),
        (&["links", "--listen", "127.0.0.1"], "--listen <ADDRESS>", address),
        (&["up", "--http", "8080"], "--http <ADDRESS>", address),
        (&["server", "--threads", "x"], "--threads <N>", "expected a whole number from 1 to 256"),
        (
            &["server", "--maxclients", "many"],
            "--maxclients <N>",
            "expected a whole number from 1 to 1000000",
        ),
        (
            &["links", "token", "remove", "abc"],
            "<ID>",
            "expected a whole number from 1 to 9223372036854775807",
        ),
    ] {
        let ended = run(&mut larder(words));
        let value = words.last().expect("a value");
        let line = format!("error: invalid value '{value}' for '{flag}': {expected}\n");
        assert!(ended.code == Some(2) && ended.stderr.starts_with(&line), "{words:?}: {ended:?}");
    }
}

#[test]
fn addresses_by_name_and_sizes_with_fractions_are_read_everywhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let start = |words: &[&str], more: &[(&str, &str)]| {
        let mut command = larder(words);
        let mut process = Process::start(command.envs(more.iter().copied()));
        let text = process.await_line("larder server listens on ");
        let address: std::net::SocketAddr = text.parse().expect("an address");
        assert!(address.ip().is_loopback(), "{address}");
        resp::info(address, "maxmemory")
    };
    let by_flag = start(&["server", "--listen", "localhost:0", "--max-memory", "1.5MiB"], &[]);
    assert_eq!(by_flag, 3 << 19);
    let variables = [("LARDER_SERVER_LISTEN", ":0"), ("LARDER_SERVER_MAX_MEMORY", "2MiB")];
    let by_variable = start(&["server"], &variables);
    assert_eq!(by_variable, 2 << 20);
    let file = folder.path().join("larder.toml");
    std::fs::write(&file, "[server]\nlisten = \":0\"\nmax_memory = \"0.0025gb\"\n")
        .expect("the file can be written");
    let by_file = start(&["server", "--config", file.to_str().expect("a text")], &[]);
    assert_eq!(by_file, 2_684_354);
}

#[test]
fn unknown_variable_with_our_prefix_is_a_warning_with_a_suggestion() {
    let ended = run(larder(["config"]).env("LARDER_UP_RSP", "127.0.0.1:1"));
    assert_eq!((ended.code, ended.stdout.is_empty()), (Some(0), false), "{ended:?}");
    let expected =
        "larder: LARDER_UP_RSP (did you mean LARDER_UP_RESP?) is no variable of larder and has no effect\n";
    assert_eq!(ended.stderr, expected);
}

#[test]
fn usage_error_names_the_variable_that_has_the_value() {
    let stderr = |words: &[&str], variables: &[(&str, &str)]| {
        let ended = run(larder(words).envs(variables.iter().copied()));
        assert_eq!(ended.code, Some(2), "{ended:?}");
        ended.stderr
    };
    let zz = ("LARDER_SERVER_MAX_MEMORY", "zz");
    let start = "error: invalid value 'zz' for '--max-memory <SIZE> from LARDER_SERVER_MAX_MEMORY': 'zz' is not a size";
    for command in ["server", "up"] {
        let message = stderr(&[command], &[zz]);
        assert!(message.starts_with(start), "{message}");
    }
    let listen = stderr(&["links"], &[("LARDER_LINKS_LISTEN", "x"), ("LARDER_SERVER_LISTEN", "y")]);
    assert!(
        listen.starts_with("error: invalid value 'x' for '--listen <ADDRESS> from LARDER_LINKS_LISTEN': "),
        "{listen}"
    );
    for flag in [&["--max-memory", "yy"][..], &["--max-memory=yy"]] {
        let of_flag = stderr(&[&["server"], flag].concat(), &[zz]);
        assert!(of_flag.starts_with("error: invalid value 'yy' for '--max-memory <SIZE>': "), "{of_flag}");
    }
}

#[test]
fn redis_address_that_is_none_names_the_accepted_forms() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    for (redis, shown) in [
        ("x", "x"),
        ("http://127.0.0.1:6379", "http://127.0.0.1:6379"),
        ("redis://ada:hunter2@h:99999", "redis://ada:***@h:99999"),
    ] {
        let ended = run(larder(["links", "--listen", FREE, "--redis", redis, "--database"]).arg(&database));
        let start = format!(
            "larder links: --redis: cannot build the cache: redis address {shown:?}: expected redis://HOST:PORT, "
        );
        assert!(ended.stderr.starts_with(&start) && !ended.stderr.contains("hunter2"), "{ended:?}");
        ended.assert_wrong_usage(ended.stderr.trim_end());
    }
}

#[test]
fn database_that_is_a_folder_is_reported_as_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ended = run(larder(["links", "--listen", FREE, "--database"]).arg(folder.path()));
    ended.assert_failure(&format!(
        "larder links: --database: cannot open the database {}: it is a folder, expected a file",
        folder.path().display()
    ));
}

/// The message was that the file could not be created because it exists.
#[test]
fn file_in_the_place_of_a_folder_is_reported_as_one() {
    let (_folder, file) = file_with("");
    let (name, expected) = (file.display(), "it is a file, expected a folder");
    let mut up = larder(["up", "--resp", FREE, "--http", FREE, "--admin", FREE, "--data"]);
    run(up.arg(&file)).assert_failure(&format!("larder up: cannot create {name}: {expected}"));
    let ended = run(larder(["links", "--listen", FREE, "--database"]).arg(file.join("links.db")));
    ended.assert_failure(&format!("larder links: --database: cannot create {name}: {expected}"));
}

#[test]
fn database_that_is_another_file_is_named() {
    let (_folder, file) = file_with(&"no database ".repeat(1_000));
    // Without the warning about a file that others can read.
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("it is our file");
    for words in [&["links", "--listen", FREE][..], &["links", "token", "list"]] {
        let ended = run(larder(words).arg("--database").arg(&file));
        let name = if words.contains(&"token") { "links token" } else { "links" };
        let start = format!("larder {name}: --database: cannot use the database {}: ", file.display());
        assert!(ended.stderr.starts_with(&start), "{ended:?} does not begin with {start:?}");
        ended.assert_failure(ended.stderr.trim_end());
    }
}

#[test]
fn unknown_log_level_is_a_warning() {
    let stderr = |level: &str| run(larder(["config"]).env("LARDER_LOG", level)).stderr;
    for wrong in ["bogus", "debgu", "info,bogus", "larder_links=loud"] {
        let message = stderr(wrong);
        let start = format!("larder: LARDER_LOG is {wrong:?}, expected off, error, warn, ");
        assert!(message.starts_with(&start) && message.lines().count() == 1, "{message}");
    }
    for right in
        ["debug", "INFO", "off", "", "larder_links=debug", "warn,larder_server=trace", "larder_server"]
    {
        assert_eq!(stderr(right), "", "{right}");
    }
}

#[test]
fn bench_names_the_program_that_measures() {
    for (words, command) in [
        (&["bench"][..], "list"),
        (&["bench", "run", "engine", "--quick"], "run engine --quick"),
        (&["bench", "--help"], "--help"),
    ] {
        let ended = run(&mut larder(words));
        let expected = format!("cargo run --release -p larder-bench -- {command}\n");
        assert!(ended.code == Some(2) && ended.stderr.ends_with(&expected), "{words:?}: {ended:?}");
        assert!(ended.stderr.starts_with("larder bench: ") && ended.stdout.is_empty(), "{ended:?}");
    }
}

#[test]
fn empty_value_is_quoted() {
    for (flags, message) in [
        (
            ["--database", ""],
            "database is \"\", expected sqlite: and the path of a file, or a URL such as postgres://user@host/name",
        ),
        (["--public-url", ""], "public_url is \"\", expected http:// or https:// and a host, without a path"),
        (
            ["--allow-hosts", "a,,b"],
            "allow_hosts is \"\", expected a host name or an address, without a scheme and a port",
        ),
    ] {
        let mut command = larder(["links", "--listen", FREE]);
        run(command.args(flags)).assert_wrong_usage(&format!("larder links: {message}"));
    }
}

#[test]
fn failure_is_one_line() {
    let missing = "/nonexistent/larder.toml";
    let message = "cannot read /nonexistent/larder.toml: No such file or directory (os error 2)";
    run(&mut larder(["server", "--config", missing])).assert_failure(&format!("larder server: {message}"));
    let import = run(&mut larder(["links", "import", "/nonexistent.csv"]));
    import.assert_failure(
        "larder links import: cannot open /nonexistent.csv: No such file or directory (os error 2)",
    );
    let postgres = run(&mut larder(["links", "--listen", FREE, "--database", "mysql://localhost/links"]));
    postgres.assert_wrong_usage(
        "larder links: database is mysql://localhost/links, expected sqlite: and the path of a file, or a URL such as postgres://user@host/name",
    );
}

#[test]
fn error_of_the_file_names_file_section_and_key() {
    for (command, text, expected) in [
        ("up", "\n[up]\nport = 1\n", "[up] port: unknown key; "),
        ("up", "[sever]\n", "[sever]: unknown section; did you mean [server]?"),
        (
            "server",
            "[server]\nmax_clients = 7\n",
            "[server] max_clients: unknown key; did you mean maxclients?",
        ),
        ("links", "[links]\nttl-second = 7\n", "[links] ttl-second: unknown key; did you mean ttl_seconds?"),
        ("up", "[links]\nlisten = 7\n", "[links] listen: invalid type: integer `7`"),
        (
            "up",
            "[server]\nlisten = \"x\"\n",
            "[server] listen: \"x\" is not an address; expected HOST:PORT, ",
        ),
        ("links", "[links]\ncache_bytes = \"64 apples\"\n", "[links] cache_bytes: '64 apples' is not a size"),
        ("links", "[links]\ncache_bytes = -5\n", "[links] cache_bytes: '-5' is not a size: write bytes, or "),
        (
            "server",
            "[server]\nmax_memory = -5\n",
            "[server] max_memory: '-5' is not a size: write bytes, or ",
        ),
        ("server", "[server]\n\nmaxclients 7\n", "line 3: "),
        ("server", "[server]\nrequirepass = 12345\n", "[server] requirepass: expected a text in quotes\n"),
    ] {
        let (_folder, file) = file_with(text);
        let ended = run(larder([command, "--config"]).arg(&file));
        let start = format!("larder {command}: {}: {expected}", file.display());
        assert!(ended.stderr.starts_with(&start), "{ended:?} does not begin with {start:?}");
        ended.assert_failure(ended.stderr.trim_end());
    }
}

#[test]
fn error_of_a_part_names_file_section_and_key() {
    let redis_is_missing = |key: &str| format!(": redis is missing, expected a URL, since {key} is set");
    for (section, text, expected) in [
        ("links", "public_url = \"x\"", ": public_url is x, expected http:// or https://".to_owned()),
        ("links", "allow_hosts = [\"a b\"]", ": allow_hosts is \"a b\", expected a host name".to_owned()),
        ("links", "trusted_proxies = [\"x\"]", ": trusted_proxies is x, expected an address".to_owned()),
        ("links", "country_database = \"/nonexistent\"", ": country_database is /nonexistent, ".to_owned()),
        ("links", "database = \"mysql://x\"", ": database is mysql://x, expected sqlite:".to_owned()),
        ("links", "database = \"/dev/null/x\"", " database: cannot create /dev/null: ".to_owned()),
        ("links", "redis = \"http://x\"", " redis: cannot build the cache: redis address".to_owned()),
        ("links", "redis_user = \"a\"", redis_is_missing("redis_user")),
        ("links", "redis_password_file = \"a\"", redis_is_missing("redis_password_file")),
        ("links", "redis_roots = \"a\"", redis_is_missing("redis_roots")),
        ("links", "redis_certificate = \"a\"", redis_is_missing("redis_certificate")),
        ("links", "redis_key = \"a\"", redis_is_missing("redis_key")),
        ("server", "max_memory = \"1kb\"", ": max_memory is 1024; it must be from 1048576 to ".to_owned()),
        ("server", "unixsocket = \"/nonexistent/s\"", " unixsocket: cannot bind /nonexistent/s: ".to_owned()),
        ("server", "admin_hosts = [\"a b\"]", ": admin_hosts is \"a b\", expected a host name".to_owned()),
        ("server", "listen = \"192.0.2.1:1\"", " listen: refusing to listen on 192.0.2.1:1 ".to_owned()),
        ("links", "listen = \"192.0.2.1:1\"", " listen: cannot bind 192.0.2.1:1: ".to_owned()),
        (
            "links",
            "listen = \"127.0.0.1:0\"\nadmin = \"192.0.2.1:1\"",
            " admin: cannot bind 192.0.2.1:1: ".to_owned(),
        ),
        (
            "up",
            "resp = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nadmin = \"192.0.2.1:1\"",
            " admin: cannot bind 192.0.2.1:1: ".to_owned(),
        ),
    ] {
        let (_folder, file) = file_with(&format!("[{section}]\n{text}\n"));
        let is_address = text.contains("listen = ") || text.contains("admin = ");
        // An address of a part that runs alone is no address of `up`.
        let commands = if is_address { &[section][..] } else { &["up", section] };
        for &command in commands {
            let mut larder = larder([command, "--config"]);
            larder.arg(&file);
            if !is_address {
                let variables = ["UP_RESP", "UP_HTTP", "UP_ADMIN", "SERVER_LISTEN", "LINKS_LISTEN"];
                larder.envs(variables.map(|name| (format!("LARDER_{name}"), FREE)));
            }
            let ended = run(&mut larder);
            let start = format!("larder {command}: {}: [{section}]{expected}", file.display());
            assert!(ended.stderr.starts_with(&start), "{ended:?} does not begin with {start:?}");
            ended.assert_failure(ended.stderr.trim_end());
        }
    }
}

#[test]
fn error_of_a_part_names_the_variable_or_the_flag_instead_of_the_file() {
    let (_folder, file) = file_with("[links]\npublic_url = \"x\"\n[server]\nmaxclients = 5\n");
    let mut command = larder(["links", "--listen", FREE, "--config"]);
    let ended = run(command.arg(&file).env("LARDER_LINKS_PUBLIC_URL", "y"));
    ended.assert_wrong_usage(
        "larder links: LARDER_LINKS_PUBLIC_URL: public_url is y, expected http:// or https:// and a host, without a path",
    );
    for (variable, message) in [
        ("LARDER_SERVER_THREADS", "threads is 0; it must be from 1 to 256"),
        ("LARDER_SERVER_MAXCLIENTS", "maxclients is 0; it must be from 1 to 1000000"),
    ] {
        for command in ["server", "up"] {
            let ended = run(larder([command, "--config"]).arg(&file).env(variable, "0"));
            ended.assert_wrong_usage(&format!("larder {command}: {variable}: {message}"));
        }
    }
    let socket = run(&mut larder(["server", "--listen", FREE, "--unixsocket", "/nonexistent/s"]));
    socket.assert_failure(
        "larder server: --unixsocket: cannot bind /nonexistent/s: No such file or directory (os error 2)",
    );
}

#[test]
fn text_of_a_flag_or_variable_that_cannot_be_parsed_is_wrong_usage() {
    let variable = |command: &str, name: &str, value: &str| run(larder([command]).env(name, value));
    let admin = "error: invalid value 'foo' for '--admin <URL> from LARDER_ADMIN': expected http://HOST:PORT";
    let ended = variable("stats", "LARDER_ADMIN", "foo");
    assert!(ended.code == Some(2) && ended.stderr.starts_with(admin), "{ended:?}");
    variable("links", "LARDER_LINKS_TRUSTED_PROXIES", "x").assert_wrong_usage(
        "larder links: LARDER_LINKS_TRUSTED_PROXIES: trusted_proxies is x, expected an address or a range such as 10.0.0.0/8",
    );
    variable("up", "LARDER_ADMIN_HOSTS", "a b").assert_wrong_usage(
        "larder up: LARDER_ADMIN_HOSTS: admin_hosts is \"a b\", expected a host name or an address, without a scheme and a port",
    );
    for command in ["up", "server", "links"] {
        run(&mut larder([command, "--admin-hosts", "a b"])).assert_wrong_usage(&format!(
            "larder {command}: admin_hosts is \"a b\", expected a host name or an address, without a scheme and a port"
        ));
    }
    run(&mut larder(["links", "token", "list", "--database", "mysql://x"])).assert_wrong_usage(
        "larder links token: database is mysql://x, expected sqlite: and the path of a file, or a URL such as postgres://user@host/name",
    );
}

#[test]
fn value_out_of_range_is_an_error_before_anything_starts() {
    for (section, key, value, range) in [
        ("server", "maxclients", "0", "from 1 to 1000000"),
        ("server", "tcp_keepalive_secs", "32768", "from 0 to 32767"),
        ("server", "max_client_memory", "0", "from 1048576"),
        ("links", "max_connections", "1000001", "expected 1 to 1000000"),
        ("links", "session_seconds", "59", "expected 60 to 2592000"),
    ] {
        let (_folder, file) = file_with(&format!("[{section}]\n{key} = {value}\n"));
        for command in ["up", section] {
            let ended = run(larder([command, "--config"]).arg(&file));
            let start = format!("larder {command}: {}: [{section}]: {key} is {value}", file.display());
            assert!(ended.stderr.starts_with(&start) && ended.stderr.contains(range), "{ended:?}");
            ended.assert_failure(ended.stderr.trim_end());
        }
    }
    let ended = run(&mut larder(["server", "--maxclients", "0", "--listen", FREE]));
    ended.assert_wrong_usage("larder server: maxclients is 0; it must be from 1 to 1000000");
}

#[test]
fn flags_and_environment_reach_the_parts_of_up() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let mut command = larder(["up", "--max-memory", "7mb", "--public-url", "https://s.example"]);
    command.env("LARDER_SERVER_MAX_MEMORY", "9mb").env("LARDER_SERVER_MAXCLIENTS", "77");
    let up = Up::start_as(command, &data);
    assert!(resp::command(up.resp, "INFO memory").contains("maxmemory:7340032\r\n"), "the flag");
    assert!(resp::command(up.resp, "INFO clients").contains("maxclients:77\r\n"), "the environment");
    // Under another host name, the API requires a token.
    assert_eq!(get(up.http, "/api/links").status, 401);
    up.stop();
    let wrong = run(&mut larder(["up", "--max-memory", "99999999999gb"]));
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("'99999999999gb' is too large"), "{wrong:?}");
}

#[test]
fn flag_takes_precedence_over_environment_and_environment_over_file() {
    let (_folder, file) = file_with("[server]\nmaxclients = 71\nlisten = \"127.0.0.1:0\"\n");
    let maxclients = |command: &mut Command| {
        let mut process = Process::start(command);
        let address = process.await_line("larder server listens on ").parse().expect("an address");
        let reply = resp::command(address, "INFO clients");
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
        "the path of the file can come from the environment"
    );
}

#[test]
fn cluster_mode_is_set_and_unset_by_flag_variable_and_file() {
    let (_folder, file) = file_with("[server]\ncluster_mode = true\nlisten = \"127.0.0.1:0\"\n");
    let is_cluster = |variable: &str, words: &[&str]| {
        let mut command = larder(["server", "--listen", FREE]);
        let mut process = Process::start(command.env("LARDER_SERVER_CLUSTER_MODE", variable).args(words));
        let address = process.await_line("larder server listens on ").parse().expect("an address");
        let reply = resp::command(address, "INFO cluster");
        reply.contains("cluster_enabled:1\r\n")
    };
    let file = ["--config", file.to_str().expect("a path")];
    for (variable, words, expected) in [
        ("true", &[][..], true),
        ("false", &[], false),
        ("false", &file, false),
        ("false", &["--cluster-mode"], true),
        ("true", &["--cluster-mode=false"], false),
    ] {
        assert_eq!(is_cluster(variable, words), expected, "{variable} {words:?}");
    }
    let (_server, address) = start_server(file);
    assert!(command(address, "INFO cluster").contains("cluster_enabled:1\r\n"), "the file");
    let (_server, address) = start_server([""; 0]);
    assert!(command(address, "INFO cluster").contains("cluster_enabled:0\r\n"), "the default");
    let wrong = run(&mut larder(["server", "--cluster-mode=maybe"]));
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("'maybe' for '--cluster-mode"), "{wrong:?}");
}

#[test]
fn password_from_the_file_is_required_and_used_by_up() {
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
fn printed_reference_is_a_valid_configuration() {
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
fn version_and_help_are_printed() {
    let version = run(&mut larder(["--version"]));
    assert_eq!((version.code, version.stdout), (Some(0), format!("larder {}\n", env!("CARGO_PKG_VERSION"))));
    let help = run(&mut larder(["--help"]));
    assert!(help.stdout.starts_with("A cache for web services: "), "{}", help.stdout);
    for command in ["up", "server", "links", "config", "completions"] {
        assert!(help.stdout.lines().any(|line| line.trim_start().starts_with(command)), "{}", help.stdout);
    }
    for command in ["up", "server", "links"] {
        let help = run(&mut larder([command, "--help"]));
        assert!(help.code == Some(0) && help.stdout.contains("[env: LARDER_"), "{}", help.stdout);
    }
}

#[test]
fn completions_work_in_bash() {
    let Some(bash) = program("bash") else { return };
    let script = run(&mut larder(["completions", "bash"])).stdout;
    let (_folder, file) = file_with(&script);
    for (words, completed) in [
        ("larder ser", "server"),
        ("larder server --max-memory-policy volatile-l", "volatile-lfu volatile-lru"),
    ] {
        let completion = r#". "$1"; read -ra COMP_WORDS <<< "$2"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _larder larder "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[@]}""#;
        let mut command = Command::new(&bash);
        let ended = run(command.args(["--norc", "-c", completion, "bash"]).arg(&file).arg(words));
        assert_eq!((ended.code, ended.stdout.trim()), (Some(0), completed), "{}", ended.stderr);
    }
}

fn file_with(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("larder.toml");
    std::fs::write(&file, text).expect("the file can be written");
    (folder, file)
}

#[test]
fn config_check_names_what_is_wrong_and_starts_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("larder.toml");
    let path = file.display().to_string();
    let check = |text: &str| {
        std::fs::write(&file, text).expect("a file");
        run(&mut larder(["config", "check", &path]))
    };
    let valid = check("[server]\nmaxclients = 7\n\n[proxy]\norigin = [\"http://127.0.0.1:1\"]\n");
    assert_eq!((valid.code, valid.stdout), (Some(0), format!("{path} is valid\n")));
    check("[server]\nmaxclients = 0\n").assert_failure(&format!(
        "larder config check: {path}: [server]: maxclients is 0; it must be from 1 to 1000000"
    ));
    check("[server]\nmax_clients = 7\n").assert_failure(&format!(
        "larder config check: {path}: [server] max_clients: unknown key; did you mean maxclients?"
    ));
    // What a start refuses, also where a part is started alone.
    check("[links]\ndatabase = \"mysql://x\"\n").assert_failure(&format!(
        "larder config check: {path}: [links]: database is mysql://x, expected sqlite: and the path of a file, or a URL such as \
         postgres://user@host/name"
    ));
    check("[proxy]\norigin = [\"x\"]\n").assert_failure(&format!(
        "larder config check: {path}: [proxy]: origin is x, expected http://HOST:PORT, https://HOST:PORT or \
         h2c://HOST:PORT, without a path"
    ));
    run(&mut larder(["config", "check"])).assert_wrong_usage("larder config check: name the file to check");
}
