//! The steps of a history: fetches, reads, mutations, and what has the same name.

use super::check::Seen;
use super::feature::Feature;
use super::slot::{Phase, Slot};
use super::world::{KEYS, Key, Place, RETRY_AFTER, SECOND, SLACK, Times, World, name, tag};
use larder::{BulkOutcome, FetchError, Fetched, Invalidation, Policy, Removal, Source, WriteOptions};
use larder_testkit::{Gate, eventually};
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A time that a busy machine may exceed, and a load at a gate does.
const SHORT: Duration = Duration::from_millis(1);

/// What a loader does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Loads,
    Fails,
    /// It waits until its caller has a stale value.
    Slow,
    /// The same, and then it fails.
    SlowAndFails,
    /// It waits until it is dropped.
    Hangs,
}

impl How {
    fn is_slow(self) -> bool {
        matches!(self, How::Slow | How::SlowAndFails)
    }
}

type Outcome = Result<Fetched<u64>, FetchError<&'static str>>;

impl World {
    /// One operation, mostly on the key of the last one: a value lives long enough for much to happen to it.
    pub(super) async fn step(&mut self) {
        if self.rng.chance(250) {
            self.key = self.draw_key();
        }
        let key = self.key;
        match self.rng.below(0..40) {
            0..8 => self.fetch(key, false, self.draw_how()).await,
            8..10 => self.fetch(key, true, self.draw_how()).await,
            10 => self.decay(key).await,
            11 => self.outlive(key).await,
            12..16 => self.fetch_many(key.0).await,
            16..21 => self.read(key, self.rng.chance(500)).await,
            21 => self.write(key).await,
            22 => self.add(key).await,
            23 => self.expire(key).await,
            24 => self.invalidate_tag(key, Invalidation::Soft).await,
            25..28 => self.end(key).await,
            28..31 => self.use_raw(key).await,
            31..34 => self.count(key).await,
            34..38 => {
                let time = self.rng.ms(0..900_000);
                self.pass(time);
            }
            _ if !self.place.has_outages() => {}
            _ => self.outage(key).await,
        }
    }

    /// Redis is lost for some operations. Fetches show what is served then, and after that.
    async fn outage(&mut self, key: Key) {
        if self.is_lost {
            return;
        }
        if self.rng.chance(400) {
            self.decay(key).await;
        }
        self.lose_redis().await;
        self.fetch(key, false, How::Fails).await;
        for _ in 0..self.rng.below(0..12) {
            Box::pin(self.step()).await;
        }
        self.regain_redis().await;
        self.fetch(key, false, How::Fails).await;
        if self.rng.chance(600) {
            self.end(key).await;
        }
    }

    /// Makes a value stale, which is served because its load fails or is slow.
    async fn decay(&mut self, key: Key) {
        match self.rng.below(0..3) {
            0 => self.expire(key).await,
            1 => self.invalidate_tag(key, Invalidation::Soft).await,
            _ => {
                let end = self.slots[&key].only().map(|life| life.fresh_until).filter(|end| *end > self.now);
                self.pass(end.map_or(SLACK, |end| end - self.now));
            }
        }
        let how = [How::Fails, How::SlowAndFails, How::Hangs][self.rng.below(0..3) as usize];
        self.fetch(key, false, how).await;
    }

    /// Touches a value, which is then served for longer than without that.
    async fn outlive(&mut self, key: Key) {
        let now = self.now;
        let life = self.slots[&key].only().filter(|life| life.phase(now) == Phase::Fresh);
        let Some(end) = life.map(|life| life.fresh_until) else { return };
        self.pass((end - now) / 2);
        self.read(key, true).await;
        if end > self.now {
            self.pass(end - self.now);
        }
        self.read(key, false).await;
    }

    /// Ends a value. The next fetch shows that it is not served.
    async fn end(&mut self, key: Key) {
        match self.rng.below(0..4) {
            0 => self.delete(key).await,
            1 => self.take(key).await,
            2 => self.invalidate_tag(key, Invalidation::Hard).await,
            _ => self.clear(key.0).await,
        }
        self.fetch(key, false, self.draw_how()).await;
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn draw_how(&self) -> How {
        match self.rng.below(0..10) {
            0..4 => How::Loads,
            4..6 => How::Fails,
            6 => How::Slow,
            7 => How::SlowAndFails,
            _ => How::Hangs,
        }
    }

    async fn fetch(&mut self, key: Key, is_refresh: bool, how: How) {
        let (number, times) = (self.next_number(), self.draw_times(true));
        // Without a stale value its caller would wait for ever. A refresh waits too.
        let may_wait = !is_refresh && self.slots[&key].is_surely(Phase::Stale, self.now);
        let how = if how.is_slow() && !may_wait { How::Loads } else { how };
        self.trace.push(format!("fetch {key:?} {number} {how:?} refresh: {is_refresh} {times:?}"));
        let policy = match how {
            How::Slow | How::SlowAndFails => times.policy().soft_timeout(SHORT),
            How::Hangs => times.policy().hard_timeout(SHORT),
            How::Loads | How::Fails => times.policy(),
        };
        let (gate, ran) = (Gate::closed(), Arc::new(AtomicBool::new(false)));
        let fetch = self.spaces[key.0].view.fetch(&name(key)).policy(policy).tag(tag(key));
        let fetch = if is_refresh { fetch.refresh() } else { fetch };
        let (at_gate, runs) = (gate.clone(), ran.clone());
        let fetching = fetch.load(move |_| async move {
            runs.store(true, Ordering::SeqCst);
            match how {
                How::Loads => {}
                How::Fails => return Err("the origin is down"),
                How::Slow => at_gate.pass().await,
                How::SlowAndFails => {
                    at_gate.pass().await;
                    return Err("the origin is down");
                }
                How::Hangs => pending().await,
            }
            Ok(number)
        });
        let outcome = fetching.await;
        let is_stale = matches!(&outcome, Ok(found) if found.source() == Source::Stale);
        // The soft timeout may be over before the loader starts.
        let has_loaded = ran.load(Ordering::SeqCst) || (how.is_slow() && is_stale);
        self.fetched(key, outcome, &times, is_refresh, has_loaded.then_some(how));
        if how.is_slow() && is_stale {
            gate.open(1);
            self.await_load(key, number, &times, how).await;
        }
    }

    /// Waits for a load that goes on after its caller has a stale value.
    async fn await_load(&mut self, key: Key, number: u64, times: &Times, how: How) {
        let fetch = self.spaces[key.0].view.fetch(&name(key)).policy(Policy::new().retry_after(RETRY_AFTER));
        let loaded = fetch.load(|_| async { Err("it was loaded") }).await;
        let loaded = loaded.unwrap_or_else(|error| self.fail(key, &error.to_string()));
        if how == How::SlowAndFails {
            if loaded.source() != Source::Stale {
                self.fail(key, &format!("{loaded:?} is not stale"));
            }
            return;
        }
        if *loaded != number {
            self.fail(key, &format!("{} instead of {number}", *loaded));
        }
        let life = self.life(number, times, loaded.remaining_ttl());
        self.slot(key).set(life);
        self.slot(key).ended.clear();
    }

    /// The outcome of a fetch. `loaded` if its loader ran.
    fn fetched(&mut self, key: Key, outcome: Outcome, times: &Times, is_refresh: bool, loaded: Option<How>) {
        self.trace.push(format!("  {outcome:?} {loaded:?}"));
        let seen = match (&outcome, loaded) {
            (Ok(found), Some(how)) => match found.source() {
                Source::Loader => {
                    let left = found.remaining_ttl();
                    let (shortest, longest) = times.fresh_for(**found);
                    if left + SLACK < shortest || left > longest {
                        self.fail(key, &format!("{left:?} is not from {shortest:?} to {longest:?}"));
                    }
                    if is_refresh {
                        self.note(**found, Feature::Refresh);
                    }
                    Seen::Loaded(self.life(**found, times, left))
                }
                Source::Stale => {
                    let feature = match how {
                        How::Fails => Feature::Grace,
                        How::Slow | How::SlowAndFails => Feature::SoftTimeout,
                        How::Hangs => Feature::HardTimeout,
                        How::Loads => self.fail(key, "stale although the loader returned a value"),
                    };
                    self.note(**found, feature);
                    Seen::Stale(**found)
                }
                other => self.fail(key, &format!("{other:?} although the loader ran")),
            },
            (Ok(found), None) if found.source() == Source::Stale => Seen::Paused(**found),
            (Ok(found), None) => Seen::Fresh(**found),
            (Err(FetchError::Load(_) | FetchError::Timeout), Some(How::Fails | How::Hangs)) => Seen::Failed,
            (Err(error), _) => self.fail(key, &error.to_string()),
        };
        self.observe(key, &seen, is_refresh);
        if let Ok(found) = &outcome {
            self.check_times(key, found);
        }
    }

    /// Fetches all keys of a space by a bulk loader.
    async fn fetch_many(&mut self, level: usize) {
        let (times, fails) = (self.draw_times(true), self.rng.chance(350));
        let keys: Vec<Key> = (0..KEYS).map(|number| (level, number)).collect();
        let names: Vec<String> = keys.iter().map(|key| name(*key)).collect();
        let numbers: Vec<u64> = keys.iter().map(|_| self.next_number()).collect();
        self.trace.push(format!("fetch all of {level} {numbers:?} fails: {fails} {times:?}"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let values: Vec<_> = names.iter().cloned().zip(numbers).collect();
        let fetch = self.spaces[level].view.fetch_multi(names.iter().map(|name| &**name));
        // They have no tag in common but that of their space.
        let loading = fetch.policy(times.policy()).load({
            let asked = asked.clone();
            move |missing: Vec<String>, cx| {
                asked.lock().expect("nobody panics with it").extend(missing.iter().cloned());
                for name in &missing {
                    cx.of(name.as_str()).tag(name.replace('k', "t"));
                }
                let loaded: Vec<_> =
                    values.iter().filter(|(name, _)| missing.contains(name)).cloned().collect();
                async move { if fails { Err("the origin is down") } else { Ok(loaded) } }
            }
        });
        let outcomes: Vec<BulkOutcome<u64, _>> = loading.await;
        let asked = asked.lock().expect("nobody panics with it").clone();
        for (key, outcome) in keys.into_iter().zip(outcomes) {
            let outcome = outcome.map(|found| found.expect("the loader leaves nothing out"));
            if let Ok(found) = &outcome {
                self.note(**found, Feature::Bulk);
            }
            let how = if fails { How::Fails } else { How::Loads };
            self.fetched(key, outcome, &times, false, asked.contains(&name(key)).then_some(how));
        }
    }

    async fn read(&mut self, key: Key, touches: bool) {
        let now = self.now;
        let is_old = |slot: &Slot| {
            // A touch that comes soon after the store cannot be told from none.
            slot.only().is_some_and(|life| {
                life.phase(now) == Phase::Fresh && life.fresh_until + SLACK <= now + life.ttl
            })
        };
        // A touch that Redis does not learn of is one of memory alone.
        let touches = touches && !self.is_lost && is_old(&self.slots[&key]);
        self.trace.push(format!("read {key:?} touches: {touches}"));
        let space = &self.spaces[key.0];
        let found = if touches { &space.touching } else { &space.view }.read(&name(key)).await;
        self.trace.push(format!("  {found:?}"));
        let seen = found.as_ref().map_or(Seen::Missed, |found| Seen::Fresh(**found));
        if let Some(found) = found.as_ref().filter(|_| !touches) {
            self.check_times(key, found);
        }
        self.observe(key, &seen, false);
        if touches && found.is_some() {
            let kept_for = self.slots[&key].only().map(|life| life.ttl + life.grace).expect("it was found");
            self.slot(key).replace(|content| vec![content.map(|life| life.touched(now))]);
            self.touched(key, kept_for).await;
        }
    }

    /// Waits until Redis knows of a touch, for which nobody waits.
    async fn touched(&self, key: Key, kept_for: Duration) {
        let Some((server, _)) = &self.server else { return };
        let line = format!("PTTL p:{}/v:{}", ["a", "a/b"][key.0], name(key));
        eventually("redis knows of the touch", async || {
            let left: i64 = server.command(&line).trim_matches([':', '\r', '\n']).parse().expect("a number");
            Duration::from_millis(left.max(0) as u64) + SLACK / 2 > kept_for
        })
        .await;
    }

    async fn write(&mut self, key: Key) {
        let (number, times) = (self.next_number(), self.draw_times(false));
        self.trace.push(format!("write {key:?} {number} {times:?}"));
        let options = WriteOptions::new().policy(times.policy()).tag(tag(key));
        let reach = self.spaces[key.0].view.write_with(&name(key), number, &options).await;
        assert_eq!(reach.expect("it is encoded").is_everywhere(), !self.is_lost);
        let life = self.life(number, &times, times.fresh_for(number).1);
        let slot = self.slot(key);
        slot.set(life);
        slot.behind.clear();
        slot.ended.clear();
        self.hide();
    }

    async fn add(&mut self, key: Key) {
        let (number, times) = (self.next_number(), self.draw_times(false));
        self.trace.push(format!("add {key:?} {number} {times:?}"));
        let options = WriteOptions::new().policy(times.policy()).tag(tag(key));
        let added = self.spaces[key.0].view.add_with(&name(key), number, &options).await;
        self.trace.push(format!("  {added:?}"));
        match added {
            Ok(true) => {
                self.observe(key, &Seen::Missed, false);
                let life = self.life(number, &times, times.fresh_for(number).1);
                self.slot(key).set(life);
                self.slot(key).ended.clear();
            }
            Ok(false) => {
                let now = self.now;
                self.slot(key).contents.retain(|content| super::slot::phase(content, now) == Phase::Fresh);
                if self.slots[&key].contents.is_empty() {
                    self.fail(key, "nothing was added although nothing was there");
                }
            }
            Err(_) if self.is_lost => self.slot(key).may_be_absent(),
            Err(error) => self.fail(key, &error.to_string()),
        }
    }

    async fn expire(&mut self, key: Key) {
        self.trace.push(format!("expire {key:?}"));
        let expired = self.spaces[key.0].view.expire(&name(key)).await;
        self.trace.push(format!("  {expired:?}"));
        let now = self.now;
        match expired {
            Ok(Removal { reach, .. }) if reach.is_everywhere() => self.slot(key).soften(now, Feature::Expire),
            Ok(_) => self.slot(key).end(Feature::Delete),
            Err(_) if self.is_lost => {}
            Err(error) => self.fail(key, &error.to_string()),
        }
    }

    async fn delete(&mut self, key: Key) {
        self.trace.push(format!("delete {key:?}"));
        let deleted = self.spaces[key.0].view.delete(&name(key)).await.expect("done here");
        assert_eq!(deleted.reach.is_everywhere(), !self.is_lost);
        self.slot(key).end(Feature::Delete);
    }

    async fn take(&mut self, key: Key) {
        self.trace.push(format!("take {key:?}"));
        let taken = self.spaces[key.0].view.take(&name(key)).await;
        self.trace.push(format!("  {taken:?}"));
        match taken {
            Ok(taken) => {
                let seen = taken.map_or(Seen::Missed, |taken| Seen::Fresh(*taken));
                self.observe(key, &seen, false);
                self.slot(key).end(Feature::Delete);
            }
            Err(_) if self.is_lost => self.slot(key).may_be_absent(),
            Err(error) => self.fail(key, &error.to_string()),
        }
    }

    async fn invalidate_tag(&mut self, key: Key, how: Invalidation) {
        self.trace.push(format!("invalidate {how:?} the tag of {key:?}"));
        let reach = self.spaces[0].cache.invalidate_tags([tag(key)], how).await.expect("done here");
        assert_eq!(reach.is_everywhere(), !self.is_lost);
        let (now, is_lost) = (self.now, self.is_lost);
        for level in 0..2 {
            let slot = self.slot((level, key.1));
            match how {
                Invalidation::Hard => slot.end(Feature::Tag),
                Invalidation::Soft => {
                    slot.soften(now, Feature::SoftTag);
                    slot.pending_soft = is_lost.then_some(now);
                }
            }
        }
    }

    async fn clear(&mut self, level: usize) {
        self.trace.push(format!("clear {level}"));
        let reach = self.spaces[level].cache.clear().await.expect("done here");
        assert_eq!(reach.is_everywhere(), !self.is_lost);
        let cleared = self.slots.iter_mut().filter(|((other, _), _)| *other >= level);
        cleared.for_each(|(_, slot)| slot.end(Feature::Space));
    }

    /// Bytes under the name of a key, which nothing that is done to the key changes.
    async fn use_raw(&mut self, key: Key) {
        let (space, name) = (&self.spaces[key.0], name(key));
        if self.place == Place::Memory {
            return;
        }
        if self.is_lost {
            assert!(space.raw.read(&name).await.is_err());
            return;
        }
        let found = space.raw.read(&name).await.expect("redis replies");
        assert_eq!(found.as_ref(), self.raw.get(&key), "{key:?}");
        if self.rng.chance(300) {
            let bytes = self.rng.below(0..1 << 40).to_le_bytes().to_vec();
            space.raw.write(&name, bytes.clone(), SECOND * (1 << 30)).await.expect("redis replies");
            self.raw.insert(key, bytes);
        }
        if found.is_some() {
            self.note_beside(key, Feature::Raw);
        }
    }

    /// A counter under the name of a key.
    async fn count(&mut self, key: Key) {
        let counted = self.spaces[key.0].counters.increment(&name(key), 7).await;
        if self.is_lost {
            assert!(counted.is_err());
            return;
        }
        let sum = self.counters.entry(key).or_default();
        *sum += 7;
        let (counted, sum) = (counted.expect("it counts"), *sum);
        if counted != sum {
            self.fail(key, &format!("the counter is {counted}, and not {sum}"));
        }
        if sum > 7 {
            self.note_beside(key, Feature::Counter);
        }
    }

    /// Notes a feature on the value of a key.
    fn note_beside(&mut self, key: Key, feature: Feature) {
        let now = self.now;
        let is_there = self.slots[&key].only().filter(|life| life.phase(now) != Phase::Gone);
        if let Some(number) = is_there.map(|life| life.number) {
            self.note(number, feature);
        }
    }
}
