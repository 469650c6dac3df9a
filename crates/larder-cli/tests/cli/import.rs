//! `larder links import`: rows go in once, odd ones are named, and the output suits a log file.

use crate::http::get;
use crate::process::{Ended, Up, larder, run, start_links};
use crate::shortener::{count, follow};
use std::path::{Path, PathBuf};

/// Three links and four mistakes, among things that only look like mistakes.
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
fn rows_become_links_of_a_running_server_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start(&folder.path().join("data"));
    let file = file_in(folder.path(), ROWS);
    let server = format!("http://{}", up.http);

    let first = import(&file, "--server", &server);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_counts(&first, "3 links made, 0 existed, 4 rows wrong");
    let wrong: Vec<&str> = first.stdout.lines().skip(1).collect();
    for (line, number) in wrong.iter().zip([5, 6, 7, 8]) {
        assert!(line.starts_with(&format!("  line {number}: ")), "{wrong:?}");
    }
    assert_eq!(wrong.len(), 4, "{wrong:?}");
    assert_eq!(count(up.http), 3);

    let again = import(&file, "--server", &server);
    assert_counts(&again, "0 links made, 3 existed, 4 rows wrong");
    assert_eq!(count(up.http), 3);

    let list = get(up.http, "/api/links?q=comma").json();
    let link = &list["links"][0];
    assert_eq!(link["title"], "Second, with a comma");
    let target = follow(up.http, link["slug"].as_str().expect("a slug"));
    assert!(target.starts_with("https://example.com/second?a=1&b="), "{target}");
    up.stop();
}

#[test]
fn rows_go_into_a_database_without_a_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    let rows: String = (0..2_500).map(|n| format!("Page {n},https://example.com/{n}\n")).collect();
    let file = file_in(folder.path(), &rows);
    let address = format!("sqlite:{}", database.display());
    assert_counts(&import(&file, "--database", &address), "2500 links made, 0 existed, 0 rows wrong");
    assert_counts(&import(&file, "--database", &address), "0 links made, 2500 existed, 0 rows wrong");

    let (_links, http) = start_links(&database, None);
    let found = get(http, "/api/links?q=Page+2499").json();
    let slug = found["links"][0]["slug"].as_str().expect("a slug").to_owned();
    assert_eq!(follow(http, &slug), "https://example.com/2499");
}

#[test]
fn a_file_without_any_link_is_a_failure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = file_in(folder.path(), "what is this\nnot links at all\n");
    let address = format!("sqlite:{}", folder.path().join("links.db").display());
    let ended = import(&file, "--database", &address);
    ended.assert_failure(&format!("larder links import: no row of {} is a link", file.display()));
    assert!(ended.stdout.contains("2 rows wrong"), "{ended:?}");
}

fn import(file: &Path, flag: &str, destination: &str) -> Ended {
    let ended = run(larder(["links", "import"]).arg(file).args([flag, destination]));
    // Neither a bar nor colours where nobody looks.
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
