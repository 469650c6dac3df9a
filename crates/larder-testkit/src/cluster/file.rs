//! What a server finds in its file when it starts: the servers of the cluster and their slots.

use crate::redis::free_ports;
use std::hash::{BuildHasher, RandomState};

const SLOTS: usize = 16384;
/// Where servers are, unless the test has a network of its own.
const LOCALHOST: &str = "127.0.0.1";

/// What the others know a server by.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) host: &'static str,
    pub(super) port: u16,
    /// The port for the other servers.
    pub(super) bus_port: u16,
    /// The id that a primary shares with its replicas; `None` for servers that have no such ids.
    shard: Option<String>,
}

impl Identity {
    /// So many new servers, on free ports.
    fn new(count: usize) -> Vec<Self> {
        let identity = |ports: &[u16]| Identity::at(ports[0], ports[1]);
        free_ports(2 * count).chunks(2).map(identity).collect()
    }

    /// An absent server: its address refuses connections.
    fn absent() -> Self {
        Identity::at(1, 1)
    }

    fn at(port: u16, bus_port: u16) -> Self {
        Identity { id: new_id(), host: LOCALHOST, port, bus_port, shard: None }
    }

    /// The line of a server that has these flags and, if it is a replica, this primary.
    fn line(&self, flags: &str, primary: &str, epoch: usize, slots: &str) -> String {
        let Identity { id, host, port, bus_port, .. } = self;
        let shard = self.shard.iter().map(|shard| format!(",,shard-id={shard}")).collect::<String>();
        format!("{id} {host}:{port}@{bus_port}{shard} {flags} {primary} 0 0 {epoch} connected {slots}\n")
    }
}

fn new_id() -> String {
    let random = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}{:08x}", random(), random(), random() as u32)
}

/// The servers of a cluster: as many placeholders as primaries, and none or as many replicas.
pub(super) struct Plan {
    pub(super) placeholders: Vec<Identity>,
    pub(super) primaries: Vec<Identity>,
    pub(super) replicas: Vec<Identity>,
}

impl Plan {
    /// So many new servers, which have ids of their shards or not.
    pub(super) fn new(primaries: usize, replicas: usize, has_shards: bool) -> Self {
        let mut identities = Identity::new(primaries + replicas);
        let mut plan = Plan {
            placeholders: (0..primaries).map(|_| Identity::absent()).collect(),
            replicas: identities.split_off(primaries),
            primaries: identities,
        };
        for index in 0..if has_shards { primaries } else { 0 } {
            let shard = new_id();
            for servers in [&mut plan.placeholders, &mut plan.primaries, &mut plan.replicas] {
                servers.get_mut(index).into_iter().for_each(|server| server.shard = Some(shard.clone()));
            }
        }
        plan
    }

    /// The file of a primary: all are replicas of the placeholders.
    pub(super) fn of_primary(&self, own: usize) -> String {
        let mut file = String::new();
        for (index, placeholder) in self.placeholders.iter().enumerate() {
            let (slots, epoch) = (self.slots(index), index + 1);
            file += &placeholder.line("master", "-", epoch, &slots);
            let replicas = [self.primaries.get(index), self.replicas.get(index)];
            for (is_first, replica) in [true, false].into_iter().zip(replicas) {
                let flags = if is_first && index == own { "myself,slave" } else { "slave" };
                file.extend(replica.map(|replica| replica.line(flags, &placeholder.id, epoch, "")));
            }
        }
        // An epoch for each, so that no two take over in the same one.
        file + &last_line(self.epoch(own) - 1)
    }

    /// The file of a replica: the primaries have taken over.
    pub(super) fn of_replica(&self, own: usize) -> String {
        let mut file = String::new();
        for (index, (primary, replica)) in self.primaries.iter().zip(&self.replicas).enumerate() {
            let (slots, epoch) = (self.slots(index), self.epoch(index));
            let flags = if index == own { "myself,slave" } else { "slave" };
            file += &primary.line("master", "-", epoch, &slots);
            file += &replica.line(flags, &primary.id, epoch, "");
        }
        file + &last_line(self.epoch(self.primaries.len() - 1))
    }

    /// The file of the only primary, which joins the servers that this file of another one has: it is the replica of a
    /// placeholder without slots.
    pub(super) fn of_joining(&self, others: &str) -> String {
        let (placeholder, own) = (&self.placeholders[0], &self.primaries[0]);
        let mut file =
            placeholder.line("master", "-", 0, "") + &own.line("myself,slave", &placeholder.id, 0, "");
        for line in others.lines() {
            // In brackets: a slot that moves.
            let words: Vec<_> = line.split(' ').filter(|word| !word.starts_with('[')).collect();
            file += &(words.join(" ").replace("myself,", "") + "\n");
        }
        file
    }

    fn slots(&self, index: usize) -> String {
        let begin = |index| index * SLOTS / self.primaries.len();
        format!("{}-{}", begin(index), begin(index + 1) - 1)
    }

    /// The epoch in which a primary takes over.
    fn epoch(&self, index: usize) -> usize {
        self.primaries.len() + index + 1
    }
}

fn last_line(epoch: usize) -> String {
    format!("vars currentEpoch {epoch} lastVoteEpoch 0\n")
}
