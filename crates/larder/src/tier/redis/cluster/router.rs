//! The way of requests: each command goes to the owner of its key, and further if that redirects it.
//!
//! A redirected command was not executed, so it is sent again. A command without a reply is not: it may have been executed.

use super::Cluster;
use super::map::SlotMap;
use super::member::Member;
use super::slots::slot_of;
use super::view::{Redirect, redirect};
use crate::tier::redis::scripts::Scripts;
use crate::tier::redis::server::{Lane, Sent};
use crate::tier::redis::values::{checked, int, text_of};
use crate::tier::{Announcement, Push, ServerId, TierError};
use futures_util::future::join_all;
use redis::{Arg, Cmd, Pipeline, Value};
use std::sync::Arc;
use tokio::time::Instant;

/// How often a command is sent at most. A slot moves once, and its map is known soon afterwards.
const MAX_SENDS: usize = 6;

/// The servers that a mutation has reached.
#[derive(Default)]
pub(in crate::tier::redis) struct Reached {
    /// Those that have executed it and announced it afterwards.
    announced: Vec<Arc<Member>>,
    /// Those that have redirected it: other nodes may still take them for the owners.
    redirected: Vec<Arc<Member>>,
    /// Those that have executed some of it, or have announced it where there is nothing to execute.
    executed: Vec<Arc<Member>>,
}

/// Where a command goes.
#[derive(Clone)]
struct Way {
    member: Arc<Member>,
    /// Whether the server only receives the slot as yet.
    asking: bool,
}

/// The commands that go the same way, by their positions, in order.
struct Part {
    way: Way,
    commands: Vec<usize>,
}

impl Cluster {
    pub(in crate::tier::redis) async fn send(
        &self,
        lane: Lane<'_>,
        sent: Sent,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        self.route(lane, sent, pipeline, None, &mut Reached::default()).await
    }

    pub(in crate::tier::redis) async fn send_announced(
        &self,
        lane: Lane<'_>,
        sent: Sent,
        pipeline: &Pipeline,
        announcement: &Announcement,
    ) -> Result<Vec<Value>, TierError> {
        let mut reached = Reached::default();
        if pipeline.is_empty() {
            // It is about all servers.
            reached.redirected = self.owners(&self.map());
            reached.executed = reached.redirected.clone();
        }
        let answers = self.route(lane, sent, pipeline, Some(announcement), &mut reached).await?;
        self.announce_elsewhere(&reached, announcement).await?;
        self.confirm(&reached, &announcement.channel).await?;
        Ok(answers)
    }

    /// Sends a pipeline about one key, which announces on the channel that it is built with.
    pub(in crate::tier::redis) async fn send_announcing(
        &self,
        lane: Lane<'_>,
        channel: &[u8],
        build: impl Fn(&[u8]) -> Pipeline,
    ) -> Result<(Vec<Value>, Reached), TierError> {
        let mut reached = Reached::default();
        let mut way = Way { member: self.owner(&self.map(), lane.key())?, asking: false };
        for _ in 0..MAX_SENDS {
            let started = Instant::now();
            let pipeline = build(&way.member.channel(channel));
            let all = (0..pipeline.len()).collect();
            let part = Part { way: way.clone(), commands: all };
            let answers = self.send_part(lane, Sent::Once, &pipeline, &part, None).await?;
            match self.next_way(&way, &answers, started).await? {
                None => {
                    reached.announced.push(way.member.clone());
                    reached.executed.push(way.member.clone());
                    self.confirm(&reached, channel).await?;
                    if !reached.redirected.is_empty() {
                        self.settle(vec![lane.key()]);
                    }
                    return Ok((answers, reached));
                }
                Some(next) => {
                    reached.redirected.push(way.member.clone());
                    way = next;
                }
            }
        }
        Err(led_in_circles())
    }

    async fn route(
        &self,
        lane: Lane<'_>,
        sent: Sent,
        pipeline: &Pipeline,
        announcement: Option<&Announcement>,
        reached: &mut Reached,
    ) -> Result<Vec<Value>, TierError> {
        let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
        let mut answers = vec![Value::Nil; commands.len()];
        let (map, mut parts) = (self.map(), Vec::new());
        for (position, command) in commands.iter().enumerate() {
            let key = key_of(command).unwrap_or(lane.key());
            let member = self.owner(&map, key)?;
            self.check_settled(lane, &map, key)?;
            add(&mut parts, Way { member, asking: false }, position);
        }
        let mut redirected_keys = Vec::new();
        for _ in 0..MAX_SENDS {
            if parts.is_empty() {
                break;
            }
            let started = Instant::now();
            // A server that is only read has nothing to announce.
            let announced = |part: &Part| {
                announcement.filter(|_| part.commands.iter().any(|position| !is_read(commands[*position])))
            };
            let sends = parts.iter().map(|part| self.send_part(lane, sent, pipeline, part, announced(part)));
            let replies = join_all(sends).await;
            let mut next = Vec::new();
            let mut failed = None;
            for (part, reply) in parts.iter().zip(replies) {
                let reply = match reply {
                    Ok(reply) => reply,
                    Err(error) => {
                        failed.get_or_insert(error);
                        continue;
                    }
                };
                let (mut is_redirected, mut has_executed) = (false, false);
                for (position, answer) in part.commands.iter().zip(reply) {
                    match self.next_way(&part.way, std::slice::from_ref(&answer), started).await {
                        Ok(None) => {
                            answers[*position] = answer;
                            has_executed = true;
                        }
                        Ok(Some(way)) => {
                            let key = key_of(commands[*position]).unwrap_or(lane.key());
                            self.check_settled(lane, &self.map(), key)?;
                            is_redirected = true;
                            redirected_keys.extend(key_of(commands[*position]));
                            add(&mut next, way, *position);
                        }
                        Err(error) => _ = failed.get_or_insert(error),
                    }
                }
                if announced(part).is_some() {
                    let list = if is_redirected { &mut reached.redirected } else { &mut reached.announced };
                    list.push(part.way.member.clone());
                    reached.executed.extend(has_executed.then(|| part.way.member.clone()));
                }
            }
            if matches!(lane, Lane::Write(_)) {
                self.settle(redirected_keys.clone());
            }
            if let Some(error) = failed {
                return Err(error);
            }
            parts = next;
        }
        if parts.is_empty() { Ok(answers) } else { Err(led_in_circles()) }
    }

    /// A slot may have come to its owner from a primary that is not accepted yet: one that has taken the place of another, and
    /// lacks what that one had removed. What this node has told the former one is repeated once the new one is accepted.
    ///
    /// # Errors
    /// If it is a lookup in a slot that has moved since the servers were accepted, and others must be accepted.
    fn check_settled(&self, lane: Lane<'_>, map: &SlotMap, key: &[u8]) -> Result<(), TierError> {
        if !matches!(lane, Lane::Read(_)) {
            return Ok(());
        }
        let Some(accepted) = self.state.lock().accepted.clone() else { return Ok(()) };
        let wanted = || Self::wanted(map, &self.state.lock().importing, &accepted.prefix);
        let slot = slot_of(key);
        match accepted.has_slot(slot, map, wanted) {
            true => Ok(()),
            false => Err(TierError::PartLost(format!("the slot {slot} has moved while primaries change"))),
        }
    }

    /// Sends some commands of a pipeline to one server, and an announcement behind them. Returns the values of the commands.
    async fn send_part(
        &self,
        lane: Lane<'_>,
        sent: Sent,
        whole: &Pipeline,
        part: &Part,
        announcement: Option<&Announcement>,
    ) -> Result<Vec<Value>, TierError> {
        let Way { member, asking } = &part.way;
        let mut answers = if part.commands.len() == whole.len() && !asking && announcement.is_none() {
            // Most requests are about one key, whose owner is known.
            self.send_to(member, lane, sent, whole).await?
        } else {
            let mut pipeline = Pipeline::with_capacity(2 * part.commands.len() + 1);
            for (position, command) in whole.cmd_iter().enumerate() {
                if part.commands.binary_search(&position).is_ok() {
                    if *asking {
                        pipeline.cmd("ASKING");
                    }
                    pipeline.add_command(command.clone());
                }
            }
            if let Some(Announcement { channel, message }) = announcement {
                pipeline.cmd("PUBLISH").arg(member.channel(channel)).arg(message);
            }
            self.send_to(member, lane, sent, &pipeline).await?
        };
        if announcement.is_some() {
            int(answers.pop().unwrap_or_default())?;
        }
        if *asking {
            answers = answers.into_iter().skip(1).step_by(2).collect();
        }
        if answers.iter().any(has_no_script) {
            // It has restarted, or was made to forget them: the calls are sent again.
            self.load_scripts(member, lane).await?;
        }
        Ok(answers)
    }

    async fn send_to(
        &self,
        member: &Arc<Member>,
        lane: Lane<'_>,
        sent: Sent,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        if member.server.address.accepted().is_none() {
            let Some(accepted) = self.state.lock().accepted.clone() else { return Err(self.not_reached()) };
            if accepted.of(member).is_some() {
                let (host, port) = &member.place;
                return Err(TierError::PartLost(format!("{host}:{port} is not reached")));
            }
            // Its data may be those of an older copy.
            self.listen_to(member);
            return Err(TierError::ServerChanged(ServerId(member.id.clone())));
        }
        let answers = member.send(lane, sent, pipeline).await;
        let Err(TierError::PartLost(reason)) = answers else { return answers };
        self.doubt_map();
        let accepted = self.state.lock().accepted.clone();
        let is_silent =
            accepted.is_some_and(|accepted| accepted.members.iter().all(|one| one.member.is_silent()));
        Err(if is_silent { TierError::NoReply(reason) } else { TierError::PartLost(reason) })
    }

    async fn load_scripts(&self, member: &Arc<Member>, lane: Lane<'_>) -> Result<(), TierError> {
        let mut pipeline = Pipeline::with_capacity(8);
        Scripts::new().texts().for_each(|text| _ = pipeline.cmd("SCRIPT").arg("LOAD").arg(text));
        let answers = self.send_to(member, lane, Sent::Repeatably, &pipeline).await?;
        answers.into_iter().try_for_each(|answer| checked(answer).map(drop))
    }

    /// Where the commands with these replies must be sent; `None` if they are executed, or refused for good.
    async fn next_way(
        &self,
        way: &Way,
        answers: &[Value],
        started: Instant,
    ) -> Result<Option<Way>, TierError> {
        for answer in answers {
            if has_no_script(answer) {
                return Ok(Some(way.clone()));
            }
            let redirect = redirect(answer, &way.member.place.0);
            redirect.iter().for_each(|_| way.member.count_redirect());
            match redirect {
                Some(Redirect::Moved(place)) => {
                    let map = self.refresh(started).await?;
                    return self.at(map.at(&place), &place, false).map(Some);
                }
                Some(Redirect::Ask(place)) => {
                    let mut map = self.map();
                    if map.at(&place).is_none() {
                        map = self.refresh(started).await?;
                    }
                    return self.at(map.at(&place), &place, true).map(Some);
                }
                None => {}
            }
            if let Value::ServerError(error) = answer
                && matches!(error.code(), "CLUSTERDOWN" | "MASTERDOWN" | "LOADING" | "TRYAGAIN")
            {
                self.doubt_map();
                return Err(TierError::PartLost(text_of(error)));
            }
        }
        Ok(None)
    }

    fn at(
        &self,
        member: Option<&Arc<Member>>,
        (host, port): &(String, u16),
        asking: bool,
    ) -> Result<Way, TierError> {
        match member {
            Some(member) => Ok(Way { member: member.clone(), asking }),
            None => Err(TierError::PartLost(format!("{host}:{port} is no primary of the cluster yet"))),
        }
    }

    /// Two mutations of a key by this node may change places if one is redirected: what memory has is compared with Redis.
    fn settle(&self, redirected: Vec<&[u8]>) {
        if redirected.is_empty() {
            return;
        }
        let listening = self.state.lock().listening.clone();
        if let Some((_, handler)) = listening {
            handler.handle(Push::KeysWritten(redirected));
        }
    }

    /// Returns once the servers that have executed a mutation are confirmed, at once if nobody must confirm them.
    async fn confirm(&self, reached: &Reached, channel: &[u8]) -> Result<(), TierError> {
        if self.options.replica_fence == 0 {
            return Ok(());
        }
        let map = self.map();
        let confirmed =
            reached.executed.iter().map(async |member| match map.confirmation_key(member, channel) {
                Some(key) => member.server.confirm(|| key).await,
                None => Ok(()),
            });
        join_all(confirmed).await.into_iter().collect()
    }

    /// Announces where other nodes may listen for what was executed elsewhere: at those that have redirected it, and at all
    /// if it was executed by a server that is new to this node, and maybe unknown to others.
    ///
    /// # Errors
    /// If some node may not have heard it.
    pub(in crate::tier::redis) async fn announce_elsewhere(
        &self,
        reached: &Reached,
        announcement: &Announcement,
    ) -> Result<(), TierError> {
        let accepted = self.state.lock().accepted.clone();
        let is_known = |member| accepted.as_ref().is_some_and(|accepted| accepted.is_known_to_all(member));
        let mut to: Vec<Arc<Member>> = Vec::new();
        let others = accepted.iter().flat_map(|accepted| &accepted.members).map(|listened| &listened.member);
        let others = others.filter(|_| !reached.announced.iter().all(is_known));
        for member in reached.redirected.iter().chain(others) {
            if !to.iter().any(|known| Arc::ptr_eq(known, member)) {
                to.push(member.clone());
            }
        }
        let started = Instant::now();
        let published = join_all(to.iter().map(async |member| {
            let mut pipeline = Pipeline::with_capacity(1);
            pipeline.cmd("PUBLISH").arg(member.channel(&announcement.channel)).arg(&announcement.message);
            let mut answers = self.send_to(member, Lane::Write(&[]), Sent::Repeatably, &pipeline).await?;
            int(answers.pop().unwrap_or_default()).map(drop)
        }))
        .await;
        // One that every node listens to reaches them all.
        let heard_by_all =
            to.iter().zip(&published).any(|(member, published)| published.is_ok() && is_known(member));
        for (member, published) in to.iter().zip(published) {
            let Err(error) = published else { continue };
            let was_asked_for_it =
                reached.redirected.iter().any(|redirected| Arc::ptr_eq(redirected, member));
            if heard_by_all && !was_asked_for_it {
                continue;
            }
            // Those who still listen to one that owns nothing any more get no proof from it.
            let map = self.refresh(started).await?;
            if map.owners.iter().any(|owner| Arc::ptr_eq(owner, member)) {
                return Err(error);
            }
        }
        Ok(())
    }
}

fn has_no_script(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

fn led_in_circles() -> TierError {
    TierError::PartLost(format!("a command was redirected {MAX_SENDS} times"))
}

/// Adds a command to the part that goes this way.
fn add(parts: &mut Vec<Part>, way: Way, position: usize) {
    let same = |part: &&mut Part| Arc::ptr_eq(&part.way.member, &way.member) && part.way.asking == way.asking;
    match parts.iter_mut().find(same) {
        Some(part) => {
            let at = part.commands.partition_point(|other| *other < position);
            part.commands.insert(at, position);
        }
        None => parts.push(Part { way, commands: vec![position] }),
    }
}

/// Whether a command of a mutation changes nothing: it reads the ledger.
fn is_read(command: &Cmd) -> bool {
    matches!(command.args_iter().next(), Some(Arg::Simple(b"ZMSCORE")))
}

/// The key of a command; `None` for one that is about no key.
fn key_of(command: &Cmd) -> Option<&[u8]> {
    let argument = |position| match command.args_iter().nth(position) {
        Some(Arg::Simple(argument)) => Some(argument),
        _ => None,
    };
    match argument(0)? {
        b"TIME" | b"PUBLISH" => None,
        // The script, the number of keys, the key.
        b"EVAL" | b"EVALSHA" => argument(3),
        _ => argument(1),
    }
}
