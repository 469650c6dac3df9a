//! What one simulated server holds, and the commands on it: those that the protocol uses.

use super::script::{self, Script};
use larder_glob::Pattern;
use larder_resp::Encoder;
use std::collections::BTreeMap;

/// A command with its arguments.
pub(super) type Command = Vec<Vec<u8>>;

/// A message on a channel.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) channel: Vec<u8>,
    pub(super) message: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Store(BTreeMap<Vec<u8>, Stored>);

#[derive(Clone, Debug)]
pub(super) struct Stored {
    content: Content,
    /// In microseconds.
    expires: Option<u64>,
}

#[derive(Clone, Debug)]
enum Content {
    Bytes(Vec<u8>),
    /// A sorted set, whose scores are whole numbers.
    Scores(BTreeMap<Vec<u8>, u64>),
}

pub(super) fn slot_of(key: &[u8]) -> u16 {
    larder_testkit::slot_of(&String::from_utf8_lossy(key))
}

/// Whether a command needs the slot of a key. The name is in capital letters.
pub(super) fn key_of<'a>(name: &[u8], command: &'a [Vec<u8>]) -> Option<&'a [u8]> {
    let at = match name {
        b"GET" | b"GETRANGE" | b"SET" | b"UNLINK" | b"GETDEL" | b"ZMSCORE" | b"ZSCORE" | b"ZADD" => 1,
        b"EVALSHA" => 3,
        _ => return None,
    };
    command.get(at).map(|key| &key[..])
}

/// Whether a command changes something, or may: a server that hands over makes it wait.
pub(super) fn is_write(name: &[u8]) -> bool {
    matches!(name, b"SET" | b"UNLINK" | b"GETDEL" | b"ZADD" | b"EVALSHA" | b"PUBLISH")
}

impl Store {
    pub(super) fn has(&mut self, key: &[u8], now: u64) -> bool {
        self.live(key, now).is_some()
    }

    fn live(&mut self, key: &[u8], now: u64) -> Option<&mut Stored> {
        if self.0.get(key).is_some_and(|stored| stored.expires.is_some_and(|expires| expires <= now)) {
            self.0.remove(key);
        }
        self.0.get_mut(key)
    }

    pub(super) fn bytes(&mut self, key: &[u8], now: u64) -> Option<&mut Vec<u8>> {
        match &mut self.live(key, now)?.content {
            Content::Bytes(bytes) => Some(bytes),
            Content::Scores(_) => None,
        }
    }

    pub(super) fn put(&mut self, key: &[u8], bytes: Vec<u8>, expires: Option<u64>) {
        self.0.insert(key.to_vec(), Stored { content: Content::Bytes(bytes), expires });
    }

    pub(super) fn expire(&mut self, key: &[u8], at: u64) {
        if let Some(stored) = self.0.get_mut(key) {
            stored.expires = Some(at);
        }
    }

    pub(super) fn remove(&mut self, key: &[u8], now: u64) -> Option<Stored> {
        self.live(key, now)?;
        self.0.remove(key)
    }

    pub(super) fn insert(&mut self, key: Vec<u8>, stored: Stored) {
        self.0.insert(key, stored);
    }

    /// The sorted set under a key, made if there is none.
    pub(super) fn scores(&mut self, key: &[u8]) -> &mut BTreeMap<Vec<u8>, u64> {
        let empty = || Stored { content: Content::Scores(BTreeMap::new()), expires: None };
        let stored = self.0.entry(key.to_vec()).or_insert_with(empty);
        match &mut stored.content {
            Content::Scores(scores) => scores,
            Content::Bytes(_) => panic!("{} is no sorted set", String::from_utf8_lossy(key)),
        }
    }

    fn score(&self, key: &[u8], member: &[u8]) -> Option<u64> {
        match &self.0.get(key)?.content {
            Content::Scores(scores) => scores.get(member).copied(),
            Content::Bytes(_) => None,
        }
    }

    pub(super) fn retain(&mut self, stays: impl Fn(&[u8]) -> bool) {
        self.0.retain(|key, _| stays(key));
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.0.keys()
    }

    /// Executes a command on keys, and writes the reply. `history` is that of the server.
    ///
    /// # Panics
    /// On a command that the protocol does not use.
    pub(super) fn execute(
        &mut self,
        history: u64,
        name: &[u8],
        command: &[Vec<u8>],
        script: Option<Script>,
        now: u64,
        out: &mut Encoder<'_>,
    ) -> Vec<Published> {
        let key = &command[1];
        match name {
            b"GET" => bulk(out, self.bytes(key, now).map(|bytes| &bytes[..])),
            b"GETRANGE" => {
                let end = number(&command[3]) as usize + 1;
                let bytes = self.bytes(key, now).map_or(&[][..], |bytes| &bytes[..bytes.len().min(end)]);
                out.bulk(bytes);
            }
            b"GETDEL" => {
                let bytes = self.bytes(key, now).cloned();
                self.remove(key, now);
                bulk(out, bytes.as_deref());
            }
            b"UNLINK" => out.integer(self.remove(key, now).is_some().into()),
            b"SET" => self.set(command, now, out),
            b"ZSCORE" => score(out, self.score(key, &command[2])),
            b"ZMSCORE" => {
                out.array(command.len() - 2);
                command[2..].iter().for_each(|member| score(out, self.score(key, member)));
            }
            b"ZADD" => {
                // The protocol adds with NX.
                let members = command[3..].chunks(2);
                out.integer(members.len() as i64);
                let scores = self.scores(key);
                members.for_each(|pair| _ = scores.entry(pair[1].clone()).or_insert(number(&pair[0])));
            }
            b"SCAN" => {
                let glob = Pattern::new(&command[3]).expect("the library has checked it");
                let matches: Vec<_> = self.0.keys().filter(|key| glob.matches(key)).collect();
                out.array(2);
                out.bulk(b"0");
                out.array(matches.len());
                matches.into_iter().for_each(|key| out.bulk(key));
            }
            b"EVALSHA" => {
                return script::run(self, history, script.expect("it was found"), command, now, out);
            }
            name => panic!("the simulated server has no {}", String::from_utf8_lossy(name)),
        }
        Vec::new()
    }

    /// `SET key value [PX ms | PXAT ms | EX s] [NX GET]`
    fn set(&mut self, command: &[Vec<u8>], now: u64, out: &mut Encoder<'_>) {
        let expires = match (&command[3][..], number(&command[4])) {
            (b"PX", ms) => now + ms * 1_000,
            (b"PXAT", ms) => ms * 1_000,
            (_, seconds) => now + seconds * 1_000_000,
        };
        let is_lease = command.len() > 5;
        let before = self.bytes(&command[1], now).map(|bytes| bytes.clone());
        if !is_lease || before.is_none() {
            self.put(&command[1], command[2].clone(), Some(expires));
        }
        match is_lease {
            true => bulk(out, before.as_deref()),
            false => out.simple("OK"),
        }
    }
}

/// A number among arguments.
pub(super) fn number(argument: &[u8]) -> u64 {
    let text = std::str::from_utf8(argument).expect("a number");
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

fn bulk(out: &mut Encoder<'_>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => out.bulk(bytes),
        None => out.null(),
    }
}

fn score(out: &mut Encoder<'_>, score: Option<u64>) {
    match score {
        Some(score) => out.double(score as f64),
        None => out.null(),
    }
}
