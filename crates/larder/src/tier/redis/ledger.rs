//! The ledger of a namespace: a sorted set whose scores only increase.
//!
//! The score of the member `clock` is the clock, the highest score, and that of `server` names where it was advanced last. No
//! entry with an older clock than the score of `floor` is valid, and no entry with a tag and an older clock than that of `tags`.
//! Every other member is a tag or everything, and its score is the clock of its last invalidation, or `@` before a soft one, and
//! its score is the time of that in milliseconds. A time and a server are lower than any clock, which starts at microseconds, so they never limit what is
//! trimmed.
//!
//! A ledger that another program has overwritten is a lost one, and is replaced: a key of another type, or a score that is no
//! stamp. What such a ledger says orders nothing.

use super::RedisTier;
use super::server::{Lane, Sent};
use super::values::{STAMP_LIMIT, array, checked, int, is_wrong_type, stamp, time_micros};
use crate::tier::{
    Announcement, LedgerAdvance, LedgerAdvanced, LedgerQuery, Stamps, TierError, UNKNOWN_ADVANCES,
};
use crate::value::random::random_u64;
use redis::{Pipeline, Value};

/// The most members, about 10 MB. One more, and the older half is removed and the floor of tags raised.
const MAX_MEMBERS: i64 = 100_000;
/// The members that judge every entry. They are never removed.
const JUDGES_OF_EVERYTHING: [&str; 3] = ["floor", "clear", "expire"];

/// Adds a read of stamps to a pipeline.
pub(super) fn read(pipeline: &mut Pipeline, query: &LedgerQuery<'_>) {
    pipeline.cmd("ZMSCORE").arg(query.key).arg("clock").arg("floor").arg("tags");
    query.members.iter().for_each(|member| _ = pipeline.arg(member));
}

impl RedisTier {
    pub(super) async fn do_read_stamps(&self, query: &LedgerQuery<'_>) -> Result<Stamps, TierError> {
        let lane = Lane::Read(query.key);
        let mut pipeline = Pipeline::with_capacity(1);
        read(&mut pipeline, query);
        let scores = self.servers.send(lane, Sent::Repeatably, &pipeline).await?.pop().unwrap_or_default();
        self.parse_stamps(lane, query, scores).await
    }

    /// Parses the reply to ZMSCORE. If there is no ledger, or one that was overwritten, creates one and reads it.
    pub(super) async fn parse_stamps(
        &self,
        lane: Lane<'_>,
        query: &LedgerQuery<'_>,
        scores: Value,
    ) -> Result<Stamps, TierError> {
        let has_wrong_type = is_wrong_type(&scores);
        let overwritten = match array(scores).map(stamps) {
            Ok(Ok(Some(stamps))) => return Ok(stamps),
            Ok(Ok(None)) => false,
            Ok(Err(_)) => true,
            Err(_) if has_wrong_type => true,
            Err(error) => return Err(error),
        };
        let margin = UNKNOWN_ADVANCES + random_u64() % UNKNOWN_ADVANCES;
        let start = self.server_micros(query.key).await?.max(query.at_least + margin);
        let answers = if overwritten {
            tracing::warn!("another program has overwritten the ledger: a new one is created");
            let build = |by_text| {
                let mut pipeline = Pipeline::with_capacity(2);
                self.scripts
                    .repair
                    .call(&mut pipeline, by_text, 1)
                    .arg(query.key)
                    .arg(start)
                    .arg(STAMP_LIMIT);
                read(&mut pipeline, query);
                pipeline
            };
            self.servers.send_script(lane, build).await?
        } else {
            let mut pipeline = Pipeline::with_capacity(2);
            pipeline.cmd("ZADD").arg(query.key).arg("NX").arg(start).arg("clock").arg(start).arg("floor");
            read(&mut pipeline, query);
            self.servers.send(lane, Sent::Once, &pipeline).await?
        };
        let mut answers = answers.into_iter();
        checked(answers.next().unwrap_or_default())?;
        let scores = answers.next().unwrap_or_default();
        stamps(array(scores)?)?
            .ok_or_else(|| TierError::Refused("the ledger was removed while it was created".into()))
    }

    pub(super) async fn do_advance(&self, advance: &LedgerAdvance<'_>) -> Result<LedgerAdvanced, TierError> {
        let build = |by_text, channel: &[u8]| {
            let mut pipeline = Pipeline::with_capacity(1);
            self.scripts.advance.call(&mut pipeline, by_text, 1).arg(advance.key);
            pipeline.arg(advance.at_least).arg(advance.floor_message.unwrap_or_default());
            pipeline.arg(channel).arg(&advance.announce.message);
            stamped(advance, |member| _ = pipeline.arg(member));
            pipeline
        };
        let Announcement { channel, message } = advance.announce;
        let lane = Lane::Write(advance.key);
        let (mut answers, reached) = self.servers.send_announcing_script(lane, channel, build).await?;
        let mut fields = array(answers.pop().unwrap_or_default())?.into_iter();
        let clock = stamp(fields.next().unwrap_or_default())?.unwrap_or_default();
        let members = int(fields.next().unwrap_or_default())?;
        let is_other = int(fields.next().unwrap_or_default())? == 1;
        if members > MAX_MEMBERS {
            self.trim(advance.key).await?;
        }
        let messages = advance.floor_message.filter(|_| is_other).into_iter().chain([&message[..]]);
        for message in messages {
            let message = [message, clock.to_string().as_bytes()].concat();
            let announcement = Announcement { channel: channel.clone(), message };
            self.servers.announce_elsewhere(&reached, &announcement).await?;
        }
        Ok(LedgerAdvanced { clock, is_other })
    }

    /// Removes the members but for the newer half. The new floor of tags invalidates what they would invalidate.
    async fn trim(&self, key: &[u8]) -> Result<(), TierError> {
        let build = |by_text| {
            let mut pipeline = Pipeline::with_capacity(1);
            self.scripts.trim.call(&mut pipeline, by_text, 1).arg(key).arg(-MAX_MEMBERS / 2);
            pipeline.arg(&JUDGES_OF_EVERYTHING);
            pipeline
        };
        int(self.servers.send_script(Lane::Write(key), build).await?.pop().unwrap_or_default()).map(drop)
    }

    /// The clock of the server that has this key.
    async fn server_micros(&self, key: &[u8]) -> Result<u64, TierError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("TIME");
        let answers = self.servers.send(Lane::Ask(key), Sent::Repeatably, &pipeline).await;
        time_micros(answers?.pop().unwrap_or_default())
    }
}

fn stamped(advance: &LedgerAdvance<'_>, mut stamp: impl FnMut(&[u8])) {
    advance.members.iter().for_each(|member| stamp(member));
    if advance.floor {
        stamp(b"floor");
    }
}

fn stamps(scores: Vec<Value>) -> Result<Option<Stamps>, TierError> {
    let mut scores = scores.into_iter();
    let clock = stamp(scores.next().unwrap_or_default())?;
    let floor = stamp(scores.next().unwrap_or_default())?;
    let tag_floor = stamp(scores.next().unwrap_or_default())?.unwrap_or_default();
    let members = scores.map(stamp).collect::<Result<_, _>>()?;
    Ok(clock.zip(floor).map(|(clock, floor)| Stamps { clock, floor, tag_floor, members }))
}
