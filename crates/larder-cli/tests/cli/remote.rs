//! `larder stats` and `larder purge` with a running `larder up`.

use crate::http::get;
use crate::process::{Ended, Up, larder, run};
use std::path::Path;

fn remote(up: &Up, data: &Path, words: &[&str]) -> Ended {
    let mut command = larder(words);
    command.env("LARDER_ADMIN", format!("http://{}", up.admin)).env("LARDER_UP_DATA", data);
    run(&mut command)
}

#[test]
fn stats_prints_a_row_for_each_tier() {
    let data = tempfile::tempdir().unwrap();
    let up = Up::start(data.path());
    let printed = remote(&up, data.path(), &["stats"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    for row in ["server, memory ", "links, redirects ", "links, memory ", "api responses, http "] {
        assert!(printed.stdout.lines().any(|line| line.starts_with(row)), "{row} in {}", printed.stdout);
    }
    let json = remote(&up, data.path(), &["stats", "--json"]).stdout;
    let stats: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(stats["version"], 1);
    up.stop();
}

#[test]
fn purge_reaches_the_part_or_says_why_not() {
    let data = tempfile::tempdir().unwrap();
    let up = Up::start(data.path());
    let purged = remote(&up, data.path(), &["purge", "api responses", "--tag", "list"]);
    assert_eq!((purged.code, purged.stdout.as_str()), (Some(0), "purged\n"), "{purged:?}");
    let history = get(up.admin, "/api/history").json();
    assert_eq!(history["events"][0]["text"], "purged tag \"list\"");
    let at = up.admin;
    remote(&up, data.path(), &["purge", "nothing", "--all"]).assert_failure(&format!(
        "larder purge: http://{at}/api/purge: 404 Not Found: there is no part \"nothing\""
    ));
    let other = tempfile::tempdir().unwrap();
    let missing = other.path().join("admin-token");
    remote(&up, other.path(), &["purge", "links", "--all"]).assert_failure(&format!(
        "larder purge: cannot read the admin token from {}: No such file or directory (os error 2)",
        missing.display()
    ));
    for usage in [&["purge", "links"][..], &["purge", "links", "--all", "--tag", "x"], &["purge", "--all"]] {
        assert_eq!(remote(&up, data.path(), usage).code, Some(2), "{usage:?}");
    }
    up.stop();
    let mut command = larder(["stats", "--admin", &format!("http://{at}")]);
    run(&mut command).assert_failure(&format!(
        "larder stats: cannot reach http://{at}: Connection refused (os error 111); is `larder up` running?"
    ));
    run(&mut larder(["stats", "--admin", "localhost:8081"])).assert_failure(
        "larder stats: \"localhost:8081\" is not the address of an admin port; expected http://HOST:PORT",
    );
}
