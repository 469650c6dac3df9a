//! The scan of all primaries. A key may move from a server that is not scanned yet to one that was: the scan is made again
//! until each slot has stayed where it is during one of them.

use super::Cluster;
use super::map::SlotMap;
use super::member::Member;
use super::slots::SlotSet;
use crate::tier::redis::scan::step;
use crate::tier::redis::server::{Lane, Sent};
use crate::tier::redis::values::int;
use crate::tier::{Scan, TierError, TierFuture};
use redis::Pipeline;
use std::sync::Arc;
use tokio::time::Instant;

/// How often everything is scanned at most.
const MAX_PASSES: u32 = 3;

pub(super) struct ClusterScan<'a> {
    cluster: &'a Cluster,
    glob: &'a [u8],
    /// The map at the start of this pass; `None` before it.
    map: Option<Arc<SlotMap>>,
    /// The position of the server, and the cursor there.
    at: (usize, u64),
    passes: u32,
    /// The slots that may have moved in every pass before.
    unsure: Option<SlotSet>,
    has_ended: bool,
}

impl Cluster {
    pub(in crate::tier::redis) fn scan<'a>(&'a self, glob: &'a [u8]) -> Box<dyn Scan + 'a> {
        let (at, unsure) = ((0, 0), None);
        Box::new(ClusterScan { cluster: self, glob, map: None, at, passes: 0, unsure, has_ended: false })
    }
}

impl ClusterScan<'_> {
    async fn step(&mut self) -> Result<Option<Vec<Vec<u8>>>, TierError> {
        if self.has_ended {
            return Ok(None);
        }
        let map = match &self.map {
            Some(map) => map.clone(),
            None => self.cluster.refresh(Instant::now()).await?,
        };
        self.map = Some(map.clone());
        let (server, cursor) = self.at;
        let owners = self.cluster.owners(&map);
        let Some(member) = owners.get(server) else {
            self.end_pass(&map).await?;
            return Ok(Some(Vec::new()));
        };
        let (next, keys) = step(&member.server, cursor, self.glob).await.map_err(|error| match error {
            TierError::NoReply(reason) | TierError::Disconnected(reason) => TierError::PartLost(reason),
            error => error,
        })?;
        if next == 0 {
            self.prove(member, &map).await?;
        }
        self.at = if next == 0 { (server + 1, 0) } else { (server, next) };
        Ok(Some(keys))
    }

    /// Writes to a slot of a server that was scanned. One that was cut off from the others is scanned as well as before, and
    /// finds nothing of what is stored at its successor; it refuses a write.
    async fn prove(&self, member: &Member, map: &SlotMap) -> Result<(), TierError> {
        let accepted = self.cluster.state.lock().accepted.clone();
        let key = accepted.and_then(|accepted| map.confirmation_key(member, &accepted.prefix));
        let Some(key) = key else { return Ok(()) };
        let mut pipeline = Pipeline::with_capacity(1);
        // Also a full server takes it.
        pipeline.cmd("UNLINK").arg(key);
        let mut answers = member.send(Lane::Write(&[]), Sent::Repeatably, &pipeline).await?;
        int(answers.pop().unwrap_or_default())
            .map(drop)
            .map_err(|error| TierError::PartLost(error.to_string()))
    }

    /// All servers are scanned.
    async fn end_pass(&mut self, before: &SlotMap) -> Result<(), TierError> {
        let after = self.cluster.refresh(Instant::now()).await?;
        let mut moved = after.moved_since(before);
        moved.add(&before.moving);
        moved.add(&after.moving);
        if let Some(unsure) = &self.unsure {
            moved.keep(unsure);
        }
        self.passes += 1;
        if moved.is_empty() {
            self.has_ended = true;
        } else if self.passes == MAX_PASSES {
            return Err(TierError::PartLost(format!("slots moved in each of {MAX_PASSES} scans")));
        }
        (self.map, self.at, self.unsure) = (None, (0, 0), Some(moved));
        Ok(())
    }
}

impl Scan for ClusterScan<'_> {
    fn next(&mut self) -> TierFuture<'_, Option<Vec<Vec<u8>>>> {
        Box::pin(self.step())
    }
}
