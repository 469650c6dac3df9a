//! The tiers between processes: the shortener behind its own cache server, and two shorteners behind one Redis.

use crate::process::{Up, start_links};
use crate::resp::command;
use crate::shortener::{create, follow};
use larder_testkit::{RedisServer, until};
use std::net::SocketAddr;

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
    until("both targets are in Redis", || (redis.command("DBSIZE") == ":2\r\n").then_some(()));

    // A third that has neither database nor memory of these links finds them all the same.
    let (_third, three) = start_links(&folder.path().join("empty.db"), Some(&redis.url()));
    assert_eq!(follow(three, &of_one), "https://example.com/one");

    redis.kill();
    let alone = create(one, "https://example.com/alone");
    assert_eq!(follow(two, &alone), "https://example.com/alone");
    assert_eq!(follow(two, &of_one), "https://example.com/one");
}

/// Waits until the second tier has this many targets: it is filled when the redirect is on its way already.
fn await_keys(address: SocketAddr, expected: u64) {
    until("the target is in the second tier", || (keys(address) >= expected).then_some(()));
}

fn keys(address: SocketAddr) -> u64 {
    let reply = command(address, "DBSIZE");
    reply.strip_prefix(':').and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{reply}"))
}
