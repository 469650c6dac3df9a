//! The same commands to a real `redis-server` and to this server must get equal replies.
//!
//! Without an installed `redis-server` the tests are skipped with a message; if `CI` is `true`, they fail.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use larder_resp::Frame;
use larder_testkit::RedisServer;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config as ProptestConfig, TestRunner};

use crate::support::{Client, TestServer, connect_unix, encode};

/// One connection to each server.
pub(crate) struct Pair {
    pub(crate) redis: Client<UnixStream>,
    pub(crate) larder: Client<TcpStream>,
}

impl Pair {
    /// Connections to new servers; `None` if `redis-server` is not installed.
    pub(crate) fn start() -> Option<(Pair, (RedisServer, TestServer))> {
        let redis = RedisServer::start()?;
        let server = TestServer::start();
        Some((Pair::connect(&redis, &server), (redis, server)))
    }

    pub(crate) fn connect(redis: &RedisServer, larder: &TestServer) -> Self {
        Pair { redis: connect_unix(&redis.socket()).unwrap(), larder: larder.connect() }
    }

    /// Sends a command to both.
    pub(crate) fn call(&mut self, command: &[String]) {
        self.redis.call(command);
        self.larder.call(command);
    }

    /// As [`compare`](Self::compare), with several replies.
    pub(crate) fn compare_all(&mut self, command: &[String], replies: usize) -> Result<(), String> {
        self.redis.send(&encode(command));
        self.larder.send(&encode(command));
        self.compare_received(&command.join(" "), replies)
    }

    /// Compares what both receive without a request. Messages of several patterns come in any order.
    pub(crate) fn compare_received(&mut self, cause: &str, replies: usize) -> Result<(), String> {
        let received = |mut replies: Vec<Frame>| {
            replies.sort_by_key(|reply| format!("{reply:?}"));
            replies
        };
        let redis = received((0..replies).map(|_| self.redis.receive()).collect());
        let larder = received((0..replies).map(|_| self.larder.receive()).collect());
        if redis == larder {
            Ok(())
        } else {
            Err(format!("{cause}\n   redis: {redis:?}\n  larder: {larder:?}"))
        }
    }

    /// Sends several commands at once to both, and compares all replies and messages in their order.
    pub(crate) fn compare_pipeline(&mut self, commands: &[&str]) -> Result<(), String> {
        const END: &str = "end-of-the-pipeline";
        let last = ["PING", END].map(str::to_owned);
        let requests: Vec<u8> =
            commands.iter().map(|line| words(line)).chain([last.to_vec()]).flat_map(|c| encode(&c)).collect();
        let is_last = |frame: &Frame| match frame {
            Frame::Array(parts) => parts.last().and_then(Frame::as_bytes) == Some(END.as_bytes()),
            frame => frame.as_bytes() == Some(END.as_bytes()),
        };
        self.redis.send(&requests);
        self.larder.send(&requests);
        let redis = self.redis.receive_until(is_last);
        let larder = self.larder.receive_until(is_last);
        match redis == larder {
            true => Ok(()),
            false => Err(format!("{commands:?}\n   redis: {redis:?}\n  larder: {larder:?}")),
        }
    }

    /// Sends a command to both, whose replies have members of so many parts in any order.
    pub(crate) fn compare_sorted(&mut self, command: &[String], width: usize) {
        let sorted = |reply: Frame| match reply {
            Frame::Array(parts) => {
                let mut members: Vec<String> =
                    parts.chunks(width).map(|parts| format!("{parts:?}")).collect();
                members.sort();
                members
            }
            other => panic!("{command:?}: {other:?}"),
        };
        assert_eq!(sorted(self.larder.call(command)), sorted(self.redis.call(command)), "{command:?}");
    }

    /// Sends a command to both; the error has the command and both replies.
    pub(crate) fn compare(&mut self, command: &[String]) -> Result<(), String> {
        let expected = normalized(command, self.redis.call(command));
        let actual = normalized(command, self.larder.call(command));
        let is_time = matches!(command[0].as_str(), "TTL" | "PTTL" | "EXPIRETIME" | "PEXPIRETIME");
        let is_same = match (&expected, &actual) {
            // The commands are executed one after the other.
            (Frame::Integer(a), Frame::Integer(b)) if is_time && *a > 0 && *b > 0 => {
                (a - b).abs() <= if command[0].starts_with('P') { 5_000 } else { 5 }
            }
            _ => expected == actual,
        };
        match is_same {
            true => Ok(()),
            false => Err(format!("{command:?}\n   redis: {expected:?}\n  larder: {actual:?}")),
        }
    }
}

/// Commands whose replies have their parts in any order.
pub(crate) const UNORDERED: [&str; 9] =
    ["KEYS", "HKEYS", "HVALS", "SMEMBERS", "SUNION", "SINTER", "SDIFF", "SPOP", "SRANDMEMBER"];

/// Sorts the reply if its order is unspecified, and removes the name that this server adds to an error.
fn normalized(command: &[String], reply: Frame) -> Frame {
    match reply {
        Frame::Error(text) => Frame::Error(match text.split_once(" command '") {
            Some((start @ "ERR Unknown Redis", rest)) => {
                let (_, end) = rest.rsplit_once("' called").unwrap_or_default();
                format!("{start} command called{end}")
            }
            _ => text,
        }),
        Frame::Array(mut keys) if UNORDERED.contains(&command[0].as_str()) => {
            keys.sort_by(|a, b| a.as_bytes().cmp(&b.as_bytes()));
            Frame::Array(keys)
        }
        Frame::Array(members) if ["HGETALL", "HRANDFIELD"].contains(&command[0].as_str()) => {
            let width = if command[0] == "HGETALL" || command.len() > 3 { 2 } else { 1 };
            let is_flat = members.iter().all(|member| member.as_bytes().is_some());
            let mut fields: Vec<&[Frame]> = members.chunks(if is_flat { width } else { 1 }).collect();
            fields.sort_by_key(|field| format!("{field:?}"));
            Frame::Array(fields.concat())
        }
        Frame::Set(mut members) if UNORDERED.contains(&command[0].as_str()) => {
            members.sort_by(|a, b| a.as_bytes().cmp(&b.as_bytes()));
            Frame::Set(members)
        }
        Frame::Map(mut fields) if command[0] == "HGETALL" => {
            fields.sort_by_key(|field| format!("{field:?}"));
            Frame::Map(fields)
        }
        Frame::Array(mut parts) if command[0] == "SSCAN" => {
            if let Some(Frame::Array(members)) = parts.last_mut() {
                members.sort_by(|a, b| a.as_bytes().cmp(&b.as_bytes()));
            }
            Frame::Array(parts)
        }
        Frame::Array(mut parts) if ["HSCAN", "ZSCAN"].contains(&command[0].as_str()) => {
            if let Some(Frame::Array(members)) = parts.last_mut() {
                let mut pairs: Vec<Vec<Frame>> = members.chunks(2).map(<[Frame]>::to_vec).collect();
                pairs.sort_by(|a, b| a[0].as_bytes().cmp(&b[0].as_bytes()));
                *members = pairs.concat();
            }
            Frame::Array(parts)
        }
        reply => reply,
    }
}

pub(crate) fn words(line: &str) -> Vec<String> {
    line.split(' ').map(|word| if word == "''" { String::new() } else { word.to_owned() }).collect()
}

/// Commands that cover the table, in this order.
pub(crate) const SEQUENCE: &[&str] = &[
    "PING",
    "PING hello",
    "PING a b",
    "ECHO x",
    "ECHO",
    "GET",
    "GET a b",
    "FOO",
    "FOO bar baz",
    "foo '' x",
    "SET k v",
    "GET k",
    "TYPE k",
    "TYPE nothing",
    "EXISTS k k nothing",
    "STRLEN k",
    "STRLEN nothing",
    "SET k v NX",
    "SET k v XX",
    "SET k w GET",
    "SET k x NX GET",
    "SET new x XX GET",
    "SET k v EX 10 PX 10",
    "SET k v EX",
    "SET k v EX 0",
    "SET k v EX -1",
    "SET k v EX abc",
    "SET k v EX 1.5",
    "SET k v BLAH",
    "SET k v EX 18446744073709551615",
    "SET k v EX 9223372036854775807",
    "SET k v PX 9223372036854775807",
    "SET k v EXAT 9223372036854775807",
    "SET k v PXAT 9223372036854775807",
    "SET k v KEEPTTL EX 5",
    "SET k v EX 5 KEEPTTL",
    "SET k v NX XX",
    "SET k v XX NX",
    "SET k v EX 5 EX 5",
    "SET k v KEEPTTL KEEPTTL",
    "SET k v EXAT 1",
    "GET k",
    "SET k v PXAT 1",
    "EXISTS k",
    "SET k v EXAT 0",
    "SET k v EXAT -1",
    "SETEX k 0 v",
    "SETEX k -1 v",
    "SETEX k x v",
    "SETEX k 9223372036854775807 v",
    "PSETEX k 0 v",
    "SETEX k 100 v",
    "TTL k",
    "PTTL k",
    "SETNX k w",
    "SETNX fresh w",
    "GETSET fresh z",
    "GETSET nothing1 z",
    "GETDEL fresh",
    "GETDEL fresh",
    "GETEX k",
    "GETEX k EX 0",
    "GETEX k EX x",
    "GETEX k PERSIST",
    "TTL k",
    "GETEX k EX 100 PERSIST",
    "GETEX k PERSIST EX 100",
    "GETEX k BLAH",
    "GETEX nothing EX 10",
    "GETEX k EXAT 1",
    "EXISTS k",
    "GETEX k EX 1 X",
    "GETEX k EX x EX 100",
    "GETEX k EX 100 PX 100",
    "GETEX k EX 100 EX",
    "TTL k",
    "GETEX k PERSIST PERSIST",
    "TTL k",
    "SET s hello",
    "GETRANGE s 0 -1",
    "GETRANGE s 1 3",
    "GETRANGE s -3 -2",
    "GETRANGE s 5 10",
    "GETRANGE s 3 1",
    "GETRANGE s -1 -3",
    "GETRANGE s 0 -100",
    "GETRANGE s x 1",
    "GETRANGE nothing 0 -1",
    "SUBSTR s 1 2",
    "SETRANGE s 2 XX",
    "GET s",
    "SETRANGE s 8 Y",
    "GET s",
    "SETRANGE s -1 x",
    "SETRANGE s 536870912 x",
    "SETRANGE s 9223372036854775807 x",
    "SETRANGE s 99999999999999999999 x",
    "SETRANGE nothing2 0 ''",
    "SETRANGE s 600000000 ''",
    "EXISTS nothing2",
    "APPEND s end",
    "APPEND fresh2 x",
    "GET fresh2",
    "INCR n",
    "INCRBY n 10",
    "DECR n",
    "DECRBY n 3",
    "GET n",
    "INCRBY n abc",
    "INCRBY n 1.0",
    "INCR s",
    "INCRBY n 9223372036854775807",
    "DECRBY n -9223372036854775808",
    "SET n 9223372036854775807",
    "INCR n",
    "SET n -9223372036854775808",
    "DECR n",
    "SET n 011",
    "INCR n",
    "SET n +1",
    "INCR n",
    "SET n ''",
    "INCR n",
    "SET f 10.50",
    "INCRBYFLOAT f 0.25",
    "INCRBYFLOAT f 5.0e3",
    "INCRBYFLOAT f -200",
    "INCRBYFLOAT f x",
    "INCRBYFLOAT f nan",
    "INCRBYFLOAT f inf",
    "INCRBYFLOAT s 1",
    "INCRBYFLOAT g 3",
    "INCRBYFLOAT g 1.000000000005",
    "MSET a 1 b 2",
    "MSET a",
    "MSET a 1 b",
    "MGET a b nothing",
    "MSETNX a 1 c 2",
    "MSETNX c 2 d 3",
    "MSETNX c",
    "MGET c d",
    "DEL a b nothing",
    "UNLINK c d",
    "DEL",
    "TOUCH k s nothing",
    "EXISTS",
    "EXPIRE s 100",
    "TTL s",
    "EXPIRE s 50 GT",
    "EXPIRE s 50 LT",
    "EXPIRE s 50 NX",
    "EXPIRE s 70 XX",
    "EXPIRE nothing 10",
    "PERSIST s",
    "PERSIST s",
    "PERSIST nothing",
    "EXPIRE s 50 XX",
    "EXPIRE s 50 GT",
    "EXPIRE s 50 LT",
    "EXPIRE s 5 NX XX",
    "EXPIRE s 5 GT LT",
    "EXPIRE s 5 NX GT",
    "EXPIRE s 5 BLAH",
    "EXPIRE s x",
    "EXPIRE s x BLAH",
    "EXPIRE s 9223372036854775807",
    "EXPIRE s -9223372036854775808",
    "PEXPIRE s 9223372036854775807",
    "EXPIREAT s 9223372036854775807",
    "PEXPIREAT s 1900000000000",
    "PEXPIRETIME s",
    "EXPIRETIME s",
    "EXPIRETIME nothing",
    "PEXPIREAT s 1900000000500",
    "EXPIRETIME s",
    "EXPIREAT s 1",
    "EXISTS s",
    "SELECT 1",
    "GET k",
    "SET k one",
    "DBSIZE",
    "SELECT 0",
    "SELECT 16",
    "SELECT -1",
    "SELECT x",
    "FLUSHALL foo",
    "FLUSHDB ASYNC SYNC",
    "SELECT 1",
    "FLUSHDB SYNC",
    "DBSIZE",
    "SELECT 0",
    "FLUSHALL",
    "MSET user:1 a user:2 b post:1 c us\\er d [x] e",
    "KEYS *",
    "KEYS user:?",
    "KEYS user:[1]",
    "KEYS user:[^1]",
    "KEYS *:*",
    "KEYS us\\\\er",
    "KEYS \\[x\\]",
    "KEYS [x]",
    "KEYS",
    "DBSIZE",
    "SCAN x",
    "SCAN 0 MATCH",
    "SCAN 0 COUNT 0",
    "SCAN 0 COUNT x",
    "SCAN 0 BLAH 1",
    "SCAN 0 COUNT 1000 MATCH nothing",
    "SCAN '' COUNT 1000 MATCH nothing",
    "HSCAN nothing ''",
    "SCAN 0 COUNT 1000 MATCH user:1",
    "SCAN 0 COUNT 1000 TYPE hash",
    "FLUSHALL",
    "SET a 1 EX 1000",
    "SET b two",
    "RENAME nothing x",
    "RENAMENX nothing x",
    "RENAME a a",
    "RENAMENX a a",
    "RENAMENX a b",
    "RENAME a c",
    "TTL c",
    "MGET a b c",
    "RENAME c b",
    "RENAMENX b c",
    "GET c",
    "TTL c",
    "COPY c d",
    "COPY c d",
    "COPY c d REPLACE",
    "TTL d",
    "COPY nothing d REPLACE",
    "COPY c c",
    "COPY c c DB 1",
    "COPY c e DB",
    "COPY c e DB x",
    "COPY c e DB 99",
    "COPY c e FOO",
    "MOVE c 1",
    "MOVE d 1",
    "MOVE nothing 1",
    "MOVE c 0",
    "MOVE c 99",
    "MOVE c x",
    "EXISTS c d",
    "DBSIZE",
    "SELECT 2147483648",
    "SELECT 9223372036854775808",
    "MOVE a 2147483648",
    "COPY a c DB -2147483649",
    "SELECT 1",
    "KEYS *",
    "FLUSHDB",
    "SELECT 0",
    "FLUSHDB",
    "RANDOMKEY",
    "SET only 12",
    "RANDOMKEY",
    "OBJECT ENCODING only",
    "SET s hello",
    "OBJECT ENCODING s",
    "SET s 0123456789012345678901234567890123456789abcde",
    "OBJECT ENCODING s",
    "OBJECT ENCODING nothing",
    "OBJECT ENCODING s s",
    "OBJECT REFCOUNT s",
    "OBJECT REFCOUNT nothing",
    "OBJECT IDLETIME nothing",
    "OBJECT FREQ nothing",
    "OBJECT FREQ",
    "OBJECT BLAH",
    "OBJECT",
    "MEMORY USAGE nothing",
    "MEMORY USAGE",
    "MEMORY USAGE s SAMPLES x",
    "MEMORY USAGE s SAMPLES -1",
    "MEMORY USAGE s BLAH",
    "MEMORY BLAH",
    "WAIT 0 0",
    "WAIT x 0",
    "WAIT 0 x",
    "WAIT 0 -1",
    "FUNCTION FLUSH",
    "FUNCTION LIST",
    "FUNCTION",
    "CLIENT KILL foo",
    "CLIENT UNBLOCK 99999999 FOO",
    "CLIENT UNBLOCK 99999999 error",
    "CLIENT UNBLOCK x TIMEOUT",
    "PUBSUB CHANNELS a b",
    "PUBSUB shardchannels a b",
    "FUNCTION LIST FOO",
    "FUNCTION LIST LIBRARYNAME",
    "FUNCTION LIST withcode libraryname a",
    "COMMAND INFO nope",
    "COMMAND GETKEYS EVAL x 0",
    "COMMAND GETKEYS EVALSHA x 0",
    "COMMAND GETKEYS EVAL x 1 a",
    "COMMAND GETKEYS OBJECT ENCODING a",
    "COMMAND GETKEYS OBJECT HELP",
    "COMMAND GETKEYS MEMORY USAGE a",
    "COMMAND GETKEYS MEMORY USAGE a SAMPLES 0",
    "INCRBYFLOAT float 0.1",
    "INCRBYFLOAT float 2e-1",
    "SET float 9007199254740993",
    "INCRBYFLOAT float 0e0",
    "INCRBYFLOAT float 1E+0",
    "CLIENT KILL ID x",
    "CLIENT KILL ID 0",
    "CLIENT KILL ID 9999999",
    "CLIENT KILL BLAH x",
    "CLIENT KILL TYPE x",
    "CLIENT KILL TYPE pubsub",
    "CLIENT KILL SKIPME maybe",
    "CLIENT KILL USER nobody",
    "CLIENT KILL ID 5 ID",
    "CLIENT KILL",
    "CLIENT UNBLOCK x",
    "CLIENT UNBLOCK 9999999",
    "SETBIT bits 7 1",
    "SETBIT bits 7 0",
    "SETBIT bits 17 1",
    "GET bits",
    "SETBIT bits x 1",
    "SETBIT bits -1 1",
    "SETBIT bits 4294967296 1",
    "SETBIT bits 1 2",
    "SETBIT bits 1 x",
    "GETBIT bits 17",
    "GETBIT bits 16",
    "GETBIT bits 1000",
    "GETBIT nothing 0",
    "GETBIT bits x",
    "SET bits foobar",
    "BITCOUNT bits",
    "BITCOUNT nothing",
    "BITCOUNT nothing 1",
    "BITCOUNT bits 1",
    "BITCOUNT bits 0 0",
    "BITCOUNT bits 1 1",
    "BITCOUNT bits -2 -1",
    "BITCOUNT bits -1 -2",
    "BITCOUNT bits 5 30 BIT",
    "BITCOUNT bits 5 -5 BIT",
    "BITCOUNT bits 1 1 BYTE",
    "BITCOUNT bits 1 1 FOO",
    "BITCOUNT bits x 1",
    "BITCOUNT bits 0 1 BIT BIT",
    "BITCOUNT bits 100 200",
    "BITPOS bits 1",
    "BITPOS bits 0",
    "BITPOS bits 1 2",
    "BITPOS bits 0 2 3",
    "BITPOS bits 1 13 14 BIT",
    "BITPOS bits 0 13 -1 BIT",
    "BITPOS bits 1 100",
    "BITPOS bits 2",
    "BITPOS bits x",
    "BITPOS bits 1 0 1 FOO",
    "BITPOS bits 1 0 1 BIT BIT",
    "BITPOS bits 1 x",
    "BITPOS nothing 0",
    "BITPOS nothing 1",
    "SET @ @",
    "BITPOS @ 1 -2 -5",
    "BITPOS @ 0 -2 -5",
    "BITPOS @ 1 -20 -50 BIT",
    "BITPOS @ 1 9223372036854775807",
    "BITPOS @ 1 -1 -5 FOO",
    "BITPOS @ 1 0 x FOO",
    "BITCOUNT @ -2 -5",
    "BITCOUNT @ -1 -5 FOO",
    "BITCOUNT @ -9223372036854775808 9223372036854775807",
    "SET empty ''",
    "BITPOS empty 0",
    "BITPOS empty 1",
    "BITPOS empty 0 0",
    "BITPOS empty 0 0 -1 BIT",
    "BITCOUNT empty",
    "BITCOUNT empty 0 -1",
    "SET ones \u{7f}",
    "BITOP OR ones ones bits",
    "BITOP NOT inverse bits",
    "BITCOUNT inverse",
    "BITOP AND both bits s",
    "GET both",
    "BITOP XOR both bits s nothing",
    "BITCOUNT both",
    "BITOP OR both bits s",
    "BITCOUNT both",
    "BITOP AND both nothing",
    "EXISTS both",
    "BITOP FOO d bits",
    "BITOP NOT d bits s",
    "BITOP NOT d",
    "CLIENT HELP x",
    "CONFIG HELP x",
    "COMMAND HELP x",
    "OBJECT HELP x",
    "MEMORY HELP x",
    "FLUSHALL",
    "CLIENT GETNAME",
    "CLIENT SETNAME me",
    "CLIENT GETNAME",
    "CLIENT SETNAME",
    "CLIENT",
    "CLIENT BLAH",
    "CLIENT ID x",
    "CLIENT LIST BLAH",
    "CLIENT LIST TYPE blah",
    "CLIENT LIST ID x",
    "CLIENT LIST ID 0",
    "CLIENT LIST TYPE pubsub",
    "CLIENT NO-EVICT maybe",
    "CLIENT NO-EVICT on",
    "HELLO x",
    "HELLO 1",
    "HELLO 2 BLAH",
    "HELLO 2 SETNAME",
    "AUTH x",
    "AUTH default x",
    "AUTH nobody x",
    "AUTH a b c",
    "CONFIG GET save",
    "CONFIG GET appendonly",
    "CONFIG GET nothing*",
    "CONFIG GET",
    "CONFIG SET maxmemory",
    "CONFIG SET maxmemory x",
    "CONFIG SET nothing 1",
    "CONFIG SET maxmemory 100mb maxmemory 50mb",
    "CONFIG SET maxmemory 100mb MAXMEMORY x",
    "CONFIG SET nothing 1 maxmemory x",
    "CONFIG SET requirepass secret",
    "CONFIG GET requirepass",
    "AUTH wrong",
    "AUTH secret",
    "CONFIG SET requirepass ''",
    "CONFIG GET requirepass",
    "CONFIG BLAH",
    "CONFIG",
    "CONFIG SET save ''",
    "CONFIG RESETSTAT",
    "CONFIG RESETSTAT x",
    "CONFIG RESETSTAT",
    "FOO",
    "GETBIT k x",
    "AUTH default wrong",
    "INFO errorstats",
    "COMMAND COUNT x",
    "COMMAND BLAH",
    "COMMAND INFO nothing",
    "COMMAND GETKEYS GET k",
    "COMMAND GETKEYS MSET a 1 b 2",
    "COMMAND GETKEYS PING",
    "COMMAND GETKEYS PING a",
    "COMMAND GETKEYS nothing a",
    "COMMAND GETKEYS GET a b",
    "COMMAND GETKEYS nothing",
    "COMMAND GETKEYS GET",
    "COMMAND GETKEYS",
    "COMMAND LIST FILTERBY PATTERN gete*",
    "COMMAND LIST BLAH",
    "TIME x",
    "DBSIZE x",
    "INFO server x y z nothing q",
    "RESET",
    "CLIENT GETNAME",
    "ROLE",
];

/// Whether the reply is expected to differ.
fn is_expected_to_differ(command: &str) -> bool {
    command.starts_with("INFO server")
}

#[test]
fn fixed_sequence_gets_equal_replies_in_both_versions() {
    let lines: Vec<&str> = SEQUENCE.iter().copied().filter(|line| !is_expected_to_differ(line)).collect();
    assert_equal_replies(&lines);
}

/// Sends the commands to both servers, in both versions of the protocol.
pub(crate) fn assert_equal_replies(lines: &[&str]) {
    let Some((mut pair, servers)) = Pair::start() else { return };
    for version in ["2", "3"] {
        pair.redis.call(&["HELLO", version]);
        pair.larder.call(&["HELLO", version]);
        let lines = std::iter::once(&"FLUSHALL").chain(lines);
        let differences: Vec<String> = lines.filter_map(|line| pair.compare(&words(line)).err()).collect();
        assert!(differences.is_empty(), "RESP{version}:\n{}", differences.join("\n"));
        pair = Pair::connect(&servers.0, &servers.1);
    }
}

/// Asserts that the keys of these requests, and what they do with each, are those of Redis.
pub(crate) fn assert_equal_keys(requests: &[&str]) {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    let asked = requests.iter().map(|request| words(&format!("COMMAND GETKEYSANDFLAGS {request}")));
    let differences: Vec<String> = asked.filter_map(|request| pair.compare(&request).err()).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Commands that have got options since the installed Redis.
const HAVE_GROWN: [&str; 2] = ["zrank", "zrevrank"];

/// `COMMAND INFO` describes the commands equally.
#[test]
fn keys_and_their_flags_equal_those_of_redis() {
    assert_equal_keys(&[
        "set k v",
        "set k v get",
        "set k v ex 10",
        "get k",
        "mset a 1 b 2",
        "msetnx a 1 b 2",
        "append k x",
        "del a b",
        "exists a b",
        "getdel k",
        "getex k",
        "getset k v",
        "incr k",
        "setrange k 1 x",
        "strlen k",
        "expire k 1",
        "rename a b",
        "renamenx a b",
        "copy a b",
        "bitop and d a b",
        "pfadd k a",
        "pfmerge d a b",
        "pfcount a b",
        "hset k a 1",
        "hmset k a 1",
        "hsetnx k a 1",
        "hget k a",
        "hmget k a",
        "hgetall k",
        "hkeys k",
        "hlen k",
        "hexists k a",
        "hstrlen k a",
        "hdel k a",
        "hincrby k a 1",
        "hincrbyfloat k a 1",
        "hrandfield k",
        "hscan k 0",
        "zadd k 1 a",
        "zrem k a",
        "zpopmin k",
        "zmpop 1 a min",
        "zunionstore d 2 a b",
        "zinter 2 a b",
        "restore k 0 x",
        "eval x 2 a b c",
        "eval x 0",
        "spublish c m",
        "object encoding k",
        "memory usage k",
        "ping",
        "ping x",
        "set k",
        "nosuch a",
    ]);
}

#[test]
fn listed_subcommands_exist_and_are_found_by_pattern() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut ours, mut theirs) = (server.connect(), connect_unix(&redis.socket()).unwrap());
    let list = |reply: Frame| -> Vec<String> {
        let Frame::Array(names) = reply else { panic!("{reply:?}") };
        let text = |name: &Frame| String::from_utf8(name.as_bytes().unwrap().to_vec()).unwrap();
        let mut names: Vec<String> = names.iter().map(text).collect();
        names.sort();
        names
    };
    let all = list(ours.call(&["COMMAND", "LIST"]));
    let with_container: Vec<&String> = all.iter().filter(|name| name.contains('|')).collect();
    for name in &with_container {
        let reply = server.connect().call(&name.split('|').collect::<Vec<_>>());
        let is_unknown = matches!(&reply, Frame::Error(text) if text.contains("unknown subcommand '"));
        assert!(!is_unknown || name.starts_with("pubsub|"), "{name}: {reply:?}");
    }
    for pattern in ["client|*", "CLIENT|K*", "*|help", "o*|?req", "get*"] {
        let request = ["COMMAND", "LIST", "FILTERBY", "PATTERN", pattern];
        let (found, expected) = (list(ours.call(&request)), list(theirs.call(&request)));
        let here: Vec<&String> = expected.iter().filter(|name| all.contains(name)).collect();
        // Those that are newer than this Redis.
        let newer = ["client|no-touch", "client|setinfo", "getdel_ro"];
        let found: Vec<&String> = found.iter().filter(|name| !newer.contains(&name.as_str())).collect();
        assert_eq!(found, here, "{pattern}");
        assert!(!found.is_empty(), "{pattern}");
    }
}

#[test]
fn command_info_equals_redis() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let mut pair = Pair::connect(&redis, &server);
    let mut differences = Vec::new();
    for spec in larder_server::commands() {
        let request = ["COMMAND", "INFO", spec.name];
        // The installed Redis does not have this command.
        let redis_info = pair.redis.call(&request);
        if redis_info == Frame::Array(vec![Frame::Null]) {
            continue;
        }
        let (redis, larder) = (description(redis_info), description(pair.larder.call(&request)));
        if redis != larder && !HAVE_GROWN.contains(&spec.name) {
            differences.push(format!("{}\n   redis: {redis:?}\n  larder: {larder:?}", spec.name));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The compared parts of `COMMAND INFO`: arity, indexes of keys, and flags.
fn description(reply: Frame) -> (Vec<Frame>, Vec<&'static str>) {
    let Frame::Array(mut commands) = reply else { panic!("{reply:?}") };
    let Frame::Array(fields) = commands.remove(0) else { panic!("no such command") };
    let Frame::Array(flags) = &fields[2] else { panic!("{fields:?}") };
    let names = ["write", "readonly", "denyoom", "fast", "no_auth", "loading", "movablekeys"];
    let has = |name: &&str| flags.contains(&Frame::Simple((*name).to_owned()));
    let numbers = [1, 3, 4, 5].map(|index| fields[index].clone()).to_vec();
    (numbers, names.into_iter().filter(has).collect())
}

pub(crate) fn requests() -> impl Strategy<Value = Vec<String>> {
    let key = || prop_oneof![Just("a"), Just("b"), Just("c")].prop_map(str::to_owned);
    let value = || prop_oneof!["[a-z]{0,6}", "-?[0-9]{1,3}", Just("9223372036854775806".to_owned())];
    // Far in the future or the past, so that the time between the two executions does not matter.
    let moment = || prop_oneof![Just("1"), Just("4000000000"), Just("5000000000"), Just("6000000000")];
    let number = || (-12i64..12).prop_map(|n| n.to_string());
    let option = || {
        prop_oneof![Just(""), Just("NX"), Just("XX"), Just("GT"), Just("LT"), Just("XX GT"), Just("XX LT")]
    };
    let set_option = || {
        prop_oneof![
            Just(String::new()),
            Just("NX".to_owned()),
            Just("XX".to_owned()),
            Just("GET".to_owned()),
            Just("KEEPTTL".to_owned()),
            Just("NX GET".to_owned()),
            Just("XX KEEPTTL GET".to_owned()),
            Just("EX 1000".to_owned()),
            Just("PX 1000000 NX".to_owned()),
            moment().prop_map(|at| format!("EXAT {at}")),
            moment().prop_map(|at| format!("PXAT {at}000 GET")),
        ]
    };
    let one = |names: &'static [&'static str]| prop::sample::select(names);
    let request = prop_oneof![
        6 => (key(), value(), set_option()).prop_map(|(k, v, o)| format!("SET {k} {v} {o}")),
        6 => (one(&["GET", "STRLEN", "TYPE", "GETDEL", "GETEX", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "PERSIST",
            "INCR", "DECR", "DEL", "UNLINK", "EXISTS", "TOUCH"]), key()).prop_map(|(c, k)| format!("{c} {k}")),
        3 => (one(&["INCRBY", "DECRBY"]), key(), number()).prop_map(|(c, k, n)| format!("{c} {k} {n}")),
        3 => (one(&["APPEND", "SETNX", "GETSET"]), key(), value()).prop_map(|(c, k, v)| format!("{c} {k} {v}")),
        2 => (key(), number(), number()).prop_map(|(k, a, b)| format!("GETRANGE {k} {a} {b}")),
        2 => (key(), number(), value()).prop_map(|(k, at, v)| format!("SETRANGE {k} {at} {v}")),
        2 => (one(&["EXPIRE", "PEXPIRE"]), key(), one(&["-1", "0", "10000000", "x"]))
            .prop_map(|(c, k, n)| format!("{c} {k} {n}")),
        4 => (key(), moment(), option()).prop_map(|(k, at, o)| format!("EXPIREAT {k} {at} {o}")),
        2 => (key(), moment(), option()).prop_map(|(k, at, o)| format!("PEXPIREAT {k} {at}000 {o}")),
        2 => (key(), one(&["PERSIST", "EX 1000", "PX 1000000", "EXAT 1", "EXAT 4000000000", "EX 0", "EX 0 EX 1000"]))
            .prop_map(|(k, o)| format!("GETEX {k} {o}")),
        1 => (key(), value(), key(), value()).prop_map(|(k, v, l, w)| format!("MSET {k} {v} {l} {w}")),
        1 => (key(), value(), key(), value()).prop_map(|(k, v, l, w)| format!("MSETNX {k} {v} {l} {w}")),
        1 => (key(), key(), key()).prop_map(|(a, b, c)| format!("MGET {a} {b} {c}")),
        1 => (one(&["f", "g"]), number(), one(&["0", "5", "25", "75"])).prop_map(|(k, a, b)| format!("INCRBYFLOAT {k} {a}.{b}")),
        2 => (one(&["RENAME", "RENAMENX", "COPY"]), key(), key()).prop_map(|(c, k, l)| format!("{c} {k} {l}")),
        1 => (key(), key()).prop_map(|(k, l)| format!("COPY {k} {l} DB 1 REPLACE")),
        1 => (key(), one(&["0", "1"])).prop_map(|(k, db)| format!("MOVE {k} {db}")),
        2 => (key(), 0..40u32, 0..2u32).prop_map(|(k, at, bit)| format!("SETBIT {k} {at} {bit}")),
        1 => (key(), 0..40u32).prop_map(|(k, at)| format!("GETBIT {k} {at}")),
        2 => (key(), number(), number(), one(&["", " BIT", " BYTE"]))
            .prop_map(|(k, a, b, unit)| format!("BITCOUNT {k} {a} {b}{unit}")),
        1 => (key(), 0..2u32, prop_oneof![Just(String::new()), number().prop_map(|a| format!(" {a}"))])
            .prop_map(|(k, bit, start)| format!("BITPOS {k} {bit}{start}")),
        3 => (key(), 0..2u32, number(), number(), one(&["", " BIT", " BYTE"]))
            .prop_map(|(k, bit, a, b, unit)| format!("BITPOS {k} {bit} {a} {b}{unit}")),
        2 => (one(&["AND", "OR", "XOR"]), key(), key(), key())
            .prop_map(|(op, d, a, b)| format!("BITOP {op} {d} {a} {b}")),
        1 => (key(), key()).prop_map(|(d, a)| format!("BITOP NOT {d} {a}")),
        1 => one(&["KEYS *", "SELECT 1", "SELECT 0", "FLUSHDB"]).prop_map(str::to_owned),
    ];
    request.prop_map(|line| line.trim_end().split(' ').map(str::to_owned).collect())
}

#[test]
fn random_commands_get_equal_replies() {
    assert_equal_replies_at_random(requests());
}

/// Sends random sequences of these commands to both servers.
pub(crate) fn assert_equal_replies_at_random(requests: impl Strategy<Value = Vec<String>>) {
    let Some((pair, _servers)) = Pair::start() else { return };
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() });
    let pair = std::cell::RefCell::new(pair);
    let outcome = runner.run(&vec(requests, 1..60), |commands| {
        let mut pair = pair.borrow_mut();
        let fresh = [words("SELECT 0"), words("FLUSHALL")];
        fresh
            .iter()
            .chain(&commands)
            .try_for_each(|command| pair.compare(command))
            .map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
