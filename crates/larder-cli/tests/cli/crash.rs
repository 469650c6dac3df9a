//! `kill -9`: what a client was told is there afterwards.

use crate::http::try_post;
use crate::process::Up;
use crate::shortener::{await_visits, create, follow, show, slug_of, visits};
use larder_testkit::until;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;

/// A link that was answered with 201.
struct Made {
    slug: String,
    url: String,
}

#[test]
fn every_link_that_was_confirmed_and_every_visit_that_was_shown_survives() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let up = Up::start(&data);
    let http = up.http;
    let visited = create(http, "https://example.com/visited");
    for _ in 0..20 {
        follow(http, &visited);
    }
    await_visits(http, &visited, 20);

    let made = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for writer in 0..3 {
            let made = &made;
            scope.spawn(move || create_until_it_dies(http, writer, made));
        }
        until("links are being made", || (made.lock().expect("whole").len() >= 60).then_some(()));
        for _ in 0..10 {
            follow(http, &visited);
        }
        up.kill();
    });

    let up = Up::start(&data);
    let made = made.into_inner().expect("whole");
    for Made { slug, url } in &made {
        assert_eq!(show(up.http, slug)["url"], **url, "of {} links", made.len());
    }
    assert_eq!(follow(up.http, &made[0].slug), made[0].url);
    let kept = visits(up.http, &visited);
    assert!((20..=30).contains(&kept), "{kept} visits");
    up.stop();
}

fn create_until_it_dies(address: SocketAddr, writer: usize, made: &Mutex<Vec<Made>>) {
    for n in 0.. {
        let url = format!("https://example.com/{writer}/{n}");
        let Ok(reply) = try_post(address, "/api/links", &json!({ "url": url })) else { return };
        made.lock().expect("whole").push(Made { slug: slug_of(&reply), url });
    }
}
