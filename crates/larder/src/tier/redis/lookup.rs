//! Reads: keys and leases, or heads, and the ledger, in one round trip.

use super::RedisTier;
use super::connect::Connector;
use super::ledger;
use super::values::{array, bytes, head_of, px};
use crate::tier::{HEAD_BYTES, Head, HeadsReply, KeyContent, LedgerQuery, Lookup, LookupReply, TierError};
use redis::{Cmd, Pipeline, Value};
use std::sync::atomic::Ordering;
use std::time::Duration;

impl RedisTier {
    pub(super) async fn do_lookup(&self, lookup: &Lookup<'_>) -> Result<LookupReply, TierError> {
        let Some(first) = lookup.keys.first() else {
            return Ok(LookupReply { keys: Vec::new(), stamps: None });
        };
        let connector = self.reader(first);
        let ledger = lookup.ledger.as_ref();
        let key_count = lookup.keys.len();
        let (contents, scores) = match (lookup.lease, ledger) {
            (Some(leases), _) => self.read_or_lease(connector, lookup.keys, leases, ledger).await?,
            (None, Some(ledger)) => self.read_with_ledger(connector, lookup.keys, ledger).await?,
            (None, None) => (self.read(connector, lookup.keys).await?, None),
        };
        if contents.len() != key_count {
            return Err(TierError::Refused(format!("{} replies for {key_count} keys", contents.len())));
        }
        let stamps = match (ledger, scores) {
            (Some(query), Some(scores)) => Some(self.parse_stamps(connector, query, scores).await?),
            _ => None,
        };
        Ok(LookupReply { keys: contents, stamps })
    }

    /// The contents of keys, with a lease where nothing is, and the reply to the read of the ledger. Keys that get no lease
    /// because the server is full, or because this user may only read, are read.
    async fn read_or_lease(
        &self,
        connector: &Connector,
        keys: &[Vec<u8>],
        leases: (&[Head], Duration),
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<(Vec<KeyContent>, Option<Value>), TierError> {
        let by_set = self.lease_by_set(connector, keys, leases, ledger).await?;
        let (stored, scores) = match by_set {
            Some(replies) => replies,
            None => self.lease_by_script(connector, keys, leases, ledger).await?,
        };
        let refused = |(key, stored): (&Vec<u8>, &Value)| is_refused(stored).then(|| key.clone());
        let refused: Vec<_> = keys.iter().zip(&stored).filter_map(refused).collect();
        let mut read = Vec::new();
        if !refused.is_empty() {
            let is_granted = stored.contains(&Value::Nil);
            read = self.read(connector, &refused).await.map_err(|error| match error {
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
        connector: &Connector,
        keys: &[Vec<u8>],
        (leases, ttl): (&[Head], Duration),
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<Option<(Vec<Value>, Option<Value>)>, TierError> {
        if !self.leases_by_set.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut pipeline = Pipeline::with_capacity(keys.len() + 1);
        for (key, lease) in keys.iter().zip(leases) {
            pipeline.cmd("SET").arg(key).arg(lease).arg("PX").arg(px(ttl)).arg("NX").arg("GET");
        }
        ledger.inspect(|query| ledger::read(&mut pipeline, query));
        let mut stored = connector.send(&self.address, &pipeline).await?;
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
        connector: &Connector,
        keys: &[Vec<u8>],
        (leases, ttl): (&[Head], Duration),
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<(Vec<Value>, Option<Value>), TierError> {
        let build = |by_text| {
            let mut pipeline = Pipeline::with_capacity(2);
            self.scripts.lookup.call(&mut pipeline, by_text, keys.len());
            keys.iter().for_each(|key| _ = pipeline.arg(key));
            pipeline.arg(px(ttl));
            leases.iter().for_each(|lease| _ = pipeline.arg(&lease[..]));
            ledger.inspect(|query| ledger::read(&mut pipeline, query));
            pipeline
        };
        let mut answers = self.send_script(connector, build).await?.into_iter();
        let answer = answers.next().unwrap_or_default();
        let stored = match is_refused(&answer) {
            true => vec![answer; keys.len()],
            false => array(answer)?,
        };
        Ok((stored, answers.next()))
    }

    /// The contents of keys.
    async fn read(&self, connector: &Connector, keys: &[Vec<u8>]) -> Result<Vec<KeyContent>, TierError> {
        const NAME: &str = "MGET";
        let argument_bytes = NAME.len() + keys.iter().map(Vec::len).sum::<usize>();
        let mut command = Cmd::with_capacity(1 + keys.len(), argument_bytes);
        command.arg(NAME);
        keys.iter().for_each(|key| _ = command.arg(key));
        let stored = connector.send_repeatable_command(&self.address, &command).await?;
        array(stored)?.into_iter().map(content).collect()
    }

    /// The contents of keys, and the reply to the read of the ledger.
    async fn read_with_ledger(
        &self,
        connector: &Connector,
        keys: &[Vec<u8>],
        ledger: &LedgerQuery<'_>,
    ) -> Result<(Vec<KeyContent>, Option<Value>), TierError> {
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("MGET");
        keys.iter().for_each(|key| _ = pipeline.arg(key));
        ledger::read(&mut pipeline, ledger);
        let mut answers = connector.send_repeatable(&self.address, &pipeline).await?.into_iter();
        let stored = array(answers.next().unwrap_or_default())?;
        let contents = stored.into_iter().map(content).collect::<Result<_, TierError>>()?;
        Ok((contents, answers.next()))
    }

    pub(super) async fn do_read_heads(
        &self,
        keys: &[Vec<u8>],
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<HeadsReply, TierError> {
        let connector = match (keys.first(), ledger) {
            (Some(key), _) => self.reader(key),
            (None, Some(query)) => self.reader(query.key),
            (None, None) => return Ok(HeadsReply { heads: Vec::new(), stamps: None }),
        };
        let mut pipeline = Pipeline::with_capacity(keys.len() + 1);
        for key in keys {
            pipeline.cmd("GETRANGE").arg(key).arg(0).arg(HEAD_BYTES - 1);
        }
        ledger.inspect(|query| ledger::read(&mut pipeline, query));
        let mut answers = connector.send_repeatable(&self.address, &pipeline).await?.into_iter();
        let heads = answers.by_ref().take(keys.len()).map(head_of).collect::<Result<_, TierError>>()?;
        let stamps = match (ledger, answers.next()) {
            (Some(query), Some(scores)) => Some(self.parse_stamps(connector, query, scores).await?),
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
