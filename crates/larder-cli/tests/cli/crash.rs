//! `kill -9` loses nothing that was confirmed to a client, and of visits only the newest.

use crate::http::{request, try_post};
use crate::process::{Up, start_links, start_links_with};
use crate::shortener::{await_visits, create, follow, show, slug_of, visits};
use larder_testkit::until;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// A link whose creation was confirmed with 201.
struct Confirmed {
    slug: String,
    url: String,
}

#[test]
fn confirmed_links_and_reported_visits_survive_a_crash() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let up = Up::start(&data);
    let http = up.http;
    let visited = create(http, "https://example.com/visited");
    for _ in 0..20 {
        follow(http, &visited);
    }
    await_visits(http, &visited, 20);

    let confirmed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for writer in 0..3 {
            let confirmed = &confirmed;
            scope.spawn(move || create_until_the_server_is_killed(http, writer, confirmed));
        }
        until("60 confirmed links", || (confirmed.lock().expect("whole").len() >= 60).then_some(()));
        for _ in 0..10 {
            follow(http, &visited);
        }
        up.kill();
    });

    let up = Up::start(&data);
    let confirmed = confirmed.into_inner().expect("whole");
    for Confirmed { slug, url } in &confirmed {
        assert_eq!(show(up.http, slug)["url"], **url, "of {} links", confirmed.len());
    }
    assert_eq!(follow(up.http, &confirmed[0].slug), confirmed[0].url);
    let count = visits(up.http, &visited);
    assert!((20..=30).contains(&count), "{count} visits");
    up.stop();
}

fn create_until_the_server_is_killed(address: SocketAddr, writer: usize, confirmed: &Mutex<Vec<Confirmed>>) {
    for n in 0.. {
        let url = format!("https://example.com/{writer}/{n}");
        let Ok(reply) = try_post(address, "/api/links", &json!({ "url": url })) else { return };
        confirmed.lock().expect("whole").push(Confirmed { slug: slug_of(&reply), url });
    }
}

/// How long the writer may take beyond its interval, on a busy machine.
const WRITING: Duration = Duration::from_secs(1);

#[test]
fn killed_shortener_loses_no_visit_older_than_the_flush_interval() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (database, config) = (folder.path().join("links.db"), folder.path().join("larder.toml"));
    let interval = Duration::from_millis(500);
    // Visits are written by the clock alone.
    let text = format!("[links]\nvisit_flush_ms = {}\nvisit_batch = 1000000\n", interval.as_millis());
    std::fs::write(&config, text).expect("the file can be written");
    let (mut process, http) = start_links_with(&database, [format!("--config={}", config.display())]);
    let slugs: Vec<String> = (0..50).map(|n| create(http, &format!("https://example.com/{n}"))).collect();

    let redirected = Mutex::new(Vec::new());
    let killed = thread::scope(|scope| {
        for client in 0..4 {
            let (redirected, slugs) = (&redirected, &slugs);
            scope.spawn(move || follow_until_the_server_is_killed(http, client, slugs, redirected));
        }
        let start = Instant::now();
        until("some intervals under load", || {
            let count = redirected.lock().expect("whole").len();
            (count >= 1_000 && start.elapsed() >= 3 * (interval + WRITING)).then_some(())
        });
        let killed = Instant::now();
        process.running().kill();
        killed
    });

    let redirected = redirected.into_inner().expect("whole");
    let old = redirected.iter().filter(|at| **at + interval + WRITING <= killed).count() as u64;
    let (_again, http) = start_links(&database, None);
    let kept: u64 = slugs.iter().map(|slug| visits(http, slug)).sum();
    let all = redirected.len() as u64;
    assert!(old > all / 10, "{old} of {all} visits are old enough to tell something");
    // A response of each client may have been under way.
    assert!((old..=all + 4).contains(&kept), "{kept} visits are there, {old} of {all} must be");
}

/// Notes when each redirect arrived.
fn follow_until_the_server_is_killed(
    address: SocketAddr,
    client: usize,
    slugs: &[String],
    redirected: &Mutex<Vec<Instant>>,
) {
    for n in client.. {
        let path = format!("/{}", slugs[n % slugs.len()]);
        let Ok(reply) = request(address, "GET", &path, &[], "") else { return };
        assert_eq!(reply.status, 302, "{reply:?}");
        redirected.lock().expect("whole").push(Instant::now());
    }
}
