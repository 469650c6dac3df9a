//! The callers of the nodes: the whole API, over an origin whose versions only grow. The book records the start and the
//! end of each operation, and checks each value that is returned.

use super::book::{Book, Read, TAG, Value};
use super::node::Node;
use super::rng::Rng;
use super::trace::Trace;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::time::sleep;

/// How often keys change and how long loads take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// So many operations out of a thousand only read.
    pub(crate) only_reads: u64,
    /// So many invalidations out of a thousand clear everything.
    pub(crate) clears: u64,
    /// So many loads out of a thousand are slow.
    pub(crate) slow_loads: u64,
    /// How long a loader takes at most before it reads the origin, and again after that: usually, and if it is slow.
    pub(crate) loads_ms: (u64, u64),
}

#[derive(Clone)]
pub(crate) struct Clients {
    pub(crate) rng: Arc<Rng>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) nodes: Arc<Vec<Node>>,
    pub(crate) book: Arc<Mutex<Book>>,
    pub(crate) pace: Pace,
    /// While it is set nothing is changed.
    pub(crate) quiet: Arc<AtomicBool>,
    pub(crate) keys: usize,
}

impl Clients {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("nobody panics with it")
    }

    pub(crate) fn is_over(&self) -> bool {
        self.book().violation.is_some()
    }

    /// One operation of one caller of a node.
    pub(crate) async fn act(&self, node: usize) {
        let key = self.rng.below(0..self.keys as u64) as usize;
        let reads = self.quiet.load(Ordering::SeqCst) || self.rng.chance(self.pace.only_reads);
        match self.rng.below(0..if reads { 70 } else { 100 }) {
            0..40 => self.fetch(node, key).await,
            40..55 => self.read(node, key).await,
            55..62 => self.read_many(node).await,
            62..70 => self.fetch_many(node, key).await,
            70..74 => self.refresh(node, key).await,
            74..77 => self.add(node, key).await,
            77..80 => self.take(node, key).await,
            80..82 => self.nodes[node].expire(key).await,
            _ => self.invalidate(node, key).await,
        }
    }

    /// A loader that takes some time, reads the origin at some moment of it, and sometimes fails.
    fn loader(
        &self,
        node: usize,
        key: usize,
    ) -> impl Future<Output = Result<Value, &'static str>> + Send + use<> {
        let this = self.clone();
        let (usual, slow) = this.pace.loads_ms;
        let most = if this.rng.chance(this.pace.slow_loads) { slow } else { usual };
        let (before, after) = (this.rng.ms(0..most), this.rng.ms(0..most));
        let fails = this.rng.chance(50);
        async move {
            sleep(before).await;
            let version = this.book().origin[key];
            this.trace.note_of(key, || format!("node {node}: a loader reads version {version} of key {key}"));
            sleep(after).await;
            if fails { Err("the origin fails") } else { Ok(Value { version, write: 0 }) }
        }
    }

    fn begins(&self, node: usize, key: usize) -> Read {
        Read { node, key, began: self.book().now() }
    }

    fn returned(&self, read: Read, how: &str, value: Option<Value>) {
        self.trace.note_of(read.key, || match value {
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
        let reads: Vec<Read> = (0..self.keys).map(|key| self.begins(node, key)).collect();
        let values = self.nodes[node].read_many().await;
        reads.into_iter().zip(values).for_each(|(read, value)| self.returned(read, "a read of all", value));
    }

    async fn fetch_many(&self, node: usize, key: usize) {
        let on = &self.nodes[node];
        let reads: Vec<Read> = on.tagged(key).map(|key| self.begins(node, key)).collect();
        let this = self.clone();
        let values = on.fetch_many(key, move |key| this.loader(node, key)).await;
        reads.into_iter().zip(values).for_each(|(read, value)| self.returned(read, "a fetch of many", value));
    }

    async fn refresh(&self, node: usize, key: usize) {
        let read = self.begins(node, key);
        let loader = self.loader(node, key);
        self.returned(read, "a refresh", self.nodes[node].refresh(key, loader).await);
    }

    /// Writes the origin's version if the key is absent. It has no tags, and may be the last of two concurrent writes.
    async fn add(&self, node: usize, key: usize) {
        let number = self.book().invalidation_begins(node, "add", |_| false);
        let version = self.book().origin[key];
        self.trace.note_of(key, || format!("node {node}: add of key {key} begins with version {version}"));
        let added = self.nodes[node].add(key, Value { version, write: number + 1 }).await;
        self.trace.note_of(key, || format!("node {node}: add of key {key} is {added:?}"));
        self.book().invalidation_ends(number, added.is_ok());
    }

    /// Removes and returns: a read, and an invalidation if it returned Ok.
    async fn take(&self, node: usize, key: usize) {
        let number = self.book().invalidation_begins(node, "take", |other| other == key);
        let read = self.begins(node, key);
        let taken = self.nodes[node].take(key).await;
        let ok = taken.is_ok();
        self.returned(read, "a take", taken.ok().flatten());
        // A take that failed promises nothing.
        if ok {
            self.book().invalidation_ends(number, ok);
        }
    }

    /// Changes the origin, usually, and invalidates.
    async fn invalidate(&self, node: usize, key: usize) {
        if self.rng.chance(850) {
            let version = self.book().change_origin(key);
            self.trace.note_of(key, || format!("origin: key {key} has version {version}"));
            // Others may have read the new version already.
            sleep(self.rng.ms(0..5)).await;
        }
        if self.rng.chance(self.pace.clears) {
            return self.clear(node).await;
        }
        match self.rng.below(0..9) {
            0..4 => self.delete(node, key).await,
            4..6 => self.write(node, key).await,
            _ => self.invalidate_tag(node, key).await,
        }
    }

    async fn delete(&self, node: usize, key: usize) {
        let number = self.book().invalidation_begins(node, "delete", |other| other == key);
        let name = format!("delete of key {key}");
        self.invalidated(number, node, Some(key), &name, self.nodes[node].delete(key)).await;
    }

    async fn write(&self, node: usize, key: usize) {
        let number = self.book().invalidation_begins(node, "write", |other| other == key);
        let version = self.book().origin[key];
        let name = format!("write of version {version} of key {key}");
        let writing = self.nodes[node].write(key, Value { version, write: number + 1 });
        self.invalidated(number, node, Some(key), &name, writing).await;
    }

    async fn invalidate_tag(&self, node: usize, key: usize) {
        let tag = Node::tag(key);
        let number = self.book().invalidation_begins(node, TAG, |other| Node::tag(other) == tag);
        let name = format!("invalidation of tag {tag}");
        self.invalidated(number, node, None, &name, self.nodes[node].invalidate_tag(key)).await;
    }

    async fn clear(&self, node: usize) {
        let number = self.book().invalidation_begins(node, "clear", |_| true);
        self.invalidated(number, node, None, "clear", self.nodes[node].clear()).await;
    }

    /// Waits, usually, for an invalidation that has started.
    async fn invalidated(
        &self,
        number: usize,
        node: usize,
        only: Option<usize>,
        name: &str,
        invalidating: impl Future<Output = bool>,
    ) {
        let note = |how: &str| {
            let line = || format!("node {node}: {name} {how}");
            match only {
                Some(key) => self.trace.note_of(key, line),
                None => self.trace.note(line),
            }
        };
        note("begins");
        if self.rng.chance(50) {
            // The caller leaves: the outcome is unknown, and the invalidation continues.
            _ = tokio::time::timeout(self.rng.ms(0..20), invalidating).await;
            return note("is abandoned");
        }
        let ok = invalidating.await;
        note(if ok { "is done" } else { "fails" });
        self.book().invalidation_ends(number, ok);
    }
}
