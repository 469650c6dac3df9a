//! The subscription of a node to all primaries.

use super::Cluster;
use super::map::SlotMap;
use super::member::Member;
use super::membership::{Listened, Membership};
use super::slots::slot_of;
use super::view::{Redirect, redirect};
use crate::tier::redis::pulse::MarkerRequest;
use crate::tier::redis::server::{Lane, Sent};
use crate::tier::redis::subscribe::{ServerSubscription, subscribe};
use crate::tier::redis::values::{stamp, time_micros};
use crate::tier::{
    Announcement, Marker, Pulse, Push, PushHandler, ServerId, ServerTime, SubscribeOptions, Subscription,
    TierError, TierFuture,
};
use futures_util::future::join_all;
use parking_lot::Mutex;
use redis::Pipeline;
use std::sync::Arc;
use tokio::time::Instant;

pub(in crate::tier::redis) struct ClusterSubscription {
    cluster: Arc<Cluster>,
    membership: Arc<Membership>,
    /// What was listened to before.
    former: Option<Arc<Membership>>,
    /// One for each member; `None` for one that is missing.
    parts: Vec<Option<ServerSubscription>>,
    options: SubscribeOptions,
    handler: Arc<dyn PushHandler>,
}

/// Passes the pushes of several connections on, one at a time.
struct OneAtATime(Mutex<()>, Arc<dyn PushHandler>);

impl PushHandler for OneAtATime {
    fn handle(&self, push: Push<'_>) {
        let _only = self.0.lock();
        self.1.handle(push);
    }
}

/// Hears nothing.
struct Nobody;

impl PushHandler for Nobody {
    fn handle(&self, _: Push<'_>) {}
}

impl Cluster {
    /// Subscribes at every primary that can be reached: while one is missing, no memory is trusted, but the others answer.
    pub(in crate::tier::redis) async fn subscribe(
        self: &Arc<Self>,
        options: &SubscribeOptions,
        handler: Arc<dyn PushHandler>,
    ) -> Result<ClusterSubscription, TierError> {
        let handler: Arc<dyn PushHandler> = Arc::new(OneAtATime(Mutex::new(()), handler));
        let map = self.discover().await?;
        let importing = self.state.lock().importing.clone();
        let mut wanted = Self::wanted(&map, &importing, &options.marker);
        // In the order of their identity: the same servers make the same membership.
        wanted.sort_by(|one, other| one.id.cmp(&other.id));
        let opened = join_all(wanted.iter().map(|member| open(member, options, &handler))).await;
        let (mut parts, mut failure) = (Vec::with_capacity(wanted.len()), None);
        for opened in opened {
            match opened {
                // It is in no state to be used by anybody.
                Err(error @ TierError::Unsupported(_)) => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "a primary of the cluster is missing");
                    parts.push(None);
                    failure = Some(error);
                }
                Ok(part) => parts.push(Some(part)),
            }
        }
        if let Some(failure) = failure.filter(|_| parts.iter().all(Option::is_none)) {
            self.state.lock().failure = Some(failure.clone());
            return Err(failure);
        }
        let identities = parts.iter().map(|part| part.as_ref().map(|part| part.identity().clone()));
        let mut state = self.state.lock();
        let former = state.accepted.clone();
        let reached = wanted.into_iter().zip(identities);
        let membership = Membership::new(reached, former.as_deref(), options.marker.clone(), map);
        let membership = Arc::new(membership);
        state.listening = Some((membership.clone(), handler.clone()));
        drop(state);
        Ok(ClusterSubscription {
            cluster: self.clone(),
            membership,
            former,
            parts,
            options: options.clone(),
            handler,
        })
    }

    /// The clocks of all accepted servers that reply.
    pub(in crate::tier::redis) async fn time(&self) -> Result<ServerTime, TierError> {
        let accepted = self.state.lock().accepted.clone();
        let members = accepted.iter().flat_map(|accepted| &accepted.members);
        let members = members.filter(|listened| !listened.is_missing).map(|listened| &listened.member);
        let times = join_all(members.map(async |member| {
            let mut pipeline = Pipeline::with_capacity(1);
            pipeline.cmd("TIME");
            let mut answers = member.send(Lane::Ask(&[]), Sent::Repeatably, &pipeline).await?;
            time_micros(answers.pop().unwrap_or_default()).map(ServerTime::from)
        }))
        .await;
        let times = times.into_iter().collect::<Result<Vec<_>, _>>()?;
        let time = times.into_iter().reduce(|one, other| one.and(other));
        time.ok_or_else(|| TierError::NoReply("the cluster has not been reached yet".into()))
    }
}

async fn open(
    member: &Member,
    options: &SubscribeOptions,
    handler: &Arc<dyn PushHandler>,
) -> Result<ServerSubscription, TierError> {
    let channel = member.channel(&options.announcement.channel);
    let announcement = Announcement { channel, message: options.announcement.message.clone() };
    let options = SubscribeOptions { announcement, ..options.clone() };
    subscribe(&member.server.address, options, handler.clone()).await
}

impl ClusterSubscription {
    async fn pulse(&self, marker: Marker<'_>) -> Result<Pulse, TierError> {
        let map = self.cluster.map();
        let asked = self.membership.members.iter();
        let asked: Vec<Vec<MarkerRequest>> =
            asked.map(|listened| self.marker_requests(&map, listened, marker)).collect();
        let pulses = self.parts.iter().zip(&self.membership.members).zip(&asked);
        let pulses =
            pulses.filter_map(|((part, listened), markers)| Some((part.as_ref()?, listened, markers)));
        let pulses = pulses.map(async |(part, listened, markers)| {
            let sent = Instant::now();
            let channel = &self.options.announcement.channel;
            let acknowledged = || part.acknowledged(|| map.confirmation_key(&listened.member, channel));
            let mut pulse = part.pulse(None, markers[0].clone(), acknowledged()).await?;
            if pulse.doubt.is_none() {
                listened.member.record_proof(sent);
            }
            for marker in &markers[1..] {
                // Several servers are gone: the oldest copy counts.
                let other = part.pulse(None, marker.clone(), acknowledged()).await?;
                pulse.marker = pulse.marker.zip(other.marker).map(|(one, other)| one.min(other));
            }
            Ok(pulse)
        });
        let (pulses, ledger_clock, is_map_fresh, ()) = tokio::join!(
            join_all(pulses),
            self.ledger_clock(&map),
            self.cluster.keep_map_fresh(self.membership.is_complete()),
            self.look_for_missing(),
        );
        let pulses = pulses.into_iter().collect::<Result<Vec<Pulse>, TierError>>();
        let pulses = pulses.inspect_err(|_| self.cluster.doubt_map())?;
        let doubt = pulses.iter().find_map(|pulse| pulse.doubt.clone());
        if doubt.is_some() {
            self.cluster.doubt_map();
        }
        let doubt = doubt.or_else(|| match self.membership.is_complete() {
            true => (!is_map_fresh).then(|| "no server of the cluster tells its slots".to_owned()),
            false => Some("a primary of the cluster is missing".to_owned()),
        });
        let times = pulses.iter().map(|pulse| pulse.time);
        let time = times.reduce(|one, other| one.zip(other).map(|(one, other)| one.and(other))).flatten();
        Ok(Pulse { doubt, time, marker: self.oldest_marker(&asked, &pulses), ledger_clock: ledger_clock? })
    }

    /// What the heartbeat to a member does with markers.
    fn marker_requests(
        &self,
        map: &SlotMap,
        Listened { member, identity, .. }: &Listened,
        marker: Marker<'_>,
    ) -> Vec<MarkerRequest> {
        let owns = |slot| map.owner(slot).is_some_and(|owner| Arc::ptr_eq(owner, member));
        let requests: Vec<_> = match marker {
            Marker::Ignore => Vec::new(),
            // Where the markers are of those that are gone. Each has its own, in a slot that another one owns now, or none
            // that tells of a copy.
            Marker::Read(_) => {
                let gone = self.former.iter().flat_map(|former| former.gone(&self.membership));
                let gone = gone.filter(|gone| !Arc::ptr_eq(&gone.member, member));
                let keys = gone.filter_map(|gone| gone.member.last_marker(&gone.identity.id()));
                keys.filter(|key| owns(slot_of(key))).map(MarkerRequest::Read).collect()
            }
            Marker::Store(time) => {
                let is_steady = |slot| owns(slot) && !map.moving.contains(slot);
                let key =
                    |owns: &dyn Fn(u16) -> bool| member.marker(&self.membership.prefix, &identity.id(), owns);
                // One that only receives slots has none to write to.
                let has_slots = map.owners.iter().any(|owner| Arc::ptr_eq(owner, member));
                let key = has_slots.then(|| key(&is_steady).or_else(|| key(&owns))).flatten();
                key.map(|key| MarkerRequest::Store(key, time)).into_iter().collect()
            }
        };
        if requests.is_empty() { vec![MarkerRequest::Nothing] } else { requests }
    }

    /// The oldest marker of those that are gone; `None` if one of them has no marker.
    fn oldest_marker(&self, asked: &[Vec<MarkerRequest>], pulses: &[Pulse]) -> Option<u64> {
        let former = self.former.as_ref()?;
        let gone = former.gone(&self.membership).count();
        let is_read = |request: &&MarkerRequest| matches!(request, MarkerRequest::Read(_));
        if asked.iter().flatten().filter(is_read).count() != gone {
            return None;
        }
        let reached = self.parts.iter().zip(asked).filter(|(part, _)| part.is_some());
        let read = reached.zip(pulses).filter(|((_, requests), _)| requests.iter().any(|one| is_read(&one)));
        let markers = read.map(|(_, pulse)| pulse.marker).collect::<Option<Vec<_>>>()?;
        markers.into_iter().min()
    }

    /// Ends the subscription once a missing member can be reached: the next one listens to it too.
    async fn look_for_missing(&self) {
        let missing = self.membership.members.iter().filter(|listened| listened.is_missing);
        let opened = missing.map(|listened| {
            // What it announces counts once it is listened to.
            let nobody: Arc<dyn PushHandler> = Arc::new(Nobody);
            async move { open(&listened.member, &self.options, &nobody).await.is_ok() }
        });
        if join_all(opened).await.contains(&true) {
            self.handler.handle(Push::Closed);
        }
    }

    /// The clock of the ledger, from whichever server has it.
    async fn ledger_clock(&self, map: &SlotMap) -> Result<Option<u64>, TierError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("ZSCORE").arg(&self.options.ledger).arg("clock");
        if self.cluster.accepted().as_ref() != Some(&self.membership.id) {
            return self.unaccepted_ledger_clock(map, &pipeline).await;
        }
        let lane = Lane::Ask(&self.options.ledger);
        let mut answers = self.cluster.send(lane, Sent::Repeatably, &pipeline).await?;
        Ok(stamp(answers.pop().unwrap_or_default()).ok().flatten())
    }

    /// Before the servers are accepted, requests have no way to them but the connections of the subscription.
    async fn unaccepted_ledger_clock(
        &self,
        map: &SlotMap,
        pipeline: &Pipeline,
    ) -> Result<Option<u64>, TierError> {
        let Some(owner) = map.owner(slot_of(&self.options.ledger)) else { return Ok(None) };
        let Some(part) = self.part(owner) else { return Ok(None) };
        let mut answer = part.ask(pipeline).await?;
        let moves = || TierError::NoReply("the slot of the ledger moves".into());
        match redirect(&answer, &owner.place.0) {
            Some(Redirect::Moved(_)) => return Err(moves()),
            Some(Redirect::Ask(place)) => {
                let target = map.at(&place).ok_or_else(moves)?;
                let Some(part) = self.part(target) else {
                    // The next subscription has a connection to it.
                    self.cluster.listen_to(target);
                    return Err(moves());
                };
                let mut asking = Pipeline::with_capacity(2);
                asking.cmd("ASKING");
                pipeline.cmd_iter().for_each(|command| _ = asking.add_command(command.clone()));
                answer = part.ask(&asking).await?;
                if redirect(&answer, &target.place.0).is_some() {
                    return Err(moves());
                }
            }
            None => {}
        }
        Ok(stamp(answer).ok().flatten())
    }

    /// The subscription at a member, if it was reached.
    fn part(&self, member: &Arc<Member>) -> Option<&ServerSubscription> {
        let at = self.membership.members.iter().position(|listened| Arc::ptr_eq(&listened.member, member))?;
        self.parts[at].as_ref()
    }
}

impl Subscription for ClusterSubscription {
    fn server(&self) -> &ServerId {
        &self.membership.id
    }

    fn replaces(&self, _: &ServerId) -> bool {
        self.former.as_ref().is_some_and(|former| former.gone(&self.membership).next().is_some())
    }

    fn may_evict_ledger(&self) -> bool {
        self.parts.iter().flatten().any(ServerSubscription::may_evict_ledger)
    }

    fn heartbeat<'a>(&'a self, marker: Marker<'a>) -> TierFuture<'a, Pulse> {
        Box::pin(self.pulse(marker))
    }
}

impl std::fmt::Debug for ClusterSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterSubscription").field("id", &self.membership.id).finish_non_exhaustive()
    }
}
