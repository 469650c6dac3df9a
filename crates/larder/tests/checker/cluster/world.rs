//! The simulated cluster and the network between it and the nodes.

use super::machine::{Machine, Outcome, Session};
use super::store::{Command, Published, key_of};
use super::view::{MACHINES, place};
use super::wire::Wire;
use crate::forgery::Forgery;
use crate::network::Weather;
use crate::promise::rng::Rng;
use crate::promise::trace::Trace;
use larder::tier::{Connection, HEAD_BYTES, Network, Tier, TierError, TierFuture, redis_over};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The wall clock of the servers at the start of each history, in microseconds.
const EPOCH_MICROS: u64 = 1_700_000_000_000_000;
/// How much may be on its way on one connection.
const BUFFER: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct World {
    start: Instant,
    machines: Mutex<Vec<Machine>>,
    paths: Mutex<Paths>,
    /// The highest epoch of the cluster.
    pub(super) epoch: Mutex<u64>,
    pub(crate) rng: Arc<Rng>,
    trace: Arc<Trace>,
    pub(super) weather: Weather,
    pub(super) forgery: Forgery,
}

#[derive(Debug, Default)]
struct Paths {
    nodes: Vec<NodePath>,
    wires: Vec<Weak<Wire>>,
    clients: i64,
}

/// The ways of one node to the servers.
#[derive(Debug, Default)]
struct NodePath {
    /// Until when nothing passes to and from each server.
    cut_until: [Option<Instant>; MACHINES],
    /// Until when every message is delayed, as if the node was stopped.
    delayed_until: Option<Instant>,
    /// How many nodes have died here.
    deaths: u32,
}

impl World {
    pub(crate) fn new(
        nodes: usize,
        weather: Weather,
        forgery: Forgery,
        rng: Arc<Rng>,
        trace: Arc<Trace>,
    ) -> Arc<Self> {
        let machines = (0..MACHINES).map(|machine| Machine::new(machine, forgery)).collect();
        let nodes = (0..nodes).map(|_| NodePath::default()).collect();
        Arc::new(World {
            start: Instant::now(),
            machines: Mutex::new(machines),
            paths: Mutex::new(Paths { nodes, ..Paths::default() }),
            epoch: Mutex::new(MACHINES as u64),
            rng,
            trace,
            weather,
            forgery,
        })
    }

    pub(super) fn machines(&self) -> MutexGuard<'_, Vec<Machine>> {
        self.machines.lock().expect("nobody panics with it")
    }

    fn paths(&self) -> MutexGuard<'_, Paths> {
        self.paths.lock().expect("nobody panics with it")
    }

    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        self.trace.note(line);
    }

    /// The real Redis tier of a node, over this network.
    pub(crate) fn tier(self: &Arc<Self>, node: usize) -> Arc<dyn Tier> {
        let deaths = self.paths().nodes[node].deaths;
        let network = NodeNetwork { world: self.clone(), node, deaths };
        let url = format!("redis+cluster://{},{}", place(0), place(1));
        redis_over(&url, Arc::new(network)).expect("a valid address")
    }

    pub(super) fn micros(&self) -> u64 {
        EPOCH_MICROS + self.start.elapsed().as_micros() as u64
    }

    pub(super) fn usual_delay(&self) -> Duration {
        self.rng.ms(0..self.weather.usual_ms + 1)
    }

    /// When something arrives that is sent now, from or to a node.
    pub(super) fn arrival(&self, node: usize, took: Duration) -> Instant {
        let delayed = self.paths().nodes[node].delayed_until;
        let arrives = Instant::now() + took;
        delayed.map_or(arrives, |delayed| arrives.max(delayed))
    }

    /// Until when nothing passes between a node and a server. `None` if it does.
    pub(super) fn stalled_until(&self, node: usize, machine: usize) -> Option<Instant> {
        self.cut_until(node, machine).filter(|_| self.forgery != Forgery::LosesAnnouncements)
    }

    fn cut_until(&self, node: usize, machine: usize) -> Option<Instant> {
        self.paths().nodes[node].cut_until[machine].filter(|until| *until > Instant::now())
    }

    pub(super) fn machine_stopped_until(&self, machine: usize) -> Option<Instant> {
        self.machines()[machine].stopped_until.filter(|until| *until > Instant::now())
    }

    /// Executes a command on a server.
    pub(super) fn execute(
        &self,
        wire: &Wire,
        session: &mut Session,
        command: &Command,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let (before, now) = (out.len(), self.micros());
        let mut machines = self.machines();
        let machine = &mut machines[wire.machine];
        let outcome = machine.execute(session, command, now, out);
        if self.rng.chance(150) {
            machine.replicated = machine.store.clone();
        }
        drop(machines);
        self.trace.note(|| {
            let name = String::from_utf8_lossy(&command[0]);
            let key =
                key_of(&command[0], command).or(command.get(1).map(|first| &first[..])).unwrap_or_default();
            // The clock of a new ledger has a random part of the operating system's, which no seed repeats. It is in values
            // too, after their heads.
            let reply = match out.get(before) {
                Some(b'-') => &out[before..],
                _ if key.ends_with(b"ledger") => b"a clock",
                _ => &out[before..out.len().min(before + HEAD_BYTES)],
            };
            let reply = String::from_utf8_lossy(reply);
            let reply = reply.escape_debug().take(60).collect::<String>();
            format!(
                "node {} s{}: {name} {} → {reply}",
                wire.node,
                wire.machine,
                String::from_utf8_lossy(key).escape_debug()
            )
        });
        outcome
    }

    pub(super) fn publish(&self, machine: usize, Published { channel, message }: &Published) {
        if self.forgery == Forgery::AnnouncesNothing {
            return;
        }
        for wire in self.wires(|wire| wire.machine == machine) {
            if self.forgery == Forgery::LosesAnnouncements && self.cut_until(wire.node, machine).is_some() {
                continue;
            }
            wire.publish(self, channel, message);
        }
    }

    fn wires(&self, which: impl Fn(&Wire) -> bool) -> Vec<Arc<Wire>> {
        let mut paths = self.paths();
        paths.wires.retain(|wire| wire.strong_count() > 0);
        paths.wires.iter().filter_map(Weak::upgrade).filter(|wire| which(wire)).collect()
    }

    pub(super) fn close_client(&self, machine: usize, id: i64) {
        self.wires(|wire| wire.machine == machine && wire.id() == id).iter().for_each(|wire| wire.close());
    }

    /// All connections of a server break.
    pub(super) fn close_machine(&self, machine: usize) {
        self.wires(|wire| wire.machine == machine).iter().for_each(|wire| wire.close());
    }

    /// Nothing passes between a node and a server for a time. Connections break, or stall.
    pub(crate) fn cut(&self, node: usize, machine: usize, time: Duration) {
        self.paths().nodes[node].cut_until[machine] = Some(Instant::now() + time);
        let breaks = self.rng.chance(500) && self.forgery != Forgery::LosesAnnouncements;
        self.wires(|wire| breaks && (wire.node, wire.machine) == (node, machine))
            .iter()
            .for_each(|wire| wire.close());
    }

    /// A server is cut off from all nodes but one, and that one from all other servers.
    pub(super) fn divide(&self, machine: usize, with: Option<usize>, time: Duration) {
        let nodes = self.paths().nodes.len();
        for node in 0..nodes {
            let is_with_it = with == Some(node);
            let far = (0..MACHINES).filter(|other| (*other == machine) != is_with_it);
            far.for_each(|far| self.cut(node, far, time));
        }
    }

    /// The node has died.
    pub(crate) fn kill_node(&self, node: usize) {
        self.paths().nodes[node].deaths += 1;
        self.wires(|wire| wire.node == node).iter().for_each(|wire| wire.close());
    }

    /// Delays every message from and to a node for a time.
    pub(crate) fn delay(&self, node: usize, time: Duration) {
        self.paths().nodes[node].delayed_until = Some(Instant::now() + time);
    }
}

/// The network as one node sees it.
struct NodeNetwork {
    world: Arc<World>,
    node: usize,
    /// How many nodes had died in its place before.
    deaths: u32,
}

impl std::fmt::Debug for NodeNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the network of node {}", self.node)
    }
}

impl NodeNetwork {
    async fn connect_to(&self, machine: usize) -> Result<Box<dyn Connection>, TierError> {
        let (world, node) = (&self.world, self.node);
        if world.paths().nodes[node].deaths != self.deaths {
            // Nothing happens any more in a node that has died.
            std::future::pending::<()>().await;
        }
        sleep(world.usual_delay()).await;
        let is_dead = world.machines()[machine].is_dead;
        if is_dead || world.stalled_until(node, machine).is_some() {
            // Refused, or no answer at all.
            if !is_dead || world.rng.chance(300) {
                sleep(Duration::from_secs(5)).await;
            }
            return Err(TierError::NoReply("connection refused".into()));
        }
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let wire = {
            let mut paths = world.paths();
            paths.clients += 1;
            let wire = Wire::new(node, machine, paths.clients);
            paths.wires.push(Arc::downgrade(&wire));
            wire
        };
        tokio::spawn(wire.serve(world.clone(), theirs));
        Ok(Box::new(ours))
    }
}

impl Network for NodeNetwork {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> TierFuture<'a, Box<dyn Connection>> {
        let machine = usize::from(port - 7_000);
        assert_eq!(host, format!("s{machine}"), "a name of this simulation");
        Box::pin(self.connect_to(machine))
    }
}
