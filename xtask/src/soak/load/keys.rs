//! The load of the cache server: more keys than it has room for, with values of several types and TTLs.

use crate::soak::random::Random;
use crate::soak::shared::{Pace, Shared};
use crate::soak::tally::Kind;
use crate::soak::wire::{Reply, Resp};
use anyhow::{Result, ensure};
use std::net::SocketAddr;

/// Their values take about 160 MB.
const STRINGS: usize = 80_000;
/// Counters, lists and hashes each.
const OTHERS: usize = 2_000;
/// Commands a second of each thread.
const COMMANDS: f64 = 100.0;
pub(in crate::soak) const KEY_THREADS: usize = 2;
const LONGEST_LIST: &str = "99";
const HASH_FIELDS: usize = 50;
/// A pipeline of the first keys.
const BATCH: usize = 200;

/// The cache server.
#[derive(Clone, Copy, Debug)]
pub(in crate::soak) struct Keys(SocketAddr);

impl Keys {
    /// Fills the server, so that it evicts from the beginning.
    pub(in crate::soak) fn fill(address: SocketAddr) -> Result<Self> {
        let mut client = Resp::new(address);
        for first in (0..STRINGS).step_by(BATCH) {
            let values: Vec<[String; 2]> =
                (first..first + BATCH).map(|number| [key(number), value(number)]).collect();
            let commands: Vec<Vec<&str>> = values
                .iter()
                .map(|[key, value]| vec!["SET", key.as_str(), value.as_str(), "EX", "3600"])
                .collect();
            let replies = client.pipeline(&commands)?;
            let is_stored = |reply: &Reply| *reply == Reply::Text(b"OK".to_vec());
            ensure!(replies.iter().all(is_stored), "the cache server did not store: {replies:?}");
        }
        Ok(Keys(address))
    }

    /// Sends commands of all kinds.
    pub(in crate::soak) fn use_them(self, shared: &Shared, mut random: Random) {
        let mut client = Resp::new(self.0);
        let mut pace = Pace::per_second(COMMANDS);
        while pace.wait(shared) {
            let number = random.skewed(STRINGS);
            let (kind, words) = command(number, &mut random);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let begun = shared.begin();
            let reply = client.command(&words);
            let error = match &reply {
                Ok(Reply::Error(error)) => Some(error.clone()),
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            };
            shared.record(kind, begun, error);
            if let (Kind::Get, Ok(Reply::Text(found))) = (kind, &reply)
                && *found != value(number).as_bytes()
            {
                shared.fail(format!("{} has another value than it was given", words[1]));
            }
        }
    }
}

fn key(number: usize) -> String {
    format!("string:{number}")
}

/// From 1 to 3 KiB, and to be told from that of any other key.
fn value(number: usize) -> String {
    format!("{number}:").repeat(1 + (1_024 + number % 2_048) / (number.to_string().len() + 1))
}

/// A command of some kind, with its words.
fn command(number: usize, random: &mut Random) -> (Kind, Vec<String>) {
    let other = number % OTHERS;
    let seconds = random.below(3_600) + 60;
    let (kind, words) = match random.below(20) {
        0..10 => (Kind::Get, format!("GET {}", key(number))),
        10..14 => (Kind::Set, format!("SET {} {} EX {seconds}", key(number), value(number))),
        14 => (Kind::Incr, format!("INCR counter:{other}")),
        15 => (Kind::Incr, format!("EXPIRE counter:{other} {seconds}")),
        16 => match random.below(3) {
            0 => (Kind::List, format!("LRANGE list:{other} 0 9")),
            1 => (Kind::List, format!("LTRIM list:{other} 0 {LONGEST_LIST}")),
            _ => (Kind::List, format!("EXPIRE list:{other} {seconds}")),
        },
        17 => (Kind::List, format!("LPUSH list:{other} {}", value(other))),
        18 => match random.below(2) {
            0 => (Kind::Hash, format!("HGETALL hash:{other}")),
            _ => (Kind::Hash, format!("EXPIRE hash:{other} {seconds}")),
        },
        _ => {
            let field = random.below(HASH_FIELDS);
            (Kind::Hash, format!("HSET hash:{other} field:{field} {seconds}"))
        }
    };
    (kind, words.split(' ').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_long_and_differ() {
        assert_ne!(value(1), value(11));
        assert!((0..STRINGS).step_by(997).all(|number| (1_024..3_200).contains(&value(number).len())));
    }

    #[test]
    fn commands_are_of_all_kinds() {
        let mut random = Random::new(1, 0);
        let kinds: Vec<Kind> = (0..200).map(|_| command(7, &mut random).0).collect();
        for kind in [Kind::Get, Kind::Set, Kind::Incr, Kind::List, Kind::Hash] {
            assert!(kinds.contains(&kind), "{kind:?}");
        }
    }
}
