//! Reads: keys and leases, or heads, and the ledger, in one round trip.

use super::RedisTier;
use super::connect::Connector;
use super::ledger;
use super::values::{array, bytes, head_of, px};
use crate::tier::{HEAD_BYTES, HeadsReply, KeyContent, LedgerQuery, Lookup, LookupReply, TierError};
use redis::{Cmd, Pipeline, Value};

impl RedisTier {
    pub(super) async fn do_lookup(&self, lookup: &Lookup<'_>) -> Result<LookupReply, TierError> {
        let Some(first) = lookup.keys.first() else {
            return Ok(LookupReply { keys: Vec::new(), stamps: None });
        };
        let connector = self.reader(first);
        let ledger = lookup.ledger.as_ref();
        let key_count = lookup.keys.len();
        let (contents, scores) = match lookup.lease {
            Some((leases, ttl)) => {
                let build = |by_text| {
                    let mut pipeline = Pipeline::with_capacity(2);
                    self.lookup.call(&mut pipeline, by_text, key_count);
                    lookup.keys.iter().for_each(|key| _ = pipeline.arg(key));
                    pipeline.arg(px(ttl));
                    leases.iter().for_each(|lease| _ = pipeline.arg(&lease[..]));
                    ledger.inspect(|query| ledger::read(&mut pipeline, query));
                    pipeline
                };
                let mut answers = self.send_script(connector, build).await?.into_iter();
                let stored = array(answers.next().unwrap_or_default())?.into_iter();
                let contents = stored.map(|stored| match stored {
                    Value::Int(_) => Ok(KeyContent::LeaseGranted),
                    stored => content(stored),
                });
                (contents.collect::<Result<_, TierError>>()?, answers.next())
            }
            None => match ledger {
                Some(ledger) => self.read_with_ledger(connector, lookup.keys, ledger).await?,
                None => (self.read(connector, lookup.keys).await?, None),
            },
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

fn content(stored: Value) -> Result<KeyContent, TierError> {
    // Most are: without the moves of the general case.
    if let Value::BulkString(bytes) = stored {
        return Ok(KeyContent::Bytes(bytes));
    }
    Ok(bytes(stored)?.map_or(KeyContent::Absent, KeyContent::Bytes))
}
