//! Where visits come from: the referrer, browser, system, device and country of each, counted per link and day.
//!
//! ```text
//! redirects ──► count += 1 for (link, day, user agent, referrer, country)
//!                 (full: the visit is counted, but not where it comes from)
//!               every tenth write of visits ──► parse what is new ──► counts by link, day and dimension ──► store
//! ```
//!
//! A redirect hashes two header fields and takes a short lock. It leaves a text of at most 512 bytes for each new user agent
//! and referrer. Bots and programs are counted by name, and nothing else of them. A clean stop writes all counts; a process that is
//! killed loses those since the last write.

mod agent_kinds;
mod user_agent;
mod visitor;

use crate::store::{
    Day, Dimension, DimensionBatch, DimensionKey, MAX_DIMENSION_ROWS, OTHER_VALUE, Store, StoreError,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use url::Url;
use user_agent::{Agent, UserAgents};

pub(crate) use agent_kinds::AgentKinds;
pub(crate) use visitor::{Countries, Country, Visitor};

/// The counts are written once in so many writes of visits: visits of one link within that time share their rows.
const WRITES_OF_VISITS: u32 = 10;
/// The longest host name.
const MAX_HOST_BYTES: usize = 253;
/// The referrer of a visit that has none.
const DIRECT: &str = "direct";
/// The country of an address that the database does not know.
const UNKNOWN: &str = "unknown";

/// Counts where visits come from, and writes the counts to the store.
pub(crate) struct Dimensions {
    table: Mutex<Table>,
    /// Of user agents and referrers. Two with the same hash would be counted as one, which a client that makes them up can have
    /// without a collision.
    hasher: rapidhash::quality::RandomState,
    max_keys: usize,
    /// One write at a time.
    unwritten: tokio::sync::Mutex<Unwritten>,
}

/// Counts in memory, since the last write.
#[derive(Default)]
struct Table {
    counts: HashMap<VisitorKey, u64, rapidhash::fast::RandomState>,
    /// The user agents and referrers of the keys, by their hashes.
    texts: HashMap<u64, Box<[u8]>>,
}

/// Visits that differ in none of these are counted together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct VisitorKey {
    link_id: u64,
    day: Day,
    /// A hash of the user agent.
    agent: Option<u64>,
    /// A hash of the referrer.
    referrer: Option<u64>,
    country: Option<Country>,
}

/// Counts that are being written, or could not be written.
#[derive(Default)]
struct Unwritten {
    agents: UserAgents,
    counts: HashMap<DimensionKey, u64>,
    /// The batch of which nobody knows whether it is stored.
    unknown: Option<DimensionBatch>,
}

impl Dimensions {
    pub(crate) fn new(max_keys: usize) -> Dimensions {
        Dimensions {
            table: Mutex::default(),
            hasher: rapidhash::quality::RandomState::new(),
            max_keys,
            unwritten: tokio::sync::Mutex::default(),
        }
    }

    /// Counts a visit. It waits for a short lock only.
    pub(crate) fn record(&self, link_id: u64, day: Day, visitor: &Visitor<'_>) {
        let Some(traits) = visitor.traits() else { return };
        let hash = |text: Option<&[u8]>| text.map(|text| self.hasher.hash_one(text));
        let (agent, referrer) = (hash(traits.user_agent), hash(traits.referrer));
        let key = VisitorKey { link_id, day, agent, referrer, country: traits.country };
        let mut table = self.table.lock();
        let Table { counts, texts } = &mut *table;
        let room = counts.len() < self.max_keys;
        match counts.entry(key) {
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(slot) if room => {
                slot.insert(1);
                for (hash, text) in [(agent, traits.user_agent), (referrer, traits.referrer)] {
                    if let (Some(hash), Some(text)) = (hash, text) {
                        texts.entry(hash).or_insert_with(|| text.into());
                    }
                }
            }
            Entry::Vacant(_) => {}
        }
    }

    /// Writes the counts in memory. After an error they stay there for the next write.
    ///
    /// # Cancel safety
    /// A dropped call loses the counts that it was writing.
    pub(crate) async fn flush(self: &Arc<Self>, store: &Store) -> Result<(), StoreError> {
        let mut unwritten = self.unwritten.lock().await;
        unwritten.resolve(store).await?;
        let table = std::mem::take(&mut *self.table.lock());
        if !table.counts.is_empty() {
            let (mut work, max_keys) = (std::mem::take(&mut *unwritten), self.max_keys);
            // New user agents take some microseconds each.
            let work = tokio::task::spawn_blocking(move || {
                work.add(table, max_keys);
                work
            });
            *unwritten = work.await.unwrap_or_default();
        }
        let mut rows: Vec<_> = unwritten.counts.iter().map(|(key, count)| (key.clone(), *count)).collect();
        // In the order of the table, so that neighbours share their page.
        rows.sort_unstable();
        for step in rows.chunks(MAX_DIMENSION_ROWS) {
            let batch = DimensionBatch::new(step.to_vec());
            let result = store.write_dimensions(&batch).await;
            if matches!(result, Ok(()) | Err(StoreError::Unknown(_))) {
                for (key, _) in step {
                    unwritten.counts.remove(key);
                }
            }
            if let Err(StoreError::Unknown(_)) = result {
                unwritten.unknown = Some(batch);
            }
            result?;
        }
        Ok(())
    }

    /// Forgets the counts of a link in memory, and leaves none on its way to the database.
    pub(crate) async fn forget(&self, link_id: u64, store: &Store) -> Result<(), StoreError> {
        let mut unwritten = self.unwritten.lock().await;
        unwritten.resolve(store).await?;
        self.table.lock().counts.retain(|key, _| key.link_id != link_id);
        unwritten.counts.retain(|key, _| key.link_id != link_id);
        Ok(())
    }

    /// Writes until `stop` is set, once in ten times `visit_flush`. If the sender is dropped it writes the rest and returns.
    pub(crate) async fn run(
        self: Arc<Self>,
        store: Store,
        visit_flush: Duration,
        mut stop: watch::Receiver<bool>,
    ) {
        let every = visit_flush * WRITES_OF_VISITS;
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let stopped = tokio::select! {
                _ = ticks.tick() => None,
                stopped = stop.wait_for(|&stop| stop) => Some(stopped.is_ok()),
            };
            // `stop` writes the rest. After a drop nothing else does.
            if stopped == Some(true) {
                return;
            }
            if let Err(error) = self.flush(&store).await {
                tracing::debug!(%error, "cannot write where visits come from");
            }
            if stopped.is_some() {
                return;
            }
        }
    }
}

impl Unwritten {
    /// Writes the unknown batch once more. Together with other counts it could count twice.
    async fn resolve(&mut self, store: &Store) -> Result<(), StoreError> {
        if let Some(batch) = &self.unknown {
            store.write_dimensions(batch).await?;
            self.unknown = None;
        }
        Ok(())
    }

    /// Adds the counts of a table, one for each dimension of a visit.
    fn add(&mut self, table: Table, max_keys: usize) {
        let Unwritten { agents, counts, .. } = self;
        for (key, count) in table.counts {
            let text = |hash: Option<u64>| hash.and_then(|hash| table.texts.get(&hash)).map(|text| &**text);
            let mut add = |dimension, value: String| {
                let key = DimensionKey { link_id: key.link_id, day: key.day, dimension, value };
                let room = counts.len() < max_keys;
                match counts.entry(key) {
                    Entry::Occupied(mut sum) => *sum.get_mut() += count,
                    Entry::Vacant(slot) if room => drop(slot.insert(count)),
                    Entry::Vacant(_) => {}
                }
            };
            match agents.parse(key.agent, text(key.agent)) {
                Agent::Bot(name) | Agent::Program(name) => add(Dimension::Bot, name.clone()),
                Agent::Browser { browser, system, device } => {
                    add(Dimension::Browser, browser.clone());
                    add(Dimension::System, system.clone());
                    add(Dimension::Device, device.clone());
                    add(Dimension::Referrer, host_of(text(key.referrer)));
                    if let Some(country) = key.country {
                        add(Dimension::Country, country.code().unwrap_or(UNKNOWN).to_owned());
                    }
                }
            }
        }
    }
}

/// The host of a referrer, in lower case.
fn host_of(referrer: Option<&[u8]>) -> String {
    let Some(referrer) = referrer.filter(|text| !text.is_empty()) else { return DIRECT.to_owned() };
    let url = std::str::from_utf8(referrer).ok().and_then(|text| Url::parse(text).ok());
    let host = url.as_ref().and_then(Url::host_str).filter(|host| host.len() <= MAX_HOST_BYTES);
    host.unwrap_or(OTHER_VALUE).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn referrer_is_its_host() {
        for (referrer, host) in [
            (None, "direct"),
            (Some(""), "direct"),
            (Some("https://News.example:8443/path?secret=1"), "news.example"),
            (Some("android-app://com.example.app/"), "com.example.app"),
            (Some("http://[2001:db8::1]/"), "[2001:db8::1]"),
            (Some("not an address"), "other"),
            (Some("mailto:a@b.example"), "other"),
        ] {
            assert_eq!(host_of(referrer.map(str::as_bytes)), host, "{referrer:?}");
        }
    }
}
