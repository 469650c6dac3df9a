//! A primary of a cluster.

use super::slots::{SLOTS, hash_tag, slot_of, tag_of};
use super::view::NodeId;
use crate::tier::breaker::Breaker;
use crate::tier::redis::sentinel::Place;
use crate::tier::redis::server::{Lane, Sent, Server};
use crate::tier::{Primary, ServerId, TierError};
use parking_lot::Mutex;
use redis::{Pipeline, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How long a server that gives no replies is not asked.
const OPEN_FOR: Duration = Duration::from_millis(500);

/// A server that is, or was, the primary of slots, at one place.
pub(super) struct Member {
    pub(super) id: NodeId,
    pub(super) place: Place,
    pub(super) server: Server,
    breaker: Breaker,
    marker: Mutex<Option<Marker>>,
    /// Since when it owns slots, as far as this node knows.
    owner_since: Mutex<Option<Instant>>,
    /// When the last heartbeat was sent that proved something.
    proved_at: Mutex<Option<Instant>>,
    redirects: AtomicU64,
}

/// The key to which heartbeats write the time.
#[derive(Clone)]
struct Marker {
    key: Vec<u8>,
    run: ServerId,
}

impl Member {
    pub(super) fn new(id: NodeId, place: Place, server: Server) -> Self {
        Member {
            id,
            place,
            server,
            breaker: Breaker::new(OPEN_FOR),
            marker: Mutex::new(None),
            owner_since: Mutex::new(None),
            proved_at: Mutex::new(None),
            redirects: AtomicU64::new(0),
        }
    }

    /// A heartbeat that was sent at this time has proved that no announcement of the server was missed.
    pub(super) fn record_proof(&self, sent: Instant) {
        *self.proved_at.lock() = Some(sent);
    }

    /// Whether it owns slots now.
    pub(super) fn record_ownership(&self, owns_slots: bool) {
        let mut since = self.owner_since.lock();
        *since = owns_slots.then(|| since.unwrap_or_else(Instant::now));
    }

    /// How long it has owned slots, as far as this node knows.
    pub(super) fn owner_for(&self) -> Duration {
        self.owner_since.lock().map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(super) fn count_redirect(&self) {
        self.redirects.fetch_add(1, Ordering::Relaxed);
    }

    /// What users see of it, with the number of its slots.
    pub(super) fn report(&self, slots: usize) -> Primary {
        let (host, port) = &self.place;
        Primary {
            address: format!("{host}:{port}"),
            slots,
            proof_age: self.proved_at.lock().map(|sent| sent.elapsed()),
            redirects: self.redirects.load(Ordering::Relaxed),
        }
    }

    /// The channel of this server. `PUBLISH` reaches the subscribers of a channel on every server of a cluster: with a
    /// channel for each server, who listens to all hears each announcement once, and in the order of its server.
    pub(super) fn channel(&self, base: &[u8]) -> Vec<u8> {
        [base, b"@", self.id.as_bytes()].concat()
    }

    /// Whether the server gave no replies when it was asked last.
    pub(super) fn is_silent(&self) -> bool {
        self.breaker.is_open()
    }

    /// Sends a pipeline, unless the server gave no replies just now.
    pub(super) async fn send(
        &self,
        lane: Lane<'_>,
        sent: Sent,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        let (host, port) = &self.place;
        if !self.breaker.allows() {
            return Err(TierError::PartLost(format!("{host}:{port} gave no reply just now")));
        }
        // Whether it replies is another question.
        let readable = self.server.check_readable(lane);
        readable.map_err(|error| TierError::PartLost(format!("{host}:{port}: {error}")))?;
        match self.server.send(lane, sent, pipeline).await {
            Err(TierError::NoReply(reason)) => {
                self.breaker.failed();
                Err(TierError::PartLost(format!("{host}:{port}: {reason}")))
            }
            Err(TierError::Disconnected(reason)) => {
                Err(TierError::PartLost(format!("{host}:{port}: {reason}")))
            }
            answers => {
                self.breaker.succeeded();
                answers
            }
        }
    }

    /// The key of the marker of this run of the server, in a slot that it owns: a write there shows that the others still
    /// take it for the owner. The last one stays as long as its slot does. `None` if no such key has this prefix.
    pub(super) fn marker(
        &self,
        prefix: &[u8],
        run: &ServerId,
        owns: impl Fn(u16) -> bool,
    ) -> Option<Vec<u8>> {
        let mut marker = self.marker.lock();
        if let Some(marker) =
            marker.as_ref().filter(|marker| marker.run == *run && owns(slot_of(&marker.key)))
        {
            return Some(marker.key.clone());
        }
        let key = match hash_tag(prefix) {
            // The namespace has one slot.
            Some(_) => Some([prefix, run.0.as_bytes()].concat()).filter(|key| owns(slot_of(key))),
            None => {
                let tag = (0..SLOTS as u16).find(|slot| owns(*slot)).map(tag_of);
                tag.map(|tag| [prefix, b"{", tag.as_bytes(), b"}", run.0.as_bytes()].concat())
            }
        }?;
        *marker = Some(Marker { key: key.clone(), run: run.clone() });
        Some(key)
    }

    /// The key of the last marker of this run, if one was chosen.
    pub(super) fn last_marker(&self, run: &ServerId) -> Option<Vec<u8>> {
        let marker = self.marker.lock();
        marker.as_ref().filter(|marker| marker.run == *run).map(|marker| marker.key.clone())
    }
}

#[cfg(test)]
impl Member {
    /// One that is never reached.
    pub(super) fn unreached(id: &str) -> Self {
        use crate::tier::redis::RedisOptions;
        use crate::tier::redis::address::{Address, Mode};
        use redis::IntoConnectionInfo;

        let info = "redis://h".into_connection_info().expect("valid");
        let options = RedisOptions::default();
        let address = Address::new(info, None, Mode::Member, &options).expect("valid");
        Member::new(id.to_owned(), (id.to_owned(), 6379), Server::new(address, &options))
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("id", &self.id).field("place", &self.place).finish_non_exhaustive()
    }
}
