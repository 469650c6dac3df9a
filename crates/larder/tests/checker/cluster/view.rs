//! What one simulated server knows of its cluster, and how news of another changes that.

use larder_resp::Encoder;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::Write;

pub(super) const SLOTS: u16 = 16_384;
/// Four primaries, of which the last has no slot at first, and a replica for each of the others.
pub(super) const MACHINES: usize = 7;
pub(super) const PRIMARIES: usize = 4;
/// A slot that nobody owns, as far as is known.
const NOBODY: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    ReplicaOf(usize),
}

/// What became of news.
pub(super) enum Heard {
    /// They were known.
    Nothing,
    News,
    /// The machine has lost all its slots to the other, and becomes its replica.
    IsReplaced,
}

#[derive(Clone, Debug)]
pub(super) struct View {
    /// The number of the machine that has it.
    me: usize,
    owners: Box<[u8]>,
    /// The ranges of slots with their owners, until one changes.
    ranges: OnceCell<Vec<(u16, u16, usize)>>,
    /// Counts what others may have to hear.
    version: u64,
    /// The version of each other machine that was heard last.
    heard: [u64; MACHINES],
    epochs: [u64; MACHINES],
    roles: [Role; MACHINES],
    /// The slots that move to other machines, and from others.
    pub(super) migrating: BTreeMap<u16, usize>,
    pub(super) importing: BTreeMap<u16, usize>,
}

/// The name by which a machine is reached, and its port.
pub(super) fn place(machine: usize) -> String {
    format!("s{machine}:{}", 7_000 + machine)
}

fn id(machine: usize) -> String {
    format!("id{machine}")
}

impl View {
    pub(super) fn new(me: usize) -> Self {
        let third = |slot: u16| (slot / (SLOTS / 3 + 1)) as u8;
        let role = |machine| match machine {
            0..PRIMARIES => Role::Primary,
            _ => Role::ReplicaOf(machine - PRIMARIES),
        };
        View {
            me,
            owners: (0..SLOTS).map(third).collect(),
            ranges: OnceCell::new(),
            version: 1,
            heard: [0; MACHINES],
            epochs: std::array::from_fn(|machine| machine as u64 + 1),
            roles: std::array::from_fn(role),
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
        }
    }

    pub(super) fn role(&self) -> Role {
        self.roles[self.me]
    }

    pub(super) fn owner(&self, slot: u16) -> Option<usize> {
        Some(self.owners[usize::from(slot)]).filter(|owner| *owner != NOBODY).map(usize::from)
    }

    pub(super) fn owns_slots(&self) -> bool {
        self.owners.contains(&(self.me as u8))
    }

    fn change(&mut self) {
        self.ranges.take();
        self.version += 1;
    }

    pub(super) fn slots_owned(&self) -> usize {
        self.owners.iter().filter(|owner| **owner == self.me as u8).count()
    }

    pub(super) fn set_owner(&mut self, slot: u16, owner: usize) {
        self.change();
        self.owners[usize::from(slot)] = owner as u8;
        self.migrating.remove(&slot);
        self.importing.remove(&slot);
    }

    pub(super) fn set_epoch(&mut self, epoch: u64) {
        self.change();
        self.epochs[self.me] = epoch;
    }

    /// This replica takes the place of its primary, which may run on without knowing it.
    pub(super) fn take_over(&mut self, former: usize, epoch: u64) {
        self.set_epoch(epoch);
        self.roles[self.me] = Role::Primary;
        self.roles[former] = Role::ReplicaOf(self.me);
        let (me, former) = (self.me as u8, former as u8);
        self.owners.iter_mut().filter(|owner| **owner == former).for_each(|owner| *owner = me);
    }

    /// Hears from another machine: its role, its epoch and its slots.
    pub(super) fn hear(&mut self, other: &View) -> Heard {
        let from = other.me;
        if std::mem::replace(&mut self.heard[from], other.version) == other.version {
            return Heard::Nothing;
        }
        let had_slots = self.owns_slots();
        self.epochs[from] = self.epochs[from].max(other.epochs[from]);
        self.roles[from] = other.roles[from];
        if other.role() == Role::Primary {
            for slot in 0..SLOTS {
                let claims = other.owners[usize::from(slot)] == from as u8;
                let epoch = self.owner(slot).map_or(0, |owner| self.epochs[owner]);
                if claims && self.owner(slot) != Some(from) && epoch < self.epochs[from] {
                    self.set_owner(slot, from);
                }
            }
        }
        if !had_slots || self.owns_slots() {
            return Heard::News;
        }
        self.change();
        self.roles[self.me] = Role::ReplicaOf(from);
        self.migrating.clear();
        self.importing.clear();
        Heard::IsReplaced
    }

    /// The ranges of slots with their owners.
    fn ranges(&self) -> &[(u16, u16, usize)] {
        self.ranges.get_or_init(|| {
            let mut ranges: Vec<(u16, u16, usize)> = Vec::new();
            for slot in 0..SLOTS {
                let Some(owner) = self.owner(slot) else { continue };
                match ranges.last_mut() {
                    Some((_, last, same)) if *same == owner && *last + 1 == slot => *last = slot,
                    _ => ranges.push((slot, slot, owner)),
                }
            }
            ranges
        })
    }

    /// The reply to `CLUSTER NODES`.
    pub(super) fn nodes(&self) -> String {
        let (mut text, ranges) = (String::new(), self.ranges());
        for machine in 0..MACHINES {
            let myself = if machine == self.me { "myself," } else { "" };
            let (role, primary) = match self.roles[machine] {
                Role::Primary => ("master", "-".to_owned()),
                Role::ReplicaOf(primary) => ("slave", id(primary)),
            };
            let (place, bus) = (place(machine), 17_000 + machine);
            let epoch = self.epochs[machine];
            _ = write!(text, "{} {place}@{bus} {myself}{role} {primary} 0 0 {epoch} connected", id(machine));
            for (first, last, _) in ranges.iter().filter(|(.., owner)| *owner == machine) {
                _ = write!(text, " {first}-{last}");
            }
            if machine == self.me {
                self.migrating.iter().for_each(|(slot, to)| _ = write!(text, " [{slot}->-{}]", id(*to)));
                self.importing.iter().for_each(|(slot, from)| _ = write!(text, " [{slot}-<-{}]", id(*from)));
            }
            text.push('\n');
        }
        text
    }

    /// Writes the reply to `CLUSTER SLOTS`.
    pub(super) fn slots(&self, out: &mut Encoder<'_>) {
        let ranges = self.ranges();
        out.array(ranges.len());
        for (first, last, owner) in ranges.iter().copied() {
            out.array(3);
            out.integer(first.into());
            out.integer(last.into());
            out.array(3);
            out.bulk(format!("s{owner}").as_bytes());
            out.integer(7_000 + owner as i64);
            out.bulk(id(owner).as_bytes());
        }
    }
}
