//! The one thread that writes: it takes what is queued, runs it in one transaction, commits once, then answers all.
//!
//! ```text
//! callers ──► bounded queue ──► [ BEGIN │ job │ job │ … │ COMMIT ] ──► answers
//!                                 everything waiting, up to a group
//! ```
//!
//! A commit costs about as much as a hundred inserts, so under load the group pays for itself, and without load a job
//! is a group of its own and waits for nobody. An answer is given only after the commit: what a caller was told is in
//! the log, and what failed has been rolled back for the whole group.

use super::StoreError;
use super::statements;
use crate::slug::SlugCodec;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

/// What a job may use inside the group's transaction.
pub(super) struct Session<'a> {
    pub(super) connection: &'a Connection,
    pub(super) codec: &'a SlugCodec,
    /// The next row id to try. Read from the database in each transaction, since another process may import too.
    pub(super) next_id: u64,
}

/// One queued write.
pub(super) trait Job: Send {
    /// Runs the statements; the value is kept until the commit.
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), StoreError>;
    /// Answers the caller.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

/// The usual job: a closure, its value, and who waits for it.
pub(super) struct Write<F, T> {
    work: Option<F>,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> Write<F, T>
where
    F: FnOnce(&mut Session<'_>) -> Result<T, StoreError> + Send + 'static,
    T: Send + 'static,
{
    pub(super) fn job(work: F) -> (Box<dyn Job>, oneshot::Receiver<Result<T, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Write { work: Some(work), value: None, reply }), answer)
    }
}

impl<F, T> Job for Write<F, T>
where
    F: FnOnce(&mut Session<'_>) -> Result<T, StoreError> + Send,
    T: Send,
{
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

/// Serves the queue until every sender is gone and what they sent is written.
pub(super) fn run(
    mut connection: Connection,
    codec: SlugCodec,
    mut queue: mpsc::Receiver<Box<dyn Job>>,
    group: usize,
) {
    while let Some(first) = queue.blocking_recv() {
        let mut jobs = vec![first];
        while jobs.len() < group {
            match queue.try_recv() {
                Ok(job) => jobs.push(job),
                Err(_) => break,
            }
        }
        let committed = commit(&mut connection, &codec, &mut jobs);
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

fn commit(
    connection: &mut Connection,
    codec: &SlugCodec,
    jobs: &mut [Box<dyn Job>],
) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let next_id = statements::next_id(&transaction)?;
    let mut session = Session { connection: &transaction, codec, next_id };
    for job in jobs {
        job.run(&mut session)?;
    }
    Ok(transaction.commit()?)
}
