//! Connections that readers take in turn. A reader whose caller has gone gives its connection back too.

use anyhow::{Context, Result};
use parking_lot::Mutex;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) struct Pool<C> {
    idle: Arc<Mutex<Vec<C>>>,
    permits: Arc<Semaphore>,
}

impl<C> Pool<C> {
    pub(super) fn new(connections: Vec<C>) -> Self {
        let permits = Arc::new(Semaphore::new(connections.len()));
        Pool { idle: Arc::new(Mutex::new(connections)), permits }
    }

    /// Waits for a connection.
    pub(super) async fn take(&self) -> Result<Taken<C>> {
        let permit = self.permits.clone().acquire_owned().await?;
        let connection = self.idle.lock().pop().context("a permit is a connection")?;
        Ok(Taken { connection: Some(connection), idle: self.idle.clone(), _permit: permit })
    }
}

impl<C> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Pool { idle: self.idle.clone(), permits: self.permits.clone() }
    }
}

/// A connection. Dropping it gives it back, and only then its permit.
pub(super) struct Taken<C> {
    connection: Option<C>,
    idle: Arc<Mutex<Vec<C>>>,
    _permit: OwnedSemaphorePermit,
}

impl<C> Deref for Taken<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.connection.as_ref().expect("it is taken until it is dropped")
    }
}

impl<C> DerefMut for Taken<C> {
    fn deref_mut(&mut self) -> &mut C {
        self.connection.as_mut().expect("it is taken until it is dropped")
    }
}

impl<C> Drop for Taken<C> {
    fn drop(&mut self) {
        self.idle.lock().extend(self.connection.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn connection_of_a_cancelled_reader_comes_back() {
        let pool = Pool::new(vec![7]);
        let mut context = Context::from_waker(Waker::noop());
        let first = match pin!(pool.take()).poll(&mut context) {
            Poll::Ready(Ok(taken)) => taken,
            _ => panic!("a connection is idle"),
        };
        let mut second = pin!(pool.take());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(matches!(second.poll(&mut context), Poll::Ready(Ok(taken)) if *taken == 7));
    }
}
