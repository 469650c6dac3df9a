//! The writer thread: it takes the queued jobs, runs them in one transaction, commits once, then returns the results.
//!
//! ```text
//! callers ──► bounded queue ──► [ BEGIN │ job │ job │ … │ COMMIT ] ──► results
//!                                 all queued jobs, up to a group
//! ```
//!
//! A transaction is bounded in statements and in time, which bounds how long another process waits for the lock; further jobs
//! go into the next transaction. If a job panics, the callers of its group get an error; the thread opens the database again
//! and serves the rest of the queue. While it cannot be opened, the callers in the queue get errors too.
//!
//! A commit costs about as much as a hundred inserts, so a group saves time under load; without load a job is a group of its
//! own and does not wait. A result is returned after the commit only: a success is in the log, and a failure is rolled back
//! for the whole group.

use super::statements;
use crate::model::slug::SlugCodec;
use crate::store::StoreError;
use crate::store::health::WriterHealth;
use rusqlite::{Connection, TransactionBehavior};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// The maximum number of statements in one transaction: about 40 ms of writing.
const MAX_STATEMENTS: usize = 4_096;
/// After this time a transaction is committed, and further jobs go into the next one.
const MAX_TIME: Duration = Duration::from_millis(200);
/// Pauses between attempts to open the database again.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What a job uses inside the group's transaction.
pub(super) struct WriteContext<'a> {
    pub(super) connection: &'a Connection,
    pub(super) codec: &'a SlugCodec,
    /// The next row id. Each transaction reads it from the database, because another process may write too.
    pub(super) next_id: u64,
}

/// One queued write.
pub(super) trait Job: Send {
    /// An upper bound of the statements that it runs.
    fn statements(&self) -> usize;
    /// Runs the statements; the job stores the value until the commit.
    fn run(&mut self, context: &mut WriteContext<'_>) -> Result<(), StoreError>;
    /// Sends the result to the caller.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

/// A job of a closure, its value, and the channel to the caller.
pub(super) struct WriteJob<F, T> {
    statements: usize,
    work: Option<F>,
    value: Option<T>,
    sender: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> WriteJob<F, T>
where
    F: FnOnce(&mut WriteContext<'_>) -> Result<T, StoreError> + Send + 'static,
    T: Send + 'static,
{
    pub(super) fn job(
        statements: usize,
        work: F,
    ) -> (Box<dyn Job>, oneshot::Receiver<Result<T, StoreError>>) {
        let (sender, receiver) = oneshot::channel();
        (Box::new(WriteJob { statements, work: Some(work), value: None, sender }), receiver)
    }
}

impl<F, T> Job for WriteJob<F, T>
where
    F: FnOnce(&mut WriteContext<'_>) -> Result<T, StoreError> + Send,
    T: Send,
{
    fn statements(&self) -> usize {
        self.statements
    }

    fn run(&mut self, context: &mut WriteContext<'_>) -> Result<(), StoreError> {
        if let Some(work) = self.work.take() {
            self.value = Some(work(context)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let WriteJob { value, sender, .. } = *self;
        // The channel is closed if the caller was dropped; the write is committed anyway.
        let _ = sender.send(committed.and_then(|()| value.ok_or(StoreError::Closed)));
    }
}

/// Serves the queue until every sender is dropped and every job has run. After a panic of a job, `reopen` returns a new
/// connection; `health` says until then that the writer is down.
pub(super) fn supervise(
    first: Connection,
    reopen: impl Fn() -> Result<Connection, StoreError>,
    codec: &SlugCodec,
    mut queue: mpsc::Receiver<Box<dyn Job>>,
    group: usize,
    health: &WriterHealth,
) {
    let mut connection = first;
    let mut waiting = VecDeque::new();
    // Unwind safe: `run` owns the connection, and the queues contain complete jobs only.
    while catch_unwind(AssertUnwindSafe(|| run(connection, codec, &mut queue, &mut waiting, group, health)))
        .is_err()
    {
        health.set_down();
        tracing::error!("the database's writer panicked and restarts");
        let mut pause = FIRST_PAUSE;
        connection = loop {
            match reopen() {
                Ok(connection) => break connection,
                Err(error) => tracing::error!(%error, "cannot open the database again"),
            }
            // The caller of a dropped job gets an error.
            waiting.clear();
            while queue.try_recv().is_ok() {}
            if queue.is_closed() {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        health.set_up();
    }
}

fn run(
    mut connection: Connection,
    codec: &SlugCodec,
    queue: &mut mpsc::Receiver<Box<dyn Job>>,
    waiting: &mut VecDeque<Box<dyn Job>>,
    group: usize,
    health: &WriterHealth,
) {
    while let Some(first) = waiting.pop_front().or_else(|| queue.blocking_recv()) {
        let mut statements = first.statements();
        let mut jobs = vec![first];
        while jobs.len() < group
            && let Some(job) = waiting.pop_front().or_else(|| queue.try_recv().ok())
        {
            statements += job.statements();
            if statements > MAX_STATEMENTS {
                waiting.push_front(job);
                break;
            }
            jobs.push(job);
        }
        let (count, committed) = commit(&mut connection, codec, &mut jobs);
        for job in jobs.drain(count..).rev() {
            waiting.push_front(job);
        }
        health.record(&committed);
        if let Err(error) = &committed {
            tracing::warn!(%error, jobs = jobs.len(), "writes were rolled back");
        }
        for job in jobs {
            job.finish(committed.clone());
        }
    }
    // Planner statistics for the next start; closing the connection folds the log into the database.
    if let Err(error) = connection.execute_batch("PRAGMA optimize") {
        tracing::debug!(%error, "the database was closed without fresh statistics");
    }
}

/// Runs jobs in one transaction until its time limit; returns how many jobs ran, and their common result.
fn commit(
    connection: &mut Connection,
    codec: &SlugCodec,
    jobs: &mut [Box<dyn Job>],
) -> (usize, Result<(), StoreError>) {
    let began = Instant::now();
    let mut count = 0;
    let mut run = || {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let next_id = statements::next_id(&transaction)?;
        let mut context = WriteContext { connection: &transaction, codec, next_id };
        for job in &mut *jobs {
            count += 1;
            job.run(&mut context)?;
            if began.elapsed() >= MAX_TIME {
                break;
            }
        }
        Ok(transaction.commit()?)
    };
    match run() {
        // Without a transaction no job can run, so all of them fail.
        Err(error) if count == 0 => (jobs.len(), Err(error)),
        result => (count, result),
    }
}

#[cfg(test)]
mod tests {
    use super::super::migrate::migrate;
    use super::*;
    use parking_lot::Mutex;
    use std::path::Path;
    use std::sync::Arc;

    /// Logs when it runs and when it returns its result; the commit is between the two.
    struct Probe {
        statements: usize,
        takes: Duration,
        log: Arc<Mutex<String>>,
    }

    impl Job for Probe {
        fn statements(&self) -> usize {
            self.statements
        }

        fn run(&mut self, _: &mut WriteContext<'_>) -> Result<(), StoreError> {
            std::thread::sleep(self.takes);
            self.log.lock().push('r');
            Ok(())
        }

        fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
            committed.unwrap();
            self.log.lock().push('a');
        }
    }

    fn log_of(jobs: usize, statements: usize, takes: Duration) -> String {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, Path::new("memory")).unwrap();
        let codec = SlugCodec::new(statements::slug_key(&connection).unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let (sender, mut queue) = mpsc::channel::<Box<dyn Job>>(jobs);
        for _ in 0..jobs {
            let probe = Probe { statements, takes, log: log.clone() };
            assert!(sender.try_send(Box::new(probe)).is_ok());
        }
        drop(sender);
        run(connection, &codec, &mut queue, &mut VecDeque::new(), 256, &WriterHealth::default());
        let log = log.lock();
        log.clone()
    }

    #[test]
    fn transaction_is_bounded_in_statements_and_time() {
        assert_eq!(log_of(4, 1, Duration::ZERO), "rrrraaaa");
        assert_eq!(log_of(5, MAX_STATEMENTS / 2, Duration::ZERO), "rraarraara");
        // One job alone may be larger: it cannot be divided here.
        assert_eq!(log_of(2, MAX_STATEMENTS + 1, Duration::ZERO), "rara");
        assert_eq!(log_of(2, 1, MAX_TIME), "rara");
    }
}
