//! How the simulated cluster changes: slots move, primaries are replaced, news of it travels.

use super::store::{Store, slot_of};
use super::view::{Heard, MACHINES, PRIMARIES, Role};
use super::world::World;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How long a server that does not hear from the others goes on, and how much longer it takes until a replica is elected, in
/// milliseconds.
const GOES_ON_MS: std::ops::Range<u64> = 800..1_200;
const ELECTION_MS: std::ops::Range<u64> = 300..1_500;
/// How long a server that has started hears nothing from the others.
const JOINS_MS: std::ops::Range<u64> = 1..600;

/// Why a primary is replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// It is killed, and starts again without data.
    Killed,
    /// It stops, and goes on.
    Stopped,
    /// It is cut off from the other servers, and from all nodes but one.
    CutOff { with: Option<usize> },
}

impl World {
    /// What a server tells the others: now, soon or late.
    fn spread(self: &Arc<Self>, from: usize) {
        for to in (0..MACHINES).filter(|to| *to != from) {
            let late = self.rng.chance(300);
            let (world, takes) = (self.clone(), self.rng.ms(0..if late { 1_500 } else { 20 }));
            tokio::spawn(async move {
                sleep(takes).await;
                world.tell(from, to);
            });
        }
    }

    /// One server hears from another, if it can.
    fn tell(&self, from: usize, to: usize) {
        let mut machines = self.machines();
        if !machines[from].works() || !machines[to].works() {
            return;
        }
        let (news, store) = (machines[from].view.clone(), machines[from].store.clone());
        let hearer = &mut machines[to];
        match hearer.view.hear(&news) {
            Heard::Nothing => {}
            Heard::News => hearer.forget_what_others_own(),
            Heard::IsReplaced => {
                hearer.store = store;
                hearer.holds_writes = false;
                self.note(|| format!("s{to}: becomes a replica of s{from}"));
            }
        }
    }

    /// A server that was away hears from all others, and they from it.
    fn rejoin(&self, machine: usize) {
        for other in (0..MACHINES).filter(|other| *other != machine) {
            self.tell(other, machine);
        }
        (0..MACHINES).filter(|other| *other != machine).for_each(|other| self.tell(machine, other));
        self.machines()[machine].down_from = None;
    }

    /// The next epoch of the cluster.
    fn next_epoch(&self) -> u64 {
        let mut epoch = self.epoch.lock().expect("nobody panics with it");
        *epoch += 1;
        *epoch
    }

    /// A primary with slots.
    pub(crate) fn some_primary(&self) -> Option<usize> {
        let machines = self.machines();
        let is_one =
            |machine: &usize| machines[*machine].is_primary() && machines[*machine].view.owns_slots();
        let all: Vec<_> = (0..MACHINES).filter(is_one).filter(|machine| machines[*machine].works()).collect();
        drop(machines);
        (!all.is_empty()).then(|| all[self.rng.below(0..all.len() as u64) as usize])
    }

    /// The primary that owns the slot of a key, if it works.
    pub(crate) fn owner_of(&self, key: &[u8]) -> Option<usize> {
        let machines = self.machines();
        let owns = |machine: &usize| machines[*machine].view.owner(slot_of(key)) == Some(*machine);
        let mut owners =
            (0..MACHINES).filter(|machine| machines[*machine].works() && machines[*machine].is_primary());
        owners.find(owns)
    }

    /// The one with the fewest slots: a server that loses its last one is soon unknown, and later new again.
    fn smallest_primary(&self) -> Option<usize> {
        let machines = self.machines();
        let owners =
            (0..MACHINES).filter(|machine| machines[*machine].works() && machines[*machine].is_primary());
        let counted = owners.map(|machine| (machines[machine].view.slots_owned(), machine));
        counted.filter(|(slots, _)| *slots > 0).min().map(|(_, machine)| machine)
    }

    fn replica_of(&self, primary: usize) -> Option<usize> {
        let machines = self.machines();
        (0..MACHINES).find(|machine| {
            machines[*machine].works() && machines[*machine].view.role() == Role::ReplicaOf(primary)
        })
    }

    fn promote(self: &Arc<Self>, replica: usize, former: usize, store: Store) {
        let epoch = self.next_epoch();
        {
            let mut machines = self.machines();
            let former_history = machines[former].history;
            let promoted = &mut machines[replica];
            promoted.view.take_over(former, epoch);
            promoted.history = epoch;
            promoted.former_history = Some(former_history);
            promoted.replicated = store.clone();
            promoted.store = store;
            promoted.forget_what_others_own();
        }
        self.note(|| format!("s{replica}: takes over from s{former}"));
        self.spread(replica);
    }

    /// A primary hands over to its replica by agreement: nothing is lost.
    pub(crate) async fn hand_over(self: &Arc<Self>, primary: usize) {
        let Some(replica) = self.replica_of(primary) else { return };
        self.note(|| format!("s{primary}: hands over to s{replica}"));
        self.machines()[primary].holds_writes = true;
        sleep(self.rng.ms(1..30)).await;
        let store = self.machines()[primary].store.clone();
        if !self.machines()[primary].works() || !self.machines()[replica].works() {
            self.machines()[primary].holds_writes = false;
            return;
        }
        self.promote(replica, primary, store);
        sleep(self.rng.ms(0..30)).await;
        self.tell(replica, primary);
        self.machines()[primary].holds_writes = false;
    }

    /// A primary is lost for a time, and a replica takes its place if that is long. Returns once it is back; calls `restored`
    /// whenever a server with older data answers.
    pub(crate) async fn lose(
        self: &Arc<Self>,
        primary: usize,
        loss: Loss,
        time: Duration,
        restored: impl Fn(),
    ) {
        self.note(|| format!("s{primary}: is lost for {} ms: {loss:?}", time.as_millis()));
        let back = Instant::now() + time;
        let store = self.begin_loss(primary, loss, back);
        let elected = Instant::now() + Duration::from_millis(GOES_ON_MS.end) + self.rng.ms(ELECTION_MS);
        let mut replica = None;
        if elected < back {
            sleep_until(elected).await;
            replica = self.replica_of(primary);
            if let Some(replica) = replica {
                self.promote(replica, primary, store);
                restored();
            }
        }
        sleep_until(back).await;
        self.end_loss(primary, loss, &restored).await;
        self.rejoin(primary);
        if replica.is_some() {
            // What it took alone is lost now.
            restored();
        }
    }

    /// Returns what its replica has then: it may lack the last writes.
    fn begin_loss(&self, primary: usize, loss: Loss, back: Instant) -> Store {
        let store = {
            let lost = &mut self.machines()[primary];
            match loss {
                Loss::Killed => lost.is_dead = true,
                Loss::Stopped => lost.stopped_until = Some(back),
                Loss::CutOff { .. } => {
                    lost.is_cut_off = true;
                    lost.down_from = Some(Instant::now() + self.rng.ms(GOES_ON_MS));
                }
            }
            if self.rng.chance(500) { lost.store.clone() } else { lost.replicated.clone() }
        };
        match loss {
            Loss::Killed => self.close_machine(primary),
            Loss::Stopped => {}
            Loss::CutOff { with } => self.divide(primary, with, back - Instant::now()),
        }
        store
    }

    async fn end_loss(&self, primary: usize, loss: Loss, restored: impl Fn()) {
        match loss {
            Loss::Killed => {
                self.machines()[primary].restart(self.next_epoch());
                restored();
                self.note(|| format!("s{primary}: starts again, without data"));
                sleep(self.rng.ms(JOINS_MS)).await;
            }
            // It may answer before it hears from the others.
            Loss::Stopped => sleep(self.rng.ms(0..10)).await,
            Loss::CutOff { .. } => {
                self.machines()[primary].is_cut_off = false;
                sleep(self.rng.ms(0..100)).await;
            }
        }
    }

    /// A slot with keys moves to another primary, often to one that has none: step by step, or at once.
    pub(crate) async fn move_a_slot(self: &Arc<Self>) {
        let from = if self.rng.chance(400) { self.smallest_primary() } else { self.some_primary() };
        let Some((from, (slot, to))) = from.and_then(|from| Some((from, self.some_move(from)?))) else {
            return;
        };
        self.note(|| format!("slot {slot}: moves from s{from} to s{to}"));
        let is_moved = match self.rng.chance(300) {
            true => self.move_at_once(slot, from, to).await,
            false => self.move_in_steps(slot, from, to).await,
        };
        if !is_moved {
            let mut machines = self.machines();
            machines[from].holds_writes = false;
            machines[from].view.migrating.remove(&slot);
            machines[to].view.importing.remove(&slot);
            machines[to].forget_what_others_own();
        }
    }

    /// A slot of a primary with keys, and another primary that may get it.
    fn some_move(&self, from: usize) -> Option<(u16, usize)> {
        let (number, to_empty) = (self.rng.next() as usize, self.rng.chance(500));
        let machines = self.machines();
        let others =
            || (0..MACHINES).filter(|to| *to != from && machines[*to].is_primary() && machines[*to].works());
        let empty = others().find(|to| !machines[*to].view.owns_slots()).filter(|_| to_empty);
        let to = empty.or_else(|| others().nth(number % others().count().max(1)))?;
        let slots: Vec<_> = machines[from].store.keys().map(|key| slot_of(key)).collect();
        let slot = *slots.get(number / 8 % slots.len().max(1))?;
        // As every tool that moves slots does first: a server that was away may not know that it was replaced.
        (machines[to].view.owner(slot) == Some(from)).then_some((slot, to))
    }

    /// Whether both servers of a move can still go on.
    fn can_move(&self, slot: u16, from: usize, to: usize) -> bool {
        let machines = self.machines();
        let owns = machines[from].is_primary() && machines[from].view.owner(slot) == Some(from);
        owns && machines[from].works() && machines[to].works() && machines[to].is_primary()
    }

    fn move_key(&self, slot: u16, from: usize, to: usize) -> bool {
        let now = self.micros();
        let mut machines = self.machines();
        let key = machines[from].store.keys().find(|key| slot_of(key) == slot).cloned();
        let Some(key) = key else { return false };
        if let Some(stored) = machines[from].store.remove(&key, now) {
            machines[to].store.insert(key, stored);
        }
        true
    }

    async fn move_in_steps(self: &Arc<Self>, slot: u16, from: usize, to: usize) -> bool {
        self.machines()[to].view.importing.insert(slot, from);
        sleep(self.rng.ms(0..5)).await;
        if !self.can_move(slot, from, to) {
            return false;
        }
        self.machines()[from].view.migrating.insert(slot, to);
        sleep(self.rng.ms(0..if self.rng.chance(300) { 1_000 } else { 30 })).await;
        while self.can_move(slot, from, to) && self.move_key(slot, from, to) {
            sleep(self.rng.ms(0..50)).await;
        }
        sleep(self.rng.ms(0..if self.rng.chance(500) { 1_500 } else { 30 })).await;
        // What the former owner was asked to store meanwhile it has stored only over a key that it had.
        while self.can_move(slot, from, to) && self.move_key(slot, from, to) {}
        if !self.can_move(slot, from, to) {
            return false;
        }
        self.give(slot, to);
        sleep(self.rng.ms(0..20)).await;
        self.machines()[from].view.set_owner(slot, to);
        self.spread(to);
        true
    }

    /// As Valkey's CLUSTER MIGRATESLOTS: the former owner lets writes wait meanwhile.
    async fn move_at_once(self: &Arc<Self>, slot: u16, from: usize, to: usize) -> bool {
        self.machines()[from].holds_writes = true;
        sleep(self.rng.ms(1..30)).await;
        if !self.can_move(slot, from, to) {
            return false;
        }
        while self.move_key(slot, from, to) {}
        self.give(slot, to);
        sleep(self.rng.ms(0..5)).await;
        {
            let former = &mut self.machines()[from];
            former.view.set_owner(slot, to);
            former.holds_writes = false;
        }
        self.spread(to);
        true
    }

    fn give(&self, slot: u16, to: usize) {
        let epoch = self.next_epoch();
        let new_owner = &mut self.machines()[to];
        new_owner.view.set_owner(slot, to);
        new_owner.view.set_epoch(epoch);
    }

    /// A key is removed to make room, maybe the ledger.
    pub(crate) fn evict(&self) {
        let Some(primary) = self.some_primary() else { return };
        let (number, now) = (self.rng.next() as usize, self.micros());
        let store = &mut self.machines()[primary].store;
        let key = store.keys().nth(number % store.keys().count().max(1)).cloned();
        key.iter().for_each(|key| _ = store.remove(key, now));
        self.note(|| {
            format!(
                "s{primary}: evicts {}",
                key.map_or("nothing".into(), |key| String::from_utf8_lossy(&key).into_owned())
            )
        });
    }

    /// A server that nodes can reach.
    pub(crate) fn some_machine(&self) -> usize {
        self.rng.below(0..PRIMARIES as u64) as usize
    }
}
