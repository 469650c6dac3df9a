//! One history over a cluster: two nodes, their clients, slots that move, and servers that are lost.

use super::topology::Loss;
use super::world::World;
use crate::forgery::Forgery;
use crate::network::Weather;
use crate::play::{Outcome, await_clients, in_virtual_time};
use crate::promise::book::{Book, Terms};
use crate::promise::clients::{Clients, Nodes, Pace};
use crate::promise::effects::Effects;
use crate::promise::node::{Layout, Node};
use crate::promise::rng::Rng;
use crate::promise::trace::Trace;
use larder::Cache;
use larder_engine::Clock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const NODES: usize = 2;
const KEYS: usize = 4;
const CLIENTS: u64 = 3;
const OPERATIONS: std::ops::Range<u64> = 12..24;
const MAX_LAG: Duration = Duration::from_secs(1);
/// How long the nodes need to find the new primary, once there is one, and to replay what it lacks.
const RECOVERY: Duration = Duration::from_secs(5);
const PACE: Pace =
    Pace { only_reads: 0, clears: 60, slow_loads: 100, failed_loads: 50, loads_ms: (60, 1_500) };
/// So long, and a little longer, the primaries are new to a node.
const FIRST_MINUTE: Duration = Duration::from_secs(62);
/// Runs the history of a seed to its end.
///
/// # Panics
/// As [`await_clients`].
pub(crate) fn run(seed: u64, forgery: Forgery, traced: bool) -> Outcome {
    in_virtual_time(async {
        let history = History::start(seed, forgery, traced);
        history.grow_old().await;
        let clients = (0..NODES).flat_map(|node| (0..CLIENTS).map(move |_| node));
        let clients = clients.map(|node| tokio::spawn(history.clone().client(node))).collect();
        let others = [
            tokio::spawn(history.clone().moves()),
            tokio::spawn(history.clone().faults_of_servers()),
            tokio::spawn(history.clone().faults_of_nodes()),
        ];
        await_clients(seed, clients, &others).await;
        Outcome::of(&history.clients, &history.effects)
    })
}

#[derive(Clone)]
struct History {
    world: Arc<World>,
    clients: Clients,
    disconnected: Duration,
    /// Of one slot, or of all.
    namespace: &'static str,
    /// Whether slots move, and nothing else happens.
    calm: bool,
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
            lost: severity * 5,
            unanswered: severity * 5,
            late_pushes: severity * 100,
        };
        let disconnected = if rng.chance(500) { Duration::ZERO } else { Duration::from_secs(3) };
        trace.note(|| format!("seed {seed}: {weather:?}, disconnected {disconnected:?}, {forgery:?}"));
        let world = World::new(NODES, weather, forgery, rng.clone(), trace.clone());
        let effects = Arc::default();
        let namespace = if rng.chance(300) { "{c}" } else { "c" };
        let start = |node| start_node(&world, node, namespace, disconnected, &effects);
        let nodes = Nodes::new((0..NODES).map(start));
        // A node that subscribes again, because its slots move, may have no proof for longer than a second.
        let terms = Terms { max_lag: MAX_LAG, disconnected, faulty: true, recovery: RECOVERY };
        let book = Arc::new(Mutex::new(Book::new(NODES, KEYS, terms)));
        let calm = rng.chance(300);
        let clients = Clients { rng, trace, nodes, book, pace: PACE, quiet: Arc::default(), keys: KEYS };
        History { world, effects, disconnected, namespace, calm, clients }
    }

    /// In their first minute nodes announce everything on all primaries, which hides what is missed on one. Some histories
    /// begin after that.
    async fn grow_old(&self) {
        if self.clients.rng.chance(400) {
            for node in 0..NODES {
                self.clients.act(node).await;
            }
            sleep(FIRST_MINUTE).await;
        }
    }

    /// One caller of one node.
    async fn client(self, node: usize) {
        let rng = &self.clients.rng;
        for _ in 0..rng.below(OPERATIONS) {
            let pause = if rng.chance(300) { rng.ms(0..1_500) } else { rng.ms(0..60) };
            sleep(pause).await;
            self.clients.act(node).await;
            if self.clients.is_over() {
                return;
            }
        }
    }

    /// Slots move all the time, or now and then: each time that a primary gets its first slot, nodes compare all their
    /// memory with Redis, and so never trust it if that happens every second.
    async fn moves(self) {
        let rng = &self.clients.rng;
        let pause_ms = [400, 3_000, 20_000][rng.below(0..3) as usize];
        loop {
            sleep(rng.ms(0..pause_ms)).await;
            self.world.move_a_slot().await;
        }
    }

    async fn faults_of_servers(self) {
        let rng = &self.clients.rng;
        loop {
            sleep(rng.ms(500..6_000)).await;
            if self.calm {
                continue;
            }
            let of_namespace = self.world.owner_of(self.namespace.as_bytes()).filter(|_| rng.chance(500));
            let Some(primary) = of_namespace.or_else(|| self.world.some_primary()) else { continue };
            let time = rng.ms(100..8_000);
            let loss = match rng.below(0..6) {
                0 => {
                    self.world.evict();
                    continue;
                }
                1 | 2 => {
                    self.world.hand_over(primary).await;
                    continue;
                }
                3 => Loss::Killed,
                4 => Loss::Stopped,
                _ => {
                    let with = rng.below(0..NODES as u64 + 1) as usize;
                    Loss::CutOff { with: Some(with).filter(|node| *node < NODES) }
                }
            };
            self.nodes_are_harmed(time);
            let restored = || {
                self.nodes_are_harmed(Duration::ZERO);
                self.clients.book().server_is_restored(Instant::now());
            };
            self.world.lose(primary, loss, time, restored).await;
        }
    }

    fn nodes_are_harmed(&self, time: Duration) {
        (0..NODES).for_each(|node| self.clients.book().node_is_harmed(node, Instant::now() + time));
    }

    /// Nodes are cut off from one server, are stopped, or die.
    async fn faults_of_nodes(self) {
        let rng = &self.clients.rng;
        loop {
            sleep(rng.ms(200..4_000)).await;
            if self.calm {
                continue;
            }
            let node = rng.below(0..NODES as u64) as usize;
            let time = if rng.chance(300) { rng.ms(500..4_000) } else { rng.ms(1..500) };
            match rng.below(0..4) {
                0 | 1 => {
                    let machine = self.world.some_machine();
                    self.clients.trace.note(|| {
                        format!("node {node}: is cut off from s{machine} for {} ms", time.as_millis())
                    });
                    self.clients.book().node_is_harmed(node, Instant::now() + time);
                    self.world.cut(node, machine, time);
                }
                2 => {
                    self.clients
                        .trace
                        .note(|| format!("node {node}: is stopped for {} ms", time.as_millis()));
                    self.clients.book().node_is_harmed(node, Instant::now() + time);
                    self.world.delay(node, time);
                }
                _ => {
                    self.clients.trace.note(|| format!("node {node}: dies"));
                    self.clients.book().node_dies(node);
                    self.world.kill_node(node);
                    let (disconnected, effects) = (self.disconnected, &self.effects);
                    let next = start_node(&self.world, node, self.namespace, disconnected, effects);
                    self.clients.nodes.replace(node, next);
                }
            }
        }
    }
}

/// A node with the real Redis tier.
fn start_node(
    world: &Arc<World>,
    node: usize,
    namespace: &str,
    disconnected: Duration,
    effects: &Arc<Effects>,
) -> Node {
    let (start, rng) = (Instant::now(), &world.rng);
    // Clocks of different machines have only their rate in common.
    let offset = rng.ms(0..1_000_000);
    let builder = Cache::builder(namespace)
        .memory_bytes(1 << 20)
        .tier(world.tier(node))
        .max_lag(MAX_LAG)
        .disconnected(disconnected)
        .random_seed(rng.next())
        .clock(Clock::custom(move || offset + start.elapsed()));
    Node::start(builder, Layout::Spaces, KEYS, rng, effects)
}
