//! Reads: keys and leases, or heads, and the ledger, in one round trip.

use super::RedisTier;
use super::connect::Connector;
use super::ledger;
use super::values::{array, bytes, head_of, px};
use crate::tier::{HEAD_BYTES, HeadsReply, KeyContent, LedgerQuery, Lookup, LookupReply, TierError};
use redis::{Cmd, Pipeline, Value};

impl RedisTier {
    pub(super) async fn do_lookup(&self, lookup: &Lookup<'_>) -> Result<LookupReply, TierError> {
        let can = self.can().await?;
        let Some(first) = lookup.keys.first() else {
            return Ok(LookupReply { keys: Vec::new(), stamps: None });
        };
        let connector = self.reader(first);
        let ledger = lookup.ledger.as_ref().filter(|_| can.ledger);
        let key_count = lookup.keys.len();
        let (contents, scores) = match lookup.lease.filter(|_| can.scripts) {
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
            None if lookup.lease.is_none() && ledger.is_none() => {
                (self.read(connector, lookup.keys).await?, None)
            }
            None => self.plain_lookup(connector, lookup, ledger).await?,
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

    /// A lookup without scripts. Another load may put a lease or a value between the MGET and the SET of a key: then
    /// the key is absent and has no lease.
    async fn plain_lookup(
        &self,
        connector: &Connector,
        lookup: &Lookup<'_>,
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<(Vec<KeyContent>, Option<Value>), TierError> {
        let keys = lookup.keys;
        let mut pipeline = Pipeline::with_capacity(2 + lookup.lease.map_or(0, |(leases, _)| leases.len()));
        pipeline.cmd("MGET");
        keys.iter().for_each(|key| _ = pipeline.arg(key));
        if let Some((leases, ttl)) = lookup.lease {
            for (key, lease) in keys.iter().zip(leases) {
                pipeline.cmd("SET").arg(key).arg(&lease[..]).arg("NX").arg("PX").arg(px(ttl));
            }
        }
        ledger.inspect(|query| ledger::read(&mut pipeline, query));
        let answers = match lookup.lease {
            Some(_) => connector.send(&self.address, &pipeline).await?,
            None => connector.send_repeatable(&self.address, &pipeline).await?,
        };
        let mut answers = answers.into_iter();
        let stored = array(answers.next().unwrap_or_default())?;
        let leased: Vec<bool> = match lookup.lease {
            Some(_) => answers
                .by_ref()
                .take(keys.len())
                .map(|set| Ok(bytes(set)?.is_some()))
                .collect::<Result<_, TierError>>()?,
            None => vec![false; keys.len()],
        };
        let mut contents = Vec::with_capacity(keys.len());
        for (stored, leased) in stored.into_iter().zip(leased) {
            contents.push(if leased { KeyContent::LeaseGranted } else { content(stored)? });
        }
        Ok((contents, answers.next()))
    }

    pub(super) async fn do_read_heads(
        &self,
        keys: &[Vec<u8>],
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<HeadsReply, TierError> {
        let can = self.can().await?;
        let connector = match (keys.first(), ledger) {
            (Some(key), _) => self.reader(key),
            (None, Some(query)) => self.reader(query.key),
            (None, None) => return Ok(HeadsReply { heads: Vec::new(), stamps: None }),
        };
        let ledger = ledger.filter(|_| can.ledger);
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
