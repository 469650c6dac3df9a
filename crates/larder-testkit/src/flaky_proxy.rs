//! A proxy whose connections break at random bytes, are slow, or are refused.

use crate::proxy::{Connection, Direction, Interceptor, Proxy};
use crate::redis::RedisServer;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A TCP port before a [`RedisServer`] whose connections a test can break. It forwards everything at first.
#[derive(Debug)]
pub struct FlakyProxy {
    proxy: Proxy,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    faults: Mutex<Faults>,
    changed: Condvar,
}

#[derive(Debug)]
struct Faults {
    seed: u64,
    cut_after: Option<Range<u64>>,
    delay: Duration,
    paused: bool,
    refusing: bool,
    cuts: u64,
}

impl FlakyProxy {
    /// Listens before a server; the seed decides where connections will be cut.
    pub fn before(server: &RedisServer, seed: u64) -> Self {
        let faults = Faults {
            seed: seed | 1,
            cut_after: None,
            delay: Duration::ZERO,
            paused: false,
            refusing: false,
            cuts: 0,
        };
        let state = Arc::new(State { faults: Mutex::new(faults), changed: Condvar::new() });
        FlakyProxy { proxy: Proxy::start(server.socket(), state.clone()), state }
    }

    /// The address for clients.
    pub fn url(&self) -> String {
        self.proxy.url()
    }

    /// Cuts each direction of each connection, open ones included, after a random number of further bytes in this range:
    /// inside a request, inside a reply, or between two. `None` ends that.
    pub fn cut_after(&self, bytes: Option<Range<u64>>) {
        self.change(|faults| faults.cut_after = bytes);
    }

    /// Delays each piece of bytes by this time, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.change(|faults| faults.delay = delay);
    }

    /// Holds all bytes, in both directions.
    pub fn pause(&self) {
        self.change(|faults| faults.paused = true);
    }

    /// Forwards held bytes and those that follow.
    pub fn resume(&self) {
        self.change(|faults| faults.paused = false);
    }

    /// Whether new connections are closed at once.
    pub fn refuse(&self, refusing: bool) {
        self.change(|faults| faults.refusing = refusing);
    }

    /// Closes every open connection now.
    pub fn cut(&self) {
        self.proxy.connections().iter().for_each(|connection| connection.cut());
    }

    /// How many connections were cut at random bytes so far.
    pub fn cuts(&self) -> u64 {
        self.state.faults().cuts
    }

    fn change(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state.faults());
        self.state.changed.notify_all();
    }
}

impl Drop for FlakyProxy {
    fn drop(&mut self) {
        self.resume();
    }
}

impl State {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults {
    /// A number out of a range, by a xorshift generator.
    fn draw(&mut self, range: &Range<u64>) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        range.start + self.seed % (range.end - range.start).max(1)
    }
}

impl Interceptor for State {
    /// How many bytes still pass before the cut.
    type Side = Option<u64>;

    fn connected(&self, _: usize) -> Option<[Option<u64>; 2]> {
        (!self.faults().refusing).then_some([None, None])
    }

    fn arrived(
        &self,
        connection: &Connection,
        direction: Direction,
        left: &mut Option<u64>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let mut faults = self.faults();
        if !faults.delay.is_zero() {
            let delay = faults.delay;
            drop(faults);
            std::thread::sleep(delay);
            faults = self.faults();
        }
        let mut faults =
            self.changed.wait_while(faults, |faults| faults.paused).unwrap_or_else(PoisonError::into_inner);
        let Some(range) = faults.cut_after.clone() else {
            *left = None;
            drop(faults);
            return connection.send(direction, bytes);
        };
        let passing = *left.get_or_insert_with(|| faults.draw(&range));
        if passing >= bytes.len() as u64 {
            *left = Some(passing - bytes.len() as u64);
            drop(faults);
            return connection.send(direction, bytes);
        }
        faults.cuts += 1;
        drop(faults);
        // The first bytes arrive, and the rest does not.
        _ = connection.send(direction, &bytes[..passing as usize]);
        Err(io::ErrorKind::ConnectionAborted.into())
    }
}
