//! A cache in one of the compositions of tiers, and the model of what it has.

use super::feature::Feature;
use super::slot::{Life, Phase, Slot};
use crate::rng::Rng;
use larder::{Cache, CoherenceMode, Counters, Policy, RawView, View};
use larder_engine::{Clock, ManualClock};
use larder_testkit::{FlakyProxy, RedisServer, eventually};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(super) const SECOND: Duration = Duration::from_secs(1);
/// After a failed load a stale value is served for so long.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(300);
/// Time passes by hand, but not that of the server: so much may pass by itself. No outcome is checked so near to a moment
/// at which it changes.
pub(super) const SLACK: Duration = Duration::from_secs(30);
/// The part by which a time to live is shortened at most.
pub(super) const JITTER: f32 = 0.5;
/// The keys of each space.
pub(super) const KEYS: usize = 2;

/// Where values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Memory,
    /// Memory has room for next to nothing.
    Redis,
    Both,
    /// Redis is lost again and again, and then memory is not served.
    Outages,
    /// Redis is lost again and again, and memory is served.
    LongOutages,
}

impl Place {
    pub(super) fn steps(self) -> usize {
        match self {
            Place::Memory => 12_000,
            Place::Redis | Place::Both => 4_000,
            Place::Outages | Place::LongOutages => 2_000,
        }
    }

    pub(super) fn has_outages(self) -> bool {
        matches!(self, Place::Outages | Place::LongOutages)
    }
}

/// A key: the level of its space, and its number there.
pub(super) type Key = (usize, usize);

pub(super) fn name(key: Key) -> String {
    format!("k{}", key.1)
}

/// Keys with the same number share their tag.
pub(super) fn tag(key: Key) -> String {
    format!("t{}", key.1)
}

/// A space and its views. The second level is within the first.
pub(super) struct Space {
    pub(super) cache: Cache,
    pub(super) view: View<str, u64, &'static str>,
    /// The same entries.
    pub(super) touching: View<str, u64, &'static str>,
    pub(super) raw: RawView<str>,
    pub(super) counters: Counters<str>,
}

impl Space {
    fn new(cache: Cache) -> Space {
        let view: View<str, u64, &'static str> = cache.view("v").with_negative(is_negative);
        let day = Duration::from_secs(1 << 40);
        let (raw, counters) = (cache.raw("raw"), cache.counters("n").with_ttl(day));
        Space { touching: view.clone().touch_on_read(), view, raw, counters, cache }
    }
}

/// Some values count as absences.
pub(super) fn is_negative(number: &u64) -> bool {
    number.is_multiple_of(3)
}

/// The times of a load or a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    ttl: Duration,
    pub(super) grace: Duration,
    negative_ttl: Option<Duration>,
    has_jitter: bool,
}

impl Times {
    pub(super) fn policy(&self) -> Policy {
        let policy = Policy::new().ttl(self.ttl).grace(self.grace).retry_after(RETRY_AFTER);
        let policy = if self.has_jitter { policy.jitter(JITTER) } else { policy };
        self.negative_ttl.map_or(policy, |ttl| policy.negative_ttl(ttl))
    }

    /// Whether the negative TTL counts for a value.
    pub(super) fn is_negative(&self, number: u64) -> bool {
        is_negative(&number) && self.negative_ttl.is_some()
    }

    /// The shortest and the longest time for which a value may be fresh.
    pub(super) fn fresh_for(&self, number: u64) -> (Duration, Duration) {
        let ttl = self.negative_ttl.filter(|_| is_negative(&number)).unwrap_or(self.ttl);
        (if self.has_jitter { ttl.mul_f32(1.0 - JITTER) } else { ttl }, ttl)
    }
}

pub(super) struct World {
    pub(super) place: Place,
    pub(super) rng: Rng,
    pub(super) spaces: [Space; 2],
    clock: ManualClock,
    pub(super) now: Duration,
    pub(super) server: Option<(RedisServer, FlakyProxy)>,
    pub(super) is_lost: bool,
    /// How often Redis has come back.
    returns: usize,
    /// The key of the last operation.
    pub(super) key: Key,
    pub(super) slots: BTreeMap<Key, Slot>,
    pub(super) raw: BTreeMap<Key, Vec<u8>>,
    pub(super) counters: BTreeMap<Key, i64>,
    /// The number of the last value.
    pub(super) last: u64,
    met: BTreeMap<u64, BTreeSet<Feature>>,
    /// What was done so far, for a fault.
    pub(super) trace: Vec<String>,
}

impl World {
    /// `None` without a server.
    pub(super) fn new(place: Place, seed: u64) -> Option<World> {
        let (clock, hand) = Clock::manual();
        let builder = Cache::builder("p").ttl(SECOND).clock(clock).random_seed(seed);
        // Redis has room for nothing.
        let builder = if place == Place::Redis { builder.memory_bytes(1 << 10) } else { builder };
        let year = Duration::from_secs(365 * 24 * 3_600);
        let disconnected = if place == Place::LongOutages { year } else { Duration::ZERO };
        let (server, builder) = match place {
            Place::Memory => (None, builder),
            _ => {
                let server = RedisServer::start()?;
                let proxy = FlakyProxy::before(&server, seed);
                let builder = builder.redis(proxy.url()).redis_timeout(Duration::from_secs(10));
                (Some((server, proxy)), builder.disconnected(disconnected))
            }
        };
        let cache = builder.build().expect("the options are in range");
        let above = cache.space("a");
        let keys = (0..2).flat_map(|level| (0..KEYS).map(move |number| (level, number)));
        Some(World {
            place,
            rng: Rng::new(seed),
            spaces: [Space::new(above.clone()), Space::new(above.space("b"))],
            clock: hand,
            now: Duration::ZERO,
            server,
            is_lost: false,
            returns: 0,
            key: (0, 0),
            slots: keys.map(|key| (key, Slot::empty())).collect(),
            raw: BTreeMap::new(),
            counters: BTreeMap::new(),
            last: 0,
            met: BTreeMap::new(),
            trace: Vec::new(),
        })
    }

    /// The features that each value has met.
    pub(super) fn into_met(self) -> Vec<Vec<Feature>> {
        self.met.into_values().map(|met| met.into_iter().collect()).collect()
    }

    pub(super) fn note(&mut self, number: u64, feature: Feature) {
        self.met.entry(number).or_default().insert(feature);
    }

    /// Whether nothing of memory is served.
    pub(super) fn is_hidden(&self) -> bool {
        self.is_lost && self.place == Place::Outages
    }

    pub(super) fn slot(&mut self, key: Key) -> &mut Slot {
        self.slots.get_mut(&key).expect("a key")
    }

    pub(super) fn draw_key(&self) -> Key {
        (self.rng.below(0..2) as usize, self.rng.below(0..KEYS as u64) as usize)
    }

    pub(super) fn draw_times(&self, may_vary: bool) -> Times {
        let has_grace = !self.rng.chance(250);
        Times {
            ttl: SECOND * if self.rng.chance(500) { 1_000 } else { 3_000 },
            grace: if has_grace { SECOND * 4_000 } else { Duration::ZERO },
            negative_ttl: self.rng.chance(600).then_some(SECOND * 400),
            has_jitter: self.rng.chance(500) && may_vary,
        }
    }

    /// A value that is stored now.
    pub(super) fn life(&mut self, number: u64, times: &Times, fresh_for: Duration) -> Life {
        let fresh_until = self.now + fresh_for;
        let (shortest, longest) = times.fresh_for(number);
        if times.is_negative(number) {
            self.note(number, Feature::Negative);
        }
        if shortest < longest && fresh_for + SLACK < longest {
            self.note(number, Feature::Jitter);
        }
        if self.place == Place::Memory {
            self.note(number, Feature::NoRedis);
        }
        Life {
            number,
            stored_at: self.now,
            ttl: fresh_for,
            grace: times.grace,
            fresh_until,
            kept_until: fresh_until + times.grace,
            kept_at_most: fresh_until + times.grace,
            paused_until: Duration::ZERO,
            softened: None,
            untouched_until: fresh_until,
            returns: self.returns,
        }
    }

    /// A value was served: where, and although what.
    pub(super) fn note_served(&mut self, life: &Life) {
        if self.is_lost {
            self.note(life.number, Feature::Disconnected);
        } else if self.returns > life.returns {
            self.note(life.number, Feature::Back);
        }
        if life.phase(self.now) == Phase::Fresh && self.now >= life.untouched_until {
            self.note(life.number, Feature::Touch);
        }
    }

    /// Lets time pass in both tiers.
    pub(super) fn pass(&mut self, time: Duration) {
        let lives = self
            .slots
            .values()
            .flat_map(|slot| slot.lives().chain(&slot.behind).chain(slot.ended.iter().map(|(life, _)| life)));
        let mut moments: Vec<_> = lives.flat_map(Life::moments).collect();
        moments.sort();
        let mut then = self.now + time;
        for moment in moments {
            if then + SLACK > moment && moment + SLACK > then {
                then = moment + SLACK;
            }
        }
        let time = then - self.now;
        self.trace.push(format!("{time:?} pass"));
        self.clock.advance(time);
        self.now = then;
        if let Some((server, _)) = &self.server {
            server.pass(time);
        }
    }

    pub(super) async fn lose_redis(&mut self) {
        let Some((_, proxy)) = &self.server else { return };
        self.trace.push("redis is lost".to_owned());
        proxy.refuse(true);
        proxy.cut();
        // Longer than the lag: what is not proved is not trusted.
        self.pass(SECOND * 60);
        let (space, skipped) =
            (&self.spaces[0], |cache: &Cache| cache.stats().redis.expect("a tier").skipped);
        let before = skipped(&space.cache);
        eventually("redis is lost", async || {
            _ = space.view.read("probe").await;
            space.cache.coherence().mode == CoherenceMode::Lost && skipped(&space.cache) > before
        })
        .await;
        self.is_lost = true;
        self.slots.values_mut().for_each(Slot::lose);
        self.hide();
    }

    pub(super) async fn regain_redis(&mut self) {
        let Some((_, proxy)) = &self.server else { return };
        self.trace.push("redis is back".to_owned());
        proxy.refuse(false);
        let space = &self.spaces[0];
        eventually("redis is back", async || {
            let is_replayed = space.cache.close(Duration::ZERO).await == 0;
            _ = space.view.read("probe").await;
            is_replayed && space.cache.coherence().mode == CoherenceMode::Full
        })
        .await;
        self.is_lost = false;
        self.returns += 1;
        self.slots.values_mut().for_each(Slot::regain);
    }

    /// Whatever was stored is not served.
    pub(super) fn hide(&mut self) {
        if self.is_hidden() {
            // At the moment of the store this node has missed nothing.
            let moment = Duration::from_millis(1);
            self.clock.advance(moment);
            self.now += moment;
            self.slots.values_mut().for_each(Slot::hide);
        }
    }
}
