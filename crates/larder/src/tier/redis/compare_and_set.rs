//! Compare-and-set: by a script.

use super::RedisTier;
use super::server::Lane;
use super::values::{array, int, px, set_option};
use crate::tier::{Announcement, CasAction, CompareAndSet, TierError};
use redis::Pipeline;

impl RedisTier {
    pub(super) async fn do_compare_and_set(
        &self,
        swaps: &[CompareAndSet],
        announce: Option<&Announcement>,
    ) -> Result<Vec<bool>, TierError> {
        let Some(first) = swaps.first() else { return Ok(Vec::new()) };
        let at_once = self.keys_at_once();
        let build = |by_text, announced: Option<(&[u8], &[u8])>| {
            let (channel, message) = announced.unwrap_or_default();
            let mut pipeline = Pipeline::with_capacity(1);
            for swaps in swaps.chunks(at_once) {
                self.scripts.compare_and_set.call(&mut pipeline, by_text, swaps.len());
                swaps.iter().for_each(|swap| _ = pipeline.arg(&swap.key));
                pipeline.arg(channel).arg(message);
                swaps.iter().for_each(|swap| add_arguments(&mut pipeline, swap));
            }
            pipeline
        };
        let answers = match announce {
            Some(announcement @ Announcement { channel, message }) => {
                let build = |by_text, channel: &[u8]| build(by_text, Some((channel, message)));
                // An announced compare-and-set keeps its order among the mutations.
                let lane = Lane::Write(&first.key);
                let (answers, reached) = self.servers.send_announcing_script(lane, channel, build).await?;
                self.servers.announce_elsewhere(&reached, announcement).await?;
                answers
            }
            None => self.servers.send_script(Lane::Read(&first.key), |by_text| build(by_text, None)).await?,
        };
        let mut accepted = Vec::with_capacity(swaps.len());
        for answer in answers {
            for accepted_one in array(answer)? {
                accepted.push(int(accepted_one)? == 1);
            }
        }
        Ok(accepted)
    }
}

/// What a swap expects, and what it does.
fn add_arguments(pipeline: &mut Pipeline, CompareAndSet { expected, action, .. }: &CompareAndSet) {
    pipeline.arg(expected);
    match action {
        CasAction::Put(bytes, expiry) => {
            let (option, time) = set_option(*expiry);
            pipeline.arg(option).arg(bytes).arg(time)
        }
        CasAction::Touch(ttl) => pipeline.arg("PEXPIRE").arg("").arg(px(*ttl)),
        CasAction::Renew(deadline_ms) => {
            pipeline.arg("PEXPIREAT").arg(&deadline_ms.to_le_bytes()).arg(*deadline_ms)
        }
        CasAction::Remove => pipeline.arg("UNLINK").arg("").arg(0),
        CasAction::Release(ttl) => pipeline.arg("RELEASE").arg("").arg(px(*ttl)),
    };
}
