//! Large values: one turn receives, copies or sends one piece, and other connections get their turns in between.

mod edits;
mod growth;
mod limits;
mod reads;
mod slices;
mod transfer;

use std::mem::MaybeUninit;
use std::sync::Weak;

use super::*;
use crate::db::Found;
use crate::values::large::LARGE_BYTES;

/// Some pieces.
const VALUE_BYTES: usize = 4 * LARGE_BYTES;

/// A loop with a connection for the large value and another one.
struct Two {
    state: Arc<ServerState>,
    event_loop: EventLoop,
    large: UnixStream,
    other: UnixStream,
}

impl Two {
    fn new() -> Self {
        Self::with_memory(64 << 20)
    }

    fn with_memory(bytes: u64) -> Self {
        let store = Store::new(Some(bytes)).unwrap();
        let state =
            ServerState::new(Config::default(), store, Arc::new(Stats::new(1, crate::cmd::commands())));
        let state = Arc::new(state);
        let mut event_loop = event_loop(&state);
        let (large_connection, large) = connection(&state);
        let (other_connection, other) = connection(&state);
        event_loop.adopt(large_connection);
        event_loop.adopt(other_connection);
        large.set_nonblocking(true).unwrap();
        other.set_nonblocking(true).unwrap();
        Two { state, event_loop, large, other }
    }

    fn set(&self, name: &str, value: &[u8]) {
        self.state.store.database(0).set(name.as_bytes(), value, Expiry::Never).unwrap();
    }

    fn value(&self, name: &str) -> Option<Vec<u8>> {
        self.state.store.database(0).get(name.as_bytes(), <[u8]>::to_vec).unwrap()
    }

    /// The large value of a key, which may be freed.
    fn weak(&self, name: &str) -> Weak<[MaybeUninit<u8>]> {
        match self.state.store.database(0).get_or_share(name.as_bytes(), |_| ()) {
            Ok(Some(Found::Large(value))) => value.downgrade(),
            _ => panic!("{name} is no large value"),
        }
    }

    /// Whether a command of the first connection is not at its end.
    fn has_long_command(&self) -> bool {
        self.event_loop.connections[0].as_ref().is_some_and(|connection| connection.has_long_command())
    }

    /// Sends as much as the system accepts, and gives turns; returns what is left.
    fn send_some<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let sent = self.large.write(bytes).unwrap_or(0);
        self.turns();
        &bytes[sent..]
    }

    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = self.send_some(bytes);
        }
        self.turns();
    }

    /// One turn for each connection that is ready or has more to do.
    fn turns(&mut self) {
        poll(&mut self.event_loop);
    }

    /// The other connection gets a reply in its next turn.
    fn other_is_served(&mut self) -> bool {
        self.other.write_all(b"PING\r\n").unwrap();
        self.turns();
        let mut reply = [0; 100];
        self.other.read(&mut reply).is_ok_and(|length| &reply[..length] == b"+PONG\r\n")
    }

    /// Reads what has been sent.
    fn receive(&mut self) -> Vec<u8> {
        let (mut received, mut piece) = (Vec::new(), vec![0; LARGE_BYTES]);
        while let Ok(length @ 1..) = self.large.read(&mut piece) {
            received.extend_from_slice(&piece[..length]);
        }
        received
    }

    /// Reads until so many bytes have arrived; returns them with the number of rounds in which the other was served.
    fn receive_beside_other(&mut self, length: usize) -> (Vec<u8>, usize) {
        let (mut received, mut rounds) = (Vec::new(), 0);
        while received.len() < length {
            assert!(self.other_is_served(), "the other waits after {} bytes", received.len());
            rounds += 1;
            received.extend(self.receive());
        }
        (received, rounds)
    }
}

/// Bytes that tell where they are.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 1000 % 251) as u8).collect()
}
