//! The tiers between processes: the shortener behind its own cache server, and two shorteners behind one Redis.

use crate::http::{get, post, request};
use crate::process::{Up, start_links};
use crate::resp::command;
use crate::shortener::{create, follow};
use larder_testkit::{RedisServer, until};
use serde_json::json;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn up_keeps_its_links_in_its_own_cache_server_and_can_lose_them_there() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let up = Up::start(&data);
    assert_eq!(keys(up.resp), 0);
    let slug = create(up.http, "https://example.com/kept");
    follow(up.http, &slug);
    await_keys(up.resp, 1);
    command(up.resp, "FLUSHALL");
    assert_eq!(follow(up.http, &slug), "https://example.com/kept");
    up.stop();

    let up = Up::start(&data);
    assert_eq!(keys(up.resp), 0, "a cache server starts empty");
    assert_eq!(follow(up.http, &slug), "https://example.com/kept");
    await_keys(up.resp, 1);
    up.stop();
}

#[test]
fn two_shorteners_share_a_database_and_a_redis() {
    let Some(mut redis) = RedisServer::start() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    let (_first, one) = start_links(&database, Some(&redis.url()));
    let (_second, two) = start_links(&database, Some(&redis.url()));
    let (of_one, of_two) = (create(one, "https://example.com/one"), create(two, "https://example.com/two"));
    for shortener in [one, two] {
        assert_eq!(follow(shortener, &of_one), "https://example.com/one");
        assert_eq!(follow(shortener, &of_two), "https://example.com/two");
    }
    // With them the ledger of the namespace.
    until("both targets are in Redis", || (redis.command("DBSIZE") == ":3\r\n").then_some(()));

    // A third that has neither database nor memory of these links finds them all the same.
    let (_third, three) = start_links(&folder.path().join("empty.db"), Some(&redis.url()));
    assert_eq!(follow(three, &of_one), "https://example.com/one");

    redis.kill();
    let alone = create(one, "https://example.com/alone");
    assert_eq!(follow(two, &alone), "https://example.com/alone");
    assert_eq!(follow(two, &of_one), "https://example.com/one");
}

/// How old the state of a link may be at a shortener that did not change it: the cache's `max_lag`.
const MAX_LAG: Duration = Duration::from_secs(1);

#[test]
fn a_link_that_changes_at_one_shortener_has_changed_at_the_other() {
    let Some(redis) = RedisServer::start() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    let (_first, one) = start_links(&database, Some(&redis.url()));
    let (_second, two) = start_links(&database, Some(&redis.url()));

    let slugs: Vec<String> =
        (0..20).map(|n| create(one, &format!("https://example.com/{n}/before"))).collect();
    for (n, slug) in slugs.iter().enumerate() {
        // Twice: the second answer comes from memory.
        for shortener in [one, two, one, two] {
            assert_eq!(follow(shortener, slug), format!("https://example.com/{n}/before"));
        }
    }
    // The absence of a link is remembered too.
    for shortener in [one, two] {
        assert_eq!(get(shortener, "/later").status, 404);
    }

    let changed = |n: usize| n.is_multiple_of(2);
    for (n, slug) in slugs.iter().enumerate() {
        // Each change at another of the two than the one before.
        let shortener = if n % 4 < 2 { one } else { two };
        let path = format!("/api/links/{slug}");
        let (method, body) = if changed(n) {
            ("PATCH", json!({ "url": format!("https://example.com/{n}/after") }).to_string())
        } else {
            ("DELETE", String::new())
        };
        let json = [("Content-Type", "application/json")];
        let status = request(shortener, method, &path, &json, &body).expect("an answer").status;
        assert!((200..300).contains(&status), "{status}");
    }
    let made = post(two, "/api/links", &json!({ "url": "https://example.com/later", "slug": "later" }));
    assert_eq!(made.status, 201, "{made:?}");

    sleep(MAX_LAG);
    for shortener in [one, two] {
        for (n, slug) in slugs.iter().enumerate() {
            if changed(n) {
                assert_eq!(follow(shortener, slug), format!("https://example.com/{n}/after"));
            } else {
                assert_eq!(get(shortener, &format!("/{slug}")).status, 404, "{slug} is deleted");
                assert_eq!(get(shortener, &format!("/api/links/{slug}")).status, 404, "{slug} is deleted");
            }
        }
        assert_eq!(follow(shortener, "later"), "https://example.com/later");
    }
}

/// Waits until the second tier has this many targets: it is filled when the redirect is on its way already.
fn await_keys(address: SocketAddr, expected: u64) {
    until("the target is in the second tier", || (keys(address) >= expected).then_some(()));
}

fn keys(address: SocketAddr) -> u64 {
    let reply = command(address, "DBSIZE");
    reply.strip_prefix(':').and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{reply}"))
}
