//! The scan that finds the keys which match a glob.

use super::server::{Lane, Sent, Server};
use super::values::{array, bytes, text};
use crate::tier::{Scan, TierError, TierFuture};
use redis::Pipeline;

/// The number of keys in one step of a scan.
const STEP: usize = 1_000;

/// The scan of one server.
pub(super) struct ServerScan<'a> {
    server: &'a Server,
    glob: &'a [u8],
    /// Where the next step starts; `None` once the scan has ended.
    cursor: Option<u64>,
}

impl<'a> ServerScan<'a> {
    pub(super) fn new(server: &'a Server, glob: &'a [u8]) -> Self {
        ServerScan { server, glob, cursor: Some(0) }
    }
}

impl Scan for ServerScan<'_> {
    fn next(&mut self) -> TierFuture<'_, Option<Vec<Vec<u8>>>> {
        Box::pin(async {
            let Some(cursor) = self.cursor else { return Ok(None) };
            let (next, keys) = step(self.server, cursor, self.glob).await?;
            self.cursor = (next != 0).then_some(next);
            Ok(Some(keys))
        })
    }
}

/// One step of the scan of a server, which starts and ends with the cursor 0.
pub(super) async fn step(
    server: &Server,
    cursor: u64,
    glob: &[u8],
) -> Result<(u64, Vec<Vec<u8>>), TierError> {
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.cmd("SCAN").arg(cursor).arg("MATCH").arg(glob).arg("COUNT").arg(STEP);
    let mut answers = server.send(Lane::Write(&[]), Sent::Repeatably, &pipeline).await?;
    let mut fields = array(answers.pop().unwrap_or_default())?.into_iter();
    let cursor = text(fields.next().unwrap_or_default())?;
    let keys = array(fields.next().unwrap_or_default())?.into_iter();
    let keys = keys.map(|key| Ok(bytes(key)?.unwrap_or_default())).collect::<Result<_, TierError>>()?;
    let cursor = cursor
        .parse()
        .map_err(|_| TierError::Refused(format!("cursor is {cursor:?}; it must be an integer")))?;
    Ok((cursor, keys))
}
