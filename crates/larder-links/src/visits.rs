//! Counting visits without making a redirect wait: a bounded table in memory, written to the store in batches.
//!
//! ```text
//! redirects ──► count += 1 in the table ──► every second or 1,000 visits: swap it out ──► one write to the store
//!                 (full: dropped, counted)      (failed: merged back, tried next time)
//! ```
//!
//! Visits are added up per link and day before they are written, so a link visited 80,000 times a second costs one
//! row a second. Whatever was counted is written before a clean stop; a process that is killed loses what it counted
//! since the last write that was committed.

use crate::store::{Day, MAX_VISIT_ROWS, Store, StoreError, VisitKey, today};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Counts visits and hands them to the store.
pub(crate) struct Visits {
    pending: Mutex<HashMap<VisitKey, u64>>,
    /// One write at a time, so that a stop can wait for the one that runs.
    flushing: tokio::sync::Mutex<()>,
    batch: u64,
    max_keys: usize,
    full_batch: Notify,
    queued: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
}

/// Where counted visits are at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VisitStats {
    /// Counted, not yet written.
    pub queued: u64,
    /// Written to the database.
    pub written: u64,
    /// Not counted because the table was full, or let go because their link was deleted.
    pub dropped: u64,
}

impl Visits {
    pub(crate) fn new(batch: u64, max_keys: usize) -> Visits {
        Visits {
            pending: Mutex::default(),
            flushing: tokio::sync::Mutex::default(),
            batch,
            max_keys,
            full_batch: Notify::new(),
            queued: AtomicU64::new(0),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Counts one visit of a link. Never waits for anything but a short lock.
    pub(crate) fn record(&self, link_id: u64) {
        self.record_on(link_id, today());
    }

    fn record_on(&self, link_id: u64, day: Day) {
        let mut pending = self.pending.lock();
        let room = pending.len() < self.max_keys;
        match pending.entry(VisitKey { link_id, day }) {
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(slot) if room => drop(slot.insert(1)),
            Entry::Vacant(_) => {
                self.dropped.fetch_add(1, Relaxed);
                return;
            }
        }
        // Still under the lock: a write that takes this visit must find it in `queued` to take it out again.
        let queued = self.queued.fetch_add(1, Relaxed) + 1;
        drop(pending);
        if queued >= self.batch {
            self.full_batch.notify_one();
        }
    }

    /// Writes what was counted so far. On an error the visits stay, and are tried again with the next write.
    ///
    /// # Cancel safety
    /// Not cancel safe: the visits of a dropped call may be written and not be known to be. It runs in its own task.
    pub(crate) async fn flush(&self, store: &Store) -> Result<(), StoreError> {
        let _one_at_a_time = self.flushing.lock().await;
        let taken = std::mem::take(&mut *self.pending.lock());
        if taken.is_empty() {
            return Ok(());
        }
        let mut visits: Vec<_> = taken.into_iter().collect();
        // In steps of bounded size: one transaction over all links would keep every other writer waiting.
        while !visits.is_empty() {
            let step = visits.split_off(visits.len().saturating_sub(MAX_VISIT_ROWS));
            let total: u64 = step.iter().map(|(_, count)| count).sum();
            match store.add_visits(step.clone()).await {
                Ok(written) => {
                    self.queued.fetch_sub(total, Relaxed);
                    self.written.fetch_add(written, Relaxed);
                    self.dropped.fetch_add(total - written, Relaxed);
                }
                Err(error) => {
                    self.put_back(step);
                    self.put_back(visits);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn put_back(&self, visits: Vec<(VisitKey, u64)>) {
        let mut pending = self.pending.lock();
        for (key, count) in visits {
            if pending.len() < self.max_keys || pending.contains_key(&key) {
                *pending.entry(key).or_default() += count;
            } else {
                self.queued.fetch_sub(count, Relaxed);
                self.dropped.fetch_add(count, Relaxed);
            }
        }
    }

    /// Writes at every interval and at every full batch, until `stop` is set. Without a sender it writes the rest and
    /// ends.
    pub(crate) async fn run(&self, store: &Store, every: Duration, mut stop: watch::Receiver<bool>) {
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            // While writes fail only the clock starts the next one: a full batch would try again at once, for ever.
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.full_batch.notified(), if !failing => {}
                told = stop.wait_for(|&stop| stop) => {
                    // Whoever stops the service writes the rest; if it was just dropped, nobody else does.
                    if told.is_err() {
                        break;
                    }
                    return;
                }
            }
            let result = self.flush(store).await;
            if let (Err(error), false) = (&result, failing) {
                tracing::warn!(%error, "visits are kept in memory until they can be written");
            }
            failing = result.is_err();
        }
        if let Err(error) = self.flush(store).await {
            tracing::warn!(%error, visits = self.stats().queued, "visits were lost");
        }
    }

    pub(crate) fn stats(&self) -> VisitStats {
        VisitStats {
            queued: self.queued.load(Relaxed),
            written: self.written.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;
    use crate::store::{Creation, DayCount, NewLink, Repeats, StoreConfig};

    async fn store_with_link(folder: &tempfile::TempDir) -> (Store, u64) {
        let store = Store::open(&StoreConfig::new(folder.path().join("links.db"))).unwrap();
        let url = Address::parse("https://example.com/").unwrap();
        let new = NewLink { url, slug: Some("a".into()), title: String::new() };
        let mut made = store.create(vec![new], Repeats::Allow).await.unwrap();
        let Some(Creation::Created(link)) = made.pop() else { panic!("{made:?}") };
        (store, link.id)
    }

    #[tokio::test]
    async fn visits_add_up_per_link_and_day() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(1_000, 10);
        for day in [1, 1, 2, 1] {
            visits.record_on(id, day);
        }
        assert_eq!(visits.stats(), VisitStats { queued: 4, written: 0, dropped: 0 });
        visits.flush(&store).await.unwrap();
        visits.record_on(id, 2);
        visits.flush(&store).await.unwrap();

        assert_eq!(visits.stats(), VisitStats { queued: 0, written: 5, dropped: 0 });
        assert_eq!(store.find("a").await.unwrap().unwrap().visits, 5);
        let day = |date: &str, visits| DayCount { date: date.into(), visits };
        assert_eq!(store.days(id, 0).await.unwrap(), [day("1970-01-02", 3), day("1970-01-03", 2)]);
    }

    #[tokio::test]
    async fn a_full_table_drops_new_links_and_keeps_counting_known_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(1_000, 1);
        visits.record_on(id, 1);
        visits.record_on(id + 1, 1);
        visits.record_on(id, 1);
        assert_eq!(visits.stats(), VisitStats { queued: 2, written: 0, dropped: 1 });
        visits.flush(&store).await.unwrap();
        assert_eq!(store.find("a").await.unwrap().unwrap().visits, 2);
    }

    #[tokio::test]
    async fn visits_of_a_deleted_link_are_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(1_000, 10);
        visits.record_on(id, 1);
        assert!(store.delete("a").await.unwrap());
        visits.flush(&store).await.unwrap();
        assert_eq!(visits.stats(), VisitStats { queued: 0, written: 0, dropped: 1 });
        assert_eq!(store.days(id, 0).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_failed_write_keeps_the_visits() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        store.close().await;
        let visits = Visits::new(1_000, 10);
        visits.record_on(id, 1);
        assert!(matches!(visits.flush(&store).await, Err(StoreError::Closed)));
        assert_eq!(visits.stats(), VisitStats { queued: 1, written: 0, dropped: 0 });

        let store = Store::open(&StoreConfig::new(folder.path().join("links.db"))).unwrap();
        visits.flush(&store).await.unwrap();
        assert_eq!(store.find("a").await.unwrap().unwrap().visits, 1);
    }

    #[tokio::test]
    async fn visits_of_many_links_are_written_in_bounded_steps() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(1_000, 100_000);
        let rows = 2 * MAX_VISIT_ROWS as i64 + 1;
        for day in 0..rows {
            visits.record_on(id, day);
        }
        // `add_visits` panics beyond its bound.
        visits.flush(&store).await.unwrap();
        assert_eq!(visits.stats(), VisitStats { queued: 0, written: rows as u64, dropped: 0 });
        assert_eq!(store.days(id, 0).await.unwrap().len(), rows as usize);
    }

    #[tokio::test]
    async fn a_dropped_service_writes_what_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(1_000, 10);
        visits.record_on(id, 1);
        let (stop, stopped) = watch::channel(false);
        drop(stop);
        visits.run(&store, Duration::from_secs(3_600), stopped).await;
        assert_eq!(visits.stats(), VisitStats { queued: 0, written: 1, dropped: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_batch_does_not_wait_for_the_clock() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(3, 10);
        let (stop, stopped) = watch::channel(false);
        let watcher = async {
            for _ in 0..3 {
                visits.record_on(id, 1);
            }
            while visits.stats().written < 3 {
                tokio::task::yield_now().await;
            }
            stop.send(true).unwrap();
        };
        tokio::join!(visits.run(&store, Duration::from_secs(3_600), stopped), watcher);
        assert_eq!(visits.stats().written, 3);
    }
}
