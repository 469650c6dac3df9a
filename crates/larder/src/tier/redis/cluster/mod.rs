//! A cluster: several primaries, each with some of the slots.
//!
//! Requests are routed here and not by the client library, which sends commands of unknown outcome again and does not say
//! which server a push came from. Two rules carry the promise of [coherence](crate::coherence):
//!
//! - **A node listens to every primary that owns slots, and its memory is trusted only while all of them prove that
//!   nothing was missed.** So it does not matter which of them executed an invalidation, and a slot that moves between them
//!   changes nothing but the way of requests.
//! - **A new primary is no secret.** What it executes is announced also at the server that redirected there and, for a
//!   minute after its first slot, at all of them: a node that does not listen to the new one yet hears it from another. Maps are read every ten seconds, and memory is not trusted by an older one than thirty seconds.
//!
//! ```text
//! router         splits commands by the owner of their keys, follows MOVED and ASK
//! map, view      who owns which slot: what each server says, the higher epoch wins
//! member         one primary: its connections, its breaker, its marker
//! membership     those that are listened to
//! subscription   a heartbeat to every primary; each proves itself by a write to a slot of its own
//! scan           all primaries; again what moved meanwhile
//! ```

mod discovery;
mod map;
mod member;
mod membership;
mod router;
mod scan;
mod slots;
mod subscription;
mod view;

use super::RedisOptions;
use super::address::{Address, Mode};
use super::sentinel::{self, Place};
use super::server::Server;
use crate::tier::{Primary, PushHandler, ServerId, TierError};
use map::SlotMap;
use member::Member;
use membership::Membership;
use parking_lot::Mutex;
use redis::ConnectionInfo;
use slots::{hash_tag, slot_of};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use view::NodeId;

pub(super) use router::Reached;

/// How long after a change of the set of primaries some node may not know it.
const SETTLING: Duration = Duration::from_secs(60);

pub(super) struct Cluster {
    /// The servers of the address. Any of them leads to the others.
    seeds: Vec<ConnectionInfo>,
    options: RedisOptions,
    state: Mutex<State>,
    /// Whether a reply, or its absence, says that the map may have changed.
    is_map_doubtful: AtomicBool,
    /// Held while the servers are asked for the map: concurrent callers share one answer.
    refresh: AsyncMutex<()>,
}

struct State {
    /// Every primary that was ever seen, by its identity and its place.
    members: HashMap<(NodeId, Place), Arc<Member>>,
    map: Arc<SlotMap>,
    /// Servers without slots that a redirection has led to.
    importing: Vec<Arc<Member>>,
    /// Those that the last subscription listens to, and who hears of it.
    listening: Option<(Arc<Membership>, Arc<dyn PushHandler>)>,
    accepted: Option<Arc<Membership>>,
    /// Why the cluster was not reached.
    failure: Option<TierError>,
}

impl Cluster {
    pub(super) fn new(seeds: Vec<ConnectionInfo>, options: &RedisOptions) -> Result<Arc<Self>, String> {
        let cluster = Cluster {
            seeds,
            options: options.clone(),
            state: Mutex::new(State {
                members: HashMap::new(),
                map: Arc::new(SlotMap::empty()),
                importing: Vec::new(),
                listening: None,
                accepted: None,
                failure: None,
            }),
            is_map_doubtful: AtomicBool::new(false),
            refresh: AsyncMutex::new(()),
        };
        // Options that fit no server are an error at once.
        cluster.seeds.iter().try_for_each(|seed| cluster.address(seed.clone()).map(drop))?;
        Ok(Arc::new(cluster))
    }

    fn address(&self, info: ConnectionInfo) -> Result<Address, String> {
        let address = Address::new(info, None, Mode::Member, &self.options)?;
        // A server may announce an address, and have a certificate for a name.
        #[cfg(feature = "tls")]
        let address = address.or_named(self.seeds.iter().map(|seed| sentinel::place_of(seed.addr()).0));
        Ok(address)
    }

    fn map(&self) -> Arc<SlotMap> {
        self.state.lock().map.clone()
    }

    /// The primary with this identity at this place.
    fn member(&self, id: &NodeId, place: &Place) -> Arc<Member> {
        let mut state = self.state.lock();
        let known = state.members.entry((id.clone(), place.clone()));
        let new = || {
            let info = self.seeds[0].clone();
            let addr = sentinel::at(info.addr(), place.clone());
            let address = self.address(info.set_addr(addr)).expect("as valid as that of the seed");
            let server = Server::new(address, &self.options);
            Arc::new(Member::new(id.clone(), place.clone(), server))
        };
        known.or_insert_with(new).clone()
    }

    /// The owner of a key's slot.
    fn owner(&self, map: &SlotMap, key: &[u8]) -> Result<Arc<Member>, TierError> {
        let slot = slot_of(key);
        match map.owner(slot) {
            Some(owner) => Ok(owner.clone()),
            None if map.owners.is_empty() => Err(self.not_reached()),
            None => Err(TierError::PartLost(format!("no server of the cluster owns the slot {slot}"))),
        }
    }

    /// Why nothing is sent yet.
    fn not_reached(&self) -> TierError {
        let failure = self.state.lock().failure.clone();
        failure.unwrap_or_else(|| TierError::NoReply("the cluster has not been reached yet".into()))
    }

    /// The owners of the slots of this namespace.
    fn owners(&self, map: &SlotMap) -> Vec<Arc<Member>> {
        let listening = self.state.lock().listening.clone();
        listening.map_or_else(Vec::new, |(listening, _)| Self::wanted(map, &[], &listening.prefix))
    }

    /// Those that must be listened to for keys with this prefix: all that own slots. A namespace with a hash tag has one
    /// slot.
    fn wanted(map: &SlotMap, importing: &[Arc<Member>], prefix: &[u8]) -> Vec<Arc<Member>> {
        let owners: Vec<_> = match hash_tag(prefix) {
            Some(_) => map.owner(slot_of(prefix)).into_iter().cloned().collect(),
            None => map.owners.clone(),
        };
        let importing =
            importing.iter().filter(|member| !owners.iter().any(|owner| Arc::ptr_eq(owner, member)));
        let importing: Vec<_> = importing.cloned().collect();
        [owners, importing].concat()
    }

    /// The primaries that are listened to.
    pub(super) fn primaries(&self) -> Vec<Primary> {
        let (accepted, map) = {
            let state = self.state.lock();
            (state.accepted.clone(), state.map.clone())
        };
        let members = accepted.iter().flat_map(|accepted| &accepted.members);
        members.map(|listened| listened.member.report(map.slots_of(&listened.member))).collect()
    }

    pub(super) fn accepted(&self) -> Option<ServerId> {
        self.state.lock().accepted.as_ref().map(|accepted| accepted.id.clone())
    }

    /// Accepts no server any more. Connections are closed.
    pub(super) fn reject_all(&self) {
        let mut state = self.state.lock();
        (state.accepted, state.listening) = (None, None);
        state.members.values().for_each(|member| member.server.reject());
    }

    /// Accepts the servers of the last subscription, if this is their identity.
    pub(super) fn accept(&self, id: &ServerId) {
        let mut state = self.state.lock();
        let Some(listening) = state.listening.as_ref().map(|(listening, _)| listening.clone()) else {
            return;
        };
        if listening.id != *id {
            return;
        }
        if let Some(before) = state.accepted.replace(listening.clone()) {
            let gone = before.members.iter().filter(|before| listening.of(&before.member).is_none());
            gone.for_each(|before| before.member.server.reject());
        }
        for listened in &listening.members {
            match listened.is_missing {
                true => listened.member.server.reject(),
                false => listened.member.server.accept(&listened.identity.id()),
            }
        }
    }
}
