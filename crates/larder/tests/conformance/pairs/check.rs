//! The comparison of an outcome with the model.

use super::feature::Feature;
use super::slot::{Life, Phase, phase};
use super::world::{Key, Place, RETRY_AFTER, SLACK, World};
use larder::{Fetched, Source};
use std::time::Duration;

/// The outcome of a fetch, a refresh or a read.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// A fresh value, without a load.
    Fresh(u64),
    /// A stale value, without a load.
    Paused(u64),
    /// A stale value, since the load failed or took too long.
    Stale(u64),
    /// What was loaded.
    Loaded(Life),
    /// Nothing, and no load.
    Missed,
    /// The load failed.
    Failed,
}

impl World {
    /// Drops the contents of a key that do not explain the outcome, and follows the others.
    pub(super) fn observe(&mut self, key: Key, seen: &Seen, is_refresh: bool) {
        let (now, slot) = (self.now, &self.slots[&key]);
        // Only memory knows until when no load starts.
        let may_be_evicted = self.place == Place::Redis;
        let explains = |content: &Option<Life>| {
            let (is, number) = (phase(content, now), content.as_ref().map(|life| life.number));
            let is_stale = is == Phase::Stale || is == Phase::Paused && may_be_evicted;
            let has_grace = content.as_ref().is_some_and(|life| !life.grace.is_zero());
            match seen {
                Seen::Fresh(found) => is == Phase::Fresh && number == Some(*found) && !is_refresh,
                Seen::Paused(found) => is == Phase::Paused && number == Some(*found) && !is_refresh,
                Seen::Stale(found) => {
                    let may_be = is_stale || is_refresh && is != Phase::Gone && has_grace;
                    may_be && number == Some(*found)
                }
                Seen::Loaded(_) => is_refresh || is_stale || is == Phase::Gone,
                Seen::Missed => is != Phase::Fresh,
                Seen::Failed => is == Phase::Gone || is_refresh && is == Phase::Fresh && !has_grace,
            }
        };
        let explaining: Vec<_> = slot.contents.iter().filter(|content| explains(content)).cloned().collect();
        if explaining.is_empty() {
            self.fail(key, &format!("{seen:?}"));
        }
        self.note_effects(key, seen, &explaining);
        let slot = self.slot(key);
        slot.contents = explaining;
        match seen {
            Seen::Loaded(life) => {
                slot.set(life.clone());
                slot.ended.clear();
            }
            Seen::Stale(_) => slot.replace(|content| match content {
                Some(life) if life.phase(now) != Phase::Fresh => {
                    vec![Some(life.paused(now + RETRY_AFTER))]
                }
                content => vec![content],
            }),
            _ => {}
        }
        self.hide();
    }

    fn note_effects(&mut self, key: Key, seen: &Seen, explaining: &[Option<Life>]) {
        let now = self.now;
        if let [Some(life)] = explaining {
            if matches!(seen, Seen::Fresh(_) | Seen::Paused(_) | Seen::Stale(_)) {
                self.note_served(life);
            }
            if let Some((by, until)) = life.softened
                && now < until
                && life.phase(now) != Phase::Fresh
            {
                self.note(life.number, by);
            }
        }
        let slot = self.slots[&key].clone();
        let would_be_served = |life: &Life| match life.phase(now) {
            Phase::Fresh => !matches!(seen, Seen::Stale(_)),
            Phase::Paused | Phase::Stale => matches!(seen, Seen::Failed),
            Phase::Gone => false,
        };
        if self.is_hidden() {
            let unserved = slot.behind.iter().filter(|life| would_be_served(life));
            unserved.for_each(|life| self.note(life.number, Feature::Lost));
            return;
        }
        let ended = slot.ended.iter().filter(|(life, _)| would_be_served(life));
        ended.for_each(|(life, by)| self.note(life.number, *by));
    }

    /// Compares the times of a value that was found with the model, which may know several.
    pub(super) fn check_times(&mut self, key: Key, found: &Fetched<u64>) {
        let near = |one: Duration, other: Duration| one.abs_diff(other) < SLACK;
        let lives: Vec<_> = self.slots[&key].lives().filter(|life| life.number == **found).collect();
        let is_explained = lives.iter().any(|life| {
            let is_touched = life.untouched_until != life.fresh_until;
            let left = life.fresh_until.saturating_sub(self.now);
            (is_touched || near(found.age(), self.now - life.stored_at))
                && (found.source() == Source::Stale || near(found.remaining_ttl(), left))
        });
        if !is_explained && !lives.is_empty() {
            let (age, left) = (found.age(), found.remaining_ttl());
            self.fail(key, &format!("{} is {age:?} old and lives for {left:?}", **found));
        }
        if found.source() == Source::Redis {
            self.note(**found, Feature::Redis);
        }
    }

    pub(super) fn fail(&self, key: Key, what: &str) -> ! {
        let first = self.trace.len().saturating_sub(60);
        let (trace, slot) = (self.trace[first..].join("\n"), &self.slots[&key]);
        let (place, now) = (self.place, self.now);
        panic!("{trace}\n{place:?}, {key:?} at {now:?}: {what}; the model has {slot:#?}");
    }
}
