//! Random commands, after each of which the whole keyspace is walked: see [`Store::validate`].

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::*;

/// Less than the values of most sequences: entries are evicted.
const MEMORY_BYTES: u64 = 2 << 20;

/// `KEY` and `OTHER` are names, `VALUE` is bytes of a length around the limits of the forms of records, `SHORT` is a few
/// bytes, `NUMBER` is an offset.
const COMMANDS: &[&str] = &[
    "SET KEY VALUE",
    "SET KEY VALUE PX 5",
    "SET KEY VALUE EX 100",
    "SET KEY NUMBER",
    "MSET KEY VALUE OTHER VALUE",
    "GET KEY",
    "GETDEL KEY",
    "GETEX KEY EX 100",
    "APPEND KEY VALUE",
    "SETRANGE KEY NUMBER VALUE",
    "INCR KEY",
    "SETBIT KEY NUMBER 1",
    "BITFIELD KEY SET u8 NUMBER 7",
    "BITOP OR KEY KEY OTHER",
    "PFADD KEY SHORT",
    "PFMERGE KEY OTHER",
    "EXPIRE KEY 100",
    "EXPIRE KEY 0",
    "PERSIST KEY",
    "DEL KEY OTHER",
    "RENAME KEY OTHER",
    "COPY KEY OTHER REPLACE",
    "MOVE KEY 1",
    "ZADD KEY 1 SHORT",
    "ZADD KEY NUMBER VALUE",
    "ZINCRBY KEY NUMBER SHORT",
    "ZREM KEY SHORT",
    "ZPOPMIN KEY 3",
    "ZUNIONSTORE KEY 2 KEY OTHER",
    "ZRANGESTORE KEY OTHER 0 5",
];

/// As above, and seldom: those that concern everything.
const SELDOM: &[&str] = &[
    "FLUSHDB",
    "FLUSHALL",
    "CONFIG SET maxmemory 1mb",
    "CONFIG SET maxmemory 2mb",
    "CONFIG SET maxmemory-policy noeviction",
    "CONFIG SET maxmemory-policy volatile-ttl",
    "CONFIG SET maxmemory-policy allkeys-lru",
    "CONFIG SET maxmemory-policy allkeys-lfu",
];

/// A command with its keys and its value.
#[derive(Clone, Debug)]
struct Step {
    command: &'static str,
    key: u8,
    other: u8,
    length: usize,
    number: u32,
}

impl Step {
    /// The request, and a PING, whose reply ends that of the command.
    fn request(&self) -> Vec<u8> {
        let words = self.command.split(' ').map(|word| match word {
            "KEY" => format!("key {}", self.key).into_bytes(),
            "OTHER" => format!("key {}", self.other).into_bytes(),
            "VALUE" => vec![b'v'; self.length],
            "SHORT" => (self.length % 50).to_string().into_bytes(),
            "NUMBER" => self.number.to_string().into_bytes(),
            word => word.as_bytes().to_vec(),
        });
        let mut request = format!("*{}\r\n", words.clone().count()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(&word);
            request.extend_from_slice(b"\r\n");
        }
        [&request[..], b"PING\r\n"].concat()
    }
}

fn step() -> impl Strategy<Value = Step> {
    let command = prop_oneof![
        60 => prop::sample::select(COMMANDS),
        1 => prop::sample::select(SELDOM),
    ];
    let length = prop_oneof![
        8 => 0usize..100,
        4 => 100usize..9_000,
        2 => 60_000usize..70_000,
        1 => (1usize << 20) - 50..(1 << 20) + 50,
    ];
    let number = prop_oneof![8 => 0u32..100, 2 => 0u32..20_000, 1 => 8_388_000u32..8_389_000];
    (command, 0u8..24, 0u8..24, length, number).prop_map(|(command, key, other, length, number)| Step {
        command,
        key,
        other,
        length,
        number,
    })
}

/// Sends a request and gives turns until it is answered.
fn execute(event_loop: &mut EventLoop, client_end: &mut UnixStream, mut request: &[u8]) {
    let (mut end, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    while !request.is_empty() || end != b"+PONG\r\n" {
        let sent = client_end.write(request).unwrap_or(0);
        request = &request[sent..];
        poll(event_loop);
        while let Ok(length @ 1..) = client_end.read(&mut piece) {
            end.extend_from_slice(&piece[..length]);
            end.drain(..end.len().saturating_sub(b"+PONG\r\n".len()));
        }
    }
}

fn walk_after_each(steps: &[Step]) -> TestCaseResult {
    let store = Store::new(Some(MEMORY_BYTES)).unwrap();
    let state =
        Arc::new(ServerState::new(Config::default(), store, Arc::new(Stats::new(1, crate::cmd::commands()))));
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    client_end.set_nonblocking(true).unwrap();
    event_loop.adopt(connection);
    for step in steps {
        execute(&mut event_loop, &mut client_end, &step.request());
        state.store.validate();
        // As the loop does between two waits.
        let now = Moment::now();
        event_loop.reclaim_at = now;
        event_loop.reclaim(now);
        state.store.validate();
    }
    prop_assert_eq!(state.stats.panics.get(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keyspace_agrees_with_itself_after_each_command(steps in vec(step(), 1..300)) {
        walk_after_each(&steps)?;
    }
}

/// A command of another type copied a string that two keys share, and left its charge: the copy had no room behind it.
#[test]
fn wrong_type_leaves_a_string_that_a_copy_shares() {
    let step = |command, number| Step { command, key: 12, other: 1, length: 63_380, number };
    walk_after_each(&[
        step("SETRANGE KEY NUMBER VALUE", 0),
        step("SETRANGE KEY NUMBER VALUE", 10),
        step("COPY KEY OTHER REPLACE", 0),
        Step { key: 1, ..step("ZADD KEY NUMBER SHORT", 5) },
        Step { key: 1, ..step("SETRANGE KEY NUMBER SHORT", 5) },
    ])
    .unwrap();
}
