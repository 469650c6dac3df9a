//! `larder links import`: a row is imported once, invalid rows are listed, and the output is suitable for a log file.

use crate::http::{get, post};
use crate::process::{Ended, FREE, Process, Up, larder, run, start_links};
use crate::shortener::{count, follow};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Three valid rows, four invalid rows, and valid syntax that looks invalid.
const ROWS: &str = "name,url\n\
    First,https://example.com/first\n\
    \"Second, with a comma\",https://example.com/second?a=1&b=\"2\"\n\
    \n\
    No scheme,example.com/third\n\
    Files,ftp://files.example.com/\n\
    Too,many,columns\n\
    Lonely\n\
    Grüße,https://example.com/grüße\n";

#[test]
fn import_into_a_running_server_creates_each_link_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start(&folder.path().join("data"));
    let file = file_in(folder.path(), ROWS);
    let server = format!("http://{}", up.http);

    let first = import(&file, "--server", &server);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_counts(&first, "3 links created, 0 existed, 4 rows invalid");
    let invalid: Vec<&str> = first.stdout.lines().skip(1).collect();
    for (line, number) in invalid.iter().zip([5, 6, 7, 8]) {
        assert!(line.starts_with(&format!("  line {number}: ")), "{invalid:?}");
    }
    assert_eq!(invalid.len(), 4, "{invalid:?}");
    assert_eq!(count(up.http), 3);

    let again = import(&file, "--server", &server);
    assert_counts(&again, "0 links created, 3 existed, 4 rows invalid");
    assert_eq!(count(up.http), 3);

    let list = get(up.http, "/api/links?q=comma").json();
    let link = &list["links"][0];
    assert_eq!(link["title"], "Second, with a comma");
    let target = follow(up.http, link["slug"].as_str().expect("a slug"));
    assert!(target.starts_with("https://example.com/second?a=1&b="), "{target}");
    up.stop();
}

#[test]
fn import_into_a_database_needs_no_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    let rows: String = (0..2_500).map(|n| format!("Page {n},https://example.com/{n}\n")).collect();
    let file = file_in(folder.path(), &rows);
    let address = format!("sqlite:{}", database.display());
    assert_counts(&import(&file, "--database", &address), "2500 links created, 0 existed, 0 rows invalid");
    assert_counts(&import(&file, "--database", &address), "0 links created, 2500 existed, 0 rows invalid");

    let (_links, http) = start_links(&database, None);
    let found = get(http, "/api/links?q=Page+2499").json();
    let slug = found["links"][0]["slug"].as_str().expect("a slug").to_owned();
    assert_eq!(follow(http, &slug), "https://example.com/2499");
}

#[test]
fn import_without_a_valid_row_fails() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = file_in(folder.path(), "what is this\nnot links at all\n");
    let address = format!("sqlite:{}", folder.path().join("links.db").display());
    let ended = import(&file, "--database", &address);
    ended.assert_failure(&format!("larder links import: {} has no valid row", file.display()));
    assert!(ended.stdout.contains("2 rows invalid"), "{ended:?}");
}

#[test]
fn import_of_unknown_columns_creates_nothing_and_names_the_format_that_reads_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = file_in(
        folder.path(),
        "keyword,url,title,timestamp,ip,clicks\nprinted,https://example.com/,A,2024-01-02,192.0.2.1,3\n",
    );
    let database = folder.path().join("links.db");
    let address = format!("sqlite:{}", database.display());
    import(&file, "--database", &address).assert_failure(
        "larder links import: the columns keyword, timestamp, ip, clicks are unknown; the columns of the format larder \
         are name, url, title, slug, tags, expires_at, max_visits, forward_query, crawlable, created_at, visits; \
         --format yourls reads this file",
    );
    let ended = run(larder(["links", "import", "--format", "yourls", "--database", &address]).arg(&file));
    assert_counts(&ended, "1 links created, 0 existed, 0 rows invalid");
    let (_links, http) = start_links(&database, None);
    assert_eq!(follow(http, "printed"), "https://example.com/");
}

#[test]
fn import_reads_the_configuration_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_links, http) = start_links(&folder.path().join("links.db"), None);
    let rows = file_in(folder.path(), ROWS);
    let config = folder.path().join("larder.toml");
    let import = |text: &str, more: &[&str]| {
        std::fs::write(&config, text).expect("the file can be written");
        run(larder(["links", "import"]).arg(&rows).arg("--config").arg(&config).args(more))
    };
    let own = import(&format!("[links]\nlisten = \"{http}\"\n"), &[]);
    assert_counts(&own, "3 links created, 0 existed, 4 rows invalid");
    let of_up = import(&format!("[up]\nhttp = \"{http}\"\n"), &[]);
    assert_counts(&of_up, "0 links created, 3 existed, 4 rows invalid");
    assert_eq!(count(http), 3);

    // The options of the database are those of the file.
    let small = folder.path().join("small.db");
    let address = format!("sqlite:{}", small.display());
    let refused = import("[links]\nmax_database_bytes = 4096\n", &["--database", &address]);
    let start = format!("larder links import: {}: [links]: max_database_bytes is 4096", config.display());
    assert!(refused.stderr.starts_with(&start) && !small.exists(), "{refused:?}");
}

#[test]
fn import_into_a_database_refuses_the_addresses_of_the_configured_shortener() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = "name,url\n\
        Public,https://s.example/a\n\
        Allowed,http://links.internal/a\n\
        Listener,http://localhost:7001/a\n\
        Of up,http://127.0.0.1:7002/a\n\
        Default,http://127.0.0.1:8080/a\n";
    let rows = file_in(folder.path(), rows);
    let import = |database: &str, text: &str, variables: &[(&str, &str)]| {
        let config = folder.path().join("larder.toml");
        std::fs::write(&config, text).expect("the file can be written");
        let mut command = larder(["links", "import", "--database"]);
        command.arg(folder.path().join(database)).arg(&rows).arg("--config").arg(&config);
        let ended = run(command.envs(variables.iter().copied()));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let lines = ended.stdout.lines().filter(|line| line.ends_with(": url points to this service"));
        lines
            .map(|line| line.trim_start().split(':').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let file = "[up]\nhttp = \"127.0.0.1:7002\"\n[links]\nlisten = \"127.0.0.1:7001\"\n\
        public_url = \"https://s.example\"\nallow_hosts = [\"links.internal\"]\n";
    assert_eq!(import("a.db", file, &[]), ["line 2", "line 3", "line 4", "line 5"]);
    assert_eq!(import("b.db", "", &[]), ["line 6"]);
    let variables = [
        ("LARDER_LINKS_PUBLIC_URL", "https://s.example"),
        ("LARDER_LINKS_ALLOW_HOSTS", "links.internal"),
        ("LARDER_LINKS_LISTEN", "127.0.0.1:7001"),
    ];
    assert_eq!(import("c.db", "", &variables), ["line 2", "line 3", "line 4"]);
}

#[test]
fn import_of_a_folder_names_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ended = import(folder.path(), "--server", "http://127.0.0.1:1");
    let name = folder.path().display();
    ended
        .assert_failure(&format!("larder links import: cannot read {name}: it is a folder, expected a file"));
}

#[test]
fn import_of_a_json_object_names_the_accepted_forms() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = file_in(folder.path(), r#"{"links":[]}"#);
    let ended = run(larder(["links", "import", "--database"]).arg(folder.path().join("links.db")).arg(file));
    ended.assert_failure(
        "larder links import: the file is a JSON object; expected a JSON array or CSV with the columns name and url",
    );
}

#[test]
fn import_of_a_file_with_a_late_fault_keeps_and_tells_what_is_before_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let address = format!("sqlite:{}", folder.path().join("links.db").display());
    let rows: Vec<String> = (0..1_500).map(|n| format!(r#"{{"url": "https://example.com/{n}"}}"#)).collect();
    let file = file_in(folder.path(), &format!("[\n{}\n{{\"url\": \n", rows.join(",\n")));
    let ended = import(&file, "--database", &address);
    let (reason, counts) = ended.stderr.split_once("; before that ").expect("the counts");
    assert!(reason.starts_with("larder links import: cannot read the file as a JSON array: "), "{ended:?}");
    assert!(reason.contains("line 1502 "), "{ended:?}");
    assert!(counts.starts_with("1500 links were created and 0 existed: "), "{ended:?}");
    assert_eq!(ended.code, Some(1));

    let mended = file_in(folder.path(), &format!("[{}]", rows.join(",\n")));
    assert_counts(&import(&mended, "--database", &address), "0 links created, 1500 existed, 0 rows invalid");
}

fn import(file: &Path, flag: &str, destination: &str) -> Ended {
    let ended = run(larder(["links", "import"]).arg(file).args([flag, destination]));
    // The output is no terminal: no progress bar and no colours.
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains(['\r', '\x1b']), "{text:?}");
    }
    ended
}

#[track_caller]
fn assert_counts(ended: &Ended, counts: &str) {
    let first = ended.stdout.lines().next().unwrap_or_default();
    assert!(first.ends_with(counts), "{ended:?}");
    assert_eq!(ended.stderr, "");
}

fn file_in(folder: &Path, rows: &str) -> PathBuf {
    let file = folder.join("links.csv");
    std::fs::write(&file, rows).expect("the file can be written");
    file
}

#[test]
fn export_and_backup_work_while_a_shortener_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    let (_shortener, address) = start_links(&database, None);
    let link = json!({ "url": "https://example.com/", "slug": "kept", "tags": ["a", "b"], "title": "=1" });
    assert_eq!(post(address, "/api/links", &link).status, 201);

    let links = |words: &[&str], file: &Path| {
        run(larder(["links"]).args(words).arg(file).arg("--database").arg(&database))
    };
    let exported = folder.path().join("links.csv");
    assert_eq!(links(&["export"], &exported).code, Some(0));
    assert_eq!(exported.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let copy = folder.path().join("copy.db");
    assert_eq!(links(&["backup"], &copy).code, Some(0));
    assert_eq!(copy.metadata().expect("a file").permissions().mode() & 0o777, 0o600);

    // Both have the link: the copy as a database, the text after an import.
    let (_of_copy, copied) = start_links(&copy, None);
    assert_eq!(follow(copied, "kept"), "https://example.com/");
    let fresh = folder.path().join("fresh.db");
    let imported = import(&exported, "--database", &format!("sqlite:{}", fresh.display()));
    assert_counts(&imported, "1 links created, 0 existed, 0 rows invalid");
    let text = |database: &Path| {
        let mut command = larder(["links", "export", "--format", "json", "--database"]);
        run(command.arg(database)).stdout
    };
    let row = |database: &Path| {
        serde_json::from_str::<serde_json::Value>(&text(database)).expect("JSON")[0].clone()
    };
    for field in ["slug", "url", "title", "tags"] {
        assert_eq!(row(&fresh)[field], row(&database)[field], "{field}");
    }
    let missing = folder.path().join("missing.db");
    let refused = run(larder(["links", "export", "--database"]).arg(&missing));
    refused.assert_failure(&format!("larder links export: there is no database at {}", missing.display()));
    for (word, reason) in [("export", "cannot export to"), ("backup", "cannot copy the database to")] {
        let refused = links(&[word], &database);
        let name = database.display();
        let reason = format!("larder links {word}: {reason} {name}: it is the database or a log file of it");
        refused.assert_failure(&reason);
    }
    assert_eq!(follow(address, "kept"), "https://example.com/");
    let unwritable = folder.path().join("no/such/folder.db");
    let failed = links(&["backup"], &unwritable);
    assert!(
        failed.code == Some(1)
            && failed.stderr.starts_with("larder links backup: cannot copy the database to"),
        "{failed:?}"
    );
}

#[test]
fn database_file_moves_into_postgres_and_is_served_from_there() {
    let Some(server) = larder_testkit::start_postgres() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, url) = (folder.path().join("links.db"), server.url(larder_testkit::POSTGRES_USER, "postgres"));
    let (mut shortener, address) = start_links(&file, None);
    let link = json!({ "url": "https://example.com/", "slug": "kept" });
    assert_eq!(post(address, "/api/links", &link).status, 201);
    follow(address, "kept");
    let copy = || {
        let from = format!("sqlite:{}", file.display());
        run(&mut larder(["links", "copy", "--from", from.as_str(), "--to", &url]))
    };
    let in_use = format!(
        "larder links copy: the database {} is in use by another program; stop it first",
        file.display()
    );
    copy().assert_failure(&in_use);
    shortener.running().terminate();
    assert_eq!(shortener.end().code, Some(0));
    assert_eq!(copy().stdout, "copied 1 links, 1 visits and 0 tokens to postgres:///postgres\n");
    copy().assert_failure(
        "larder links copy: the database postgres:///postgres is not empty; a copy needs an empty one",
    );

    let start = || {
        let mut process =
            Process::start(&mut larder(["links", "--listen", FREE, "--database", url.as_str()]));
        let address = process.await_line("larder links listens on http://");
        (process, address.trim_end_matches('/').parse().expect("an address"))
    };
    let ((mut one, first), (_other, second)) = (start(), start());
    assert_eq!(follow(first, "kept"), "https://example.com/");
    one.running().terminate();
    assert_eq!(one.end().code, Some(0));
    assert_eq!(crate::shortener::visits(second, "kept"), 2);
    let run_on = |words: &[&str]| run(larder(["links"]).args(words).args(["--database", url.as_str()]));
    assert!(run_on(&["token", "add"]).stdout.starts_with("larder_"));
    assert!(run_on(&["export"]).stdout.contains("kept,https://example.com/"));
    let refused = run_on(&["backup", "copy.db"]);
    refused
        .assert_failure("larder links backup: postgres:///postgres is not a file; back it up with pg_dump --format=custom --file=FILE URL");
}
