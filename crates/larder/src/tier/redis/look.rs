//! Reading: keys with their times and leases, heads, and with them the ledger, in one round trip.

use super::RedisTier;
use super::connect::Slot;
use super::ledger;
use super::values::{array, bytes, int, left, px};
use crate::tier::{Found, HEAD_BYTES, Heads, LedgerAsk, Look, Looked, TierError};
use redis::{Pipeline, Value};

impl RedisTier {
    pub(super) async fn do_look(&self, look: &Look<'_>) -> Result<Looked, TierError> {
        let can = self.can().await?;
        let Some(first) = look.keys.first() else { return Ok(Looked { found: Vec::new(), stamps: None }) };
        let slot = self.reader(first);
        let ledger = look.ledger.as_ref().filter(|_| can.ledger);
        let keys = look.keys.len();
        let (found, scores) = match look.lease.filter(|_| can.scripts) {
            Some((leases, ttl)) => {
                let build = |by_text| {
                    let mut pipeline = Pipeline::with_capacity(2);
                    self.look.call(&mut pipeline, by_text, keys);
                    look.keys.iter().for_each(|key| _ = pipeline.arg(key));
                    pipeline.arg(px(ttl));
                    leases.iter().for_each(|lease| _ = pipeline.arg(&lease[..]));
                    ledger.inspect(|ask| ledger::ask(&mut pipeline, ask));
                    pipeline
                };
                let mut answers = self.send_script(slot, build).await?.into_iter();
                let mut fields = array(answers.next().unwrap_or_default())?.into_iter();
                let mut found = Vec::with_capacity(keys);
                while let (Some(stored), Some(more)) = (fields.next(), fields.next()) {
                    found.push(match (bytes(stored)?, int(more)?) {
                        (Some(bytes), pttl) => Found::Bytes { bytes, left: left(pttl) },
                        (None, 1) => Found::Leased,
                        (None, _) => Found::Absent,
                    });
                }
                (found, answers.next())
            }
            None => self.plain_look(slot, look, ledger).await?,
        };
        if found.len() != keys {
            return Err(TierError::Refused(format!("{} answers for {keys} keys", found.len())));
        }
        let stamps = match (ledger, scores) {
            (Some(ask), Some(scores)) => Some(self.read_stamps(slot, ask, scores).await?),
            _ => None,
        };
        Ok(Looked { found, stamps })
    }

    /// A look without scripts. A key that gets a lease, or a value, between its GET and its SET is read again.
    async fn plain_look(
        &self,
        slot: &Slot,
        look: &Look<'_>,
        ledger: Option<&LedgerAsk<'_>>,
    ) -> Result<(Vec<Found>, Option<Value>), TierError> {
        let keys = look.keys;
        let mut pipeline = Pipeline::with_capacity(2 * keys.len() + 2);
        pipeline.cmd("MGET");
        keys.iter().for_each(|key| _ = pipeline.arg(key));
        if let Some((leases, ttl)) = look.lease {
            for (key, lease) in keys.iter().zip(leases) {
                pipeline.cmd("SET").arg(key).arg(&lease[..]).arg("NX").arg("PX").arg(px(ttl));
            }
        }
        keys.iter().for_each(|key| _ = pipeline.cmd("PTTL").arg(key));
        ledger.inspect(|ask| ledger::ask(&mut pipeline, ask));
        let mut answers = slot.send(&self.address, &pipeline).await?.into_iter();
        let stored = array(answers.next().unwrap_or_default())?;
        let leased: Vec<bool> = match look.lease {
            Some(_) => answers
                .by_ref()
                .take(keys.len())
                .map(|set| Ok(bytes(set)?.is_some()))
                .collect::<Result<_, TierError>>()?,
            None => vec![false; keys.len()],
        };
        let mut found = Vec::with_capacity(keys.len());
        for (stored, leased) in stored.into_iter().zip(leased) {
            let pttl = int(answers.next().unwrap_or_default())?;
            found.push(match (bytes(stored)?, leased) {
                (_, true) => Found::Leased,
                (Some(bytes), false) => Found::Bytes { bytes, left: left(pttl) },
                (None, false) => Found::Absent,
            });
        }
        Ok((found, answers.next()))
    }

    pub(super) async fn do_heads(
        &self,
        keys: &[Vec<u8>],
        ledger: Option<&LedgerAsk<'_>>,
    ) -> Result<Heads, TierError> {
        let can = self.can().await?;
        let slot = match (keys.first(), ledger) {
            (Some(key), _) => self.reader(key),
            (None, Some(ask)) => self.reader(ask.key),
            (None, None) => return Ok(Heads { heads: Vec::new(), stamps: None }),
        };
        let ledger = ledger.filter(|_| can.ledger);
        let mut pipeline = Pipeline::with_capacity(keys.len() + 1);
        for key in keys {
            pipeline.cmd("GETRANGE").arg(key).arg(0).arg(HEAD_BYTES - 1);
        }
        ledger.inspect(|ask| ledger::ask(&mut pipeline, ask));
        let mut answers = slot.send(&self.address, &pipeline).await?.into_iter();
        let heads = answers.by_ref().take(keys.len()).map(|head| Ok(bytes(head)?.unwrap_or_default()));
        let heads = heads.collect::<Result<_, TierError>>()?;
        let stamps = match (ledger, answers.next()) {
            (Some(ask), Some(scores)) => Some(self.read_stamps(slot, ask, scores).await?),
            _ => None,
        };
        Ok(Heads { heads, stamps })
    }
}
