//! Counts visits without delaying redirects: a bounded table in memory, written to the store in batches.
//!
//! ```text
//! redirects ──► count += 1 in the table ──► every second or 100,000 visits: swap the table ──► writes to the store
//!                 (full: dropped, counted)      (or a table that is half full)   (failed: merged back)
//!                                                                                (unknown: written again as it is)
//! ```
//!
//! Visits are summed per link and quarter hour before they are written, so a link with 80,000 visits a second costs one row a
//! second. A clean stop writes all visits; a process that is killed loses the visits since its last commit. Links with a limit
//! of visits are in `visits/limited.rs`.

mod limited;

use crate::service::events::{Event, Events, LinkVisits};
use crate::store::{
    MAX_VISIT_ROWS, Quarter, Store, StoreError, TotalsOf, VisitBatch, VisitKey, now_ms, quarter_of,
};
use limited::Limited;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Counts visits and writes them to the store.
pub(crate) struct Visits {
    table: Mutex<Table>,
    /// Told of what is written.
    events: Arc<Events>,
    /// One write at a time, so that a stop can wait for the current one; and the batch of which the last write cannot tell
    /// whether it is stored. No other is written before it.
    flushing: tokio::sync::Mutex<Option<VisitBatch>>,
    batch: u64,
    max_keys: usize,
    full_batch: Notify,
    written: AtomicU64,
    dropped: AtomicU64,
}

/// The visits in memory.
#[derive(Default)]
struct Table {
    /// A link's id is nothing that a client chooses, so that a fast hash suffices.
    pending: HashMap<VisitKey, u64, rapidhash::fast::RandomState>,
    /// The sum of `pending`.
    waiting: u64,
    /// The visits that are being written.
    writing: u64,
    limited: Limited,
}

impl Table {
    /// The unwritten visits of a link. Older ones than these two quarter hours exist only if the database has failed since.
    fn pending_of(&self, link_id: u64, now: Quarter) -> u64 {
        let quarters = [now - 1, now];
        quarters.iter().filter_map(|&quarter| self.pending.get(&VisitKey { link_id, quarter })).sum()
    }
}

/// The states of counted visits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VisitStats {
    /// In memory, not yet written.
    pub queued: u64,
    /// Written to the database.
    pub written: u64,
    /// Lost because the table was full or their link was deleted.
    pub dropped: u64,
}

impl Visits {
    pub(crate) fn new(batch: u64, max_keys: usize, events: Arc<Events>) -> Visits {
        Visits {
            table: Mutex::default(),
            events,
            flushing: tokio::sync::Mutex::default(),
            batch,
            max_keys,
            full_batch: Notify::new(),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Counts one visit of a link. It waits for a short lock only.
    pub(crate) fn record(&self, link_id: u64, quarter: Quarter) {
        let mut table = self.table.lock();
        if !self.count(&mut table, link_id, quarter) {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Counts a visit in the table; false if there is no room.
    fn count(&self, table: &mut Table, link_id: u64, quarter: Quarter) -> bool {
        let keys = table.pending.len();
        let mut is_half_full = false;
        match table.pending.entry(VisitKey { link_id, quarter }) {
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(slot) if keys < self.max_keys => {
                slot.insert(1);
                is_half_full = keys + 1 == self.max_keys / 2;
            }
            Entry::Vacant(_) => return false,
        }
        table.waiting += 1;
        // The other half is for the links that are visited until the write begins.
        if table.waiting >= self.batch || is_half_full {
            self.full_batch.notify_one();
        }
        true
    }

    /// Whether a link with a limit may redirect once more, which counts as a visit if `visit` is set. Exact for the visits of
    /// this instance.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if the visit could not be counted, or the error of the database, which the first visit after a
    /// write reads.
    pub(crate) async fn admit(
        &self,
        link_id: u64,
        max: u64,
        visit: bool,
        store: &Store,
    ) -> Result<bool, StoreError> {
        if let Some(admitted) = self.admit_known(link_id, max, visit)? {
            return Ok(admitted);
        }
        // Visits that are on their way to the database would count twice, or not at all.
        let mut unknown = self.flushing.lock().await;
        self.resolve(&mut unknown, store).await?;
        loop {
            if let Some(admitted) = self.admit_known(link_id, max, visit)? {
                return Ok(admitted);
            }
            let written = store.visits(link_id).await?.unwrap_or(0);
            let mut table = self.table.lock();
            if table.limited.len() >= self.max_keys {
                return Err(StoreError::Busy("the table of visits"));
            }
            let used = written + table.pending_of(link_id, quarter_of(now_ms()));
            table.limited.insert(link_id, used);
        }
    }

    fn admit_known(&self, link_id: u64, max: u64, visit: bool) -> Result<Option<bool>, StoreError> {
        let mut table = self.table.lock();
        // A visit that cannot be counted must not redirect.
        let key = VisitKey { link_id, quarter: quarter_of(now_ms()) };
        let has_room = !visit || table.pending.len() < self.max_keys || table.pending.contains_key(&key);
        match table.limited.admit(link_id, max, visit && has_room) {
            Some(true) if !has_room => Err(StoreError::Busy("the table of visits")),
            Some(true) if visit => {
                self.count(&mut table, link_id, key.quarter);
                Ok(Some(true))
            }
            admitted => Ok(admitted),
        }
    }

    /// Writes the visits in memory. After an error they stay there for the next write.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped call may write its visits and still count them as queued. Run it in a task of its own.
    pub(crate) async fn flush(&self, store: &Store) -> Result<(), StoreError> {
        let mut unknown = self.flushing.lock().await;
        self.resolve(&mut unknown, store).await?;
        let (taken, totals) = {
            let mut table = self.table.lock();
            let totals = self.begin_write(&mut table);
            table.writing = std::mem::take(&mut table.waiting);
            (std::mem::take(&mut table.pending), totals)
        };
        let mut visits: Vec<_> = taken.into_iter().collect();
        // In the order of the tables, so that neighbours share their page.
        visits.sort_unstable_by_key(|(key, _)| (key.link_id, key.quarter));
        let mut result = Ok(());
        // In steps of bounded size: one transaction over all links would block every other writer.
        while result.is_ok() && !visits.is_empty() {
            let step = visits.split_off(visits.len().saturating_sub(MAX_VISIT_ROWS));
            let batch = VisitBatch::new(step);
            result = self.write(&batch, totals.clone(), store).await;
            match result {
                Ok(()) => {}
                Err(StoreError::Unknown(_)) => *unknown = Some(batch),
                Err(_) => self.requeue(batch.rows()),
            }
        }
        self.requeue(&visits);
        self.table.lock().limited.end_write();
        result
    }

    /// Writes the batch once more of which nobody knows whether it is stored. Together with other visits it could count twice.
    async fn resolve(&self, unknown: &mut Option<VisitBatch>, store: &Store) -> Result<(), StoreError> {
        let Some(batch) = unknown else { return Ok(()) };
        let totals = self.begin_write(&mut self.table.lock());
        let result = self.write(batch, totals, store).await;
        self.table.lock().limited.end_write();
        if result.is_ok() {
            *unknown = None;
        }
        result
    }

    /// Of which links the write that begins must return the visits.
    fn begin_write(&self, table: &mut Table) -> TotalsOf {
        table.limited.begin_write();
        if self.events.has_listeners() { TotalsOf::All } else { table.limited.totals() }
    }

    async fn write(&self, batch: &VisitBatch, totals: TotalsOf, store: &Store) -> Result<(), StoreError> {
        let total: u64 = batch.rows().iter().map(|(_, count)| count).sum();
        let written = store.write_batch(batch, totals.clone()).await?;
        {
            let mut table = self.table.lock();
            table.writing -= total;
            table.limited.settle(batch.rows(), &written.totals);
        }
        self.written.fetch_add(written.visits, Relaxed);
        self.dropped.fetch_add(total - written.visits, Relaxed);
        if totals == TotalsOf::All && !written.totals.is_empty() {
            let totals = written.totals.into_iter();
            let totals = totals.map(|total| LinkVisits { slug: total.slug, visits: total.visits });
            self.events.send(Event::Visits(totals.collect()));
        }
        Ok(())
    }

    /// Forgets the visits of a link, in memory and in the database; false if there is no such link. A limit of visits counts
    /// anew from here on.
    pub(crate) async fn forget(&self, link_id: u64, store: &Store) -> Result<bool, StoreError> {
        // Otherwise those on their way to the database would be written afterwards.
        let mut unknown = self.flushing.lock().await;
        self.resolve(&mut unknown, store).await?;
        // First, because it may fail: then all visits stay.
        let exists = store.forget_visits(link_id).await?;
        let Table { pending, waiting, limited, .. } = &mut *self.table.lock();
        limited.remove(link_id);
        pending.retain(|key, count| {
            let is_other = key.link_id != link_id;
            *waiting -= if is_other { 0 } else { *count };
            is_other
        });
        Ok(exists)
    }

    fn requeue(&self, visits: &[(VisitKey, u64)]) {
        let Table { pending, waiting, writing, .. } = &mut *self.table.lock();
        for &(key, count) in visits {
            *writing -= count;
            if pending.len() < self.max_keys || pending.contains_key(&key) {
                *pending.entry(key).or_default() += count;
                *waiting += count;
            } else {
                self.dropped.fetch_add(count, Relaxed);
            }
        }
    }

    /// Writes at every interval and at every full batch, until `stop` is set. If the sender is dropped it writes the rest
    /// and returns.
    pub(crate) async fn run(&self, store: &Store, every: Duration, mut stop: watch::Receiver<bool>) {
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            // While writes fail, only the interval starts the next one: a full batch would retry at once, in a busy loop.
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.full_batch.notified(), if !failing => {}
                stopped = stop.wait_for(|&stop| stop) => {
                    // `stop` writes the rest. After a drop nothing else does.
                    if stopped.is_err() {
                        break;
                    }
                    return;
                }
            }
            let result = self.flush(store).await;
            if let (Err(error), false) = (&result, failing) {
                tracing::warn!(%error, "cannot write visits; they stay in memory");
            }
            failing = result.is_err();
        }
        if let Err(error) = self.flush(store).await {
            tracing::warn!(%error, visits = self.stats().queued, "visits were lost");
        }
    }

    pub(crate) fn stats(&self) -> VisitStats {
        let queued = {
            let table = self.table.lock();
            table.waiting + table.writing
        };
        VisitStats { queued, written: self.written.load(Relaxed), dropped: self.dropped.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::address::Address;
    use crate::store::{CreateOutcome, Duplicates, LinkOptions, NewLink, StoreConfig, VisitHistory};

    async fn store_with_link(folder: &tempfile::TempDir) -> (Store, u64) {
        let store = Store::open(&StoreConfig::new(folder.path().join("links.db"))).unwrap();
        let url = Address::parse("https://example.com/").unwrap();
        let new =
            NewLink { url, slug: Some("a".into()), title: String::new(), options: LinkOptions::default() };
        let mut outcomes = store.create(vec![new], Duplicates::Allow).await.unwrap();
        let Some(CreateOutcome::Created(link)) = outcomes.pop() else { panic!("{outcomes:?}") };
        (store, link.id)
    }

    /// Waits in real time for a write by the clock of the runtime, which stands still.
    async fn until_written(visits: &Visits, count: u64) {
        let start = std::time::Instant::now();
        while visits.stats().written < count {
            assert!(start.elapsed() < larder_testkit::PATIENCE, "only {:?}", visits.stats());
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn visits_are_summed_per_link_and_quarter_hour() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(1_000, 10, Arc::new(Events::new()));
        for quarter in [1, 1, 2, 1] {
            visits.record(id, quarter);
        }
        assert_eq!(visits.stats(), VisitStats { queued: 4, written: 0, dropped: 0 });
        visits.flush(&store).await.unwrap();
        visits.record(id, 2);
        visits.flush(&store).await.unwrap();

        assert_eq!(visits.stats(), VisitStats { queued: 0, written: 5, dropped: 0 });
        assert_eq!(store.find("a").await.unwrap().unwrap().visits, 5);
        assert_eq!(store.history(id, 0).await.unwrap().quarters, [(1, 3), (2, 2)]);
    }

    #[tokio::test]
    async fn full_table_drops_new_links_and_counts_known_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(1_000, 1, Arc::new(Events::new()));
        visits.record(id, 1);
        visits.record(id + 1, 1);
        visits.record(id, 1);
        assert_eq!(visits.stats(), VisitStats { queued: 2, written: 0, dropped: 1 });
        visits.flush(&store).await.unwrap();
        assert_eq!(store.find("a").await.unwrap().unwrap().visits, 2);
    }

    #[tokio::test]
    async fn visits_of_deleted_link_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(1_000, 10, Arc::new(Events::new()));
        visits.record(id, 1);
        assert!(store.delete("a").await.unwrap());
        assert_eq!(store.drop_deleted(i64::MAX).await.unwrap(), ["a"]);
        visits.flush(&store).await.unwrap();
        assert_eq!(visits.stats(), VisitStats { queued: 0, written: 0, dropped: 1 });
        assert_eq!(store.history(id, 0).await.unwrap(), VisitHistory::default());
    }

    #[tokio::test]
    async fn failed_write_keeps_visits() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        store.close().await;
        let visits = Visits::new(1_000, 10, Arc::new(Events::new()));
        visits.record(id, 1);
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
        let visits = Visits::new(1_000, 100_000, Arc::new(Events::new()));
        let rows = 2 * MAX_VISIT_ROWS as i64 + 1;
        for quarter in 0..rows {
            visits.record(id, quarter);
        }
        // `add_visits` panics beyond its bound.
        visits.flush(&store).await.unwrap();
        assert_eq!(visits.stats(), VisitStats { queued: 0, written: rows as u64, dropped: 0 });
        assert_eq!(store.history(id, 0).await.unwrap().quarters.len(), rows as usize);
    }

    #[tokio::test]
    async fn dropped_service_writes_remaining_visits() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(1_000, 10, Arc::new(Events::new()));
        visits.record(id, 1);
        let (stop, stopped) = watch::channel(false);
        drop(stop);
        visits.run(&store, Duration::from_secs(3_600), stopped).await;
        assert_eq!(visits.stats(), VisitStats { queued: 0, written: 1, dropped: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn visits_of_many_links_are_written_before_the_table_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(1_000, 10, Arc::new(Events::new()));
        let (stop, stopped) = watch::channel(false);
        let watcher = async {
            for quarter in 0..5 {
                visits.record(id, quarter);
            }
            until_written(&visits, 5).await;
            stop.send(true).unwrap();
        };
        tokio::join!(visits.run(&store, Duration::from_secs(3_600), stopped), watcher);
        assert_eq!(visits.stats(), VisitStats { queued: 0, written: 5, dropped: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn full_batch_is_written_before_the_interval() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store_with_link(&folder).await;
        let visits = Visits::new(3, 10, Arc::new(Events::new()));
        let (stop, stopped) = watch::channel(false);
        let watcher = async {
            for _ in 0..3 {
                visits.record(id, 1);
            }
            until_written(&visits, 3).await;
            stop.send(true).unwrap();
        };
        tokio::join!(visits.run(&store, Duration::from_secs(3_600), stopped), watcher);
        assert_eq!(visits.stats().written, 3);
    }
}
