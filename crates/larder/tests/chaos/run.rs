//! One run: a server, one behind sentinels, or a cluster, some nodes with their clients, and one fault after the other.

use crate::fault::Fault;
use crate::ground::Ground;
use crate::languages::node::AnyNode;
use crate::moves::{Moves, Moving};
use crate::place::{Place, Team};
use crate::promise::book::{Book, Terms, Violation};
use crate::promise::clients::{Clients, Nodes, Pace};
use crate::promise::node::Node;
use crate::promise::rng::Rng;
use crate::promise::trace::Trace;
use larder_testkit::PATIENCE;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::Instant;

const CLIENTS: usize = 8;
pub(crate) const KEYS: usize = 24;
/// Short, so that many reads are checked between two invalidations of a key.
pub(crate) const MAX_LAG: Duration = Duration::from_millis(100);
/// How long the nodes may take to replay what a restarted server has lost, once they can reach it.
const RECOVERY: Duration = Duration::from_secs(5);
/// What is added to the lag because time is real. An invalidation is dated after it returned and a read before it began,
/// so a thread that waits for a processor, however long, only makes a read later than the book believes: busy machines
/// need nothing. What is left is that nodes and book ask the clock one after the other, and that processors may
/// disagree by less than this.
const SLACK: Duration = Duration::from_millis(1);
/// Reads mostly: each key is invalidated about twice a second and read some hundred times. Many loads are slow enough to
/// be overtaken by that.
const PACE: Pace =
    Pace { only_reads: 800, clears: 10, slow_loads: 250, failed_loads: 50, loads_ms: (20, 300) };
/// Clients pause up to so long between operations: usually and seldom.
const PAUSE_MS: (u64, u64) = (25, 600);
/// The highest age of a snapshot when it is restored: nodes remember what they invalidated for a minute.
const SNAPSHOT_AGE: Duration = Duration::from_secs(20);
/// How many lines are remembered, and how many of them a failure prints.
const TRACE: (usize, usize) = (50_000, 250);
/// How often a soak reports its progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// How long new nodes announce all on each primary of a cluster, and some time for them to start.
const SETTLING: Duration = Duration::from_secs(65);
/// The key of the ledger.
pub(crate) const LEDGER: &str = "chaos::ledger";
/// Longer than a server needs to start; the book is updated when it has started.
const LONG: Duration = Duration::from_secs(60);

/// What was done in all runs so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) reads: u64,
    pub(crate) moves: Moves,
    /// For how long a former primary and the next one both took writes, in milliseconds: least and most.
    both: Option<(i64, i64)>,
    counts: [u64; Fault::ALL.len()],
}

impl Tally {
    pub(crate) fn count(&self, fault: Fault) -> u64 {
        self.counts[fault as usize]
    }

    /// Two primaries both took writes for so many milliseconds; below zero, none did for a while.
    fn record_both(&mut self, ms: i64) {
        let (least, most) = self.both.unwrap_or((ms, ms));
        self.both = Some((least.min(ms), most.max(ms)));
    }

    pub(crate) fn faults(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} reads", self.reads)?;
        let injected = Fault::ALL.into_iter().filter(|fault| self.count(*fault) > 0);
        injected.into_iter().try_for_each(|fault| write!(f, ", {fault:?} {}", self.count(fault)))?;
        if self.moves.done() > 0 {
            write!(f, ", {}", self.moves)?;
        }
        match self.both {
            Some((least, most)) => {
                write!(f, ", two primaries of a slot took writes for at most {least} to {most} ms")
            }
            None => Ok(()),
        }
    }
}

pub(crate) struct Run {
    /// The last nodes run on the last one.
    runtimes: Vec<Runtime>,
    clients: Clients<AnyNode>,
    places: Vec<Place>,
    ground: Ground,
    snapshot: Instant,
    /// Whether there is time for long faults, and for quiet after them.
    long: bool,
}

impl Run {
    pub(crate) fn start(ground: Ground, team: Team, disconnected: Duration, long: bool) -> Self {
        let runtimes = ground.runtimes();
        let rng = Arc::new(Rng::new(RandomState::new().hash_one(0)));
        let places = runtimes[0].block_on(team.places(disconnected, &rng));
        let nodes = places.iter().map(|place| runtimes[0].block_on(place.start_node(&rng)));
        let nodes = Nodes::new(nodes);
        let terms = Terms { max_lag: MAX_LAG + SLACK, disconnected, faulty: true, recovery: RECOVERY };
        let mut book = Book::new(places.len(), KEYS, terms);
        if let Ground::Divided(divided) = &ground {
            let names = redis_keys();
            let at_risk = names[..KEYS].iter().map(|name| divided.is_far(name)).collect();
            book.only_these_are_at_risk(at_risk, divided.is_far(LEDGER));
        }
        let clients = Clients {
            nodes,
            trace: Arc::new(Trace::new(TRACE.0)),
            book: Arc::new(Mutex::new(book)),
            pace: PACE,
            quiet: Arc::default(),
            keys: KEYS,
            rng,
        };
        let mut run = Run { runtimes, clients, places, ground, snapshot: Instant::now(), long };
        run.take_snapshot();
        run
    }

    /// The runtime of a node: of several the last one has the last node.
    fn runtime(&self, node: usize) -> &Runtime {
        &self.runtimes[(node + self.runtimes.len()).saturating_sub(self.places.len())]
    }

    fn take_snapshot(&mut self) {
        if self.ground.can_have(Fault::Restored) {
            self.ground.server().take_snapshot();
            self.snapshot = Instant::now();
            self.clients.trace.note(|| "server: its snapshot is taken".into());
        }
    }

    /// Whether this fault can happen here.
    pub(crate) fn can_have(&self, fault: Fault) -> bool {
        match fault {
            Fault::NodeStopped => self.places.iter().any(Place::is_process),
            fault => self.ground.can_have(fault),
        }
    }

    /// Runs it for a time with faults, and counts what happened.
    ///
    /// # Panics
    /// If a read broke the promise, or if the nodes do not settle.
    pub(crate) fn execute(mut self, length: Duration, tally: &mut Tally) {
        self.play(length, Some(tally));
        self.settle();
    }

    /// Runs it for a time without faults. Returns the violation that was seen, or else how many reads were judged.
    pub(crate) fn find_violation(mut self, length: Duration) -> Result<Violation, u64> {
        self.play(length, None);
        let book = self.clients.book();
        book.violation.clone().ok_or(book.reads)
    }

    fn play(&mut self, length: Duration, tally: Option<&mut Tally>) {
        let end = Instant::now() + length;
        let callers = (0..self.places.len()).flat_map(|node| (0..CLIENTS).map(move |_| node));
        let tasks: Vec<_> =
            callers.map(|node| self.runtime(node).spawn(call(self.clients.clone(), node, end))).collect();
        match tally {
            Some(tally) => self.harm(end, tally),
            None => {
                while Instant::now() < end && !self.clients.is_over() {
                    sleep(MAX_LAG / 10);
                }
            }
        }
        for task in tasks {
            self.runtimes[0].block_on(task).expect("no operation panics");
        }
    }

    /// One fault after the other.
    fn harm(&mut self, end: Instant, tally: &mut Tally) {
        let Clients { rng, trace, .. } = &self.clients;
        let moving = self.ground.mover();
        let moving = moving.map(|mover| Moving::start(mover, &redis_keys(), rng.clone(), trace.clone()));
        if let Ground::Divided(_) = self.ground {
            // Before that, nothing is confirmed while a primary is lost.
            sleep(SETTLING);
        }
        let before = tally.reads;
        let mut reported = Instant::now();
        while Instant::now() < end && !self.clients.is_over() {
            for fault in self.shuffled() {
                if !self.can_have(fault) {
                    continue;
                }
                if Instant::now() >= end || self.clients.is_over() {
                    break;
                }
                // A primary that is killed beside a move is sometimes not replaced within half a minute.
                let _resting =
                    moving.as_ref().filter(|_| !self.long && fault.is_failover()).map(Moving::rest);
                let happened = self.inject(fault, end, tally);
                tally.counts[fault as usize] += u64::from(happened);
                sleep(self.clients.rng.ms(50..500));
                tally.reads = before + self.clients.book().reads;
                if reported.elapsed() >= PROGRESS {
                    println!("{tally}");
                    reported = Instant::now();
                }
            }
        }
        if let Some(moving) = moving {
            tally.moves += moving.end();
        }
        tally.reads = before + self.clients.book().reads;
    }

    fn shuffled(&self) -> [Fault; Fault::ALL.len()] {
        let mut faults = Fault::ALL;
        for at in (1..faults.len()).rev() {
            faults.swap(at, self.clients.rng.below(0..at as u64 + 1) as usize);
        }
        faults
    }

    /// Injects one fault and records it in the book.
    fn inject(&mut self, fault: Fault, end: Instant, tally: &mut Tally) -> bool {
        let Clients { rng, trace, .. } = self.clients.clone();
        if rng.chance(300) || self.snapshot.elapsed() > SNAPSHOT_AGE {
            self.take_snapshot();
        }
        let lasting = if self.long && rng.chance(200) { rng.ms(500..3_000) } else { rng.ms(20..500) };
        trace.note(|| format!("fault: {fault:?} begins, for {} ms if it lasts", lasting.as_millis()));
        self.harms(fault, Instant::now() + LONG);
        let happened = match (fault, &self.ground) {
            (Fault::NodeLost, _) => self.replace_node(rng.below(0..self.places.len() as u64) as usize),
            (Fault::NodeStopped, _) => self.stop_node(&rng, lasting),
            (Fault::Partitioned, Ground::Divided(divided)) => {
                let both = divided.cut_off(lasting, || {
                    trace.note(|| "another primary has taken over".into());
                    // What is executed from now on is not lost.
                    self.clients.book().server_is_restored(Instant::now());
                });
                tally.record_both(both);
                true
            }
            _ => fault.inject(&mut self.ground, &rng, lasting),
        };
        self.clients.book().nodes_recover(Instant::now());
        if fault != Fault::Partitioned {
            self.harms(fault, Instant::now());
        }
        trace.note(|| format!("fault: {fault:?} is over"));
        if fault.loses_data() && self.long && end > Instant::now() + 2 * RECOVERY {
            self.be_quiet();
        }
        happened
    }

    /// A node ends with all that it has not confirmed, and another starts in its place.
    fn replace_node(&self, node: usize) -> bool {
        let next = self.runtime(node).block_on(self.places[node].start_node(&self.clients.rng));
        if let AnyNode::Child(node) = &*self.clients.nodes.node(node) {
            node.child.kill();
        }
        self.clients.book().node_dies(node);
        self.clients.nodes.replace(node, next);
        true
    }

    /// A node does nothing for a while, and does not know it.
    fn stop_node(&self, rng: &Rng, lasting: Duration) -> bool {
        let processes: Vec<_> =
            (0..self.places.len()).filter(|node| self.places[*node].is_process()).collect();
        let node = self.clients.nodes.node(processes[rng.below(0..processes.len() as u64) as usize]);
        let AnyNode::Child(node) = &*node else { return false };
        node.child.pause();
        sleep(lasting);
        node.child.resume();
        true
    }

    fn harms(&self, fault: Fault, until: Instant) {
        let mut book = self.clients.book();
        (0..self.places.len()).for_each(|node| book.node_is_harmed(node, until));
        if fault.loses_data() {
            book.server_is_restored(until);
        }
    }

    /// Lets the clients only read until the nodes have replayed what the server lost, and for a while after that.
    fn be_quiet(&self) {
        self.clients.quiet.store(true, Ordering::SeqCst);
        sleep(RECOVERY + self.places[0].disconnected() + 5 * MAX_LAG);
        self.clients.quiet.store(false, Ordering::SeqCst);
    }

    /// Sees that no effect of the faults is left, and that no read broke the promise.
    fn settle(&self) {
        if let Some(violation) = &self.clients.book().violation {
            let trace = self.clients.trace.about(violation.key, TRACE.1);
            panic!("the promise is broken:\n{trace}\n{}", violation.words);
        }
        for number in 0..self.places.len() {
            let (node, start) = (self.clients.nodes.node(number), Instant::now());
            while let Err(state) = self.runtime(number).block_on(node.settled()) {
                assert!(start.elapsed() < PATIENCE, "node {number} still owes, or does not hear: {state}");
                sleep(MAX_LAG / 10);
            }
        }
    }
}

/// The keys in Redis, with that of the ledger.
fn redis_keys() -> Vec<String> {
    let keys = (0..KEYS).map(|key| format!("chaos:{}", Node::name(key)));
    keys.chain([LEDGER.into()]).collect()
}

/// One caller of one node.
async fn call(clients: Clients<AnyNode>, node: usize, end: Instant) {
    while Instant::now() < end && !clients.is_over() {
        let most = if clients.rng.chance(20) { PAUSE_MS.1 } else { PAUSE_MS.0 };
        tokio::time::sleep(clients.rng.ms(0..most)).await;
        clients.act(node).await;
    }
}
