//! Asking the servers for the map of the cluster.

use super::Cluster;
use super::map::SlotMap;
use super::member::Member;
use super::slots::{hash_tag, slot_of};
use super::view::{self, View};
use crate::tier::redis::address::Address;
use crate::tier::redis::exchange::send;
use crate::tier::redis::sentinel::{self, Place, place_of};
use crate::tier::redis::server::{Lane, Sent};
use crate::tier::{Push, TierError};
use futures_util::future::join_all;
use redis::{AsyncConnectionConfig, Pipeline, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// How old a map may be before the servers are asked again.
const REFRESH_AFTER: Duration = Duration::from_secs(10);
/// The same while a primary is missing: another one may have taken its place.
const REFRESH_INCOMPLETE_AFTER: Duration = Duration::from_secs(1);
/// How old a map may be while memory is trusted.
const TRUSTED_FOR: Duration = Duration::from_secs(30);

impl Cluster {
    /// Asks the servers of the address and those that are known, over connections of its own: for a node that has none yet.
    pub(super) async fn discover(&self) -> Result<Arc<SlotMap>, TierError> {
        let _only = self.refresh.lock().await;
        let asked_at = Instant::now();
        let known = self.map().owners.iter().map(|member| member.place.clone()).collect::<Vec<_>>();
        let seeds = self.seeds.iter().map(|seed| place_of(seed.addr()));
        let mut asked: Vec<Place> = Vec::new();
        let mut next: Vec<Place> = known.into_iter().chain(seeds).collect();
        let (mut views, mut failure) = (Vec::new(), None);
        while !next.is_empty() {
            next.sort();
            next.dedup();
            for view in join_all(next.iter().map(|place| self.ask_at(place))).await {
                match view {
                    Ok(view) => views.push(view),
                    // One that says why it cannot be used tells more than one that is not there.
                    Err(error @ (TierError::Unusable(_) | TierError::Unsupported(_))) => {
                        failure = Some(error)
                    }
                    Err(error) => _ = failure.get_or_insert(error),
                }
            }
            asked.append(&mut next);
            let places = views.iter().flat_map(|view: &View| &view.primaries).map(|primary| &primary.place);
            next = places.filter(|place| !asked.contains(place)).cloned().collect();
        }
        if views.is_empty() {
            let failure = failure.unwrap_or_else(|| TierError::NoReply("the address has no server".into()));
            self.state.lock().failure = Some(failure.clone());
            return Err(failure);
        }
        let map = self.learn(&views, asked_at);
        if map.owners.is_empty() {
            let failure = TierError::NoReply("the cluster is not ready: no server owns a slot".into());
            self.state.lock().failure = Some(failure.clone());
            return Err(failure);
        }
        Ok(map)
    }

    async fn ask_at(&self, place: &Place) -> Result<View, TierError> {
        let seed = self.seeds[0].clone();
        let addr = sentinel::at(seed.addr(), place.clone());
        let address = self.address(seed.set_addr(addr)).map_err(TierError::Unusable)?;
        ask_once(&address, &place.0).await
    }

    /// Asks the accepted servers, unless they were asked since then. A change of those that must be listened to ends the
    /// subscription.
    pub(super) async fn refresh(&self, since: Instant) -> Result<Arc<SlotMap>, TierError> {
        let _only = self.refresh.lock().await;
        let map = self.map();
        if map.is_asked_since(since) {
            return Ok(map);
        }
        let asked_at = Instant::now();
        let accepted = self.state.lock().accepted.clone();
        let members = accepted.iter().flat_map(|accepted| &accepted.members);
        let members = members.filter(|listened| !listened.is_missing);
        let views = join_all(members.map(|listened| ask_member(&listened.member))).await;
        let views: Vec<_> = views.into_iter().filter_map(Result::ok).collect();
        if views.is_empty() {
            return Err(TierError::PartLost("no server of the cluster tells its slots".into()));
        }
        Ok(self.learn(&views, asked_at))
    }

    /// Asks if the map is old. Returns whether memory may be trusted by the map that there is then.
    pub(super) async fn keep_map_fresh(&self, is_complete: bool) -> bool {
        let asked_at = self.map().asked_at;
        let age = asked_at.map_or(Duration::MAX, |asked_at| asked_at.elapsed());
        let refresh_after = if is_complete { REFRESH_AFTER } else { REFRESH_INCOMPLETE_AFTER };
        if age < refresh_after && !self.is_map_doubtful.load(Ordering::Relaxed) {
            return true;
        }
        self.refresh(Instant::now()).await.is_ok() || age < TRUSTED_FOR
    }

    fn learn(&self, views: &[View], asked_at: Instant) -> Arc<SlotMap> {
        self.is_map_doubtful.store(false, Ordering::Relaxed);
        let former = self.map();
        let map = Arc::new(SlotMap::new(views, &former, asked_at, |id, place| self.member(id, place)));
        let mut state = self.state.lock();
        let is_one_of = |members: &[Arc<Member>], member: &Arc<Member>| {
            members.iter().any(|one| Arc::ptr_eq(one, member))
        };
        // The one slot of a namespace with a hash tag may go to a server that owns others.
        let tag_moves = state.listening.as_ref().is_some_and(|(listening, _)| {
            hash_tag(&listening.prefix).is_some() && map.moving.contains(slot_of(&listening.prefix))
        });
        let may_import = |member: &Arc<Member>| {
            is_one_of(&map.others, member) || tag_moves && is_one_of(&map.owners, member)
        };
        state.importing.retain(may_import);
        let members = state.members.values();
        members.for_each(|member| member.record_ownership(is_one_of(&map.owners, member)));
        state.map = map.clone();
        // Those that nothing refers to any more.
        state.members.retain(|_, member| Arc::strong_count(member) > 1);
        drop(state);
        self.close_if_others_are_wanted();
        map
    }

    /// The map may have changed: the next heartbeat asks for it.
    pub(super) fn doubt_map(&self) {
        self.is_map_doubtful.store(true, Ordering::Relaxed);
    }

    /// A redirection has led to a server that is not listened to.
    pub(super) fn listen_to(&self, member: &Arc<Member>) {
        let mut state = self.state.lock();
        if !state.importing.iter().any(|known| Arc::ptr_eq(known, member)) {
            state.importing.push(member.clone());
        }
        drop(state);
        self.close_if_others_are_wanted();
    }

    /// Ends the subscription if it listens to too few or too many. The next one listens to the right ones.
    fn close_if_others_are_wanted(&self) {
        let state = self.state.lock();
        let Some((listening, handler)) = state.listening.clone() else { return };
        let wanted = Self::wanted(&state.map, &state.importing, &listening.prefix);
        drop(state);
        if !listening.is_of(&wanted) {
            tracing::info!(primaries = wanted.len(), "the primaries of the cluster have changed");
            handler.handle(Push::Closed);
        }
    }
}

async fn ask_member(member: &Member) -> Result<View, TierError> {
    let mut pipeline = Pipeline::with_capacity(2);
    view::ask(&mut pipeline);
    let answers = member.send(Lane::Ask(member.id.as_bytes()), Sent::Repeatably, &pipeline).await?;
    parse(answers, &member.place.0)
}

async fn ask_once(address: &Address, host: &str) -> Result<View, TierError> {
    let (mut open, _) = address.open_any(AsyncConnectionConfig::new()).await?;
    let mut pipeline = Pipeline::with_capacity(2);
    view::ask(&mut pipeline);
    parse(send(&mut open.connection, &pipeline).await?, host)
}

fn parse(answers: Vec<Value>, host: &str) -> Result<View, TierError> {
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or_default();
    view::parse(next(), next(), host).map_err(|error| TierError::Unusable(error.to_string()))
}
