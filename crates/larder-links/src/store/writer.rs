//! The one thread that writes: it takes what is queued, runs it in one transaction, commits once, then answers all.
//!
//! ```text
//! callers ──► bounded queue ──► [ BEGIN │ job │ job │ … │ COMMIT ] ──► answers
//!                                 everything waiting, up to a group
//! ```
//!
//! A transaction is bounded in statements and in time, so that another process waits for the lock only so long; what does
//! not fit goes into the next one. A job that panics loses its group, whose callers are told so; the thread opens the
//! database again and serves the rest of the queue.
//!
//! A commit costs about as much as a hundred inserts, so under load the group pays for itself, and without load a job
//! is a group of its own and waits for nobody. An answer is given only after the commit: what a caller was told is in
//! the log, and what failed has been rolled back for the whole group.

use super::StoreError;
use super::statements;
use crate::slug::SlugCodec;
use rusqlite::{Connection, TransactionBehavior};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// The most statements in one transaction: about 40 ms of writing.
const MAX_STATEMENTS: usize = 4_096;
/// A transaction that has taken this long is committed, and further jobs go into the next one.
const MAX_TIME: Duration = Duration::from_millis(200);
/// Pauses between attempts to open the database again.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What a job may use inside the group's transaction.
pub(super) struct Session<'a> {
    pub(super) connection: &'a Connection,
    pub(super) codec: &'a SlugCodec,
    /// The next row id to try. Read from the database in each transaction, since another process may import too.
    pub(super) next_id: u64,
}

/// One queued write.
pub(super) trait Job: Send {
    /// How many statements it may run.
    fn statements(&self) -> usize;
    /// Runs the statements; the value is kept until the commit.
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), StoreError>;
    /// Answers the caller.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

/// The usual job: a closure, its value, and who waits for it.
pub(super) struct Write<F, T> {
    statements: usize,
    work: Option<F>,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> Write<F, T>
where
    F: FnOnce(&mut Session<'_>) -> Result<T, StoreError> + Send + 'static,
    T: Send + 'static,
{
    pub(super) fn job(
        statements: usize,
        work: F,
    ) -> (Box<dyn Job>, oneshot::Receiver<Result<T, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Write { statements, work: Some(work), value: None, reply }), answer)
    }
}

impl<F, T> Job for Write<F, T>
where
    F: FnOnce(&mut Session<'_>) -> Result<T, StoreError> + Send,
    T: Send,
{
    fn statements(&self) -> usize {
        self.statements
    }

    fn run(&mut self, session: &mut Session<'_>) -> Result<(), StoreError> {
        if let Some(work) = self.work.take() {
            self.value = Some(work(session)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let Write { value, reply, .. } = *self;
        // Nobody listens any more if the caller was dropped; the write stands all the same.
        let _ = reply.send(committed.and_then(|()| value.ok_or(StoreError::Closed)));
    }
}

/// Serves the queue until every sender is gone and what they sent is written. A panic of a job is survived: `reopen` gives
/// a new connection, and `is_down` is set meanwhile.
pub(super) fn supervise(
    first: Connection,
    reopen: impl Fn() -> Result<Connection, StoreError>,
    codec: &SlugCodec,
    mut queue: mpsc::Receiver<Box<dyn Job>>,
    group: usize,
    is_down: &AtomicBool,
) {
    let mut connection = first;
    let mut waiting = VecDeque::new();
    // The connection is moved in, and what the closure borrows holds whole jobs at any time.
    while catch_unwind(AssertUnwindSafe(|| run(connection, codec, &mut queue, &mut waiting, group))).is_err()
    {
        is_down.store(true, Relaxed);
        tracing::error!("the database's writer ended in a panic and is started again");
        let mut pause = FIRST_PAUSE;
        connection = loop {
            match reopen() {
                Ok(connection) => break connection,
                Err(error) => tracing::error!(%error, "the database cannot be opened again"),
            }
            // A dropped job answers its caller with an error.
            waiting.clear();
            while queue.try_recv().is_ok() {}
            if queue.is_closed() {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        is_down.store(false, Relaxed);
    }
}

fn run(
    mut connection: Connection,
    codec: &SlugCodec,
    queue: &mut mpsc::Receiver<Box<dyn Job>>,
    waiting: &mut VecDeque<Box<dyn Job>>,
    group: usize,
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

/// Runs jobs in one transaction until its time is over; gives how many of them, and what became of those.
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
        let mut session = Session { connection: &transaction, codec, next_id };
        for job in &mut *jobs {
            count += 1;
            job.run(&mut session)?;
            if began.elapsed() >= MAX_TIME {
                break;
            }
        }
        Ok(transaction.commit()?)
    };
    match run() {
        // Without a transaction none of them can run.
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

    /// Notes when it runs and when it is answered; a commit lies between the two.
    struct Probe {
        statements: usize,
        takes: Duration,
        log: Arc<Mutex<String>>,
    }

    impl Job for Probe {
        fn statements(&self) -> usize {
            self.statements
        }

        fn run(&mut self, _: &mut Session<'_>) -> Result<(), StoreError> {
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
        let codec = statements::slug_codec(&connection).unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (sender, mut queue) = mpsc::channel::<Box<dyn Job>>(jobs);
        for _ in 0..jobs {
            let probe = Probe { statements, takes, log: log.clone() };
            assert!(sender.try_send(Box::new(probe)).is_ok());
        }
        drop(sender);
        run(connection, &codec, &mut queue, &mut VecDeque::new(), 256);
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
