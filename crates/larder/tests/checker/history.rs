//! One history: two nodes, a few clients on each, an origin whose versions only grow, and trouble.

use crate::book::{Book, KEYS, MAX_LAG, Read, TAG, Value};
use crate::lie::Lie;
use crate::network::{Weather, World};
use crate::node::Node;
use crate::rng::Rng;
use crate::trace::Trace;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const NODES: usize = 2;
const CLIENTS: u64 = 3;
const OPERATIONS: std::ops::Range<u64> = 8..16;

/// What a history came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) reads: u64,
    pub(crate) violation: Option<String>,
    pub(crate) trace: Vec<String>,
}

/// Runs the history of a seed to its end.
pub(crate) fn run(seed: u64, lie: Lie, traced: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without sockets");
    runtime.block_on(async {
        let history = History::begin(seed, lie, traced);
        let clients = (0..NODES).flat_map(|node| (0..CLIENTS).map(move |_| node));
        let mut tasks: Vec<_> = clients.map(|node| tokio::spawn(history.clone().client(node))).collect();
        let trouble = tokio::spawn(history.clone().trouble());
        for task in tasks.drain(..) {
            task.await.expect("no operation panics");
        }
        trouble.abort();
        let book = history.book();
        Outcome { reads: book.reads, violation: book.violation.clone(), trace: history.trace.lines() }
    })
}

#[derive(Clone)]
struct History {
    rng: Arc<Rng>,
    world: Arc<World>,
    book: Arc<Mutex<Book>>,
    trace: Arc<Trace>,
    nodes: Arc<Vec<Node>>,
}

impl History {
    fn begin(seed: u64, lie: Lie, traced: bool) -> Self {
        let (rng, trace) = (Arc::new(Rng::new(seed)), Arc::new(Trace::new(traced)));
        let storm = rng.below(0..3);
        let weather = Weather {
            usual_ms: [2, 10, 40][rng.below(0..3) as usize],
            slow: storm * 20,
            lost: storm * 10,
            unanswered: storm * 15,
            late_pushes: storm * 100,
            scripts: rng.chance(700),
        };
        let disconnected = if rng.chance(500) { Duration::ZERO } else { Duration::from_secs(3) };
        trace.note(|| format!("seed {seed}: {weather:?}, disconnected {disconnected:?}, {lie:?}"));
        let world = World::new(NODES, weather, lie, rng.clone(), trace.clone());
        let nodes = (0..NODES).map(|node| Node::start(world.tier(node), disconnected, &rng)).collect();
        let book = Arc::new(Mutex::new(Book::new(NODES, disconnected, storm > 0)));
        History { rng, world, book, trace, nodes: Arc::new(nodes) }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("nobody panics with it")
    }

    /// One caller of one node.
    async fn client(self, node: usize) {
        for _ in 0..self.rng.below(OPERATIONS) {
            let pause = if self.rng.chance(300) { self.rng.ms(0..1_500) } else { self.rng.ms(0..60) };
            sleep(pause).await;
            let key = self.rng.below(0..KEYS as u64) as usize;
            match self.rng.below(0..100) {
                0..40 => self.fetch(node, key).await,
                40..55 => self.read(node, key).await,
                55..62 => self.read_many(node).await,
                62..70 => self.fetch_many(node).await,
                70..74 => self.refresh(node, key).await,
                74..77 => self.add(node, key).await,
                77..80 => self.take(node, key).await,
                80..82 => self.nodes[node].expire(key).await,
                _ => self.invalidate(node, key).await,
            }
            if self.book().violation.is_some() {
                return;
            }
        }
    }

    /// Takes some time, and reads the origin at some moment of it. Sometimes fails.
    fn loader(
        &self,
        node: usize,
        key: usize,
    ) -> impl Future<Output = Result<Value, &'static str>> + Send + use<> {
        let this = self.clone();
        let slow = this.rng.chance(100);
        let most = if slow { 1_500 } else { 60 };
        let (before, after) = (this.rng.ms(0..most), this.rng.ms(0..most));
        let fails = this.rng.chance(50);
        async move {
            sleep(before).await;
            let version = this.book().origin[key];
            this.trace.note(|| format!("node {node}: a loader reads version {version} of key {key}"));
            sleep(after).await;
            if fails { Err("the origin is tired") } else { Ok(Value { version, write: 0 }) }
        }
    }

    fn begins(&self, node: usize, key: usize) -> Read {
        Read { node, key, began: self.book().now() }
    }

    fn returned(&self, read: Read, how: &str, value: Option<Value>) {
        self.trace.note(|| match value {
            Some(value) => format!("node {}: {how} of key {} returns {}", read.node, read.key, value.version),
            None => format!("node {}: {how} of key {} returns nothing", read.node, read.key),
        });
        if let Some(value) = value {
            self.book().check(read, value);
        }
    }

    async fn fetch(&self, node: usize, key: usize) {
        let read = self.begins(node, key);
        let loader = self.loader(node, key);
        let fetching = self.nodes[node].fetch(key, loader);
        if self.rng.chance(50) {
            // The caller leaves.
            _ = tokio::time::timeout(self.rng.ms(0..50), fetching).await;
            return;
        }
        self.returned(read, "a fetch", fetching.await);
    }

    async fn read(&self, node: usize, key: usize) {
        let read = self.begins(node, key);
        self.returned(read, "a read", self.nodes[node].read(key).await);
    }

    async fn read_many(&self, node: usize) {
        let reads: [Read; KEYS] = std::array::from_fn(|key| self.begins(node, key));
        let values = self.nodes[node].read_many().await;
        reads.into_iter().zip(values).for_each(|(read, value)| self.returned(read, "a read of all", value));
    }

    async fn fetch_many(&self, node: usize) {
        let reads: [Read; KEYS] = std::array::from_fn(|key| self.begins(node, key));
        let this = self.clone();
        let values = self.nodes[node].fetch_many(move |key| this.loader(node, key)).await;
        reads.into_iter().zip(values).for_each(|(read, value)| self.returned(read, "a fetch of all", value));
    }

    async fn refresh(&self, node: usize, key: usize) {
        let read = self.begins(node, key);
        let loader = self.loader(node, key);
        self.returned(read, "a refresh", self.nodes[node].refresh(key, loader).await);
    }

    /// Writes the origin's version if nothing is there. It has no tags, and may be the last of two at the same time.
    async fn add(&self, node: usize, key: usize) {
        let number = self.book().invalidation_begins(node, "add", [false; KEYS]);
        let version = self.book().origin[key];
        self.trace.note(|| format!("node {node}: add of key {key} begins with version {version}"));
        let added = self.nodes[node].add(key, Value { version, write: number + 1 }).await;
        self.trace.note(|| format!("node {node}: add of key {key} is {added:?}"));
        self.book().invalidation_ends(number, added.is_ok());
    }

    /// Removes and returns: a read, and an invalidation if it returned Ok.
    async fn take(&self, node: usize, key: usize) {
        let number = self.book().invalidation_begins(node, "take", std::array::from_fn(|other| other == key));
        let read = self.begins(node, key);
        let taken = self.nodes[node].take(key).await;
        let ok = taken.is_ok();
        self.returned(read, "a take", taken.ok().flatten());
        // One that failed has promised nothing.
        if ok {
            self.book().invalidation_ends(number, ok);
        }
    }

    /// Changes the origin, usually, and invalidates.
    async fn invalidate(&self, node: usize, key: usize) {
        if self.rng.chance(850) {
            let version = self.book().change_origin(key);
            self.trace.note(|| format!("origin: key {key} has version {version}"));
            // Others may have seen the new version already.
            sleep(self.rng.ms(0..5)).await;
        }
        let only = std::array::from_fn(|other| other == key);
        let (what, keys) = match self.rng.below(0..10) {
            0..4 => ("delete", only),
            4..6 => ("write", only),
            6..9 => (TAG, std::array::from_fn(|other| Node::tag(other) == Node::tag(key))),
            _ => ("clear", [true; KEYS]),
        };
        let number = self.book().invalidation_begins(node, what, keys);
        self.trace.note(|| format!("node {node}: {what} of key {key} begins"));
        let on = &self.nodes[node];
        let invalidating = async {
            match what {
                "delete" => on.delete(key).await,
                "write" => {
                    let version = self.book().origin[key];
                    on.write(key, Value { version, write: number + 1 }).await
                }
                "clear" => on.clear().await,
                _ => on.invalidate_tag(key).await,
            }
        };
        if self.rng.chance(50) {
            // The caller leaves: nothing is known, and the invalidation goes on.
            _ = tokio::time::timeout(self.rng.ms(0..20), invalidating).await;
            return;
        }
        let ok = invalidating.await;
        self.trace
            .note(|| format!("node {node}: {what} of key {key} {}", if ok { "is done" } else { "fails" }));
        self.book().invalidation_ends(number, ok);
    }

    /// What happens to the nodes and the server.
    async fn trouble(self) {
        let calm = self.rng.chance(300);
        loop {
            sleep(self.rng.ms(100..2_000)).await;
            if calm {
                continue;
            }
            let node = self.rng.below(0..NODES as u64) as usize;
            let time = if self.rng.chance(300) { self.rng.ms(500..6_000) } else { self.rng.ms(1..500) };
            match self.rng.below(0..12) {
                0..3 => {
                    self.trace.note(|| format!("node {node}: is cut off for {} ms", time.as_millis()));
                    self.book().node_is_harmed(node, Instant::now() + time);
                    self.world.cut(node, time);
                }
                3..5 => {
                    self.trace.note(|| format!("node {node}: is held up for {} ms", time.as_millis()));
                    self.book().node_is_harmed(node, Instant::now() + time);
                    self.world.hold(node, time);
                }
                5..7 => self.world.evict(),
                7..9 => self.world.take_snapshot(),
                _ => {
                    let from_snapshot = self.rng.chance(500);
                    (0..NODES).for_each(|node| self.book().node_is_harmed(node, Instant::now()));
                    if from_snapshot {
                        self.book().server_went_back();
                    }
                    self.world.restart(from_snapshot);
                }
            }
        }
    }
}

/// A read that began before everything, for the tests of the book.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Moment;

    #[tokio::test(start_paused = true)]
    async fn the_book_knows_what_is_forbidden() {
        let mut book = Book::new(NODES, Duration::ZERO, false);
        let old = Value { version: book.origin[0], write: 0 };
        book.change_origin(0);
        let early = Read { node: 0, key: 0, began: book.now() };
        let number = book.invalidation_begins(0, "delete", [true, false, false]);
        book.invalidation_ends(number, true);
        book.check(early, old);
        let Moment { place, time } = book.now();
        let elsewhere = Read { node: 1, key: 0, began: Moment { place, time: time + MAX_LAG } };
        book.check(elsewhere, old);
        book.check(Read { node: 0, key: 1, began: Moment { place, time } }, old);
        assert_eq!(book.violation, None, "before it, on another node in time, another key");
        let late = Moment { place, time: time + MAX_LAG + Duration::from_millis(1) };
        book.check(Read { node: 1, key: 0, began: late }, old);
        assert!(book.violation.take().is_some(), "on another node, late");
        book.check(Read { node: 0, key: 0, began: Moment { place, time } }, old);
        assert!(book.violation.is_some(), "on the same node");
    }
}
