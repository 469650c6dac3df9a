//! Compare-and-set: by a script.

use super::RedisTier;
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
        // An announced compare-and-set keeps its order among the mutations.
        let connector = if announce.is_some() { &self.writer } else { self.reader(&first.key) };
        let build = |by_text| {
            let mut pipeline = Pipeline::with_capacity(1);
            self.scripts.compare_and_set.call(&mut pipeline, by_text, swaps.len());
            swaps.iter().for_each(|swap| _ = pipeline.arg(&swap.key));
            match announce {
                Some(Announcement { channel, message }) => pipeline.arg(channel).arg(message),
                None => pipeline.arg("").arg(""),
            };
            for CompareAndSet { expected, action, .. } in swaps {
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
            pipeline
        };
        let mut answers = self.send_script(connector, build).await?;
        let accepted = array(answers.pop().unwrap_or_default())?;
        accepted.into_iter().map(|accepted| Ok(int(accepted)? == 1)).collect()
    }
}
