//! A proxy that follows the script of a test: it holds requests, replies and pushes between clients and a real server,
//! forwards them one by one, drops them, or injects others. A test orders the messages of several connections with it.
//!
//! ```text
//! client ──► request ──► held? ──► server
//!    ▲                               │
//!    └────── held? ◄── reply, push ◄─┘       connections are independent: a test can force any order
//! ```
//!
//! Within one direction of one connection the order stays as it is: behind a held frame everything waits, as on a wire.

use crate::frames::Frames;
use crate::proxy::{Connection, Direction, Interceptor, Proxy};
use crate::redis::RedisServer;
use crate::wait::eventually;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A TCP port before a [`RedisServer`] whose messages a test orders.
#[derive(Debug)]
pub struct ScriptedProxy {
    proxy: Proxy,
    script: Arc<Script>,
}

/// One whole request, reply or push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The number of the connection, from 0 in the order in which they came.
    pub connection: usize,
    /// Where it is sent.
    pub direction: Direction,
    /// The name of the command, in capitals: of the request itself, or of the one that a reply answers. `PUSH` for
    /// pushes.
    pub command: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The bytes of the request that it answers; none for a request or a push.
    pub request: Vec<u8>,
}

impl Frame {
    /// Whether this is the request of a command.
    pub fn is_request(&self, command: &str) -> bool {
        self.direction == Direction::ToServer && self.command == command
    }

    /// Whether this is the reply to a command.
    pub fn is_reply(&self, command: &str) -> bool {
        self.direction == Direction::ToClient && self.command == command
    }

    /// Whether this is a push whose bytes contain `what`.
    pub fn is_push(&self, what: &str) -> bool {
        self.direction == Direction::ToClient && self.command == "PUSH" && self.contains(what)
    }

    /// Whether these bytes are somewhere in the frame.
    pub fn contains(&self, what: &str) -> bool {
        contain(&self.bytes, what)
    }

    /// Whether these bytes are somewhere in the request that it answers.
    pub fn answers(&self, what: &str) -> bool {
        contain(&self.request, what)
    }
}

fn contain(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

type Rule = Box<dyn Fn(&Frame) -> bool + Send>;

struct Script {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: usize,
    rules: Vec<(usize, Rule)>,
    held: Vec<HeldFrame>,
    /// The requests of each connection that are not answered yet, by its number.
    unanswered: Vec<VecDeque<Vec<u8>>>,
    ended: bool,
}

struct HeldFrame {
    rule: usize,
    ticket: usize,
    frame: Frame,
    decision: Option<Decision>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    Forward,
    Drop,
}

impl ScriptedProxy {
    /// Listens before a server. Everything passes at first.
    pub fn before(server: &RedisServer) -> Self {
        let script = Arc::new(Script { state: Mutex::default(), changed: Condvar::new() });
        ScriptedProxy { proxy: Proxy::start(server.socket(), script.clone()), script }
    }

    /// The address for clients.
    pub fn url(&self) -> String {
        self.proxy.url()
    }

    /// Holds every frame for which the rule is true from now on. Dropping the [`Hold`] ends the rule and forwards what it held.
    pub fn hold(&self, rule: impl Fn(&Frame) -> bool + Send + 'static) -> Hold {
        let mut state = self.script.state();
        let number = state.next;
        state.next += 1;
        state.rules.push((number, Box::new(rule)));
        Hold { script: self.script.clone(), rule: number }
    }

    /// Sends bytes to the client of a connection, or to the server as if they came from that client.
    ///
    /// # Panics
    /// If the connection is closed.
    pub fn inject(&self, connection: usize, direction: Direction, bytes: &[u8]) {
        let connections = self.proxy.connections();
        let open = connections.iter().find(|open| open.number == connection).expect("an open connection");
        open.send(direction, bytes).expect("the connection takes it");
    }

    /// Forwards what is held, and returns once the client has handled it. The client must send `command` again and again,
    /// each time after the reply to the one before, on the connection on which it gets what is held.
    pub async fn forward_before(&self, held: Hold, command: &'static str) {
        let replies = self.hold(move |frame| frame.is_reply(command));
        drop(held);
        // Whoever sends the command again has had the reply to the one before, and before that what was held.
        replies.arrival().await;
        replies.release_one();
        replies.arrival().await;
    }

    /// The numbers of the connections that are open.
    pub fn open(&self) -> Vec<usize> {
        self.proxy.connections().iter().map(|open| open.number).collect()
    }

    /// Closes a connection on both sides.
    pub fn cut(&self, connection: usize) {
        self.proxy.connections().iter().filter(|open| open.number == connection).for_each(|open| open.cut());
    }

    /// Closes every connection on both sides.
    pub fn cut_all(&self) {
        self.proxy.connections().iter().for_each(|connection| connection.cut());
    }
}

impl Drop for ScriptedProxy {
    fn drop(&mut self) {
        self.script.state().ended = true;
        self.script.changed.notify_all();
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script").field("held", &self.state().held.len()).finish_non_exhaustive()
    }
}

/// The frames that a rule holds.
#[derive(Debug)]
#[must_use = "dropping it forwards everything"]
pub struct Hold {
    script: Arc<Script>,
    rule: usize,
}

impl Hold {
    /// Waits until a frame is held, without blocking the runtime, and returns the first.
    ///
    /// # Panics
    /// If there is none within [`PATIENCE`](crate::PATIENCE).
    pub async fn arrival(&self) -> Frame {
        eventually("the proxy holds a frame", async || self.first().is_some()).await;
        self.first().expect("only the holder of this lets it go")
    }

    /// The first frame that is held now.
    pub fn first(&self) -> Option<Frame> {
        let state = self.script.state();
        let mine = |held: &&HeldFrame| held.rule == self.rule && held.decision.is_none();
        state.held.iter().find(mine).map(|held| held.frame.clone())
    }

    /// How many frames are held now.
    pub fn count(&self) -> usize {
        let state = self.script.state();
        state.held.iter().filter(|held| held.rule == self.rule && held.decision.is_none()).count()
    }

    /// Forwards the first.
    pub fn release_one(&self) {
        self.decide_first(Decision::Forward);
    }

    /// Drops the first and cuts its connection: a request that never arrives, or a reply that is lost after the effect.
    pub fn lose_one(&self) {
        self.decide_first(Decision::Drop);
    }

    /// Ends the rule and forwards what it held.
    pub fn release(self) {}

    fn decide_first(&self, decision: Decision) {
        let mut state = self.script.state();
        let mine = |held: &&mut HeldFrame| held.rule == self.rule && held.decision.is_none();
        state.held.iter_mut().find(mine).expect("something is held").decision = Some(decision);
        self.script.changed.notify_all();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.script.state();
        state.rules.retain(|(number, _)| *number != self.rule);
        for held in state.held.iter_mut().filter(|held| held.rule == self.rule) {
            held.decision.get_or_insert(Decision::Forward);
        }
        self.script.changed.notify_all();
    }
}

impl Script {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the decision about a frame; an error drops it.
    fn decide(&self, frame: Frame) -> io::Result<()> {
        let mut state = self.state();
        let Some(rule) = state.rules.iter().find(|(_, rule)| rule(&frame)).map(|(number, _)| *number) else {
            return Ok(());
        };
        let ticket = state.next;
        state.next += 1;
        state.held.push(HeldFrame { rule, ticket, frame, decision: None });
        loop {
            let at = state.held.iter().position(|held| held.ticket == ticket).expect("it is held");
            if state.ended || state.held[at].decision.is_some() {
                let held = state.held.remove(at);
                let is_dropped = held.decision != Some(Decision::Forward);
                return if is_dropped { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) };
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The frame with its command, or that of the request that it answers.
    fn frame(&self, connection: usize, direction: Direction, bytes: Vec<u8>) -> Frame {
        let mut state = self.state();
        let unanswered = &mut state.unanswered[connection];
        let (command, request) = if direction == Direction::ToServer {
            let command = crate::frames::command(&bytes);
            // These are answered by pushes.
            if !matches!(command.as_str(), "SUBSCRIBE" | "UNSUBSCRIBE" | "PSUBSCRIBE" | "PUNSUBSCRIBE") {
                unanswered.push_back(bytes.clone());
            }
            (command, Vec::new())
        } else if bytes.starts_with(b">") {
            ("PUSH".to_owned(), Vec::new())
        } else {
            let request = unanswered.pop_front().unwrap_or_default();
            (crate::frames::command(&request), request)
        };
        Frame { connection, direction, command, bytes, request }
    }
}

impl Interceptor for Script {
    type Side = Frames;

    fn connected(&self, connection: usize) -> Option<[Frames; 2]> {
        let mut state = self.state();
        state.unanswered.resize_with(connection + 1, VecDeque::new);
        Some([Frames::default(), Frames::default()])
    }

    fn arrived(
        &self,
        connection: &Connection,
        direction: Direction,
        frames: &mut Frames,
        bytes: &[u8],
    ) -> io::Result<()> {
        frames.push(bytes);
        while let Some(bytes) = frames.next() {
            self.decide(self.frame(connection.number, direction, bytes.clone()))?;
            connection.send(direction, &bytes)?;
        }
        Ok(())
    }
}
