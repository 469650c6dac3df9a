//! The model of a key: what the tiers may have under it.
//!
//! Usually that is one thing. Where it depends on what memory has evicted, or on what Redis had when it was lost, the model
//! keeps each possible content, and every outcome drops those that do not explain it. An outcome that none explains is a fault.

use super::feature::Feature;
use std::time::Duration;

/// A value in the tiers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Life {
    pub(super) number: u64,
    pub(super) stored_at: Duration,
    /// How long it is fresh after it is stored or touched.
    pub(super) ttl: Duration,
    pub(super) grace: Duration,
    pub(super) fresh_until: Duration,
    pub(super) kept_until: Duration,
    /// When it would be dropped if nothing had made it stale.
    pub(super) kept_at_most: Duration,
    /// It is served stale until then, and not loaded.
    pub(super) paused_until: Duration,
    /// What made it stale, and when it would have been stale without that.
    pub(super) softened: Option<(Feature, Duration)>,
    /// When it would have been stale without a touch.
    pub(super) untouched_until: Duration,
    /// How often Redis had come back when it was stored.
    pub(super) returns: usize,
}

/// What a life is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Fresh,
    /// Stale, and served without a load.
    Paused,
    Stale,
    Gone,
}

impl Life {
    pub(super) fn phase(&self, now: Duration) -> Phase {
        match () {
            () if now >= self.kept_until => Phase::Gone,
            () if now < self.paused_until => Phase::Paused,
            () if now < self.fresh_until => Phase::Fresh,
            () => Phase::Stale,
        }
    }

    /// The moments at which its phase may change.
    pub(super) fn moments(&self) -> [Duration; 4] {
        [self.fresh_until, self.kept_until, self.paused_until, self.untouched_until]
    }

    pub(super) fn touched(self, now: Duration) -> Life {
        let fresh_until = now + self.ttl;
        let kept_until = fresh_until + self.grace;
        Life { fresh_until, kept_until, kept_at_most: kept_until, ..self }
    }

    pub(super) fn paused(self, until: Duration) -> Life {
        Life { paused_until: until, ..self }
    }

    /// Made stale at `now`; `None` if it has no grace period.
    pub(super) fn softened(self, now: Duration, by: Feature) -> Option<Life> {
        let is_fresh = self.phase(now) == Phase::Fresh;
        (!self.grace.is_zero()).then(|| Life {
            softened: if is_fresh { Some((by, self.fresh_until)) } else { self.softened },
            fresh_until: self.fresh_until.min(now),
            kept_until: self.kept_until.min(now + self.grace),
            // A value that is served until the next attempt to load is stale already.
            paused_until: if by == Feature::SoftTag { self.paused_until } else { Duration::ZERO },
            ..self
        })
    }
}

/// The phase of what the tiers may have.
pub(super) fn phase(content: &Option<Life>, now: Duration) -> Phase {
    content.as_ref().map_or(Phase::Gone, |life| life.phase(now))
}

/// What the tiers may have under a key.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// One of these is found.
    pub(super) contents: Vec<Option<Life>>,
    /// What Redis may have, or memory does not serve, while Redis is lost.
    pub(super) behind: Vec<Life>,
    /// When its tag was softly invalidated last, if Redis does not know that yet.
    pub(super) pending_soft: Option<Duration>,
    /// What was ended and would still be served, and by what.
    pub(super) ended: Vec<(Life, Feature)>,
}

impl Slot {
    pub(super) fn empty() -> Slot {
        Slot { contents: vec![None], behind: Vec::new(), pending_soft: None, ended: Vec::new() }
    }

    pub(super) fn lives(&self) -> impl Iterator<Item = &Life> {
        self.contents.iter().flatten()
    }

    /// The only content, if there is no doubt.
    pub(super) fn only(&self) -> Option<&Life> {
        match &self.contents[..] {
            [Some(life)] => Some(life),
            _ => None,
        }
    }

    /// Whether the tiers surely have a value in this phase.
    pub(super) fn is_surely(&self, is: Phase, now: Duration) -> bool {
        self.contents.iter().all(|content| phase(content, now) == is)
    }

    pub(super) fn set(&mut self, life: Life) {
        self.contents = vec![Some(life)];
    }

    /// Replaces each content by what it may be instead.
    pub(super) fn replace(&mut self, with: impl Fn(Option<Life>) -> Vec<Option<Life>>) {
        let all: Vec<_> = std::mem::take(&mut self.contents).into_iter().flat_map(with).collect();
        for content in all {
            if !self.contents.contains(&content) {
                self.contents.push(content);
            }
        }
    }

    pub(super) fn may_be_absent(&mut self) {
        self.contents.push(None);
        self.replace(|content| vec![content]);
    }

    pub(super) fn end(&mut self, by: Feature) {
        let ended = self.only().cloned().map(|life| (life, by));
        self.ended.extend(ended);
        (self.contents, self.behind) = (vec![None], Vec::new());
    }

    pub(super) fn soften(&mut self, now: Duration, by: Feature) {
        let softened = |life: Life| {
            // The ledger has the time of the last soft invalidation only, which may be the first that is known of a value.
            let again = life.softened.is_some_and(|(before, _)| before == by && by == Feature::SoftTag);
            let later = Life { kept_until: life.kept_at_most.min(now + life.grace), ..life.clone() };
            life.softened(now, by).into_iter().chain(again.then_some(later)).collect::<Vec<_>>()
        };
        self.replace(|content| match content.map(softened) {
            Some(softened) if !softened.is_empty() => softened.into_iter().map(Some).collect(),
            _ => vec![None],
        });
        self.behind = self.behind.drain(..).flat_map(softened).collect();
    }

    /// Redis is lost. Memory need not have what Redis has.
    pub(super) fn lose(&mut self) {
        self.behind = self.lives().cloned().collect();
        self.may_be_absent();
    }

    /// Nothing of memory is served while Redis is lost.
    pub(super) fn hide(&mut self) {
        self.behind.extend(self.contents.drain(..).flatten());
        self.contents = vec![None];
    }

    /// Redis is back: it may have what it had, and memory what was not compared with it.
    pub(super) fn regain(&mut self) {
        self.contents.extend(self.behind.drain(..).map(Some));
        let soft = self.pending_soft.take();
        self.replace(|content| {
            // Only memory knew until when no load starts.
            let forgotten = content.clone().map(|life| life.paused(Duration::ZERO));
            // What is replayed also reaches what was stored since.
            let softened = soft.and_then(|at| content.clone()?.softened(at, Feature::SoftTag));
            vec![content, forgotten, softened, None]
        });
    }
}
