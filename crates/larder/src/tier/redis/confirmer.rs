//! Confirms mutations by replicas that acknowledge a later write.

use super::address::Address;
use super::connect::Connector;
use super::replicas::{Acknowledged, ReplicaFence};
use crate::tier::TierError;
use redis::Pipeline;
use std::sync::Arc;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

/// The connection for that: on the one of mutations each would wait for the one before it.
pub(super) struct Confirmer {
    fence: ReplicaFence,
    pub(super) connector: Connector,
    /// When the last attempt began, and its result.
    last: AsyncMutex<Option<(Instant, Result<(), TierError>)>>,
}

impl Confirmer {
    pub(super) fn new(fence: ReplicaFence) -> Self {
        Confirmer { fence, connector: Connector::default(), last: AsyncMutex::new(None) }
    }

    /// Returns once the replicas have acknowledged a write to this key that is sent from now on, and so all that the server
    /// has executed before it. Concurrent callers share a write, whatever the key.
    ///
    /// # Errors
    /// If too few do. That says nothing about what the server has executed.
    pub(super) async fn confirm(&self, address: &Arc<Address>, key: Vec<u8>) -> Result<(), TierError> {
        let called = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((began, result)) = &*last
            && *began >= called
        {
            return result.clone();
        }
        let began = Instant::now();
        let result = self.write(address, key).await;
        *last = Some((began, result.clone()));
        result
    }

    async fn write(&self, address: &Arc<Address>, key: Vec<u8>) -> Result<(), TierError> {
        let write = Acknowledged { fence: self.fence, key };
        let mut pipeline = Pipeline::with_capacity(2);
        write.add_to(&mut pipeline);
        let mut replies = self.connector.send(address, &pipeline).await?;
        write.check(&mut replies)
    }
}
