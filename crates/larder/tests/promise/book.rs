//! What is known of a history, and the promise as a question: was this read allowed to return that?

use std::time::Duration;
use tokio::time::Instant;

/// What the nodes of a history have promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Reads on another node may be so late after an invalidation.
    pub(crate) max_lag: Duration,
    /// How long nodes that have lost the server may go on.
    pub(crate) disconnected: Duration,
    /// Whether nodes may lose it at any time, and not only when the book is told that they are harmed.
    pub(crate) faulty: bool,
}

/// How long the nodes may take to replay what a restarted server has forgotten, once they can reach it.
pub(crate) const RECOVERY: Duration = Duration::from_secs(5);

/// The node of a program that knows nothing of caches.
pub(crate) const PROGRAM: usize = usize::MAX;

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
    pub(crate) floors: Vec<Option<u64>>,
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
    pub(crate) origin: Vec<u64>,
    invalidations: Vec<Invalidation>,
    terms: Terms,
    /// When the server was last started from an older snapshot.
    went_back: Option<Instant>,
    /// Until when nodes may read there what was invalidated before that.
    forgetful_until: Option<Instant>,
    /// Which nodes were ever cut off or stopped.
    harmed: Vec<bool>,
    pub(crate) reads: u64,
    pub(crate) violation: Option<Violation>,
}

/// A read that broke the promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) key: usize,
    pub(crate) words: String,
}

impl Book {
    pub(crate) fn new(nodes: usize, keys: usize, terms: Terms) -> Self {
        Book {
            next: 0,
            origin: vec![1; keys],
            invalidations: Vec::new(),
            terms,
            went_back: None,
            forgetful_until: None,
            harmed: vec![false; nodes],
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
        is_about: impl Fn(usize) -> bool,
    ) -> usize {
        let versions = self.origin.iter().enumerate();
        let floors = versions.map(|(key, version)| is_about(key).then_some(*version)).collect();
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
        self.harmed[node] = true;
        // Only those who reach the server can replay what it has forgotten.
        if self.forgetful_until.is_some_and(|forgetful| forgetful > Instant::now()) {
            self.forgetful_until = self.forgetful_until.max(Some(until + RECOVERY));
        }
    }

    /// The server is another one from this moment on, at the latest: an older copy of itself.
    pub(crate) fn server_goes_back(&mut self, at: Instant) {
        self.went_back = Some(at);
        self.forgetful_until = Some(at + RECOVERY);
    }

    /// Looks whether a read may return a value, and remembers it if it may not.
    pub(crate) fn check(&mut self, read: Read, value: Value) {
        self.reads += 1;
        // The origin only grows, and with it the floors: before the last one that is not above the value none is.
        let about_key = self
            .invalidations
            .iter()
            .rev()
            .filter_map(|invalidation| invalidation.floors[read.key].map(|floor| (invalidation, floor)));
        let mut too_new = about_key.take_while(|(_, floor)| value.version < *floor);
        let broken = too_new.find(|(invalidation, _)| self.forbids(invalidation, read, value));
        if let Some((invalidation, floor)) = broken
            && self.violation.is_none()
        {
            let when = invalidation.ended.map_or(Duration::ZERO, |(ended, _)| read.began.time - ended.time);
            let words = format!(
                "node {} read version {} of key {}; the {} of node {} that had returned {} ms before had begun at version {floor}",
                read.node,
                value.version,
                read.key,
                invalidation.what,
                invalidation.node,
                when.as_millis(),
            );
            self.violation = Some(Violation { key: read.key, words });
        }
    }

    /// Whether an invalidation of newer versions forbids a read to return a value.
    fn forbids(&self, invalidation: &Invalidation, read: Read, value: Value) -> bool {
        let Some((ended, ok)) = invalidation.ended else { return false };
        if invalidation.what == TAG && self.has_no_tags(value) {
            return false;
        }
        if ended.place > read.began.place || self.was_written_meanwhile(invalidation, value) {
            return false;
        }
        if invalidation.node == PROGRAM
            && self.went_back.is_some_and(|went_back| invalidation.began.time <= went_back)
        {
            // Nobody repeats it.
            return false;
        }
        if invalidation.node == read.node {
            // Also if it returned Err: it holds here.
            return true;
        }
        ok && read.began.time > self.holds_elsewhere_from(invalidation, read.node, ended.time)
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
    fn holds_elsewhere_from(&self, invalidation: &Invalidation, reader: usize, ended: Instant) -> Instant {
        let forgotten = self.went_back.is_some_and(|went_back| invalidation.began.time <= went_back);
        let replayed = self.forgetful_until.filter(|_| forgotten);
        let from = replayed.map_or(ended, |replayed| replayed.max(ended));
        let may_be_lost = self.terms.faulty || self.harmed[reader];
        from + self.terms.max_lag + if may_be_lost { self.terms.disconnected } else { Duration::ZERO }
    }
}
