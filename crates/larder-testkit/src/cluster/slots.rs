//! Hash slots: which one a key has, and how one moves to another primary, step by step.

use super::Cluster;
use crate::frames::Frames;
use crate::wait::PATIENCE;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub(super) const SLOTS: u16 = 16384;
/// How many keys move at once.
pub(super) const BATCH: &str = "1000";

/// The slot of a key: the CRC16 of what is between the first `{` and the next `}`, or, if that is empty, of the whole key.
pub fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    let shifted = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    let crc =
        hashed.bytes().fold(0, |crc, byte| (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| shifted(crc)));
    crc % SLOTS
}

impl Cluster {
    /// Begins to move a slot to another primary. The former owner still answers for the keys that it has, and with ASK for
    /// all others.
    ///
    /// # Panics
    /// If a server refuses.
    pub fn begin_move(&self, slot: u16, to: usize) {
        let from = self.owner(slot);
        self.execute(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.id(from)));
        self.execute(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.id(to)));
    }

    /// Moves the keys that the slot has now, between [`Cluster::begin_move`] and [`Cluster::end_move`]. Returns their number.
    ///
    /// # Panics
    /// If a server refuses.
    pub fn move_keys(&self, slot: u16, to: usize) -> usize {
        let (from, slot, port) = (self.owner(slot), slot.to_string(), self.port(to).to_string());
        let host = self.servers[to].identity.host;
        let mut moved = 0;
        loop {
            let reply =
                self.request(from, &[b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), BATCH.as_bytes()]);
            let keys = items(&reply);
            if keys.is_empty() {
                return moved;
            }
            let mut request: Vec<&[u8]> =
                vec![b"MIGRATE", host.as_bytes(), port.as_bytes(), b"", b"0", b"5000", b"KEYS"];
            request.extend(keys.iter().map(Vec::as_slice));
            let reply = self.request(from, &request);
            // Keys may expire, or be removed by others, in between: of all of them, nothing is left to move.
            let is_done = [&b"+OK\r\n"[..], b"+NOKEY\r\n"].contains(&&reply[..]);
            assert!(is_done, "{}", String::from_utf8_lossy(&reply));
            moved += keys.len();
        }
    }

    /// Ends the move of a slot that has no keys left at its former owner: all primaries know the new one, and the new one knows
    /// it first.
    ///
    /// # Panics
    /// If a server refuses.
    pub fn end_move(&self, slot: u16, to: usize) {
        let from = self.owner(slot);
        let others =
            self.answering().filter(|server| ![from, to].contains(server) && self.is_primary(*server));
        let others: Vec<_> = others.collect();
        for server in [to, from].into_iter().chain(others) {
            self.execute(server, &format!("CLUSTER SETSLOT {slot} NODE {}", self.id(to)));
        }
    }

    /// Moves a slot with its keys to another primary, in all three steps. Returns the number of keys.
    ///
    /// # Panics
    /// If a server refuses.
    pub fn move_slot(&self, slot: u16, to: usize) -> usize {
        self.begin_move(slot, to);
        let moved = self.move_keys(slot, to);
        self.end_move(slot, to);
        moved
    }

    /// Sends one command to a server and returns the whole reply.
    fn request(&self, server: usize, words: &[&[u8]]) -> Vec<u8> {
        let reply = exchange(&self.servers[server].process.socket(), PATIENCE, &[words]);
        let reply = reply.unwrap_or_else(|error| panic!("server {server} does not answer: {error}"));
        reply.into_iter().next().expect("a reply to each command")
    }
}

/// Sends commands on one connection, one after the other, and returns the replies, each within this time.
pub(super) fn exchange(socket: &Path, limit: Duration, commands: &[&[&[u8]]]) -> io::Result<Vec<Vec<u8>>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let (mut frames, mut bytes) = (Frames::default(), vec![0; 1 << 16]);
    let exchanged = commands.iter().map(|words| {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in *words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend_from_slice(word);
            request.extend(b"\r\n");
        }
        stream.write_all(&request)?;
        loop {
            if let Some(reply) = frames.next() {
                return Ok(reply);
            }
            match stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => frames.push(&bytes[..length]),
            }
        }
    });
    exchanged.collect()
}

/// The strings of an array.
pub(super) fn items(reply: &[u8]) -> Vec<Vec<u8>> {
    let without_line = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut frames = Frames::default();
    frames.push(&reply[without_line(reply)..]);
    let items = std::iter::from_fn(|| frames.next());
    items.map(|item| item[without_line(&item)..item.len() - 2].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // The examples of the documentation of CLUSTER KEYSLOT, and the check value of its CRC16.
        assert_eq!(
            (slot_of("somekey"), slot_of("foo{hash_tag}"), slot_of("bar{hash_tag}")),
            (11058, 2515, 2515)
        );
        assert_eq!(slot_of("123456789"), 0x31c3);
        assert_eq!(slot_of("{a}{b}"), slot_of("a"));
        assert_ne!(slot_of("x{}{a}"), slot_of("a"), "an empty tag is none");
    }

    #[test]
    fn items_of_an_array_are_cut() {
        assert_eq!(items(b"*2\r\n$1\r\na\r\n$3\r\n\r\nb\r\n"), [b"a".to_vec(), b"\r\nb".to_vec()]);
        assert!(items(b"*0\r\n").is_empty());
    }
}
