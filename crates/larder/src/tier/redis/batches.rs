//! Requests for many keys, split so that no command and no reply grows without bound.

use super::RedisTier;
use crate::tier::{BATCH, CompareAndSet, HeadsReply, LedgerQuery, Lookup, LookupReply, TierError};

impl RedisTier {
    /// The ledger is read with the first keys, so that its clock is older than all leases.
    pub(super) async fn lookup_in_batches(&self, lookup: &Lookup<'_>) -> Result<LookupReply, TierError> {
        if lookup.keys.len() <= BATCH {
            return self.do_lookup(lookup).await;
        }
        let mut reply = LookupReply { keys: Vec::with_capacity(lookup.keys.len()), stamps: None };
        for (batch, keys) in lookup.keys.chunks(BATCH).enumerate() {
            let part = Lookup {
                keys,
                lease: lookup.lease.map(|(heads, ttl)| (&heads[batch * BATCH..][..keys.len()], ttl)),
                ledger: lookup.ledger.clone().filter(|_| batch == 0),
            };
            let part = self.do_lookup(&part).await?;
            reply.keys.extend(part.keys);
            reply.stamps = reply.stamps.or(part.stamps);
        }
        Ok(reply)
    }

    pub(super) async fn read_heads_in_batches(
        &self,
        keys: &[Vec<u8>],
        ledger: Option<&LedgerQuery<'_>>,
    ) -> Result<HeadsReply, TierError> {
        let (first, rest) = keys.split_at(keys.len().min(BATCH));
        let mut reply = self.do_read_heads(first, ledger).await?;
        for keys in rest.chunks(BATCH) {
            reply.heads.extend(self.do_read_heads(keys, None).await?.heads);
        }
        Ok(reply)
    }

    /// Without an announcement, which has one key.
    pub(super) async fn compare_and_set_in_batches(
        &self,
        requests: &[CompareAndSet],
    ) -> Result<Vec<bool>, TierError> {
        let mut accepted = Vec::with_capacity(requests.len());
        for requests in requests.chunks(BATCH) {
            accepted.extend(self.do_compare_and_set(requests, None).await?);
        }
        Ok(accepted)
    }
}
