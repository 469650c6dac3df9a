//! Reads: keys and leases, or heads, and the ledger, in one round trip.

use super::RedisTier;
use super::ledger;
use super::server::{Lane, Sent};
use super::servers::Servers;
use super::values::{array, bytes, head_of, is_wrong_type, px};
use crate::tier::{HEAD_BYTES, Head, HeadsReply, KeyContent, LedgerQuery, Lookup, LookupReply, TierError};
use redis::{Cmd, Pipeline, Value};
use std::sync::atomic::Ordering;
use std::time::Duration;

impl RedisTier {
    pub(super) async fn do_lookup(&self, lookup: &Lookup<'_>) -> Result<LookupReply, TierError> {
        let Some(first) = lookup.keys.first() else {
            return Ok(LookupReply { keys: Vec::new(), stamps: None });
        };
        let lane = Lane::Read(first);
        let ledger = lookup.ledger.as_ref();
        let key_count = lookup.keys.len();
        let (contents, scores) = match (lookup.lease, ledger) {
            (Some(leases), _) => self.read_or_lease(lane, lookup.keys, leases, ledger).await?,
            (None, Some(_)) => self.read_with_ledger(lane, lookup.keys, ledger).await?,
            (None, None) => (self.read(lane, lookup.keys).await?, None),
        };
        if contents.len() != key_count {
            return Err(TierError::Refused(format!("{} replies for {key_count} keys", contents.len())));
        }
        let stamps = match (ledger, scores) {
            (Some(query), Some(scores)) => Some(self.parse_stamps(lane, query, scores).await?),
            _ => None,
        };
        Ok(LookupReply { keys: contents, stamps })
    }

    /// The contents of keys, with a lease where nothing is, and the reply to the read of the ledger. Keys that get no lease
    /// because the server is full, or because this user may only read, are read.
    async fn read_or_lease(
        &self,
        lane: Lane<'_>,
        keys: &[Vec<u8>],
        leases: (&[Head], Duration),
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<(Vec<KeyContent>, Option<Value>), TierError> {
        let by_set = self.lease_by_set(lane, keys, leases, ledger).await?;
        let (stored, scores) = match by_set {
            Some(replies) => replies,
            None => self.lease_by_script(lane, keys, leases, ledger).await?,
        };
        let refused = |(key, stored): (&Vec<u8>, &Value)| is_refused(stored).then(|| key.clone());
        let refused: Vec<_> = keys.iter().zip(&stored).filter_map(refused).collect();
        let mut read = Vec::new();
        if !refused.is_empty() {
            let is_granted = stored.contains(&Value::Nil);
            read = self.read(lane, &refused).await.map_err(|error| match error {
                // Not all was refused: there may be leases.
                TierError::Refused(reason) if is_granted => TierError::NoReply(reason),
                error => error,
            })?;
        }
        let mut read = read.into_iter();
        let contents = stored.into_iter().map(|stored| match stored {
            Value::Nil => Ok(KeyContent::LeaseGranted),
            stored if is_refused(&stored) => Ok(read.next().unwrap_or(KeyContent::Absent)),
            stored => content(stored),
        });
        Ok((contents.collect::<Result<_, TierError>>()?, scores))
    }

    /// The replies for the keys, nil where the lease is, and the reply to the read of the ledger. `None` if the server is older
    /// than 7.0 and has not done anything.
    async fn lease_by_set(
        &self,
        lane: Lane<'_>,
        keys: &[Vec<u8>],
        (leases, ttl): (&[Head], Duration),
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<Option<(Vec<Value>, Option<Value>)>, TierError> {
        if !self.leases_by_set.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut pipeline = Pipeline::with_capacity(keys.len() + 1);
        // The words of the command and its TTL have no more bytes.
        const REST_BYTES: usize = 32;
        for (key, lease) in keys.iter().zip(leases) {
            // Sized at once: it is built for each key of a call.
            let mut command = Cmd::with_capacity(7, key.len() + lease.len() + REST_BYTES);
            command.arg("SET").arg(key).arg(lease).arg("PX").arg(px(ttl)).arg("NX").arg("GET");
            pipeline.add_command(command);
        }
        ledger.inspect(|query| ledger::read(&mut pipeline, query));
        let mut stored = self.servers.send(lane, Sent::Once, &pipeline).await?;
        let scores = ledger.and_then(|_| stored.pop());
        if matches!(stored.first(), Some(Value::ServerError(error)) if error.code() == "ERR") {
            // A syntax error.
            self.leases_by_set.store(false, Ordering::Relaxed);
            return Ok(None);
        }
        Ok(Some((stored, scores)))
    }

    /// The same by a script.
    async fn lease_by_script(
        &self,
        lane: Lane<'_>,
        keys: &[Vec<u8>],
        (leases, ttl): (&[Head], Duration),
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<(Vec<Value>, Option<Value>), TierError> {
        let at_once = self.keys_at_once();
        let build = |by_text| {
            let mut pipeline = Pipeline::with_capacity(2);
            for (keys, leases) in keys.chunks(at_once).zip(leases.chunks(at_once)) {
                self.scripts.lookup.call(&mut pipeline, by_text, keys.len());
                keys.iter().for_each(|key| _ = pipeline.arg(key));
                pipeline.arg(px(ttl));
                leases.iter().for_each(|lease| _ = pipeline.arg(&lease[..]));
            }
            ledger.inspect(|query| ledger::read(&mut pipeline, query));
            pipeline
        };
        let mut answers = self.servers.send_script(lane, build).await?;
        let scores = ledger.and_then(|_| answers.pop());
        let mut stored = Vec::with_capacity(keys.len());
        for (keys, answer) in keys.chunks(at_once).zip(answers) {
            match is_refused(&answer) {
                true => stored.extend(std::iter::repeat_n(answer, keys.len())),
                false => stored.extend(array(answer)?),
            }
        }
        Ok((stored, scores))
    }

    /// The contents of keys.
    async fn read(&self, lane: Lane<'_>, keys: &[Vec<u8>]) -> Result<Vec<KeyContent>, TierError> {
        let Servers::One(server) = &self.servers else {
            return Ok(self.read_with_ledger(lane, keys, None).await?.0);
        };
        const NAME: &str = "MGET";
        let argument_bytes = NAME.len() + keys.iter().map(Vec::len).sum::<usize>();
        let mut command = Cmd::with_capacity(1 + keys.len(), argument_bytes);
        command.arg(NAME);
        keys.iter().for_each(|key| _ = command.arg(key));
        let stored = server.send_command(lane, &command).await?;
        array(stored)?.into_iter().map(content).collect()
    }

    /// The contents of keys, and the reply to the read of the ledger.
    async fn read_with_ledger(
        &self,
        lane: Lane<'_>,
        keys: &[Vec<u8>],
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<(Vec<KeyContent>, Option<Value>), TierError> {
        let is_one = matches!(self.servers, Servers::One(_));
        let mut pipeline = Pipeline::with_capacity(if is_one { 2 } else { keys.len() + 1 });
        match is_one {
            true => {
                pipeline.cmd("MGET");
                keys.iter().for_each(|key| _ = pipeline.arg(key));
            }
            false => keys.iter().for_each(|key| _ = pipeline.cmd("GET").arg(key)),
        }
        ledger.inspect(|query| ledger::read(&mut pipeline, query));
        let mut answers = self.servers.send(lane, Sent::Repeatably, &pipeline).await?;
        let scores = ledger.and_then(|_| answers.pop());
        let stored = match is_one {
            true => array(answers.pop().unwrap_or_default())?,
            // As MGET, which returns nil for a key of another type.
            false => answers
                .into_iter()
                .map(|value| if is_wrong_type(&value) { Value::Nil } else { value })
                .collect(),
        };
        let contents = stored.into_iter().map(content).collect::<Result<_, TierError>>()?;
        Ok((contents, scores))
    }

    pub(super) async fn do_read_heads(
        &self,
        keys: &[Vec<u8>],
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<HeadsReply, TierError> {
        let lane = match (keys.first(), ledger) {
            (Some(key), _) => Lane::Read(key),
            (None, Some(query)) => Lane::Read(query.key),
            (None, None) => return Ok(HeadsReply { heads: Vec::new(), stamps: None }),
        };
        let mut pipeline = Pipeline::with_capacity(keys.len() + 1);
        for key in keys {
            pipeline.cmd("GETRANGE").arg(key).arg(0).arg(HEAD_BYTES - 1);
        }
        ledger.inspect(|query| ledger::read(&mut pipeline, query));
        let mut answers = self.servers.send(lane, Sent::Repeatably, &pipeline).await?.into_iter();
        let heads = answers.by_ref().take(keys.len()).map(head_of).collect::<Result<_, TierError>>()?;
        let stamps = match (ledger, answers.next()) {
            (Some(query), Some(scores)) => Some(self.parse_stamps(lane, query, scores).await?),
            _ => None,
        };
        Ok(HeadsReply { heads, stamps })
    }
}

/// Whether the server has refused to put a lease, or to read. For a key of another type this is so.
fn is_refused(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(_))
}

fn content(stored: Value) -> Result<KeyContent, TierError> {
    // Most are: without the moves of the general case.
    if let Value::BulkString(bytes) = stored {
        return Ok(KeyContent::Bytes(bytes));
    }
    Ok(bytes(stored)?.map_or(KeyContent::Absent, KeyContent::Bytes))
}
