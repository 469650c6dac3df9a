//! Fuzz tests of what clients send: streams of requests that are cut and damaged anywhere, and sequences of commands on
//! several connections.
//!
//! They run with the other tests. A failure prints the input and the seed that repeats it, for the variable
//! `BOLERO_RANDOM_SEED`; `BOLERO_RANDOM_ITERATIONS` sets the number of inputs.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};

use larder_resp::{Frame, Protocol};
use larder_server::{ByteSize, Config};
use larder_testkit::until;

use crate::support::{Client, TestServer, connect, encode};

/// Random inputs for each target: about two seconds.
const ITERATIONS: usize = 1_000;

/// Words of requests whose replies depend on nothing but the requests before.
const WORDS: &[&str] = &[
    "GET",
    "SET",
    "APPEND",
    "INCR",
    "MGET",
    "MSET",
    "DEL",
    "HSET",
    "HGETALL",
    "HPEXPIRE",
    "FIELDS",
    "LPUSH",
    "LMOVE",
    "LEFT",
    "SADD",
    "SPOP",
    "XADD",
    "XRANGE",
    "XREAD",
    "STREAMS",
    "1-1",
    "-",
    "ZADD",
    "ZRANGE",
    "ZSCORE",
    "SETRANGE",
    "GETRANGE",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH",
    "EVAL",
    "PING",
    "ECHO",
    "RESET",
    "CLIENT",
    "REPLY",
    "SKIP",
    "ON",
    "EXPIRE",
    "TYPE",
    "a",
    "b",
    "c",
    "0",
    "1",
    "-1",
    "2",
    "3",
    "4294967295",
    "18446744073709551616",
    "nan",
    "NX",
    "return redis.call('APPEND', KEYS[1], ARGV[1])",
    "return {1, KEYS, ARGV}",
    "error('no')",
    "",
    "\r\n",
    "$",
];

/// A stream of requests: each byte is a word or begins a request; some bytes damage it.
fn stream(choices: &[u8]) -> Vec<u8> {
    let (mut bytes, mut request) = (Vec::new(), Vec::new());
    for choice in choices {
        match choice {
            0..128 => request.push(WORDS[usize::from(*choice) % WORDS.len()]),
            128..224 => bytes.extend_from_slice(&encode(&std::mem::take(&mut request))),
            // An inline command.
            224..240 => {
                bytes.extend_from_slice(std::mem::take(&mut request).join(" ").as_bytes());
                bytes.extend_from_slice(b"\r\n");
            }
            240..248 => bytes.extend_from_slice(&[b'*', b'0' + choice % 10, b'\r', b'\n']),
            248.. => _ = bytes.pop(),
        }
    }
    bytes.extend_from_slice(&encode(&request));
    bytes
}

/// What the server answers to these pieces, until it closes the connection.
fn answer<'a>(address: SocketAddr, pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut client = connect(address);
    assert_eq!(client.call(&["FLUSHALL"]), Frame::Simple("OK".into()));
    // The server may close the connection before it has read everything: then no reply follows the error.
    let sent = pieces.into_iter().try_for_each(|piece| client.stream.write_all(piece));
    _ = sent.and_then(|()| client.stream.shutdown(Shutdown::Write));
    client.read_to_end().escape_ascii().to_string()
}

/// Wherever a stream is cut, its requests get the same replies.
#[test]
fn cuts_of_a_stream_change_no_reply() {
    let server = TestServer::start();
    let address = server.address();
    let check = bolero::check!().with_type::<(Vec<u8>, [u8; 4])>().with_iterations(ITERATIONS);
    check.for_each(|(choices, cuts)| {
        let stream = stream(choices);
        let whole = answer(address, [&stream[..]]);
        let mut at: Vec<usize> = cuts.iter().map(|cut| stream.len() * usize::from(*cut) / 256).collect();
        at.extend([0, stream.len()]);
        at.sort_unstable();
        let pieces = answer(address, at.windows(2).map(|pair| &stream[pair[0]..pair[1]]));
        // An error of framing ends the connection, with a reset if the server has not read all.
        let is_reset = whole.contains("Protocol error") || pieces.contains("Protocol error");
        if !is_reset {
            assert_eq!(pieces, whole, "{}", stream.escape_ascii());
        }
    });
    assert_eq!(server.stats().snapshot().panics, 0);
}

/// The commands of a sequence: the connection, the command, a key and an argument are chosen by random bytes.
const COMMANDS: &[&[&str]] = &[
    &["SET", "KEY", "VALUE"],
    &["SET", "KEY", "VALUE", "PX", "5"],
    &["GET", "KEY"],
    &["APPEND", "KEY", "VALUE"],
    &["DEL", "KEY"],
    &["RENAME", "KEY", "b"],
    &["COPY", "KEY", "c", "REPLACE"],
    &["ZADD", "KEY", "1", "VALUE"],
    &["ZPOPMIN", "KEY"],
    &["HSET", "KEY", "field", "VALUE", "other", "1"],
    &["HINCRBY", "KEY", "other", "1"],
    &["HDEL", "KEY", "field"],
    &["HPEXPIRE", "KEY", "3", "FIELDS", "2", "field", "other"],
    &["HSETEX", "KEY", "PX", "2", "FIELDS", "1", "field", "VALUE"],
    &["HGETDEL", "KEY", "FIELDS", "2", "field", "other"],
    &["HSCAN", "KEY", "0"],
    &["RPUSH", "KEY", "VALUE", "x"],
    &["BLPOP", "KEY", "a", "0.001"],
    &["BLMOVE", "KEY", "a", "RIGHT", "LEFT", "0.001"],
    &["BZPOPMIN", "KEY", "0.001"],
    &["LPUSH", "KEY", "y"],
    &["LMOVE", "KEY", "a", "LEFT", "RIGHT"],
    &["RPOP", "KEY", "2"],
    &["LREM", "KEY", "0", "x"],
    &["LINSERT", "KEY", "BEFORE", "x", "VALUE"],
    &["LTRIM", "KEY", "0", "5"],
    &["SADD", "KEY", "VALUE", "x", "1"],
    &["SMOVE", "KEY", "a", "x"],
    &["SPOP", "KEY", "2"],
    &["SUNIONSTORE", "KEY", "a", "b"],
    &["SINTER", "a", "b"],
    &["XADD", "KEY", "MAXLEN", "~", "100", "*", "field", "VALUE"],
    &["XADD", "KEY", "*", "field", "VALUE", "x", "1"],
    &["XREAD", "BLOCK", "1", "STREAMS", "KEY", "a", "$", "0"],
    &["XRANGE", "KEY", "-", "+", "COUNT", "2"],
    &["XTRIM", "KEY", "MAXLEN", "3"],
    &["EVAL", "return redis.call('XDEL', KEYS[1], redis.call('XADD', KEYS[1], '*', 'a', 'b'))", "1", "KEY"],
    &["ZUNIONSTORE", "KEY", "2", "a", "b"],
    &["EXPIRE", "KEY", "0"],
    &["MULTI"],
    &["EXEC"],
    &["DISCARD"],
    &["WATCH", "KEY"],
    &["SUBSCRIBE", "KEY"],
    &["UNSUBSCRIBE"],
    &["PSUBSCRIBE", "*"],
    &["PUBLISH", "KEY", "VALUE"],
    &["CLIENT", "TRACKING", "ON"],
    &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "KEY"],
    &["CLIENT", "TRACKING", "OFF"],
    &["CLIENT", "KILL", "SKIPME", "no"],
    &["EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", "1", "KEY", "VALUE"],
    &["EVAL", "redis.call('SET', KEYS[1], 'x'); return redis.call('APPEND', ARGV[1], 'y')", "1", "KEY", "c"],
    &["EVAL", "redis.call('SET', KEYS[1], 'x'); error('no')", "1", "KEY"],
    &["SCRIPT", "FLUSH"],
    &["SELECT", "1"],
    &["FLUSHDB"],
    &["SCAN", "0"],
    &["RESET"],
    &["QUIT"],
];

fn command(choice: u8, argument: u8) -> Vec<u8> {
    let key = ["a", "b", "c", "d"][usize::from(argument) % 4];
    // Some do not fit into an embedded value, and some evict most other keys.
    let value = "x".repeat([1, 100, 5_000, 300_000][usize::from(argument) / 64]);
    let words = COMMANDS[usize::from(choice) % COMMANDS.len()].iter();
    let words: Vec<&str> = words.map(|word| [*word, key, &value][place(word)]).collect();
    encode(&words)
}

fn place(word: &str) -> usize {
    match word {
        "KEY" => 1,
        "VALUE" => 2,
        _ => 0,
    }
}

/// Whatever three connections do together: the server goes on, and when they have left nothing of them is left.
#[test]
fn sequences_of_commands_leave_nothing_behind() {
    const CAPACITY: u64 = 1 << 20;
    let config = Config { threads: Some(2), max_memory: Some(ByteSize(CAPACITY)), ..Config::default() };
    let server = TestServer::with(config);
    let (address, stats) = (server.address(), std::panic::AssertUnwindSafe(server.stats()));
    let check = bolero::check!().with_type::<Vec<(u8, u8, u8)>>().with_iterations(ITERATIONS);
    check.for_each(|steps| {
        let mut clients: [Client<TcpStream>; 3] =
            [Protocol::Resp2, Protocol::Resp3, Protocol::Resp3].map(|protocol| {
                let mut client = connect(address);
                client.call(&["HELLO", &protocol.version().to_string()]);
                client
            });
        for (choice, argument, client) in steps.iter().take(40) {
            let stream = &mut clients[usize::from(*client) % 3].stream;
            // One that was killed takes no more.
            _ = stream.write_all(&command(*choice, *argument));
            assert!(stats.snapshot().memory_used_bytes <= CAPACITY);
        }
        for mut client in clients {
            _ = client.stream.shutdown(Shutdown::Write);
            client.read_to_end();
        }
        let mut own = connect(address);
        assert_eq!(own.call(&["FLUSHALL"]), Frame::Simple("OK".into()));
        assert_eq!(own.call(&["PUBSUB", "NUMPAT"]), Frame::Integer(0));
        assert_eq!(own.call(&["PUBSUB", "CHANNELS"]), Frame::Array(Vec::new()));
        assert_eq!(stats.snapshot().memory_used_bytes, 0);
    });
    let mut own = server.connect();
    let mut info = || String::from_utf8(own.call(&["INFO"]).as_bytes().unwrap().to_vec()).unwrap();
    let is_clean = |info: &str| {
        ["tracking_total_keys:0\r", "tracking_total_prefixes:0\r", "connected_clients:1\r"]
            .iter()
            .all(|field| info.contains(field))
    };
    until("nothing of the clients is left", || is_clean(&info()).then_some(()));
    assert_eq!(server.stats().snapshot().panics, 0);
}
