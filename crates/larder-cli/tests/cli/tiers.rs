//! The tiers between processes: the shortener behind its own cache server, and two shorteners behind one Redis.

use crate::admin_port::dashboard_of;
use crate::dashboard::{part, stats};
use crate::http::{get, post, request};
use crate::process::{FREE, Up, larder, run, start_links, start_links_with, start_server};
use crate::resp::command;
use crate::shortener::{create, follow};
use larder_testkit::{RedisServer, until};
use serde_json::json;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn up_uses_its_cache_server_as_a_second_tier_and_survives_its_loss() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let up = Up::start(&data);
    assert_eq!(keys(up.resp), 0);
    let slug = create(up.http, "https://example.com/target");
    follow(up.http, &slug);
    await_keys(up.resp, 1);
    command(up.resp, "FLUSHALL");
    assert_eq!(follow(up.http, &slug), "https://example.com/target");
    up.stop();

    let up = Up::start(&data);
    assert_eq!(keys(up.resp), 0, "a cache server is empty after its start");
    assert_eq!(follow(up.http, &slug), "https://example.com/target");
    await_keys(up.resp, 1);
    up.stop();
}

#[test]
fn up_in_cluster_mode_is_coherent_on_its_own_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let up = Up::start_as(larder(["up", "--cluster-mode"]), &data);
    assert!(command(up.resp, "CLUSTER INFO").contains("cluster_state:ok\r\n"));
    let slug = create(up.http, "https://example.com/target");
    assert_eq!(follow(up.http, &slug), "https://example.com/target");
    await_keys(up.resp, 1);
    let note = || part(&stats(up.admin), "links")["notes"]["coherence"].as_str().map(str::to_owned);
    until("the shortener is coherent", || {
        note().is_some_and(|note| note.starts_with("full: ")).then_some(())
    });
    up.stop();
}

#[test]
fn up_is_coherent_on_its_own_server_and_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start(&folder.path().join("data"));
    let note = || part(&stats(up.admin), "links")["notes"]["coherence"].as_str().map(str::to_owned);
    until("the shortener is coherent, without a request", || note()?.starts_with("full: ").then_some(()));
    let mut command = larder(["stats", "--admin", &format!("http://{}", up.admin)]);
    let printed = run(&mut command).stdout;
    assert!(printed.lines().any(|line| line.starts_with("coherence of links: full: ")), "{printed}");
    assert_eq!(up.stop().stderr, "", "a first start gives no reason to worry");
}

#[test]
fn outage_of_redis_is_a_state_with_a_begin_a_meaning_and_an_end() {
    let Some(mut redis) = RedisServer::start() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flags = [format!("--redis={}", redis.url()), format!("--admin={FREE}")];
    let (mut process, http) = start_links_with(&folder.path().join("links.db"), flags);
    let admin = dashboard_of(&mut process);
    let state = || part(&stats(admin), "links")["state"].as_str().expect("a state").to_owned();
    let has_event = |start: &str| {
        let events = get(admin, "/api/history").json()["events"].take();
        let mut texts = events.as_array().expect("a list").iter().filter_map(|event| event["text"].as_str());
        texts.any(|text| text.starts_with(start)).then_some(())
    };
    let slug = create(http, "https://example.com/target");
    follow(http, &slug);
    until("the shortener is coherent", || {
        part(&stats(admin), "links")["notes"]["coherence"].as_str()?.starts_with("full: ").then_some(())
    });
    assert_eq!(state(), "running");

    redis.kill();
    until("the outage is a state", || (state() == "degraded").then_some(()));
    let degraded = part(&stats(admin), "links")["degradations"][0].clone();
    let meaning = degraded["meaning"].as_str().expect("a sentence");
    let (why, what) = meaning.split_once("): ").expect("a reason in parentheses");
    assert!(why.starts_with("Redis does not answer (") && why.contains("os error"), "{degraded}");
    assert!(what.starts_with("memory is served for "), "{degraded}");
    // A restart would not help, and redirects work.
    assert_eq!((get(admin, "/healthz").status, get(admin, "/readyz").status), (200, 200));
    assert!(get(admin, "/readyz").body.starts_with("ready\nlinks degraded by redis for "));
    assert_eq!(follow(http, &slug), "https://example.com/target");
    let printed = run(&mut larder(["stats", "--admin", &format!("http://{admin}")])).stdout;
    assert!(printed.contains("\nlinks: degraded by redis for "), "{printed}");
    until("the outage is an event", || has_event("degraded by redis: Redis does not answer ("));

    redis.restart();
    until("the outage is over", || (state() == "running").then_some(()));
    until("its end is an event", || has_event("no longer degraded by redis, after "));
}

#[test]
fn redis_that_refuses_the_shortener_is_known_before_the_first_request() {
    let Some(redis) = RedisServer::start() else { return };
    assert_eq!(redis.command("CONFIG SET requirepass secret"), "+OK\r\n");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flags = [format!("--redis={}", redis.url()), format!("--admin={FREE}")];
    let (mut process, _) = start_links_with(&folder.path().join("links.db"), flags);
    let admin = dashboard_of(&mut process);
    let meaning = until("the shortener lacks its Redis", || {
        part(&stats(admin), "links")["degradations"][0]["meaning"].as_str().map(str::to_owned)
    });
    assert!(meaning.starts_with("Redis cannot be used (") && meaning.contains("NOAUTH"), "{meaning}");
    assert!(get(admin, "/metrics").body.contains("\nlarder_coherent{part=\"links\"} 0\n"));
    until("the log says so", || process.stderr().contains("no connection to redis").then_some(()));
    // Some more attempts are made meanwhile, which are not logged.
    sleep(Duration::from_millis(500));
    let stderr = process.stderr();
    let lines: Vec<_> = stderr.lines().filter(|line| line.contains("no connection to redis")).collect();
    assert!(lines.len() == 1 && lines[0].contains("NOAUTH"), "{stderr}");
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
    // The other keys are the ledger of the namespace and its marker.
    until("both targets are in Redis", || (redis.command("DBSIZE") == ":4\r\n").then_some(()));

    // One of another database has none of them.
    let (_third, three) = start_links(&folder.path().join("other.db"), Some(&redis.url()));
    assert_eq!(get(three, &format!("/{of_one}")).status, 404);

    redis.kill();
    let alone = create(one, "https://example.com/alone");
    assert_eq!(follow(two, &alone), "https://example.com/alone");
    assert_eq!(follow(two, &of_one), "https://example.com/one");
}

#[test]
fn binary_has_the_crypto_provider_for_a_redis_with_tls() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Nothing listens there. Without a provider the shortener would not start.
    let (_process, address) = start_links(&folder.path().join("links.db"), Some("rediss://localhost:1"));
    let slug = create(address, "https://example.com/target");
    assert_eq!(follow(address, &slug), "https://example.com/target");
}

/// The time after which a change must be visible at the other shortener: the `max_lag` of the cache.
const MAX_LAG: Duration = Duration::from_secs(1);

#[test]
fn change_is_visible_at_once_where_it_was_made_and_elsewhere_after_max_lag() {
    let Some(redis) = RedisServer::start() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    let started: Vec<_> = (0..3).map(|_| start_links(&database, Some(&redis.url()))).collect();
    changes_are_visible(&[started[0].1, started[1].1, started[2].1]);
}

#[test]
fn change_is_visible_to_shorteners_that_share_a_larder_server() {
    let (_server, address) = start_server([""; 0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (database, url) = (folder.path().join("links.db"), format!("redis://{address}"));
    let started: Vec<_> = (0..3).map(|_| start_links(&database, Some(&url))).collect();
    changes_are_visible(&[started[0].1, started[1].1, started[2].1]);
}

#[test]
fn change_is_visible_to_up_and_to_shorteners_that_share_its_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start(&folder.path().join("data"));
    let (database, url) = (folder.path().join("data/links.db"), format!("redis://{}", up.resp));
    let started: Vec<_> = (0..2).map(|_| start_links(&database, Some(&url))).collect();
    changes_are_visible(&[up.http, started[0].1, started[1].1]);
}

/// Three shorteners over one database and one server change links in turn, and see what the others have changed.
fn changes_are_visible(all: &[SocketAddr; 3]) {
    let slugs: Vec<String> =
        (0..24).map(|n| create(all[0], &format!("https://example.com/{n}/before"))).collect();
    for (n, slug) in slugs.iter().enumerate() {
        // Twice: the second answer comes from memory.
        for &shortener in all.iter().chain(all) {
            assert_eq!(follow(shortener, slug), format!("https://example.com/{n}/before"));
        }
    }
    // Cache the absence of a link, too.
    for &shortener in all {
        assert_eq!(get(shortener, "/later").status, 404);
    }

    let check = |shortener: SocketAddr, n: usize| {
        let slug = &slugs[n];
        match n % 4 {
            0 => assert_eq!(follow(shortener, slug), format!("https://example.com/{n}/after")),
            1 => {
                assert_eq!(get(shortener, &format!("/{slug}")).status, 410, "{slug} is deleted");
                assert_eq!(get(shortener, &format!("/api/links/{slug}")).status, 404, "{slug} is deleted");
            }
            2 => assert_eq!(
                follow(shortener, slug),
                format!("https://example.com/{n}/before"),
                "{slug} is restored"
            ),
            _ => assert_eq!(get(shortener, &format!("/{slug}")).status, 410, "{slug} has expired"),
        }
    };
    for (n, slug) in slugs.iter().enumerate() {
        // The shorteners make the changes in turn.
        let shortener = all[n / 4 % 3];
        let path = format!("/api/links/{slug}");
        let change = |method: &str, path: &str, body: serde_json::Value| {
            let json = [("Content-Type", "application/json")];
            let status =
                request(shortener, method, path, &json, &body.to_string()).expect("an answer").status;
            assert!((200..300).contains(&status), "{status}");
        };
        match n % 4 {
            0 => change("PATCH", &path, json!({ "url": format!("https://example.com/{n}/after") })),
            1 => change("DELETE", &path, json!({})),
            2 => {
                change("DELETE", &path, json!({}));
                assert_eq!(get(shortener, &format!("/{slug}")).status, 410);
                change("POST", &format!("{path}/restore"), json!({}));
            }
            _ => change("PATCH", &path, json!({ "expires_at": 1 })),
        }
        check(shortener, n);
    }
    let created = post(all[1], "/api/links", &json!({ "url": "https://example.com/later", "slug": "later" }));
    assert_eq!(created.status, 201, "{created:?}");

    sleep(MAX_LAG);
    for &shortener in all {
        for n in 0..slugs.len() {
            check(shortener, n);
        }
        assert_eq!(follow(shortener, "later"), "https://example.com/later");
    }
}

#[test]
fn limit_of_visits_holds_over_three_shorteners_but_for_one_interval() {
    let Some(redis) = RedisServer::start() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    let started: Vec<_> = (0..3).map(|_| start_links(&database, Some(&redis.url()))).collect();
    let link = json!({ "url": "https://example.com/", "slug": "few", "max_visits": 30 });
    assert_eq!(post(started[0].1, "/api/links", &link).status, 201);
    // Each shortener alone redirects 30 times at most, and after an interval all know that the limit is reached.
    let redirects_of = |round: usize| {
        let statuses = (0..round).flat_map(|_| &started).map(|(_, address)| get(*address, "/few").status);
        statuses.filter(|&status| status == 302).count()
    };
    let at_once = redirects_of(40);
    assert!((30..=90).contains(&at_once), "{at_once}");
    until("all have written their visits", || {
        let shown = get(started[0].1, "/api/links/few").json()["visits"].as_u64();
        (shown == Some(at_once as u64)).then_some(())
    });
    assert_eq!(redirects_of(5), 0);
}

/// Waits until the second tier has `expected` keys: it is filled after the response.
fn await_keys(address: SocketAddr, expected: u64) {
    until("the target is in the second tier", || (keys(address) >= expected).then_some(()));
}

/// The cache has others of its own: its marker and its ledger.
fn keys(address: SocketAddr) -> u64 {
    let reply = command(address, "KEYS links-*:slug:*");
    reply.strip_prefix('*').and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{reply}"))
}
