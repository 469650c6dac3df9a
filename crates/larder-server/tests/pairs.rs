//! Features that take effect together: large values, each family of commands, transactions, scripts, tracking and eviction.
//!
//! Random requests go to a real Redis and to this server, and must get equal replies; then to a server that is full, where
//! whoever tracks a key must be told of each change. Each pair of features that took effect in one request is counted: a
//! pair that no request has had makes the test fail, because nothing was tested then.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;

use larder_resp::{Frame, Protocol};
use larder_server::{ByteSize, Config};
use larder_testkit::RedisServer;

use crate::support::{Client, TestServer, connect_unix};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Feature {
    Strings,
    Bits,
    Counters,
    SortedSets,
    Hashes,
    Lists,
    Sets,
    Streams,
    HyperLogLogs,
    Keys,
    Serialized,
    /// An argument or a value of 1 MiB or more.
    Large,
    Transaction,
    Script,
    /// A connection was told that a key has changed.
    Tracking,
    Eviction,
}

use Feature::*;

const FAMILIES: [Feature; 11] =
    [Strings, Bits, Counters, SortedSets, Hashes, Lists, Sets, Streams, HyperLogLogs, Keys, Serialized];
const OTHERS: [Feature; 5] = [Large, Transaction, Script, Tracking, Eviction];
const LARGE_BYTES: usize = 1_100_000;
const ROUNDS: usize = 1_200;
/// The most runs on a full server.
const MAX_RUNS: usize = 5;
/// Most commands of a transaction.
const MAX_COMMANDS: usize = 3;

/// A linear congruential generator, whose high bits are good enough.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// One command of a request.
struct Command {
    family: Feature,
    words: Vec<String>,
    is_large: bool,
}

fn command(random: &mut Random) -> Command {
    let family = FAMILIES[random.below(FAMILIES.len())];
    let is_large = random.below(3) == 0;
    let text = if is_large { "x".repeat(LARGE_BYTES) } else { format!("text{}", random.below(9)) };
    let end = if is_large { LARGE_BYTES } else { 20 };
    let [one, two] = [(); 2].map(|()| random.below(3));
    let line = match family {
        Strings => random.of(&[
            "SET s{1} {text}",
            "APPEND s{1} {text}",
            "SETRANGE s{1} {end} x",
            "GETDEL s{1}",
            "GETSET s{1} {text}",
            "STRLEN s{1}",
            "MSET s{1} {text} s{2} y",
            "GETRANGE s{1} 0 9",
        ]),
        Bits => random.of(&[
            "SETBIT s{1} {end}0 1",
            "GETBIT s{1} 7",
            "BITCOUNT s{1}",
            "BITPOS s{1} 1",
            "BITOP XOR s{1} s{2} s0",
            "BITFIELD s{1} INCRBY u8 {end} 3",
        ]),
        Counters => random.of(&["INCR n{1}", "DECRBY n{1} 7", "INCRBYFLOAT f{1} 0.5"]),
        SortedSets => random.of(&[
            "ZADD z{1} {2} {text}",
            "ZINCRBY z{1} 1.5 {text}",
            "ZRANGE z{1} 0 0 WITHSCORES",
            "ZREM z{1} {text}",
            "ZUNIONSTORE z{1} 2 z0 z{2}",
            "ZPOPMIN z{1}",
        ]),
        Hashes => random.of(&[
            "HSET m{1} f{2} {text}",
            "HSET m{1} {text} 1",
            "HINCRBY m{1} n 3",
            "HDEL m{1} f{2} {text}",
            "HMGET m{1} f0 f1 f2",
            "HSTRLEN m{1} f{2}",
            "COPY m{1} m{2} REPLACE",
        ]),
        Lists => random.of(&[
            "RPUSH l{1} {text} {text}",
            "LPUSH l{1} {text}",
            "LMOVE l{1} l{2} RIGHT LEFT",
            "LPOP l{1} 2",
            "LRANGE l{1} 0 -1",
            "LSET l{1} 0 {text}",
            "LREM l{1} 1 {text}",
        ]),
        Sets => random.of(&[
            "SADD t{1} {text} m{2}",
            "SREM t{1} m{2}",
            "SMOVE t{1} t{2} m{2}",
            "SINTERSTORE t{1} t0 t{2}",
            "SISMEMBER t{1} m{2}",
            "SCARD t{1}",
        ]),
        Streams => random.of(&[
            "XADD x{1} {1}-* f{2} {text}",
            "XADD x{1} MAXLEN 3 {2}-* f 1 {text} 2",
            "XDEL x{1} {2}-0 {2}-1",
            "XTRIM x{1} MAXLEN {2}",
            "XRANGE x{1} {2} + COUNT 2",
            "XREAD COUNT 1 STREAMS x{1} {2}",
            "COPY x{1} x{2} REPLACE",
        ]),
        HyperLogLogs => random.of(&["PFADD h{1} {text}", "PFCOUNT h{1} h{2}", "PFMERGE h{1} h{2}"]),
        Keys => random.of(&[
            "DEL s{1}",
            "EXISTS s{1} z{2}",
            "RENAME s{1} s{2}",
            "COPY s{1} s{2} REPLACE",
            "EXPIRE s{1} 1000",
            "PERSIST s{1}",
            "TYPE s{1}",
            "TOUCH s{1} s{2}",
        ]),
        // The payloads of both servers differ.
        _ => random.of(&[
            "EVAL {dump} 1 s{1}",
            "EVAL {restore} 2 s{1} s{2}",
            "EVAL {dump} 1 m{1}",
            "EVAL {restore} 2 m{1} m{2}",
        ]),
    };
    let fill = |word: &str| match word {
        "{dump}" => "return redis.call('DUMP', KEYS[1]) and 1 or 0".to_owned(),
        "{restore}" => "local payload = redis.call('DUMP', KEYS[1]) \
                        return payload and redis.call('RESTORE', KEYS[2], 0, payload, 'REPLACE') or 0"
            .to_owned(),
        word => word
            .replace("{1}", &one.to_string())
            .replace("{2}", &two.to_string())
            .replace("{end}", &end.to_string())
            .replace("{text}", &text),
    };
    let words: Vec<String> = line.split(' ').map(fill).collect();
    Command { family, is_large: is_large && (line.contains("{text}") || line.contains("{end}")), words }
}

/// One request, or one transaction.
struct Request {
    commands: Vec<Command>,
    is_transaction: bool,
}

impl Request {
    fn new(random: &mut Random) -> Self {
        let is_transaction = random.below(2) == 0;
        let count = if is_transaction { 1 + random.below(MAX_COMMANDS) } else { 1 };
        let mut commands: Vec<Command> = (0..count).map(|_| command(random)).collect();
        for command in &mut commands {
            if command.words[0] != "EVAL" && random.below(3) == 0 {
                let script = ["EVAL", "return redis.call(unpack(ARGV))", "0"].map(str::to_owned);
                command.words.splice(0..0, script);
            }
        }
        Request { commands, is_transaction }
    }

    /// Executes it; returns the reply to each command.
    fn execute<S: Read + Write>(&self, client: &mut Client<S>) -> Vec<Frame> {
        if !self.is_transaction {
            return self.commands.iter().map(|command| client.call(&command.words)).collect();
        }
        client.call(&["MULTI"]);
        self.commands.iter().for_each(|command| _ = client.call(&command.words));
        match client.call(&["EXEC"]) {
            Frame::Array(replies) => replies,
            refused => vec![refused; self.commands.len()],
        }
    }

    /// What has taken effect. `large` are the keys with large values before it.
    fn effects(&self, replies: &[Frame], large: &BTreeSet<String>) -> BTreeSet<Feature> {
        let mut effects = BTreeSet::new();
        for (command, reply) in self.commands.iter().zip(replies) {
            if matches!(reply, Frame::Error(_)) {
                continue;
            }
            effects.insert(command.family);
            let is_large = command.is_large || command.words.iter().any(|word| large.contains(word));
            effects.extend(is_large.then_some(Large));
            effects.extend((command.words[0] == "EVAL").then_some(Script));
            effects.extend(self.is_transaction.then_some(Transaction));
        }
        effects
    }

    fn keys(&self) -> impl Iterator<Item = &String> {
        self.commands.iter().flat_map(|command| &command.words)
    }
}

/// All keys that are used, and what tells whether the value of each has changed.
const KEYS: [(&str, &[&str]); 9] = [
    ("s", &["STRLEN", "BITCOUNT"]),
    ("n", &["STRLEN", "BITCOUNT"]),
    ("f", &["STRLEN", "BITCOUNT"]),
    ("z", &["ZCARD"]),
    ("m", &["HLEN", "HVALS"]),
    ("l", &["LLEN"]),
    ("t", &["SCARD"]),
    ("x", &["XLEN", "XINFO STREAM"]),
    ("h", &["STRLEN"]),
];

fn snapshot(client: &mut Client<TcpStream>) -> BTreeMap<String, Vec<Frame>> {
    let keys =
        KEYS.iter().flat_map(|(start, reads)| (0..3).map(move |number| (format!("{start}{number}"), reads)));
    keys.map(|(key, reads)| {
        let replies = reads.iter().map(|read| client.call(&[read, key.as_str()])).collect();
        (key, replies)
    })
    .collect()
}

/// A connection that tracks all keys.
struct Tracker(Client<TcpStream>);

impl Tracker {
    fn start(server: &TestServer) -> Self {
        let mut client = server.connect_as(Protocol::Resp3);
        client.call(&["CLIENT", "TRACKING", "on"]);
        Tracker(client)
    }

    /// Registers for the next change of each key, and drops what has come before.
    fn read_all(&mut self) {
        let keys = KEYS.iter().flat_map(|(start, _)| (0..3).map(move |number| format!("{start}{number}")));
        self.0.send(&crate::support::encode(&[vec!["EXISTS".to_owned()], keys.collect()].concat()));
        self.0.receive_until(|frame| matches!(frame, Frame::Integer(_)));
    }

    /// The keys that it was told of.
    fn told(&mut self) -> BTreeSet<String> {
        self.0.send(b"PING\r\n");
        let frames = self.0.receive_until(|frame| matches!(frame, Frame::Simple(_)));
        let names = frames.iter().filter_map(|frame| match frame {
            Frame::Push(parts) => parts.last(),
            _ => None,
        });
        let names =
            names.filter_map(|names| if let Frame::Array(names) = names { Some(names) } else { None });
        names.flatten().filter_map(|name| String::from_utf8(name.as_bytes()?.to_vec()).ok()).collect()
    }
}

fn evicted(client: &mut Client<TcpStream>) -> u64 {
    let reply = client.call(&["INFO", "stats"]);
    let text = String::from_utf8_lossy(reply.as_bytes().expect("a text")).into_owned();
    let number = text.split("evicted_keys:").nth(1).and_then(|rest| rest.split('\r').next());
    number.and_then(|number| number.parse().ok()).expect("a number")
}

/// How many requests had both features of each pair.
#[derive(Default)]
struct Pairs(BTreeMap<(Feature, Feature), usize>);

impl Pairs {
    fn count(&mut self, effects: &BTreeSet<Feature>) {
        for one in effects {
            effects.range(one..).skip(1).for_each(|other| *self.0.entry((*one, *other)).or_default() += 1);
        }
    }

    fn missing(&self) -> Vec<(Feature, Feature)> {
        let all: BTreeSet<Feature> = FAMILIES.into_iter().chain(OTHERS).collect();
        let pairs = all.iter().flat_map(|one| all.range(one..).skip(1).map(move |other| (*one, *other)));
        pairs.filter(|pair| !self.0.contains_key(pair)).collect()
    }
}

/// Executes random requests, compares the replies with those of Redis if there is one, and counts what took effect.
fn run(server: &TestServer, redis: Option<&RedisServer>, random: &mut Random, pairs: &mut Pairs) {
    let (mut own, mut observer, mut tracker) = (server.connect(), server.connect(), Tracker::start(server));
    let mut theirs = redis.map(|redis| connect_unix(&redis.socket()).expect("a connection"));
    for round in 0..ROUNDS {
        let request = Request::new(random);
        tracker.read_all();
        let (before, evicted_before) = (snapshot(&mut observer), evicted(&mut observer));
        let replies = request.execute(&mut own);
        let words: Vec<String> = request.keys().map(|word| word.chars().take(40).collect()).collect();
        if let Some(theirs) = &mut theirs {
            assert_eq!(replies, request.execute(theirs), "round {round}: {words:?}");
        }
        let (after, told) = (snapshot(&mut observer), tracker.told());
        for (key, value) in &before {
            assert!(
                *value == after[key] || told.contains(key),
                "round {round}, {words:?}: nobody is told of {key}"
            );
        }
        let is_long = |value: &[Frame]| matches!(value[0], Frame::Integer(length) if length >= 1 << 20);
        let large = before.iter().filter(|(_, value)| is_long(value)).map(|(key, _)| key.clone()).collect();
        let mut effects = request.effects(&replies, &large);
        effects.extend(request.keys().any(|word| told.contains(word)).then_some(Tracking));
        effects.extend((evicted(&mut observer) > evicted_before).then_some(Eviction));
        pairs.count(&effects);
    }
    assert_eq!(server.stats().snapshot().panics, 0);
}

#[test]
fn features_work_in_pairs() {
    let (mut random, mut pairs) = (Random(11), Pairs::default());
    let redis = RedisServer::start();
    run(&TestServer::start(), redis.as_ref(), &mut random, &mut pairs);
    // It is full of other keys, so that whatever grows evicts. How much room an eviction leaves depends on threads, so that a
    // pair with it may need more requests in one run than in another.
    let full = TestServer::with(Config { max_memory: Some(ByteSize(12 << 20)), ..Config::default() });
    let (mut client, text) = (full.connect(), "y".repeat(50_000));
    for _ in 0..MAX_RUNS {
        (0..400).for_each(|number| _ = client.call(&["SET", &format!("other{number}"), &text]));
        assert!(evicted(&mut client) > 0);
        run(&full, None, &mut random, &mut pairs);
        if pairs.missing().is_empty() {
            break;
        }
    }
    assert!(pairs.missing().is_empty(), "no request had both of {:?}", pairs.missing());
}
