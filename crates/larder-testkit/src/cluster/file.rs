//! What a server finds in its file when it starts: the servers of the cluster and their slots.

use crate::redis::free_ports;
use std::hash::{BuildHasher, RandomState};

const SLOTS: usize = 16384;

/// What the others know a server by.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) port: u16,
    /// The port for the other servers.
    pub(super) bus_port: u16,
}

impl Identity {
    /// So many new servers, on free ports.
    pub(super) fn new(count: usize) -> Vec<Self> {
        let identity = |ports: &[u16]| Identity { id: new_id(), port: ports[0], bus_port: ports[1] };
        free_ports(2 * count).chunks(2).map(identity).collect()
    }

    /// An absent server: its address refuses connections.
    pub(super) fn absent() -> Self {
        Identity { id: new_id(), port: 1, bus_port: 1 }
    }

    /// The line of a server that has these flags and, if it is a replica, this primary.
    fn line(&self, flags: &str, primary: &str, epoch: usize, slots: &str) -> String {
        let Identity { id, port, bus_port } = self;
        format!("{id} 127.0.0.1:{port}@{bus_port} {flags} {primary} 0 0 {epoch} connected {slots}\n")
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

    fn slots(&self, index: usize) -> String {
        let begin = |index| index * SLOTS / self.primaries.len();
        format!("{}-{}", begin(index), begin(index + 1) - 1)
    }

    /// The epoch in which a primary takes over.
    fn epoch(&self, index: usize) -> usize {
        self.primaries.len() + index + 1
    }
}

/// The file of a server that joins: it knows the others by the reply of one of them to CLUSTER NODES, and is the replica of
/// a placeholder that has no slots.
pub(super) fn of_joining(nodes: &str, own: &Identity, placeholder: &Identity, epoch: usize) -> String {
    let known = nodes.lines().filter(|line| line.contains(" 127.0.0.1:"));
    let mut file: String = known.map(|line| line.replace("myself,", "") + "\n").collect();
    file += &placeholder.line("master", "-", 0, "");
    file += &own.line("myself,slave", &placeholder.id, 0, "");
    file + &last_line(epoch)
}

fn last_line(epoch: usize) -> String {
    format!("vars currentEpoch {epoch} lastVoteEpoch 0\n")
}
