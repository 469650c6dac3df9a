//! A cluster whose network is divided: one primary is alone with one node.
//!
//! ```text
//! near: nodes 0 and 1, two primaries, three replicas      ═╳═      far: node 2, the first primary
//! ```
//!
//! The others elect the replica of that primary. Until it notices that it is alone it goes on, and so might its node.

use larder_testkit::{Cluster, Network, PATIENCE, slot_of, until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// The primary that is cut off.
const FAR: usize = 0;
/// How often it and its successor are asked to take a write.
const PROBE: Duration = Duration::from_millis(2);

pub(crate) struct Divided {
    pub(crate) cluster: Cluster,
    network: Network,
}

impl Divided {
    /// With this key at the primary that is cut off, or at another one.
    pub(crate) fn start(
        start: fn(&Network) -> Option<Cluster>,
        ledger: &str,
        is_ledger_far: bool,
    ) -> Option<Self> {
        let network = Network::start()?;
        let divided = Divided { cluster: start(&network)?, network };
        if divided.is_far(ledger) != is_ledger_far {
            divided.cluster.move_slot(slot_of(ledger), if is_ledger_far { FAR } else { FAR + 1 });
            divided.cluster.await_ok();
        }
        Some(divided)
    }

    /// Whether a key is at the primary that is cut off.
    pub(crate) fn is_far(&self, key: &str) -> bool {
        self.cluster.owner_of(key) == FAR
    }

    /// A runtime for the nodes of each part.
    pub(crate) fn runtimes(&self) -> Vec<Runtime> {
        let parts = [self.network.near(), self.network.far()];
        let runtimes = parts.map(|part| {
            let part = part.clone();
            Builder::new_multi_thread()
                .worker_threads(1)
                .on_thread_start(move || part.enter())
                .enable_all()
                .build()
                .expect("a runtime with one thread")
        });
        runtimes.into()
    }

    /// Divides the network until a replica has taken over and for a while longer, and makes the former primary one again.
    /// Returns for how long both took writes; if there was a time without any, that as a negative number of milliseconds.
    pub(crate) fn cut_off(&self, lasting: Duration, taken_over: impl FnOnce()) -> i64 {
        let next = self.cluster.replica_of(FAR);
        let mut keys = (0..).map(|number| format!("probe:{number}"));
        let key = keys.find(|key| self.is_far(key)).expect("one of them");
        let is_over = AtomicBool::new(false);
        let both = scope(|scope| {
            let probe = scope.spawn(|| self.probe(next, &key, &is_over));
            self.network.cut();
            until("a replica takes over", || (!self.is_far(&key)).then_some(()));
            taken_over();
            sleep(lasting);
            self.network.heal();
            self.cluster.await_ok();
            is_over.store(true, Ordering::Relaxed);
            probe.join().expect("it does not panic")
        });
        self.cluster.fail_over(FAR);
        self.cluster.await_ok();
        both
    }

    /// Writes to both servers until it is over. Returns how much later the last write to the former primary was than the first
    /// one to the next, in milliseconds.
    fn probe(&self, next: usize, key: &str, is_over: &AtomicBool) -> i64 {
        let takes_write = |server| self.cluster.command(server, &format!("SET {key} x")) == "+OK\r\n";
        let start = Instant::now();
        let (mut last, mut first) = (start, None);
        while !is_over.load(Ordering::Relaxed) && start.elapsed() < 3 * PATIENCE {
            if takes_write(FAR) {
                last = Instant::now();
            }
            let asked = Instant::now();
            if takes_write(next) {
                first.get_or_insert(asked);
            }
            sleep(PROBE);
        }
        let since_start = |time: Instant| time.duration_since(start).as_millis() as i64;
        since_start(last) - since_start(first.expect("the next primary takes writes"))
    }
}
