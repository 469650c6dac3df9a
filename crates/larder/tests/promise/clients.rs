//! The callers of the nodes: the whole API, over an origin whose versions only grow. The book records the start and the
//! end of each operation, and checks each value that is returned.

use super::book::{ADD_WITHOUT_TAG, Book, CLEAR, CLEAR_OF_SPACE, Read, TAG, Value};
use super::calls::{NodeCalls, Outcome};
use super::node::Node;
use super::rng::Rng;
use super::trace::Trace;
use larder::{Source, Update, WriteOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use tokio::sync::Notify;
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
    /// So many loads out of a thousand fail.
    pub(crate) failed_loads: u64,
    /// How long a loader takes at most before it reads the origin, and again after that: usually, and if it is slow.
    pub(crate) loads_ms: (u64, u64),
}

/// The nodes that run. One that dies is replaced by another, whose memory is empty.
#[derive(Debug)]
pub(crate) struct Nodes<N>(Vec<RwLock<(Arc<N>, Arc<Notify>)>>);

impl<N> Nodes<N> {
    pub(crate) fn new(nodes: impl Iterator<Item = N>) -> Arc<Self> {
        Arc::new(Nodes(nodes.map(|node| RwLock::new((Arc::new(node), Arc::default()))).collect()))
    }

    pub(crate) fn node(&self, number: usize) -> Arc<N> {
        self.0[number].read().expect("nobody panics with it").0.clone()
    }

    /// Notified when the node dies.
    fn death(&self, number: usize) -> Arc<Notify> {
        self.0[number].read().expect("nobody panics with it").1.clone()
    }

    /// Ends a node, and every operation of its callers, and puts another in its place.
    pub(crate) fn replace(&self, number: usize, node: N) {
        let mut place = self.0[number].write().expect("nobody panics with it");
        let (_, death) = std::mem::replace(&mut *place, (Arc::new(node), Arc::default()));
        death.notify_waiters();
    }
}

pub(crate) struct Clients<N = Node> {
    pub(crate) rng: Arc<Rng>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) nodes: Arc<Nodes<N>>,
    pub(crate) book: Arc<Mutex<Book>>,
    pub(crate) pace: Pace,
    /// While it is set nothing is changed.
    pub(crate) quiet: Arc<AtomicBool>,
    pub(crate) keys: usize,
}

impl<N> Clone for Clients<N> {
    fn clone(&self) -> Self {
        Clients {
            rng: self.rng.clone(),
            trace: self.trace.clone(),
            nodes: self.nodes.clone(),
            book: self.book.clone(),
            pace: self.pace,
            quiet: self.quiet.clone(),
            keys: self.keys,
        }
    }
}

impl<N: NodeCalls> Clients<N> {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("nobody panics with it")
    }

    pub(crate) fn is_over(&self) -> bool {
        self.book().violation.is_some()
    }

    fn node(&self, number: usize) -> Arc<N> {
        self.nodes.node(number)
    }

    /// One operation of one caller of a node. It ends with the node.
    pub(crate) async fn act(&self, node: usize) {
        let death = self.nodes.death(node);
        tokio::select! {
            biased;
            () = death.notified() => self.trace.note(|| format!("node {node}: an operation ends with it")),
            () = self.operate(node) => {}
        }
    }

    async fn operate(&self, node: usize) {
        self.book().node_is_called(node);
        self.node(node).note_coherence();
        let key = self.rng.below(0..self.keys as u64) as usize;
        let reads = self.quiet.load(Ordering::SeqCst) || self.rng.chance(self.pace.only_reads);
        match self.rng.below(0..if reads { 70 } else { 112 }) {
            0..40 => self.fetch(node, key).await,
            40..55 => self.read(node, key).await,
            55..62 => self.read_many(node).await,
            62..70 => self.fetch_many(node, key).await,
            70..74 => self.refresh(node, key).await,
            74..77 => self.add(node, key).await,
            77..80 => self.take(node, key).await,
            80..82 => self.node(node).expire(key).await,
            82..84 => self.node(node).soften_tag(key).await,
            84..86 => self.node(node).use_raw(key).await,
            86..92 => self.update(node, key).await,
            92..94 => self.touch(node, key).await,
            _ => self.invalidate(node, key).await,
        }
    }

    /// A loader that takes some time, reads the origin at some moment of it, and sometimes fails.
    fn loader(&self, node: usize, key: usize) -> impl Future<Output = Outcome> + Send + use<N> {
        let this = self.clone();
        let (usual, slow) = this.pace.loads_ms;
        let most = if this.rng.chance(this.pace.slow_loads) { slow } else { usual };
        let (before, after) = (this.rng.ms(0..most), this.rng.ms(0..most));
        let fails = this.rng.chance(this.pace.failed_loads);
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
        let on = self.node(node);
        if self.rng.chance(250) {
            let leaves = self.rng.chance(100);
            return self.returned(read, "a lease", on.lease(key, loader, leaves).await);
        }
        let fetching = on.fetch(key, loader);
        if self.rng.chance(50) {
            // The caller leaves.
            _ = tokio::time::timeout(self.rng.ms(0..50), fetching).await;
            return;
        }
        self.returned(read, "a fetch", fetching.await);
    }

    async fn read(&self, node: usize, key: usize) {
        let read = self.begins(node, key);
        self.returned(read, "a hit", self.node(node).hit(key).await);
        let read = self.begins(node, key);
        self.returned(read, "a read", self.node(node).read(key).await);
    }

    async fn read_many(&self, node: usize) {
        let reads: Vec<Read> = (0..self.keys).map(|key| self.begins(node, key)).collect();
        let values = self.node(node).read_many().await;
        reads.into_iter().zip(values).for_each(|(read, value)| self.returned(read, "a read of all", value));
    }

    async fn fetch_many(&self, node: usize, key: usize) {
        let on = self.node(node);
        let reads: Vec<Read> = Node::tagged(key, self.keys).map(|key| self.begins(node, key)).collect();
        let this = self.clone();
        let loader = move |key| this.loader(node, key);
        let values = match self.rng.chance(250) {
            true => on.lease_many(key, loader).await,
            false => on.fetch_many(key, loader).await,
        };
        reads.into_iter().zip(values).for_each(|(read, value)| self.returned(read, "a fetch of many", value));
    }

    /// The loader of a refresh begins after the call.
    async fn refresh(&self, node: usize, key: usize) {
        let read = self.begins(node, key);
        let at_call = self.book().origin[key];
        let loader = self.loader(node, key);
        let refreshed = self.node(node).refresh(key, loader).await;
        self.returned(read, "a refresh", refreshed.map(|(value, _)| value));
        if let Some((value, source)) = refreshed
            && source != Source::Stale
        {
            self.book().check_refresh(read, value, at_call);
        }
    }

    /// Writes the origin's version if the key is absent. It may be the last of two concurrent writes.
    async fn add(&self, node: usize, key: usize) {
        let tagged = self.rng.chance(500);
        let what = if tagged { "add" } else { ADD_WITHOUT_TAG };
        let number = self.book().invalidation_begins(node, what, |_| false);
        let version = self.book().origin[key];
        self.trace.note_of(key, || format!("node {node}: add of key {key} begins with version {version}"));
        let added = self.node(node).add(key, Value { version, write: number + 1 }, tagged).await;
        self.trace.note_of(key, || format!("node {node}: add of key {key} is {added:?}"));
        self.book().invalidation_ends(number, added.is_ok());
    }

    /// Removes and returns: a read, and an invalidation if it returned Ok.
    async fn take(&self, node: usize, key: usize) {
        let number = self.book().invalidation_begins(node, "take", |other| other == key);
        let read = self.begins(node, key);
        let taken = self.node(node).take(key).await;
        let ok = taken.is_ok();
        let removed = taken.ok().flatten();
        self.returned(read, "a take", removed);
        // A take that failed promises nothing.
        if ok {
            self.book().invalidation_ends(number, ok);
        }
        if let Some(taken) = removed {
            self.book().is_replaced(key, taken, number);
        }
    }

    /// Updates on a node, and usually on another one at the same time.
    async fn update(&self, node: usize, key: usize) {
        if self.rng.chance(300) {
            return self.update_some(node, key).await;
        }
        let other = (node + 1) % self.nodes.0.len();
        let death = self.nodes.death(other);
        let updating_there = async {
            tokio::select! {
                biased;
                () = death.notified() => {}
                () = self.update_some(other, key) => {}
            }
        };
        tokio::join!(self.update_some(node, key), updating_there);
    }

    /// Each update makes its value from the one that it gets: the higher version of that and of the origin.
    async fn update_some(&self, node: usize, key: usize) {
        for _ in 0..self.rng.below(1..4) {
            self.book().node_is_called(node);
            // Then nobody may have the former value afterwards.
            if self.rng.chance(500) {
                let version = self.book().change_origin(key);
                self.trace.note_of(key, || format!("origin: key {key} has version {version}"));
            }
            let number = self.book().invalidation_begins(node, "update", |other| other == key);
            let (read, version) = (self.begins(node, key), self.book().origin[key]);
            self.trace
                .note_of(key, || format!("node {node}: update of key {key} begins with version {version}"));
            let (this, keeps) = (self.clone(), self.rng.chance(100));
            // Usually with the times and tags that are there.
            let options = self.rng.chance(200).then(|| WriteOptions::new().tag(Node::tag(key)));
            let update = move |got: Option<&Value>| {
                let version = got.map_or(version, |got| version.max(got.version));
                let value = Value { version, write: number + 1 };
                this.trace.note_of(key, || format!("node {node}: an update of key {key} gets {got:?}"));
                this.book().update_decides(number, got.copied(), options.is_some().then_some(true));
                match &options {
                    _ if keeps => Update::Keep,
                    Some(options) => Update::PutWith(value, options.clone()),
                    None => Update::Put(value),
                }
            };
            let updated = self.node(node).update(key, update).await;
            self.trace.note_of(key, || format!("node {node}: update of key {key} is {updated:?}"));
            // One that failed promises nothing.
            if matches!(updated, Ok(true)) {
                self.book().update_ends(number, read);
            }
        }
    }

    /// Another time to live, which may be shorter than the pauses.
    async fn touch(&self, node: usize, key: usize) {
        let ttl = self.rng.ms(1..3_000);
        self.trace.note_of(key, || format!("node {node}: touch of key {key} for {} ms", ttl.as_millis()));
        self.node(node).touch(key, ttl).await;
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
        match self.rng.below(0..10) {
            0..4 => self.delete(node, key).await,
            4..6 => self.write(node, key).await,
            6..9 => self.invalidate_tag(node, key).await,
            _ => self.delete_matched(node, self.rng.chance(800).then_some(key)).await,
        }
    }

    /// By a pattern that matches one key, or all.
    async fn delete_matched(&self, node: usize, only: Option<usize>) {
        let is_about = |other| only.is_none_or(|key| key == other);
        let number = self.book().invalidation_begins(node, "deletion by a pattern", is_about);
        let name =
            format!("deletion by a pattern of {}", only.map_or("all".into(), |key| format!("key {key}")));
        let on = self.node(node);
        self.invalidated(number, node, only, &name, on.delete_matched(only)).await;
    }

    async fn delete(&self, node: usize, key: usize) {
        let number = self.book().invalidation_begins(node, "delete", |other| other == key);
        let name = format!("delete of key {key}");
        let on = self.node(node);
        self.invalidated(number, node, Some(key), &name, on.delete(key)).await;
    }

    async fn write(&self, node: usize, key: usize) {
        let number = self.book().invalidation_begins(node, "write", |other| other == key);
        let version = self.book().origin[key];
        let name = format!("write of version {version} of key {key}");
        let on = self.node(node);
        let writing = on.write(key, Value { version, write: number + 1 });
        self.invalidated(number, node, Some(key), &name, writing).await;
    }

    async fn invalidate_tag(&self, node: usize, key: usize) {
        let tag = Node::tag(key);
        let number = self.book().invalidation_begins(node, TAG, |other| Node::tag(other) == tag);
        let name = format!("invalidation of tag {tag}");
        let on = self.node(node);
        self.invalidated(number, node, None, &name, on.invalidate_tag(key)).await;
    }

    async fn clear(&self, node: usize) {
        if self.rng.chance(500) {
            let level = self.rng.below(0..2) as usize;
            let number =
                self.book().invalidation_begins(node, CLEAR_OF_SPACE, |key| Node::level(key) >= level);
            let (on, name) = (self.node(node), format!("clear of the space of level {level}"));
            return self.invalidated(number, node, None, &name, on.clear_space(level)).await;
        }
        let number = self.book().invalidation_begins(node, CLEAR, |_| true);
        let on = self.node(node);
        self.invalidated(number, node, None, "clear", on.clear()).await;
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
