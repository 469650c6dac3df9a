//! A loader that counts its runs and waits at a gate, so that a test decides what happens during a load.

use crate::wait::{PATIENCE, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// A gate that loaders pass when the test opens it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    inside: Arc<AtomicUsize>,
    arrived: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    /// A closed gate.
    pub fn closed() -> Self {
        let semaphore = || Arc::new(Semaphore::new(0));
        Gate { inside: Arc::default(), arrived: semaphore(), open: semaphore() }
    }

    /// Called by the loader: counts it and waits until the test opens the gate. A gate that nobody opens holds the loader
    /// for ever: some tests want that.
    pub async fn pass(&self) {
        self.inside.fetch_add(1, Ordering::SeqCst);
        self.arrived.add_permits(1);
        self.open.acquire().await.expect("the gate is not closed for good").forget();
    }

    /// Waits until one more loader has arrived.
    ///
    /// # Panics
    /// If none arrives within [`PATIENCE`].
    pub async fn arrival(&self) {
        let arrived = within(PATIENCE, "a loader arrives at the gate", self.arrived.acquire()).await;
        arrived.expect("the gate is not closed for good").forget();
    }

    /// Lets `loaders` pass.
    pub fn open(&self, loaders: usize) {
        self.open.add_permits(loaders);
    }

    /// How many loaders have arrived so far.
    pub fn count(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }
}
