//! One history: two nodes, a few clients on each, an origin whose versions only grow, and faults.

use crate::forgery::Forgery;
use crate::network::{Weather, World};
use crate::play::{Outcome, await_clients, in_virtual_time};
use crate::promise::book::{Book, PROGRAM, Terms};
use crate::promise::clients::{Clients, Nodes, Pace};
use crate::promise::effects::Effects;
use crate::promise::node::{Layout, Node};
use crate::promise::rng::Rng;
use crate::promise::trace::Trace;
use larder::Cache;
use larder_engine::Clock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const NODES: usize = 2;
const KEYS: usize = 4;
const CLIENTS: u64 = 3;
const OPERATIONS: std::ops::Range<u64> = 8..16;
const MAX_LAG: Duration = Duration::from_secs(1);
/// How long the nodes need to replay what a restarted server has lost: where messages are lost, and otherwise.
const FAULTY_RECOVERY: Duration = Duration::from_secs(5);
const RECOVERY: Duration = Duration::from_millis(800);
const PACE: Pace =
    Pace { only_reads: 0, clears: 100, slow_loads: 100, failed_loads: 50, loads_ms: (60, 1_500) };
/// In one history of five, so many loads out of a thousand fail.
const MANY_FAILED_LOADS: u64 = 500;

/// Runs the history of a seed to its end.
///
/// # Panics
/// As [`await_clients`].
pub(crate) fn run(seed: u64, forgery: Forgery, traced: bool) -> Outcome {
    in_virtual_time(async {
        let history = History::start(seed, forgery, traced);
        let clients = (0..NODES).flat_map(|node| (0..CLIENTS).map(move |_| node));
        let clients = clients.map(|node| tokio::spawn(history.clone().client(node))).collect();
        let others = [tokio::spawn(history.clone().faults()), tokio::spawn(history.clone().program())];
        await_clients(seed, clients, &others).await;
        Outcome::of(&history.clients, &history.effects)
    })
}

#[derive(Clone)]
struct History {
    world: Arc<World>,
    clients: Clients,
    disconnected: Duration,
    recovery: Duration,
    /// Whether nodes die. Otherwise the clock of the server may go back and its ledger be lost: what a node knows that
    /// died then is known to nobody.
    mortal: bool,
    /// Whether a program that is no node writes to the server, and the nodes track that.
    foreign_writers: bool,
    effects: Arc<Effects>,
}

impl History {
    fn start(seed: u64, forgery: Forgery, traced: bool) -> Self {
        let rng = Arc::new(Rng::new(seed));
        let trace = Arc::new(Trace::new(if traced { usize::MAX } else { 0 }));
        let severity = rng.below(0..3);
        let weather = Weather {
            usual_ms: [2, 10, 40][rng.below(0..3) as usize],
            slow: severity * 20,
            lost: severity * 10,
            unanswered: severity * 15,
            late_pushes: severity * 100,
        };
        let disconnected = if rng.chance(500) { Duration::ZERO } else { Duration::from_secs(3) };
        trace.note(|| format!("seed {seed}: {weather:?}, disconnected {disconnected:?}, {forgery:?}"));
        let world = World::new(NODES, weather, forgery, rng.clone(), trace.clone());
        let foreign_writers = rng.chance(300);
        let effects = Arc::default();
        let start = |node| start_node(&world, node, disconnected, foreign_writers, &effects);
        let nodes = Nodes::new((0..NODES).map(start));
        let recovery = if severity > 0 { FAULTY_RECOVERY } else { RECOVERY };
        let terms = Terms { max_lag: MAX_LAG, disconnected, faulty: severity > 0, recovery };
        let book = Arc::new(Mutex::new(Book::new(NODES, KEYS, terms)));
        let quiet = Arc::default();
        let mortal = rng.chance(500);
        let failed_loads = if rng.chance(200) { MANY_FAILED_LOADS } else { PACE.failed_loads };
        let pace = Pace { failed_loads, ..PACE };
        History {
            world,
            foreign_writers,
            effects,
            disconnected,
            recovery,
            mortal,
            clients: Clients { rng, trace, nodes, book, pace, quiet, keys: KEYS },
        }
    }

    /// One caller of one node.
    async fn client(self, node: usize) {
        let rng = &self.clients.rng;
        // Nodes that die leave less time for what must be seen after it.
        let operations = rng.below(OPERATIONS) * if self.mortal { 2 } else { 1 };
        for _ in 0..operations {
            let pause = if rng.chance(300) { rng.ms(0..1_500) } else { rng.ms(0..60) };
            sleep(pause).await;
            self.clients.act(node).await;
            if self.clients.is_over() {
                return;
            }
        }
    }

    /// A program that writes keys without an announcement. It deletes none: for an absent key there would be no push.
    async fn program(self) {
        let clients = &self.clients;
        if !self.foreign_writers {
            return;
        }
        loop {
            sleep(clients.rng.ms(0..1_500)).await;
            let key = clients.rng.below(0..KEYS as u64) as usize;
            clients.book().change_origin(key);
            let number =
                clients.book().invalidation_begins(PROGRAM, "write of a program", |other| other == key);
            self.world.write_foreign(format!("c:{}", Node::name(key)).as_bytes());
            clients.book().invalidation_ends(number, true);
        }
    }

    /// The faults of the nodes and the server.
    async fn faults(self) {
        let calm = self.clients.rng.chance(300);
        loop {
            sleep(self.clients.rng.ms(100..2_000)).await;
            if calm {
                continue;
            }
            let node = self.clients.rng.below(0..NODES as u64) as usize;
            let time = if self.clients.rng.chance(300) {
                self.clients.rng.ms(500..6_000)
            } else {
                self.clients.rng.ms(1..500)
            };
            match self.clients.rng.below(0..14) {
                0..3 => {
                    self.clients
                        .trace
                        .note(|| format!("node {node}: is disconnected for {} ms", time.as_millis()));
                    self.clients.book().node_is_harmed(node, Instant::now() + time);
                    self.world.cut(node, time);
                }
                3..5 => {
                    self.clients
                        .trace
                        .note(|| format!("node {node}: is stopped for {} ms", time.as_millis()));
                    self.clients.book().node_is_harmed(node, Instant::now() + time);
                    self.world.delay(node, time);
                }
                5..7 => {
                    self.world.evict();
                    if self.world.clock_went_back() {
                        self.ledger_may_be_lost();
                    }
                }
                7..9 => self.world.take_snapshot(),
                9..11 if self.mortal => self.lose_node_and_data(node).await,
                9..11 => {
                    self.world.lose_ledger();
                    self.ledger_may_be_lost();
                }
                _ => {
                    if self.clients.rng.chance(500) {
                        self.restore_server();
                    } else {
                        self.nodes_are_harmed();
                        self.world.restart(false);
                    }
                }
            }
        }
    }

    /// A new ledger starts before the end of the lost one if the node that makes it knows less than others. They notice
    /// that at their next heartbeat, and invalidate everything.
    fn ledger_may_be_lost(&self) {
        self.clients.book().server_is_restored(Instant::now() + self.recovery);
    }

    fn nodes_are_harmed(&self) {
        (0..NODES).for_each(|node| self.clients.book().node_is_harmed(node, Instant::now()));
    }

    /// The server is killed and started from its snapshot.
    fn restore_server(&self) {
        self.clients.book().server_is_restored(Instant::now());
        self.nodes_are_harmed();
        self.world.restart(true);
    }

    /// A node dies, and usually the server is restored from a snapshot soon after: what the node invalidated in between
    /// is known to those who heard it. Nothing is changed for a while, so that no later invalidation hides a loss.
    async fn lose_node_and_data(&self, node: usize) {
        let Clients { rng, quiet, .. } = &self.clients;
        if rng.chance(700) {
            self.world.take_snapshot();
            sleep(rng.ms(0..3_000)).await;
            quiet.store(true, Ordering::SeqCst);
            sleep(rng.ms(0..2_000)).await;
        }
        self.replace_node(node);
        if rng.chance(700) {
            sleep(rng.ms(0..300)).await;
            self.restore_server();
            sleep(self.recovery + 2 * MAX_LAG + self.disconnected).await;
        }
        quiet.store(false, Ordering::SeqCst);
    }

    /// A node dies, and another takes its place.
    fn replace_node(&self, node: usize) {
        self.clients.trace.note(|| format!("node {node}: dies"));
        self.clients.book().node_dies(node);
        self.world.kill(node);
        let next = start_node(&self.world, node, self.disconnected, self.foreign_writers, &self.effects);
        self.clients.nodes.replace(node, next);
    }
}

/// A node at one end of the world.
fn start_node(
    world: &Arc<World>,
    node: usize,
    disconnected: Duration,
    foreign_writers: bool,
    effects: &Arc<Effects>,
) -> Node {
    let (start, rng) = (Instant::now(), &world.rng);
    // Clocks of different machines have only their rate in common.
    let offset = rng.ms(0..1_000_000);
    let builder = Cache::builder("c")
        .memory_bytes(1 << 20)
        .tier(world.tier(node))
        .max_lag(MAX_LAG)
        .disconnected(disconnected)
        .foreign_writers(foreign_writers)
        .random_seed(rng.next())
        .clock(Clock::custom(move || offset + start.elapsed()));
    Node::start(builder, Layout::Spaces, KEYS, rng, effects)
}

/// The tests of the book.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::book::{Moment, Read, Value};

    #[tokio::test(start_paused = true)]
    async fn book_forbids_invalidated_values() {
        let terms =
            Terms { max_lag: MAX_LAG, disconnected: Duration::ZERO, faulty: false, recovery: RECOVERY };
        let mut book = Book::new(NODES, KEYS, terms);
        let old = Value { version: book.origin[0], write: 0 };
        book.change_origin(0);
        let early = Read { node: 0, key: 0, began: book.now() };
        let number = book.invalidation_begins(0, "delete", |key| key == 0);
        book.invalidation_ends(number, true);
        book.check(early, old);
        let Moment { position, time } = book.now();
        let elsewhere = Read { node: 1, key: 0, began: Moment { position, time: time + MAX_LAG } };
        book.check(elsewhere, old);
        book.check(Read { node: 0, key: 1, began: Moment { position, time } }, old);
        assert_eq!(book.violation, None, "before it, on another node in time, another key");
        let late = Moment { position, time: time + MAX_LAG + Duration::from_millis(1) };
        book.check(Read { node: 1, key: 0, began: late }, old);
        assert!(book.violation.take().is_some(), "on another node, late");
        book.check(Read { node: 0, key: 0, began: Moment { position, time } }, old);
        assert!(book.violation.is_some(), "on the same node");
    }

    #[tokio::test(start_paused = true)]
    async fn book_forbids_two_updates_of_one_value() {
        let terms =
            Terms { max_lag: MAX_LAG, disconnected: Duration::ZERO, faulty: false, recovery: RECOVERY };
        for restored in [false, true] {
            let mut book = Book::new(NODES, KEYS, terms);
            let mut update = |node, got| {
                let number = book.invalidation_begins(node, "update", |key| key == 0);
                let read = Read { node, key: 0, began: book.now() };
                book.update_decides(number, got, None);
                book.update_ends(number, read);
                if restored {
                    book.server_is_restored(Instant::now());
                }
                (Value { version: 1, write: number + 1 }, book.violation.clone())
            };
            let loaded = Some(Value { version: 1, write: 0 });
            let (first, _) = update(0, loaded);
            let (second, violation) = update(1, loaded);
            assert_eq!(violation, None, "two loads may have returned it");
            update(0, Some(first));
            let (_, violation) = update(1, Some(second));
            assert_eq!(violation, None, "one after the other");
            let (_, violation) = update(1, Some(first));
            assert_eq!(violation.is_some(), !restored);
        }
    }

    /// An update asks the server, so it is behind no other node.
    #[tokio::test(start_paused = true)]
    async fn book_forbids_updates_of_invalidated_values_at_once() {
        let terms =
            Terms { max_lag: MAX_LAG, disconnected: Duration::ZERO, faulty: false, recovery: RECOVERY };
        let mut book = Book::new(NODES, KEYS, terms);
        let old = Value { version: book.origin[0], write: 0 };
        book.change_origin(0);
        let number = book.invalidation_begins(0, "delete", |key| key == 0);
        book.invalidation_ends(number, true);
        sleep(Duration::from_millis(1)).await;
        let read = Read { node: 1, key: 0, began: book.now() };
        book.check(read, old);
        assert_eq!(book.violation, None, "a read on another node, in time");
        let number = book.invalidation_begins(1, "update", |key| key == 0);
        book.update_decides(number, Some(old), None);
        book.update_ends(number, read);
        assert!(book.violation.is_some());
    }

    /// The node in the place of one that has died connects when it is first called: before that it hears nothing.
    #[tokio::test(start_paused = true)]
    async fn book_forbids_what_the_server_lost_only_if_a_node_heard_of_it() {
        for other_listens in [false, true] {
            let terms =
                Terms { max_lag: MAX_LAG, disconnected: Duration::ZERO, faulty: false, recovery: RECOVERY };
            let mut book = Book::new(NODES, KEYS, terms);
            let old = Value { version: book.origin[0], write: 0 };
            book.change_origin(0);
            book.node_is_called(0);
            if other_listens {
                book.node_is_called(1);
            }
            sleep(RECOVERY).await;
            let number = book.invalidation_begins(0, "delete", |key| key == 0);
            book.invalidation_ends(number, true);
            sleep(MAX_LAG).await;
            book.node_dies(0);
            book.server_is_restored(Instant::now());
            sleep(RECOVERY + 2 * MAX_LAG).await;
            let read = Read { node: 1, key: 0, began: book.now() };
            book.check(read, old);
            assert_eq!(book.violation.is_some(), other_listens);
        }
    }
}
