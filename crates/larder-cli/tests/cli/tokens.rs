//! Tokens of the URL shortener: a command creates, lists and removes them; the API requires one beyond loopback.

use crate::http::{get, request};
use crate::process::{Process, Up, larder, run};
use larder_testkit::until;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const JSON: (&str, &str) = ("Content-Type", "application/json");
const LINK: &str = r#"{"url": "https://example.com/?secretquery=1", "slug": "short"}"#;

fn token<S: AsRef<OsStr>>(database: &Path, words: &[S]) -> crate::process::Ended {
    let mut command = larder(["links", "token"]);
    command.args(words).env("LARDER_LINKS_DATABASE", database);
    run(&mut command)
}

/// A shortener that listens on all addresses, and its loopback address.
pub(crate) fn start_beyond_loopback(database: &Path) -> (Process, SocketAddr) {
    let mut command = larder(["links", "--listen", "0.0.0.0:0", "--database"]);
    command.arg(database).env("LARDER_LOG", "trace");
    let mut process = Process::start(&mut command);
    let address: SocketAddr = process
        .await_line("larder links listens on http://")
        .trim_end_matches('/')
        .parse()
        .expect("an address");
    (process, SocketAddr::from(([127, 0, 0, 1], address.port())))
}

/// A file without a database of its own means that of its `larder up`.
#[test]
fn token_of_a_file_with_a_data_folder_is_in_the_database_there() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, data) = (folder.path().join("larder.toml"), folder.path().join("data"));
    std::fs::write(&file, format!("[up]\ndata = {data:?}\n")).expect("a file");
    let mut command = larder(["links", "token", "add", "--config"]);
    let added = run(command.arg(&file).current_dir(folder.path()));
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(data.join("links.db").exists() && !folder.path().join("larder-data").exists(), "{added:?}");
}

#[test]
fn token_can_be_created_listed_and_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    let missing = token(&database, &["list"]);
    missing.assert_failure(&format!("larder links token: there is no database at {}", database.display()));

    let added = token(&database, &["add", "--name", "a laptop", "--scope", "read"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let secret = added.stdout.strip_suffix('\n').expect("one line");
    assert!(secret.starts_with("larder_") && secret.len() == 50, "{secret}");
    assert!(!added.stderr.contains(secret));
    let remark =
        format!("created token 1 with the scope read in {}; it cannot be shown again", database.display());
    assert_eq!(added.stderr.trim_end(), remark);
    assert_eq!(token(&database, &["add"]).code, Some(0));

    let listed = token(&database, &["list"]).stdout;
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["ID", "SCOPE", "CREATED", "NAME"]);
    assert_eq!((lines[1][0], lines[1][1], &lines[1][3..]), ("1", "read", &["a", "laptop"][..]));
    assert_eq!((lines[2][0], lines[2][1]), ("2", "write"));
    assert!(!listed.contains(secret));

    assert_eq!(token(&database, &["remove", "1"]).code, Some(0));
    token(&database, &["remove", "1"]).assert_failure("larder links token: there is no token 1");
    assert_eq!(token(&database, &["add", "--scope", "admin"]).code, Some(2));
    assert_eq!(token(&database, &["add", "--name", "\u{1b}[2J"]).code, Some(2));
}

#[test]
fn printed_command_creates_a_token_that_works_and_logs_have_no_secrets() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("it's here").join("links.db");
    let (mut process, http) = start_beyond_loopback(&database);
    let hint = process.await_line("the API needs a token; make one with: ");
    let ask = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        request(http, method, path, headers, body).expect("an answer")
    };
    for (method, path, body) in
        [("GET", "/api/links", ""), ("POST", "/api/links", LINK), ("DELETE", "/api/links/short", "{}")]
    {
        let refused = ask(method, path, &[JSON], body);
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, Some("Bearer")),
            "{method} {path}"
        );
    }

    // Run the line in a shell, as a user who pastes it.
    let binary = Path::new(env!("CARGO_BIN_EXE_larder"));
    let path = format!(
        "{}:{}",
        binary.parent().expect("a folder").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let added = run(Command::new("sh").args(["-c", &hint]).env("PATH", path));
    assert_eq!(added.code, Some(0), "{hint}: {added:?}");
    let secret = added.stdout.trim_end().to_owned();
    let bearer = format!("Bearer {secret}");
    let authorized = [JSON, ("Authorization", &*bearer)];
    assert_eq!(ask("POST", "/api/links", &authorized, LINK).status, 201);
    assert_eq!(get(http, "/short").status, 302);
    assert_eq!(ask("GET", "/api/links?q=secretsearch", &authorized, "").status, 200);
    let session = ask("POST", "/api/session", &[JSON], &format!(r#"{{"token": "{secret}"}}"#));
    assert_eq!(session.status, 200, "{session:?}");
    let cookie =
        session.header("set-cookie").expect("a cookie").split(';').next().expect("a pair").to_owned();
    assert_eq!(ask("GET", "/api/links", &[("Cookie", &cookie)], "").status, 200);

    // A foreign host name, a wrong token, an address with credentials.
    assert_eq!(ask("GET", "/api/links", &[("Host", "evil.example"), authorized[1]], "").status, 403);
    assert_eq!(ask("GET", "/api/links", &[("Authorization", "Bearer larder_wrongsecret")], "").status, 401);
    let credentials = r#"{"url": "https://me:secretpassword@example.com/"}"#;
    assert_eq!(ask("POST", "/api/links", &authorized, credentials).status, 422);

    assert_eq!(token(&database, &["remove", "1"]).code, Some(0));
    until("the token and its session end", || {
        let statuses = [&authorized[1], &("Cookie", &*cookie)]
            .map(|header| ask("GET", "/api/links", &[*header], "").status);
        (statuses == [401, 401]).then_some(())
    });
    process.running().terminate();
    let ended = process.end().assert_clean_stop();
    let session = cookie.split_once('=').expect("a pair").1;
    for hidden in
        [&*secret, session, "secretquery", "secretsearch", "secretpassword", "wrongsecret", "127.0.0.1"]
    {
        assert!(!ended.stderr.contains(hidden), "{hidden} is in the log: {}", ended.stderr);
    }
    let mode = |name: &str| {
        let file = database.with_file_name(name);
        std::fs::metadata(file).expect("it exists").permissions().mode() & 0o777
    };
    assert_eq!(mode("links.db"), 0o600);
}

#[test]
fn up_creates_one_token_in_a_private_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let mut up = Up::start(&data);
    let file = data.join("links-token");
    let path = up.process.await_line("  links token    ");
    assert_eq!(Path::new(&path), file);
    assert_eq!(std::fs::metadata(&file).expect("it exists").permissions().mode() & 0o777, 0o600);
    let secret = std::fs::read_to_string(&file).expect("text");
    let bearer = format!("Bearer {}", secret.trim_end());
    // On loopback the API needs no token, except for requests that a proxy forwards.
    let forwarded = ("X-Forwarded-For", "192.0.2.1");
    assert_eq!(get(up.http, "/api/links").status, 200);
    let status = |headers: &[(&str, &str)]| {
        request(up.http, "GET", "/api/links", headers, "").expect("an answer").status
    };
    assert_eq!(status(&[forwarded]), 401);
    assert_eq!(status(&[forwarded, ("Authorization", &bearer)]), 200);
    up.stop();

    let again = Up::start(&data);
    assert_eq!(std::fs::read_to_string(&file).expect("text"), secret);
    assert_eq!(token(&data.join("links.db"), &["list"]).stdout.lines().count(), 2);
    again.stop();

    assert_eq!(token(&data.join("links.db"), &["remove", "1"]).code, Some(0));
    let mut unknown = Up::start(&data);
    let announced = unknown.process.await_line("  links token    ");
    assert!(
        announced.ends_with("links-token (not valid any more: remove the file to get a new one)"),
        "{announced}"
    );
    unknown.stop();
}

#[test]
fn import_into_a_server_beyond_loopback_requires_a_token() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    let (_process, http) = start_beyond_loopback(&database);
    let file = folder.path().join("links.csv");
    std::fs::write(&file, "name,url\nA,https://a.example/\n").expect("the file can be written");
    let import = |secret: Option<&str>| {
        let mut command = larder(["links", "import", "--server", &format!("http://{http}")]);
        command.arg(&file);
        if let Some(secret) = secret {
            command.env("LARDER_LINKS_TOKEN", secret);
        }
        run(&mut command)
    };
    let refused = import(None);
    assert!(refused.code == Some(1) && refused.stderr.contains("401 Unauthorized"), "{refused:?}");
    let secret = token(&database, &["add"]).stdout;
    let accepted = import(Some(secret.trim_end()));
    assert!(accepted.code == Some(0) && accepted.stdout.contains("1 links created"), "{accepted:?}");
}

#[test]
fn allowed_hosts_come_from_flag_environment_and_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("larder.toml");
    std::fs::write(&file, "[links]\nallow_hosts = [\"file.internal\"]\n").expect("the file can be written");
    // 401 means that the host is allowed and a token is missing; 403 that the host is not allowed.
    let status = |host: &str, words: &[&str], variable: Option<&str>| {
        let mut command = larder(["links", "--listen", "127.0.0.1:0", "--config"]);
        command.arg(&file).arg("--database").arg(folder.path().join("links.db")).args(words);
        if let Some(value) = variable {
            command.env("LARDER_LINKS_ALLOW_HOSTS", value);
        }
        let mut process = Process::start(&mut command);
        let address = process.await_line("larder links listens on http://");
        let address: SocketAddr = address.trim_end_matches('/').parse().expect("an address");
        request(address, "GET", "/api/links", &[("Host", host)], "").expect("a response").status
    };
    assert_eq!(status("file.internal", &[], None), 401);
    assert_eq!(status("flag.internal", &[], None), 403);
    let variable = Some("other.internal,variable.internal");
    assert_eq!(status("variable.internal", &[], variable), 401);
    assert_eq!(status("file.internal", &[], variable), 403);
    assert_eq!(status("flag.internal", &["--allow-hosts", "flag.internal"], variable), 401);
}

#[test]
fn up_takes_allowed_hosts_and_proxies_from_flag_and_environment() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let status = |host: &str, words: &[&str], variable: Option<(&str, &str)>| {
        let mut command = larder(["up"]);
        command.args(words).envs(variable);
        let up = Up::start_as(command, &data);
        request(up.http, "GET", "/api/links", &[("Host", host)], "").expect("a response").status
    };
    let hosts = Some(("LARDER_LINKS_ALLOW_HOSTS", "variable.internal"));
    assert_eq!(status("flag.internal", &[], None), 403);
    assert_eq!(status("flag.internal", &["--allow-hosts", "flag.internal"], hosts), 401);
    assert_eq!(status("variable.internal", &[], hosts), 401);
    // Behind a proxy nobody is local.
    assert_eq!(status("localhost", &[], None), 200);
    assert_eq!(status("localhost", &["--trusted-proxies", "10.0.0.0/8"], None), 401);
    assert_eq!(status("localhost", &[], Some(("LARDER_LINKS_TRUSTED_PROXIES", "10.0.0.0/8"))), 401);
}

#[test]
fn up_refuses_an_option_of_redis_without_redis() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("larder.toml");
    std::fs::write(&file, "[links]\nredis_roots = \"roots.pem\"\n").expect("the file can be written");
    let mut command =
        larder(["up", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.arg("--config").arg(&file).arg("--data").arg(folder.path().join("data"));
    run(&mut command).assert_failure(&format!(
        "larder up: {}: [links]: redis is missing, expected a URL, since redis_roots is set",
        file.display()
    ));
}
