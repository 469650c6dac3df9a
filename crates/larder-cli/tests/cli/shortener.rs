//! A client of the URL shortener.

use crate::http::{Reply, get, post};
use larder_testkit::until;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Creates a link and returns its slug.
#[track_caller]
pub(crate) fn create(address: SocketAddr, url: &str) -> String {
    slug_of(&post(address, "/api/links", &json!({ "url": url })))
}

/// The slug in the response to the creation of a link.
#[track_caller]
pub(crate) fn slug_of(reply: &Reply) -> String {
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()["slug"].as_str().expect("a slug").to_owned()
}

/// Follows a short link, which counts a visit, and returns its target.
#[track_caller]
pub(crate) fn follow(address: SocketAddr, slug: &str) -> String {
    let reply = get(address, &format!("/{slug}"));
    assert_eq!(reply.status, 302, "{reply:?}");
    reply.header("location").expect("a redirect names its target").to_owned()
}

/// A link, as the API returns it.
#[track_caller]
pub(crate) fn show(address: SocketAddr, slug: &str) -> Value {
    let reply = get(address, &format!("/api/links/{slug}"));
    assert_eq!(reply.status, 200, "{slug}: {reply:?}");
    reply.json()
}

/// The visits of a link in the database. The response may come from the cache of the API.
#[track_caller]
pub(crate) fn visits(address: SocketAddr, slug: &str) -> u64 {
    show(address, slug)["visits"].as_u64().expect("a number of visits")
}

/// Waits until the database has at least `expected` visits.
pub(crate) fn await_visits(address: SocketAddr, slug: &str, expected: u64) {
    until(&format!("{expected} visits of {slug}"), || (visits(address, slug) >= expected).then_some(()));
}

/// The number of links.
#[track_caller]
pub(crate) fn count(address: SocketAddr) -> usize {
    let reply = get(address, "/api/links?limit=100").json();
    assert!(reply["next"].is_null(), "more than one page");
    reply["links"].as_array().expect("a list").len()
}
