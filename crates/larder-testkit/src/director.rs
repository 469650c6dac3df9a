//! Who says in which order things happen: holds requests, replies and pushes between clients and a real server, lets
//! them go one by one, loses them, and puts in ones of its own.
//!
//! ```text
//! client ──► request ──► held? ──► server
//!    ▲                               │
//!    └────── held? ◄── reply, push ◄─┘       connections know nothing of each other: any order can be forced
//! ```
//!
//! Within one way of one connection order stays as it is: behind a held frame everything waits, as it would on a wire.

use crate::frames::Frames;
use crate::redis::RedisServer;
use crate::relay::{Link, Middle, Relay, Way};
use crate::wait::PATIENCE;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A TCP port before a [`RedisServer`] on which a test orders what passes.
#[derive(Debug)]
pub struct Director {
    relay: Relay,
    stage: Arc<Stage>,
}

/// One whole request, reply or push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The number of the connection, from 0 in the order in which they came.
    pub connection: usize,
    /// Where it goes.
    pub way: Way,
    /// The name of the command, in capitals: of the request itself, or of the one that a reply answers. `PUSH` for
    /// pushes.
    pub command: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Frame {
    /// Whether this is the request of a command.
    pub fn is_request(&self, command: &str) -> bool {
        self.way == Way::ToServer && self.command == command
    }

    /// Whether this is the reply to a command.
    pub fn is_reply(&self, command: &str) -> bool {
        self.way == Way::ToClient && self.command == command
    }

    /// Whether this is a push whose bytes contain `what`.
    pub fn is_push(&self, what: &str) -> bool {
        self.way == Way::ToClient && self.command == "PUSH" && self.contains(what)
    }

    /// Whether these bytes are somewhere in the frame.
    pub fn contains(&self, what: &str) -> bool {
        self.bytes.windows(what.len()).any(|window| window == what.as_bytes())
    }
}

type Rule = Box<dyn Fn(&Frame) -> bool + Send>;

struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: usize,
    rules: Vec<(usize, Rule)>,
    held: Vec<HeldFrame>,
    /// What each connection still has to be answered, by number.
    asked: Vec<VecDeque<String>>,
    ended: bool,
}

struct HeldFrame {
    rule: usize,
    ticket: usize,
    frame: Frame,
    fate: Option<Fate>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Pass,
    Lose,
}

impl Director {
    /// Listens before a server. Everything passes at first.
    pub fn before(server: &RedisServer) -> Self {
        let stage = Arc::new(Stage { state: Mutex::default(), changed: Condvar::new() });
        Director { relay: Relay::start(server.socket(), stage.clone()), stage }
    }

    /// The address for clients.
    pub fn url(&self) -> String {
        self.relay.url()
    }

    /// From now on holds what the rule says, until it is let go; dropping what is returned lets everything go.
    pub fn hold(&self, rule: impl Fn(&Frame) -> bool + Send + 'static) -> Hold {
        let mut state = self.stage.state();
        let number = state.next;
        state.next += 1;
        state.rules.push((number, Box::new(rule)));
        Hold { stage: self.stage.clone(), rule: number }
    }

    /// Sends bytes of the test's own to the client of a connection, or to the server on its behalf.
    ///
    /// # Panics
    /// If the connection is closed.
    pub fn inject(&self, connection: usize, way: Way, bytes: &[u8]) {
        let links = self.relay.links();
        let link = links.iter().find(|link| link.number == connection).expect("an open connection");
        link.send(way, bytes).expect("the connection takes it");
    }

    /// Cuts a connection.
    pub fn cut(&self, connection: usize) {
        self.relay.links().iter().filter(|link| link.number == connection).for_each(|link| link.cut());
    }

    /// Cuts every connection.
    pub fn cut_all(&self) {
        self.relay.links().iter().for_each(|link| link.cut());
    }
}

impl Drop for Director {
    fn drop(&mut self) {
        self.stage.state().ended = true;
        self.stage.changed.notify_all();
    }
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("held", &self.state().held.len()).finish_non_exhaustive()
    }
}

/// What a rule holds.
#[derive(Debug)]
#[must_use = "dropping it lets everything go"]
pub struct Hold {
    stage: Arc<Stage>,
    rule: usize,
}

impl Hold {
    /// Waits until something is held, without keeping the caller's runtime from working, and returns it.
    ///
    /// # Panics
    /// If nothing is after [`PATIENCE`].
    pub async fn arrival(&self) -> Frame {
        let began = std::time::Instant::now();
        loop {
            if let Some(frame) = self.first() {
                return frame;
            }
            assert!(began.elapsed() < PATIENCE, "nothing to hold came");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    /// The first of those that are held now.
    pub fn first(&self) -> Option<Frame> {
        let state = self.stage.state();
        let mine = |held: &&HeldFrame| held.rule == self.rule && held.fate.is_none();
        state.held.iter().find(mine).map(|held| held.frame.clone())
    }

    /// How many are held now.
    pub fn count(&self) -> usize {
        let state = self.stage.state();
        state.held.iter().filter(|held| held.rule == self.rule && held.fate.is_none()).count()
    }

    /// Lets the first go.
    pub fn release_one(&self) {
        self.decide_first(Fate::Pass);
    }

    /// Loses the first, and its connection with it: a request that never arrives, or a reply after the effect.
    pub fn lose_one(&self) {
        self.decide_first(Fate::Lose);
    }

    /// Ends the rule and lets everything that it held go.
    pub fn release(self) {}

    fn decide_first(&self, fate: Fate) {
        let mut state = self.stage.state();
        let mine = |held: &&mut HeldFrame| held.rule == self.rule && held.fate.is_none();
        state.held.iter_mut().find(mine).expect("something is held").fate = Some(fate);
        self.stage.changed.notify_all();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.stage.state();
        state.rules.retain(|(number, _)| *number != self.rule);
        for held in state.held.iter_mut().filter(|held| held.rule == self.rule) {
            held.fate.get_or_insert(Fate::Pass);
        }
        self.stage.changed.notify_all();
    }
}

impl Stage {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for what a rule has to say about a frame; an error loses it.
    fn pass(&self, frame: Frame) -> io::Result<()> {
        let mut state = self.state();
        let Some(rule) = state.rules.iter().find(|(_, rule)| rule(&frame)).map(|(number, _)| *number) else {
            return Ok(());
        };
        let ticket = state.next;
        state.next += 1;
        state.held.push(HeldFrame { rule, ticket, frame, fate: None });
        loop {
            let at = state.held.iter().position(|held| held.ticket == ticket).expect("it is held");
            if state.ended || state.held[at].fate.is_some() {
                let held = state.held.remove(at);
                let lost = held.fate != Some(Fate::Pass);
                return if lost { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) };
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What the frame is, by what was asked before it.
    fn name(&self, connection: usize, way: Way, bytes: &[u8]) -> String {
        let mut state = self.state();
        let asked = &mut state.asked[connection];
        if way == Way::ToServer {
            let name = crate::frames::command(bytes);
            // These are answered by pushes.
            if !matches!(name.as_str(), "SUBSCRIBE" | "UNSUBSCRIBE" | "PSUBSCRIBE" | "PUNSUBSCRIBE") {
                asked.push_back(name.clone());
            }
            name
        } else if bytes.starts_with(b">") {
            "PUSH".to_owned()
        } else {
            asked.pop_front().unwrap_or_default()
        }
    }
}

impl Middle for Stage {
    type Side = Frames;

    fn connected(&self, connection: usize) -> Option<[Frames; 2]> {
        let mut state = self.state();
        state.asked.resize_with(connection + 1, VecDeque::new);
        Some([Frames::default(), Frames::default()])
    }

    fn arrived(&self, link: &Link, way: Way, frames: &mut Frames, bytes: &[u8]) -> io::Result<()> {
        frames.push(bytes);
        while let Some(bytes) = frames.next() {
            let command = self.name(link.number, way, &bytes);
            self.pass(Frame { connection: link.number, way, command, bytes: bytes.clone() })?;
            link.send(way, &bytes)?;
        }
        Ok(())
    }
}
