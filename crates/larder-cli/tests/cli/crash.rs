//! `kill -9` loses nothing that was confirmed to a client.

use crate::http::try_post;
use crate::process::Up;
use crate::shortener::{await_visits, create, follow, show, slug_of, visits};
use larder_testkit::until;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;

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
