//! The load: threads that send requests at a bounded rate, and judge what they get. Each kind of service has a file.
//!
//! ```text
//! links.rs   follow, create, update, delete, restore ──► up-1, up-2 ──── Redis, one database
//! pages.rs   read, change and purge ───────────────────► proxy-1, proxy-2 ── larder server, the origin
//! keys.rs    GET, SET, INCR, lists, hashes ────────────► larder server
//! ```

mod keys;
mod link_state;
mod links;
mod pages;

pub(super) use keys::{KEY_THREADS, Keys};
pub(super) use links::{Links, WRITERS};
pub(super) use pages::{PAGES, Pages, Proxy};

use super::shared::{Pace, Shared};
use super::tally::Kind;
use super::wire::{Http, Response};
use std::io;
use std::net::SocketAddr;

/// Scrapes a second, as a Prometheus and some dashboards would send.
const SCRAPES_PER_SECOND: f64 = 1.0;

/// Reads the metrics of these admin ports in turn.
pub(super) fn scrape(shared: &Shared, admins: &[SocketAddr]) {
    let mut clients: Vec<Http> = admins.iter().copied().map(Http::new).collect();
    let mut pace = Pace::per_second(SCRAPES_PER_SECOND);
    for turn in 0.. {
        if !pace.wait(shared) {
            return;
        }
        let begun = shared.begin();
        let index = turn % clients.len();
        let answer = clients[index].get("/metrics");
        shared.record(Kind::Metrics, begun, failure(&answer));
    }
}

/// What is wrong with a response, if it should be a success.
fn failure(response: &io::Result<Response>) -> Option<String> {
    match response {
        Ok(response) if response.is_success() => None,
        Ok(response) => {
            Some(format!("status {}: {}", response.status, String::from_utf8_lossy(&response.body)))
        }
        Err(error) => Some(error.to_string()),
    }
}
