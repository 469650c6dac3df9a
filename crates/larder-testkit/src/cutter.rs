//! A line to a server that breaks at random bytes, is slow, or is dead.

use crate::redis::RedisServer;
use crate::relay::{Link, Middle, Relay, Way};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A TCP port before a [`RedisServer`] whose connections a test can harm. Whole at first.
#[derive(Debug)]
pub struct Cutter {
    relay: Relay,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    harm: Mutex<Harm>,
    changed: Condvar,
}

#[derive(Debug)]
struct Harm {
    seed: u64,
    cut_after: Option<Range<u64>>,
    delay: Duration,
    paused: bool,
    refusing: bool,
    cuts: u64,
}

impl Cutter {
    /// Listens before a server; the seed decides where connections will be cut.
    pub fn before(server: &RedisServer, seed: u64) -> Self {
        let harm = Harm {
            seed: seed | 1,
            cut_after: None,
            delay: Duration::ZERO,
            paused: false,
            refusing: false,
            cuts: 0,
        };
        let state = Arc::new(State { harm: Mutex::new(harm), changed: Condvar::new() });
        Cutter { relay: Relay::start(server.socket(), state.clone()), state }
    }

    /// The address for clients.
    pub fn url(&self) -> String {
        self.relay.url()
    }

    /// From now on each way of each connection, the open ones too, is cut after a random number of further bytes out of
    /// this range: inside a request, inside a reply, or between the two. `None` ends that.
    pub fn cut_after(&self, bytes: Option<Range<u64>>) {
        self.change(|harm| harm.cut_after = bytes);
    }

    /// From now on each piece of bytes takes this long, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.change(|harm| harm.delay = delay);
    }

    /// Holds all bytes back, in both directions.
    pub fn pause(&self) {
        self.change(|harm| harm.paused = true);
    }

    /// Lets held bytes go on.
    pub fn resume(&self) {
        self.change(|harm| harm.paused = false);
    }

    /// Whether new connections are closed at once.
    pub fn refuse(&self, refusing: bool) {
        self.change(|harm| harm.refusing = refusing);
    }

    /// Cuts every open connection now.
    pub fn cut(&self) {
        self.relay.links().iter().for_each(|link| link.cut());
    }

    /// How many connections were cut at random bytes so far.
    pub fn cuts(&self) -> u64 {
        self.state.harm().cuts
    }

    fn change(&self, change: impl FnOnce(&mut Harm)) {
        change(&mut self.state.harm());
        self.state.changed.notify_all();
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.resume();
    }
}

impl State {
    fn harm(&self) -> MutexGuard<'_, Harm> {
        self.harm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Harm {
    /// A number out of a range, by a xorshift generator.
    fn draw(&mut self, range: &Range<u64>) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        range.start + self.seed % (range.end - range.start).max(1)
    }
}

impl Middle for State {
    /// How many bytes still pass before the cut.
    type Side = Option<u64>;

    fn connected(&self, _: usize) -> Option<[Option<u64>; 2]> {
        (!self.harm().refusing).then_some([None, None])
    }

    fn arrived(&self, link: &Link, way: Way, left: &mut Option<u64>, bytes: &[u8]) -> io::Result<()> {
        let mut harm = self.harm();
        if !harm.delay.is_zero() {
            let delay = harm.delay;
            drop(harm);
            std::thread::sleep(delay);
            harm = self.harm();
        }
        let mut harm =
            self.changed.wait_while(harm, |harm| harm.paused).unwrap_or_else(PoisonError::into_inner);
        let Some(range) = harm.cut_after.clone() else {
            *left = None;
            drop(harm);
            return link.send(way, bytes);
        };
        let passing = *left.get_or_insert_with(|| harm.draw(&range));
        if passing >= bytes.len() as u64 {
            *left = Some(passing - bytes.len() as u64);
            drop(harm);
            return link.send(way, bytes);
        }
        harm.cuts += 1;
        drop(harm);
        // The beginning arrives, and then nothing.
        _ = link.send(way, &bytes[..passing as usize]);
        Err(io::ErrorKind::ConnectionAborted.into())
    }
}
