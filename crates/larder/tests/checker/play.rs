//! What histories of every kind have in common: virtual time, an end, an outcome; and the search for one that breaks the
//! promise.

use crate::forgery::Forgery;
use crate::promise::book::Violation;
use crate::promise::clients::Clients;
use crate::promise::effects::{Effects, Pairs};
use crate::promise::trace::Trace;
use crate::{SEED, find};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Virtual time within which a history ends: many times what it takes, and no time at all if every task waits forever.
const DEADLINE: Duration = Duration::from_secs(600);

/// How a history ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) reads: u64,
    pub(crate) violation: Option<Violation>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) effects: Arc<Effects>,
}

impl Outcome {
    pub(crate) fn of(clients: &Clients, effects: &Arc<Effects>) -> Self {
        let book = clients.book();
        let (reads, violation) = (book.reads, book.violation.clone());
        Outcome { reads, violation, trace: clients.trace.clone(), effects: effects.clone() }
    }
}

/// Runs a history in virtual time.
pub(crate) fn in_virtual_time<T>(history: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without sockets").block_on(history)
}

/// Waits until all clients of the history of this seed have returned, then ends the others.
///
/// # Panics
/// If an operation panics, or does not return within [`DEADLINE`].
pub(crate) async fn await_clients(seed: u64, clients: Vec<JoinHandle<()>>, others: &[JoinHandle<()>]) {
    for client in clients {
        match tokio::time::timeout(DEADLINE, client).await {
            Ok(ended) => ended.unwrap_or_else(|error| panic!("seed {seed}: an operation panicked: {error}")),
            Err(_) => {
                panic!("seed {seed}: an operation did not return within {DEADLINE:?} of virtual time")
            }
        }
    }
    others.iter().for_each(JoinHandle::abort);
}

/// A kind of histories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Histories {
    /// Runs the one of a seed, with a trace or without.
    pub(crate) run: fn(u64, Forgery, bool) -> Outcome,
    /// A search reports its progress after so many.
    pub(crate) progress: u64,
    /// The variable that selects a seed.
    pub(crate) seed_variable: &'static str,
}

impl Histories {
    /// Runs so many from the first seed on, until one breaks the promise. Returns the number of reads and the pairs of features
    /// that took effect, or the seed of that history.
    pub(crate) fn search(&self, first: u64, histories: u64, forgery: Forgery) -> Result<(u64, Pairs), u64> {
        let (reads, pairs) = (AtomicU64::new(0), Pairs::default());
        let broken = find(histories, |index| {
            if index > 0 && index.is_multiple_of(self.progress) {
                println!("{index} histories");
            }
            let outcome = (self.run)(first + index, forgery, false);
            reads.fetch_add(outcome.reads, Ordering::SeqCst);
            pairs.add(&outcome.effects);
            outcome.violation.is_some()
        });
        broken.map_or(Ok((reads.into_inner(), pairs)), |index| Err(first + index))
    }

    /// Runs the history of a seed again and describes it, with the command that repeats it.
    pub(crate) fn describe(&self, seed: u64, forgery: Forgery) -> String {
        let outcome = (self.run)(seed, forgery, true);
        let command =
            format!("{}={seed} cargo test -p larder --test checker -- --nocapture", self.seed_variable);
        match outcome.violation {
            Some(violation) => {
                let trace = outcome.trace.about(violation.key, usize::MAX);
                format!("seed {seed}\n{trace}\n{}\nrepeat with: {command}", violation.words)
            }
            None => format!("seed {seed}: no violation\nrepeat with: {command}"),
        }
    }

    /// Searches for a violation behind each of these servers.
    ///
    /// # Panics
    /// If one is not found within so many histories.
    pub(crate) fn find_forged(&self, forgeries: impl IntoIterator<Item = Forgery>, most: u64) {
        for forgery in forgeries {
            match self.search(SEED, most, forgery) {
                Ok(_) => panic!("{forgery:?} was not found in {most} histories"),
                Err(seed) => println!("{forgery:?}: found in {} histories", seed - SEED + 1),
            }
        }
    }
}
