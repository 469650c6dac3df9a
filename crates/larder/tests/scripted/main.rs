//! Every order of replies, pushes and disconnects around the exchanges of the protocol, on real connections to a real
//! server: orders that a random search may miss.
//!
//! Node `far` is connected through a scripted proxy, node `near` directly.

mod abandoned;
mod deadlines;
mod gaps;
mod loads;
#[path = "../mutation/mod.rs"]
mod mutation;
mod promotions;
mod touches;
mod validity;
mod writes;

use larder::{Builder, Cache, View};
use larder_testkit::{Frame, Hold, RedisServer, ScriptedProxy};
use mutation::Mutation;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const MAX_LAG: Duration = Duration::from_millis(400);

/// Versions as values: loaders of this type do not fail.
type Versions = View<str, u64, std::convert::Infallible>;

fn node(url: String, foreign_writers: bool) -> (Cache, Versions) {
    node_with(url, |options| options.foreign_writers(foreign_writers))
}

/// A node with some options of its own.
fn node_with(url: String, change: impl FnOnce(Builder) -> Builder) -> (Cache, Versions) {
    let options = Cache::builder("s")
        .ttl(Duration::from_secs(600))
        .redis(url)
        .redis_timeout(Duration::from_secs(5))
        .max_lag(MAX_LAG)
        .disconnected(Duration::ZERO);
    let cache = change(options).build().expect("the options are in range");
    let view = cache.view("v");
    (cache, view)
}

/// The origin: its version only grows.
#[derive(Clone, Debug)]
struct Origin(Arc<AtomicU64>);

impl Origin {
    fn new() -> Self {
        Origin(Arc::new(AtomicU64::new(1)))
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn change(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A rule for the frames of the connection of the first of them: a new subscription sends the same commands.
fn on_first_connection(rule: impl Fn(&Frame) -> bool) -> impl Fn(&Frame) -> bool {
    let first = OnceLock::new();
    move |frame| rule(frame) && *first.get_or_init(|| frame.connection) == frame.connection
}

/// Whether this is the request of a step of a load, about this key: a lookup, which sets a lease, or a script.
fn is_step_request(frame: &Frame, key: &str) -> bool {
    (frame.is_request("SET") || frame.is_request("EVALSHA")) && frame.contains(key)
}

/// Whether this is the reply to such a request.
fn is_step_reply(frame: &Frame, key: &str) -> bool {
    (frame.is_reply("SET") || frame.is_reply("EVALSHA")) && frame.answers(key)
}

/// Two nodes that are connected, have loaded the scripts and get each other's announcements.
struct Fixture {
    proxy: ScriptedProxy,
    far: Versions,
    near: Versions,
    far_cache: Cache,
    near_cache: Cache,
}

impl Fixture {
    async fn new(server: &RedisServer, foreign_writers: bool) -> Self {
        Fixture::with(server, |options| options.foreign_writers(foreign_writers)).await
    }

    /// With some options of their own for both nodes.
    async fn with(server: &RedisServer, change: impl Fn(Builder) -> Builder) -> Self {
        let proxy = ScriptedProxy::before(server);
        let (far_cache, far) = node_with(proxy.url(), &change);
        let (near_cache, near) = node_with(server.url(), &change);
        for view in [&far, &near] {
            view.fetch("warm").load(|_| async { Ok(0) }).await.expect("loads");
            view.delete("warm").await.everywhere();
        }
        Fixture { proxy, far, near, far_cache, near_cache }
    }

    /// Forwards pushes, and returns once the far node has handled them. Its heartbeat is a HELLO.
    async fn forward_pushes(&self, pushes: Hold) {
        self.proxy.forward_before(pushes, "HELLO").await;
    }
}

/// After `max_lag` no node serves a version below `floor`, from either tier.
async fn settled(server: &RedisServer, fixture: &Fixture, key: &str, floor: u64, what: &str) {
    tokio::time::sleep(MAX_LAG).await;
    let seen = [
        fixture.far.read(key).await.map(|value| *value),
        fixture.near.read(key).await.map(|value| *value),
        node(server.url(), false).1.read(key).await.map(|value| *value),
    ];
    for (who, seen) in ["the far node", "the near node", "a new node"].iter().zip(seen) {
        assert!(seen.is_none_or(|version| version >= floor), "{what}: {who} still has version {seen:?}");
    }
}
