//! The book: the record of a history, and the promise as a question: was this read allowed to return that value?

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// What the nodes of a history have promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// How long after an invalidation reads on another node may return the old value.
    pub(crate) max_lag: Duration,
    /// How long nodes that have lost the server may serve from memory.
    pub(crate) disconnected: Duration,
    /// Whether nodes may lose it at any time, and not only when the book records a fault of theirs.
    pub(crate) faulty: bool,
    /// How long the nodes may take to replay what a restarted server has lost, once they can reach it.
    pub(crate) recovery: Duration,
}

/// The node number of a program that is no node.
pub(crate) const PROGRAM: usize = usize::MAX;
/// The node number of all nodes that have died.
const DEAD: usize = usize::MAX - 1;

/// The name of an invalidation by tag.
pub(crate) const TAG: &str = "invalidation of a tag";

/// The name of an invalidation of everything.
pub(crate) const CLEAR: &str = "clear";

/// The name of an invalidation of a space.
pub(crate) const CLEAR_OF_SPACE: &str = "clear of a space";

/// The name of an add of a value without tags.
pub(crate) const ADD_WITHOUT_TAG: &str = "add without a tag";

/// A point in a history: its position in the order of events, and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) position: u64,
    pub(crate) time: Instant,
}

/// A delete, a write, an invalidation of tags or a clear.
#[derive(Clone, Debug)]
pub(crate) struct Invalidation {
    pub(crate) node: usize,
    pub(crate) what: &'static str,
    /// The origin's versions at its start, of the keys that it invalidates.
    pub(crate) floors: Vec<Option<u64>>,
    pub(crate) began: Moment,
    /// When it returned, and whether with Ok; `None` if it has not.
    pub(crate) ended: Option<(Moment, bool)>,
}

/// A cached value: the version of the origin, and the write that stored it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Value {
    pub(crate) version: u64,
    /// The number of the invalidation that wrote it, plus one; 0 if a loader returned it.
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
    restored: Option<Instant>,
    /// Since when each node had listened without a break at that time; `None` if it did not listen.
    listened_before_restore: Vec<Option<Instant>>,
    /// Until when nodes may read values from it that were invalidated before that.
    recovering_until: Option<Instant>,
    /// Until when each node was disconnected or stopped, or did not run; `None` if it never was.
    harmed: Vec<Option<Instant>>,
    /// Which keys a restored server may have lost, and whether the ledger; all if it is not known.
    at_risk: Option<(Vec<bool>, bool)>,
    /// The writes that stored values without tags: updates of such values, or of none.
    untagged: BTreeSet<usize>,
    /// What the last call of the function of each update got.
    updated: BTreeMap<usize, Option<Value>>,
    /// The confirmed update or take that has replaced or removed the value of each write.
    replaced: BTreeMap<usize, usize>,
    /// When each node was first called: until then it has not connected.
    called: Vec<Option<Instant>>,
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
            restored: None,
            listened_before_restore: Vec::new(),
            recovering_until: None,
            harmed: vec![None; nodes],
            at_risk: None,
            untagged: BTreeSet::new(),
            updated: BTreeMap::new(),
            replaced: BTreeMap::new(),
            called: vec![None; nodes],
            reads: 0,
            violation: None,
        }
    }

    pub(crate) fn now(&mut self) -> Moment {
        self.next += 1;
        Moment { position: self.next, time: Instant::now() }
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

    fn has_no_tags(&self, value: Value) -> bool {
        value.write.checked_sub(1).is_some_and(|number| {
            self.invalidations[number].what == ADD_WITHOUT_TAG || self.untagged.contains(&number)
        })
    }

    pub(crate) fn invalidation_ends(&mut self, number: usize, ok: bool) {
        self.invalidations[number].ended = Some((self.now(), ok));
    }

    /// The function of an update has got this value, and stores another one: with tags, without, or with those that it got.
    pub(crate) fn update_decides(&mut self, number: usize, got: Option<Value>, is_tagged: Option<bool>) {
        self.updated.insert(number, got);
        if is_tagged.unwrap_or_else(|| got.is_some_and(|got| !self.has_no_tags(got))) {
            self.untagged.remove(&number);
        } else {
            self.untagged.insert(number);
        }
    }

    /// An update has stored a value. That which it replaced may not have been invalidated before it began, on whatever node,
    /// and no other update may have replaced it.
    pub(crate) fn update_ends(&mut self, number: usize, read: Read) {
        self.invalidation_ends(number, true);
        if let Some(got) = self.updated.get(&number).copied().flatten() {
            self.check_within(read, got, false);
            self.is_replaced(read.key, got, number);
        }
    }

    /// A confirmed update or take has replaced or removed a value. Only one of them may have: the value of the other would be
    /// lost. A restored server may have the value again.
    pub(crate) fn is_replaced(&mut self, key: usize, value: Value, by: usize) {
        if value.write == 0 {
            // Several loads may have returned it.
            return;
        }
        let Some(before) = self.replaced.insert(value.write, by) else { return };
        let began = self.invalidations[before].began.time;
        if self.restored.is_none_or(|restored| restored < began) && self.violation.is_none() {
            let nodes = [before, by].map(|number| self.invalidations[number].node);
            let words = format!(
                "node {} and node {} both replaced the same value of key {key}, of version {}: one of them was lost",
                nodes[0], nodes[1], value.version
            );
            self.violation = Some(Violation { key, words });
        }
    }

    pub(crate) fn node_is_harmed(&mut self, node: usize, until: Instant) {
        self.harmed[node] = self.harmed[node].max(Some(until));
        // Only nodes that reach the server can replay what it has lost.
        if self.recovering_until.is_some_and(|until| until > Instant::now()) {
            self.recovering_until = self.recovering_until.max(Some(until + self.terms.recovery));
        }
    }

    /// The end of what harmed the nodes was not known when it began: it is over now.
    #[allow(dead_code, reason = "the checker knows the end")]
    pub(crate) fn nodes_recover(&mut self, at: Instant) {
        self.harmed.iter_mut().flatten().for_each(|until| *until = at.min(*until));
        self.recovering_until = self.recovering_until.map(|until| until.min(at + self.terms.recovery));
    }

    /// Only a server with these keys, and with the ledger or not, is ever lost.
    #[allow(dead_code, reason = "the checker has one server")]
    pub(crate) fn only_these_are_at_risk(&mut self, keys: Vec<bool>, ledger: bool) {
        self.at_risk = Some((keys, ledger));
    }

    /// A node has died. What it has not confirmed is lost with it. The node that takes its number is another one.
    pub(crate) fn node_dies(&mut self, node: usize) {
        for invalidation in self.invalidations.iter_mut().filter(|invalidation| invalidation.node == node) {
            invalidation.node = DEAD;
            invalidation.ended = invalidation.ended.filter(|(_, ok)| *ok);
        }
        self.node_is_harmed(node, Instant::now());
        self.called[node] = None;
    }

    /// A node is called, and connects if it has not yet.
    pub(crate) fn node_is_called(&mut self, node: usize) {
        self.called[node].get_or_insert_with(Instant::now);
    }

    /// From this moment on, at the latest, the server is an older copy of itself.
    pub(crate) fn server_is_restored(&mut self, at: Instant) {
        let since = |(called, harmed): (&Option<Instant>, &Option<Instant>)| {
            called.map(|at| harmed.map_or(at, |until| at.max(until)))
        };
        self.listened_before_restore = self.called.iter().zip(&self.harmed).map(since).collect();
        self.restored = Some(at);
        // Nodes that are disconnected now replay nothing until they are back.
        let back = self.harmed.iter().flatten().max().map_or(at, |until| at.max(*until));
        self.recovering_until = Some(back + self.terms.recovery);
    }

    /// Checks whether a read may return a value, and records a violation if it may not.
    pub(crate) fn check(&mut self, read: Read, value: Value) {
        self.check_within(read, value, true);
    }

    /// The same for a caller that may be behind the invalidations of other nodes, or not.
    fn check_within(&mut self, read: Read, value: Value, may_lag: bool) {
        self.reads += 1;
        // Versions only grow, so floors do: before the last floor that is not above the value there is none above it.
        let about_key = self
            .invalidations
            .iter()
            .rev()
            .filter_map(|invalidation| invalidation.floors[read.key].map(|floor| (invalidation, floor)));
        let mut too_new = about_key.take_while(|(_, floor)| value.version < *floor);
        let broken = too_new.find(|(invalidation, _)| self.forbids(invalidation, read, value, may_lag));
        if let Some((invalidation, floor)) = broken
            && self.violation.is_none()
        {
            let when = invalidation.ended.map_or(Duration::ZERO, |(ended, _)| read.began.time - ended.time);
            let words = format!(
                "node {} read version {} of key {}; the {} of {} that had returned {} ms before had begun at version {floor}",
                read.node,
                value.version,
                read.key,
                invalidation.what,
                match invalidation.node {
                    PROGRAM => "a program".to_owned(),
                    DEAD => "a node that has died".to_owned(),
                    node => format!("node {node}"),
                },
                when.as_millis(),
            );
            self.violation = Some(Violation { key: read.key, words });
        }
    }

    /// Checks the value of a refresh that was called when the origin had the version `at_call`. A write during the
    /// refresh may end it too.
    pub(crate) fn check_refresh(&mut self, read: Read, value: Value, at_call: u64) {
        if value.write == 0 && value.version < at_call && self.violation.is_none() {
            let words = format!(
                "a refresh of key {} by node {} returned version {}; the origin had version {at_call} when it was called",
                read.key, read.node, value.version
            );
            self.violation = Some(Violation { key: read.key, words });
        }
    }

    /// Whether an invalidation of newer versions forbids a read to return a value.
    fn forbids(&self, invalidation: &Invalidation, read: Read, value: Value, may_lag: bool) -> bool {
        let Some((ended, ok)) = invalidation.ended else { return false };
        if invalidation.what == TAG && self.has_no_tags(value) {
            return false;
        }
        if ended.position > read.began.position || self.was_written_meanwhile(invalidation, value) {
            return false;
        }
        if invalidation.node == PROGRAM
            && self.restored.is_some_and(|restored| invalidation.began.time <= restored)
        {
            // No node replays it.
            return false;
        }
        if invalidation.node == DEAD && self.is_lost(invalidation, read.key) && !self.was_heard(ended.time) {
            // No node replays it.
            return false;
        }
        if invalidation.node == read.node {
            // Also if it returned Err: it takes effect on its own node.
            return true;
        }
        // How long a replay takes is known no better than that.
        let may_lag = may_lag || self.is_lost(invalidation, read.key);
        let lag = if may_lag { self.lag(read.node) } else { Duration::ZERO };
        ok && read.began.time > self.replayed_by(invalidation, read.key, ended.time) + lag
    }

    /// Of two concurrent writes either may be the last. A write that failed is still replayed.
    fn was_written_meanwhile(&self, invalidation: &Invalidation, value: Value) -> bool {
        let write = value.write.checked_sub(1).map(|number| &self.invalidations[number]);
        write.is_some_and(|write| match write.ended {
            Some((ended, true)) => ended.position > invalidation.began.position,
            Some((_, false)) | None => true,
        })
    }

    /// Whether the server may have lost an invalidation of a key.
    fn is_lost(&self, invalidation: &Invalidation, key: usize) -> bool {
        let is_at_risk = self.at_risk.as_ref().is_none_or(|(keys, ledger)| match invalidation.what {
            TAG | CLEAR | CLEAR_OF_SPACE => *ledger,
            _ => keys[key],
        });
        is_at_risk && self.restored.is_some_and(|restored| invalidation.began.time <= restored)
    }

    /// Whether some node listened when the server lost an invalidation: then that node has heard it, or knows that the
    /// data are older than its subscription.
    fn was_heard(&self, ended: Instant) -> bool {
        let Some(restored) = self.restored.filter(|_| !self.terms.faulty) else { return false };
        let listens =
            |since: &Option<Instant>| since.is_some_and(|since| since + self.terms.recovery <= restored);
        ended + self.terms.max_lag <= restored && self.listened_before_restore.iter().any(listens)
    }

    /// When an invalidation is in effect on the server, also if that was restored since.
    fn replayed_by(&self, invalidation: &Invalidation, key: usize, ended: Instant) -> Instant {
        let replayed = self.recovering_until.filter(|_| self.is_lost(invalidation, key));
        replayed.map_or(ended, |replayed| replayed.max(ended))
    }

    /// How long after that it takes effect on another node.
    fn lag(&self, node: usize) -> Duration {
        let may_be_lost = self.terms.faulty || self.harmed[node].is_some();
        self.terms.max_lag + if may_be_lost { self.terms.disconnected } else { Duration::ZERO }
    }
}
