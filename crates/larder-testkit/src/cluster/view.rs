//! What the servers of a cluster know of each other, and the waits until they know it.

use super::Cluster;
use super::slots::slot_of;
use crate::wait::PATIENCE;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longer than a replica pursues a manual failover.
const FAILOVER_LIMIT: Duration = Duration::from_secs(6);

/// Ranges with both ends.
type Slots = Vec<(u16, u16)>;

/// A server as one of them knows it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: String,
    /// The id of its primary; `-` if it is one.
    primary: String,
    pub(super) slots: Slots,
    /// The slots that it gives away or receives; only the server itself tells.
    pub(super) moving: Vec<u16>,
    pub(super) epoch: u64,
    /// Whether it is the server that was asked.
    pub(super) is_own: bool,
    /// Whether the server that was asked reaches it.
    is_reached: bool,
}

impl Line {
    /// One line of CLUSTER NODES: id, address, flags, primary, two times, epoch, link, slots.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [id, _, flags, primary, _, _, epoch, link, slots @ ..] = fields.as_slice() else { return None };
        let slot = |text: &str| text.parse().ok();
        // In brackets: a slot that moves.
        let moving = slots.iter().filter_map(|range| range.strip_prefix('[')?.split_once('-'));
        let ranges = slots.iter().filter(|range| !range.starts_with('['));
        let ranges = ranges.map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((slot(first)?, slot(last)?))
        });
        let is_flagged = |flag: &str| flags.split(',').any(|own| own.trim_end_matches('?') == flag);
        Some(Line {
            id: (*id).to_owned(),
            primary: (*primary).to_owned(),
            slots: ranges.collect::<Option<_>>()?,
            moving: moving.map(|(moving, _)| slot(moving)).collect::<Option<_>>()?,
            epoch: epoch.parse().ok()?,
            is_own: is_flagged("myself"),
            is_reached: *link == "connected" && !is_flagged("fail") && !is_flagged("handshake"),
        })
    }

    pub(super) fn is_primary(&self) -> bool {
        self.primary == "-"
    }

    pub(super) fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

impl Cluster {
    /// What a server knows.
    pub(super) fn view(&self, server: usize) -> Vec<Line> {
        self.command(server, "CLUSTER NODES").lines().filter_map(Line::parse).collect()
    }

    /// What a server knows of itself.
    fn own_line(&self, server: usize) -> Line {
        self.view(server).into_iter().find(|line| line.is_own).expect("a server knows itself")
    }

    /// Whether a server says that the cluster works.
    pub(super) fn is_ok(&self, server: usize) -> bool {
        self.command(server, "CLUSTER INFO").contains("cluster_state:ok")
    }

    /// Whether a server says that it is a primary.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn is_primary(&self, server: usize) -> bool {
        self.own_line(server).is_primary()
    }

    /// The server that says that it owns the slot; of several the one with the latest claim.
    ///
    /// # Panics
    /// If none does in time.
    pub fn owner(&self, slot: u16) -> usize {
        crate::until(&format!("a server owns slot {slot}"), || self.claimant(slot))
    }

    /// The owner of the slot of a key, as [`Cluster::owner`].
    ///
    /// # Panics
    /// As there.
    pub fn owner_of(&self, key: &str) -> usize {
        self.owner(slot_of(key))
    }

    /// The middle of the longest range of slots that a server owns. A slot that was moved there by itself is none of that.
    ///
    /// # Panics
    /// If it owns none.
    pub fn slot_of_range(&self, server: usize) -> u16 {
        let longest = self.own_line(server).slots.into_iter().max_by_key(|(first, last)| last - first);
        let (first, last) = longest.expect("it owns slots");
        first + (last - first) / 2
    }

    fn claimant(&self, slot: u16) -> Option<usize> {
        let lines = self.answering().map(|server| (server, self.own_line(server)));
        let claims = lines.filter(|(_, line)| line.is_primary() && line.owns(slot));
        claims.max_by_key(|(_, line)| line.epoch).map(|(server, _)| server)
    }

    /// Waits until another server than `former` owns the slot, and all that answer say that the cluster works: after a
    /// primary was killed or paused, some two seconds. Returns the next owner.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub fn next_owner(&self, slot: u16, former: usize) -> usize {
        crate::until(&format!("another server than {former} owns slot {slot}"), || {
            let next = self.claimant(slot).filter(|next| *next != former)?;
            self.answering().all(|server| self.is_ok(server)).then_some(next)
        })
    }

    /// The replica of a primary, as that says; of several the first.
    ///
    /// # Panics
    /// If it has none.
    pub fn replica_of(&self, primary: usize) -> usize {
        let first = self.replicas_of(primary).first().copied();
        first.unwrap_or_else(|| panic!("server {primary} has no replica"))
    }

    /// The replicas of a primary, as that says. One that was lost, and is back with a slot that its replica did not know of, may
    /// have none.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn replicas_of(&self, primary: usize) -> Vec<usize> {
        let view = self.view(primary);
        let is_replica = |server: &usize| {
            view.iter().any(|line| line.id == self.id(*server) && line.primary == self.id(primary))
        };
        self.servers().filter(is_replica).collect()
    }

    /// Makes a replica the primary, by the agreement of both, and waits until it is.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub fn fail_over(&self, replica: usize) {
        let start = Instant::now();
        while !self.is_primary(replica) {
            assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: server {replica} is a primary");
            // An attempt ends without a result if the others have just elected somebody.
            self.execute(replica, "CLUSTER FAILOVER");
            let attempt = Instant::now();
            while !self.is_primary(replica) && attempt.elapsed() < FAILOVER_LIMIT {
                sleep(Duration::from_millis(2));
            }
        }
    }

    /// Waits until all servers that answer say that the cluster works, reach each other, and agree on who owns which slots
    /// and who is a replica of whom, and until all replicas are in sync.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub fn await_ok(&self) {
        crate::until("the servers agree, and the replicas are in sync", || {
            let is_ready = |server| self.is_ok(server) && self.reaches_all(server) && self.is_in_sync(server);
            let mut roles = self.answering().map(|server| self.roles(server));
            let first = roles.next();
            let agree = roles.all(|other| Some(other) == first);
            (agree && self.answering().all(is_ready)).then_some(())
        });
    }

    /// Waits until the replicas of a primary have executed what it has executed now. Not even WAIT would say so: it asks for
    /// what its own connection has written.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub fn await_replication(&self, primary: usize) {
        let offset = |server, field| {
            let info = self.command(server, "INFO replication");
            let value = info.lines().find_map(|line| line.strip_prefix(field));
            value.and_then(|offset| offset.parse::<u64>().ok())
        };
        let executed = offset(primary, "master_repl_offset:").expect("it has an offset");
        let replicas = self.replicas_of(primary);
        crate::until("the replicas have what their primary has", || {
            let has_it = |server: &usize| offset(*server, "slave_repl_offset:") >= Some(executed);
            replicas.iter().filter(|server| self.answers(**server)).all(has_it).then_some(())
        });
    }

    /// Whether a server reaches all that answer.
    fn reaches_all(&self, server: usize) -> bool {
        let view = self.view(server);
        self.answering().all(|other| view.iter().any(|line| line.id == self.id(other) && line.is_reached))
    }

    /// Whether a replica has the content of its primary, and a primary's replicas have its own.
    fn is_in_sync(&self, server: usize) -> bool {
        let info = self.command(server, "INFO replication");
        let replicas: Vec<_> =
            info.lines().filter(|line| line.starts_with("slave") && line.contains("state=")).collect();
        !info.contains("master_link_status:down") && replicas.iter().all(|line| line.contains("state=online"))
    }

    /// The id, the primary and the slots of each server that a server knows.
    fn roles(&self, server: usize) -> Vec<(String, String, Slots)> {
        let view = self.view(server).into_iter();
        let mut roles: Vec<_> = view.map(|line| (line.id, line.primary, line.slots)).collect();
        roles.sort();
        roles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cluster_nodes_are_understood() {
        let line = "07c3 127.0.0.1:30004@31004,name myself,master - 0 1426238317239 4 connected 0-5460 5462 [93->-e7d1]";
        let line = Line::parse(line).expect("it is a line");
        assert_eq!((line.id.as_str(), line.epoch, line.is_own, line.is_reached), ("07c3", 4, true, true));
        assert_eq!((&line.slots[..], &line.moving[..]), (&[(0, 5460), (5462, 5462)][..], &[93][..]));
        assert!(line.is_primary() && line.owns(5462) && !line.owns(5461));
        let line = Line::parse("e7d1 127.0.0.1:30005@31005 slave,fail? 07c3 0 0 4 connected");
        assert!(line.is_some_and(|line| !line.is_primary() && !line.is_reached && !line.is_own));
        assert!(Line::parse("$751").is_none());
    }
}
