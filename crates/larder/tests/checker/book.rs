//! What is known of a history, and the promise as a question: was this read allowed to return that?

use std::time::Duration;
use tokio::time::Instant;

pub(crate) const KEYS: usize = 3;
/// Reads on another node may be so late after an invalidation.
pub(crate) const MAX_LAG: Duration = Duration::from_secs(1);
/// How long the nodes may take to replay what a restarted server has forgotten, once they can reach it.
const RECOVERY: Duration = Duration::from_secs(5);

/// What an invalidation by tag is called.
pub(crate) const TAG: &str = "invalidation of a tag";

/// A point in a history: the order in which things happened, and when that was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) place: u64,
    pub(crate) time: Instant,
}

/// A delete, a write, an invalidation of tags or a clear.
#[derive(Clone, Debug)]
pub(crate) struct Invalidation {
    pub(crate) node: usize,
    pub(crate) what: &'static str,
    /// The origin's versions when it began, of the keys that it is about.
    pub(crate) floors: [Option<u64>; KEYS],
    pub(crate) began: Moment,
    /// When it returned, if it did, and whether that was Ok.
    pub(crate) ended: Option<(Moment, bool)>,
}

/// What the caches hold: which version of the origin, and which write it came by; 0 for loaders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Value {
    pub(crate) version: u64,
    /// The number of the invalidation that wrote it, plus one.
    pub(crate) write: usize,
}

/// A read, a fetch, or one key of many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) node: usize,
    pub(crate) key: usize,
    pub(crate) began: Moment,
}

#[derive(Debug)]
pub(crate) struct Book {
    next: u64,
    /// The versions at the origin. They only grow.
    pub(crate) origin: [u64; KEYS],
    invalidations: Vec<Invalidation>,
    /// How long nodes that have lost the server may go on.
    disconnected: Duration,
    /// Whether the network by itself makes nodes lose it.
    stormy: bool,
    /// When the server was last started from an older snapshot.
    went_back: Option<Instant>,
    /// Until when each node was last cut off or stopped.
    harmed_until: Vec<Option<Instant>>,
    pub(crate) reads: u64,
    pub(crate) violation: Option<String>,
}

impl Book {
    pub(crate) fn new(nodes: usize, disconnected: Duration, stormy: bool) -> Self {
        Book {
            next: 0,
            origin: [1; KEYS],
            invalidations: Vec::new(),
            disconnected,
            stormy,
            went_back: None,
            harmed_until: vec![None; nodes],
            reads: 0,
            violation: None,
        }
    }

    pub(crate) fn now(&mut self) -> Moment {
        self.next += 1;
        Moment { place: self.next, time: Instant::now() }
    }

    pub(crate) fn change_origin(&mut self, key: usize) -> u64 {
        self.origin[key] += 1;
        self.origin[key]
    }

    pub(crate) fn invalidation_begins(
        &mut self,
        node: usize,
        what: &'static str,
        keys: [bool; KEYS],
    ) -> usize {
        let floors = std::array::from_fn(|key| keys[key].then_some(self.origin[key]));
        let began = self.now();
        self.invalidations.push(Invalidation { node, what, floors, began, ended: None });
        self.invalidations.len() - 1
    }

    /// Whether this value came by an add, which names no tags.
    fn has_no_tags(&self, value: Value) -> bool {
        value.write.checked_sub(1).is_some_and(|number| self.invalidations[number].what == "add")
    }

    pub(crate) fn invalidation_ends(&mut self, number: usize, ok: bool) {
        self.invalidations[number].ended = Some((self.now(), ok));
    }

    pub(crate) fn node_is_harmed(&mut self, node: usize, until: Instant) {
        self.harmed_until[node] = self.harmed_until[node].max(Some(until));
    }

    pub(crate) fn server_went_back(&mut self) {
        self.went_back = Some(Instant::now());
    }

    /// Looks whether a read may return a value, and remembers it if it may not.
    pub(crate) fn check(&mut self, read: Read, value: Value) {
        self.reads += 1;
        let broken = self.invalidations.iter().find(|invalidation| self.forbids(invalidation, read, value));
        if let Some(invalidation) = broken
            && self.violation.is_none()
        {
            let when = invalidation.ended.map_or(Duration::ZERO, |(ended, _)| read.began.time - ended.time);
            self.violation = Some(format!(
                "node {} read version {} of key {}; the {} of node {} that had returned {} ms before had begun at version {}",
                read.node,
                value.version,
                read.key,
                invalidation.what,
                invalidation.node,
                when.as_millis(),
                invalidation.floors[read.key].unwrap_or_default(),
            ));
        }
    }

    fn forbids(&self, invalidation: &Invalidation, read: Read, value: Value) -> bool {
        let Some((ended, ok)) = invalidation.ended else { return false };
        if invalidation.what == TAG && self.has_no_tags(value) {
            return false;
        }
        let too_old = invalidation.floors[read.key].is_some_and(|floor| value.version < floor);
        if !too_old || ended.place > read.began.place || self.was_written_meanwhile(invalidation, value) {
            return false;
        }
        if invalidation.node == read.node {
            // Also if it returned Err: it holds here.
            return true;
        }
        ok && read.began.time > self.holds_elsewhere_from(invalidation.node, read.node, ended.time)
    }

    /// Of two writes at the same time either may be the last. One that failed goes on being tried.
    fn was_written_meanwhile(&self, invalidation: &Invalidation, value: Value) -> bool {
        let write = value.write.checked_sub(1).map(|number| &self.invalidations[number]);
        write.is_some_and(|write| match write.ended {
            Some((ended, true)) => ended.place > invalidation.began.place,
            Some((_, false)) | None => true,
        })
    }

    /// From when on what one node invalidated is gone from another.
    fn holds_elsewhere_from(&self, invalidator: usize, reader: usize, ended: Instant) -> Instant {
        let mut from = ended;
        if let Some(went_back) = self.went_back {
            // The server has forgotten it, unless it came later: until its node has said it again.
            let reachable = self.harmed_until[invalidator].max(self.harmed_until[reader]);
            from = from.max(went_back.max(reachable.unwrap_or(went_back)) + RECOVERY);
        }
        let may_be_lost = self.stormy || self.harmed_until[reader].is_some();
        from + MAX_LAG + if may_be_lost { self.disconnected } else { Duration::ZERO }
    }
}
