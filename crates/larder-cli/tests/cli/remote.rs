//! `larder stats`, `larder explain` and `larder purge` with a running `larder up`.

use crate::http::{get, post, request};
use crate::process::{Ended, Up, larder, run};
use crate::resp::command;
use crate::shortener::{create, follow};
use larder_testkit::until;
use serde_json::json;
use std::path::Path;

const JSON: (&str, &str) = ("Content-Type", "application/json");

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
    for content in ["", "\u{1}\n"] {
        std::fs::write(&missing, content).expect("the file can be written");
        remote(&up, other.path(), &["purge", "links", "--all"])
            .assert_failure(&format!("larder purge: {} contains no admin token", missing.display()));
    }
    for usage in [&["purge", "links"][..], &["purge", "links", "--all", "--tag", "x"], &["purge", "--all"]] {
        assert_eq!(remote(&up, data.path(), usage).code, Some(2), "{usage:?}");
    }
    up.stop();
    let mut command = larder(["stats", "--admin", &format!("http://{at}")]);
    run(&mut command).assert_failure(&format!(
        "larder stats: cannot reach http://{at}: Connection refused (os error 111); is `larder up` running?"
    ));
    let wrong = run(&mut larder(["stats", "--admin", "localhost:8081"]));
    let start = "error: invalid value 'localhost:8081' for '--admin <URL>': expected http://HOST:PORT\n";
    assert!(wrong.code == Some(2) && wrong.stderr.starts_with(start), "{wrong:?}");
}

#[test]
fn explain_tells_what_a_request_would_get() {
    let data = tempfile::tempdir().unwrap();
    let up = Up::start(data.path());
    let explain = |words: &[&str]| {
        let ended = remote(&up, data.path(), &[&["explain", "--json"], words].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap()["parts"].clone()
    };
    let slug = create(up.http, "https://example.com/");
    let url = format!("http://{}/{slug}", up.http);
    let before = explain(&[&url]);
    assert_eq!(before[0]["part"], "links");
    assert_eq!((&before[0]["facts"]["tier"], &before[0]["facts"]["status"]), (&json!("none"), &json!(302)));
    assert!(before[0]["verdict"].as_str().unwrap().starts_with("not in memory"), "{before}");
    follow(up.http, &slug);
    let after = explain(&[&url]);
    assert_eq!(after[0]["verdict"], "answered from memory", "{after}");
    let ttl = after[0]["facts"]["ttl_seconds"].as_f64().unwrap();
    assert!(ttl > 3_000.0 && ttl <= 3_600.0, "{ttl}");
    // The second tier is the cache server, which explains the key that the shortener has there.
    let redis_key = after[0]["facts"]["redis_key"].as_str().unwrap();
    assert_eq!(explain(&["--part", "server", redis_key])[0]["facts"]["tier"], "memory");

    let list = format!("http://{}/api/links", up.http);
    let of_list = |parts: &serde_json::Value| {
        parts.as_array().unwrap().iter().find(|part| part["part"] == "api responses").unwrap()["verdict"]
            .clone()
    };
    assert!(of_list(&explain(&[&list])).as_str().unwrap().starts_with("not stored"));
    get(up.http, "/api/links");
    let stored = of_list(&explain(&[&list]));
    assert!(
        ["answered from the cache", "not stored"]
            .iter()
            .any(|start| stored.as_str().unwrap().starts_with(start)),
        "{stored}"
    );

    assert_eq!(command(up.resp, "SET greeting hello EX 100"), "+OK");
    let printed = remote(&up, data.path(), &["explain", "greeting"]).stdout;
    assert!(printed.contains("server: answered from database 0\n"), "{printed}");
    let of_server = printed.lines().skip_while(|line| !line.starts_with("server: ")).skip(1);
    let names: Vec<&str> = of_server.filter_map(|line| line.get(2..16)).map(str::trim).collect();
    assert_eq!(names, ["key", "tier", "databases", "encoding", "ttl seconds", "bytes"], "{printed}");
    assert!(printed.contains("\n  encoding      embstr\n"), "{printed}");
    let missing = explain(&["--part", "server", "nothing"]);
    assert_eq!(missing[0]["verdict"], "no database has this key: GET returns null");
    let at = up.admin;
    remote(&up, data.path(), &["explain", "--part", "absent", "x"]).assert_failure(&format!(
        "larder explain: http://{at}/api/explain?target=x&part=absent: 404 Not Found: \
         the part \"absent\" does not exist or cannot explain \"x\""
    ));
    up.stop();
    let mut command = larder(["explain", "key", "--admin", &format!("http://{at}")]);
    run(&mut command).assert_failure(&format!(
        "larder explain: cannot reach http://{at}: Connection refused (os error 111); is `larder up` running?"
    ));
}

#[test]
fn explain_tells_why_a_link_does_not_redirect() {
    let data = tempfile::tempdir().unwrap();
    let up = Up::start(data.path());
    let explained = |slug: &str| {
        let ended = remote(&up, data.path(), &["explain", "--json", "--part", "links", slug]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let part = serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap()["parts"][0].clone();
        (part["verdict"].as_str().unwrap().to_owned(), part["facts"]["status"].as_u64().unwrap())
    };
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() + 500;
    let links = json!([
        { "url": "https://example.com/", "slug": "used", "max_visits": 1 },
        { "url": "https://example.com/", "slug": "old", "expires_at": soon as u64 },
        { "url": "https://example.com/", "slug": "deleted" },
    ]);
    assert_eq!(post(up.http, "/api/links/batch", &links).status, 200);
    assert_eq!(explained("used").1, 302);
    follow(up.http, "used");
    assert_eq!(request(up.http, "DELETE", "/api/links/deleted", &[JSON], "").unwrap().status, 204);
    until("the end of the link", || (get(up.http, "/old").status == 410).then_some(()));

    let not_stored =
        "not in memory: the next request asks Redis, then the database, and the answer is stored";
    for (slug, status, reason) in [
        ("used", 410, "the link has had all of its visits"),
        ("old", 410, "the link has expired"),
        ("deleted", 410, "the link was deleted"),
        ("none", 404, "there is no such link"),
    ] {
        let gets = format!("; a request gets {status}: {reason}");
        let verdict = explained(slug);
        let is_in_memory = matches!(slug, "used" | "old");
        let source = if is_in_memory { "answered from memory" } else { not_stored };
        assert_eq!(verdict, (format!("{source}{gets}"), status), "{slug}");
        assert_eq!(get(up.http, &format!("/{slug}")).status, status as u16, "{slug}");
        assert_eq!(explained(slug), (format!("answered from memory{gets}"), status), "{slug}");
    }
    up.stop();
}
