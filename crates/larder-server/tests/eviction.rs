//! What happens when memory is used up, by policy: what is refused and what works, compared with a real Redis, and what is
//! evicted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use larder_resp::{Frame, Protocol};
use larder_server::{ByteSize, Config, MemoryPolicy, commands};
use larder_testkit::{RedisServer, until};

use crate::differential::{Pair, words};
use crate::support::{Client, TestServer, connect_unix, encode};

const REFUSED: &str = "OOM command not allowed when used memory > 'maxmemory'.";

fn oom() -> Frame {
    Frame::Error(REFUSED.into())
}

fn ok() -> Frame {
    Frame::Simple("OK".into())
}

fn line<S: std::io::Read + std::io::Write>(client: &mut Client<S>, line: &str) -> Frame {
    client.call(&words(line))
}

/// A server of 1 MiB with this policy.
fn small_server(policy: MemoryPolicy) -> TestServer {
    let max_memory = Some(ByteSize(1 << 20));
    TestServer::with(Config { max_memory, max_memory_policy: Some(policy), ..Config::default() })
}

/// Stores values of 2,000 bytes, with these options, until one is refused. Returns their number.
fn fill<S: std::io::Read + std::io::Write>(client: &mut Client<S>, prefix: &str, options: &[&str]) -> usize {
    let value = "x".repeat(2_000);
    for number in 0..2_000 {
        let (key, mut request) = (format!("{prefix}:{number}"), vec!["SET"]);
        request.extend([&key[..], &value]);
        request.extend(options);
        let reply = client.call(&request);
        if reply == oom() {
            return number;
        }
        assert_eq!(reply, ok());
    }
    panic!("no value was refused")
}

/// Connections to both servers, whose memory is used up under `noeviction`. The keys `string`, `long`, `set`, `map` and
/// `timed` exist.
fn full_pair() -> Option<(Pair, (RedisServer, TestServer))> {
    let (mut pair, servers) = Pair::start()?;
    let larder_fills = [vec!["SET".to_owned(), "filler".to_owned(), "x".repeat(2 << 20)]];
    for command in [
        "CONFIG SET maxmemory-policy noeviction",
        "SET string 10",
        "SET long aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "ZADD set 1 a 2 b 3 c",
        "HSET map a 1 b 2",
        "PFADD hll a b c",
        "SET timed 10 EX 1000",
    ]
    .map(words)
    .into_iter()
    .chain(larder_fills)
    .chain([words("CONFIG SET maxmemory 1mb")])
    {
        pair.compare(&command).expect("both are set up");
    }
    Some((pair, servers))
}

/// The number of arguments decides before memory does, and their values after it: any will do.
#[test]
fn commands_refused_when_memory_is_used_up_are_those_of_redis() {
    let Some((_, (redis, server))) = full_pair() else { return };
    let is_refused = |reply: &Frame| *reply == oom();
    let (mut refused, mut differences) = (0, Vec::new());
    for spec in commands() {
        // They would make room.
        if ["flushall", "flushdb"].contains(&spec.name) {
            continue;
        }
        let arguments = usize::from(spec.arity.unsigned_abs()) - 1;
        // Redis looks for a subcommand before it looks at memory.
        let containers = [
            "acl", "client", "cluster", "command", "config", "function", "latency", "memory", "module",
            "object", "pubsub", "script", "slowlog", "xinfo",
        ];
        let argument = if containers.contains(&spec.name) { "help" } else { "x" };
        let mut request = vec![spec.name.to_owned()];
        request.resize(1 + arguments, argument.to_owned());
        for prefix in ["", "MULTI"] {
            let (mut theirs, mut ours) = (connect_unix(&redis.socket()).unwrap(), server.connect());
            let mut both = |request: &[String]| [theirs.call(request), ours.call(request)];
            if !prefix.is_empty() {
                // MULTI itself needs no memory.
                assert_eq!(both(&words(prefix)), [ok(), ok()]);
            }
            let [expected, actual] = both(&request);
            // It is of a later version.
            if matches!(&expected, Frame::Error(text) if text.starts_with("ERR unknown command")) {
                break;
            }
            refused += usize::from(is_refused(&actual));
            if is_refused(&expected) != is_refused(&actual) {
                differences
                    .push(format!("{prefix} {request:?}\n   redis: {expected:?}\n  larder: {actual:?}"));
            }
            if !prefix.is_empty() && !["quit", "discard", "reset", "exec"].contains(&spec.name) {
                let [expected, actual] = both(&words("EXEC"));
                if expected != actual {
                    differences
                        .push(format!("{request:?}, EXEC\n   redis: {expected:?}\n  larder: {actual:?}"));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(refused > 100, "{refused} were refused");
}

/// What is refused changes nothing, and what needs no memory works.
#[test]
fn replies_when_memory_is_used_up_are_those_of_redis() {
    let Some((mut pair, _servers)) = full_pair() else { return };
    let differences: Vec<String> = [
        "GET string",
        "SET string 11",
        "SET new 1",
        "APPEND string x",
        "SETRANGE long 3 xx",
        "SETRANGE long 1000 xx",
        "SETBIT long 1 1",
        "INCR string",
        "ZADD set 4 d",
        "ZADD set 1 a",
        "ZINCRBY set 1 a",
        "HSET map c 3",
        "HSET map a 3",
        "HSETNX map a 3",
        "HINCRBY map a 1",
        "HGETALL map",
        "HDEL map a",
        "HLEN map",
        "PFADD hll d",
        "PFCOUNT hll",
        "MSET string 1 new 1",
        "COPY string other",
        "GETSET string 1",
        "GET string",
        "STRLEN long",
        "ZRANGE set 0 -1 WITHSCORES",
        "EXISTS new other",
        "GETEX string EX 1000",
        "PERSIST string",
        "EXPIRE string 1000",
        "PERSIST timed",
        "EXPIRE timed 100 GT",
        "RENAME string renamed",
        "RENAME renamed string",
        "MOVE string 3",
        "ZREM set a",
        "ZPOPMIN set",
        "ZRANGESTORE copy set 0 -1",
        "GETDEL timed",
        "DEL nothing",
        "OBJECT IDLETIME nothing",
        "OBJECT FREQ long",
        "OBJECT FREQ nothing",
        "PUBLISH channel message",
        // A transaction.
        "MULTI",
        "GET long",
        "SET new 1",
        "EXEC",
        "MULTI",
        "DISCARD",
        "MULTI",
        "EXEC",
        "MULTI",
        "PING",
        "WATCH a",
        "EXEC",
        "GET new",
        // Scripts.
        "EVAL return{redis.call('get','long')} 0",
        "EVAL return(redis.call('set',KEYS[1],'1')) 1 new",
        "EVAL return(redis.pcall('set',KEYS[1],'1')['err']) 1 new",
        "EVAL return{redis.call('del',KEYS[1]),redis.call('set',KEYS[1],'1')} 1 new",
        "EVAL redis.pcall('set',KEYS[1],'2');return(redis.call('get',KEYS[1])) 1 new",
        "EVAL_RO return(redis.call('get',KEYS[1])) 1 new",
        "GET new",
    ]
    .into_iter()
    .map(words)
    .chain(
        [
            "#!lua\nreturn redis.call('set',KEYS[1],'3')",
            "#!lua flags=no-cluster\nreturn 1",
            "#!lua flags=allow-oom\nreturn redis.call('set',KEYS[1],'4')",
            "#!lua flags=no-writes\nreturn redis.call('get',KEYS[1])",
            "#!lua flags=no-writes,allow-oom\nreturn redis.call('get',KEYS[1])",
        ]
        .into_iter()
        .flat_map(|script| {
            ["EVAL", "EVAL_RO"].map(|command| [command, script, "1", "new"].map(String::from).to_vec())
        }),
    )
    .chain(["GET new", "OBJECT ENCODING long"].map(words))
    .chain([
        // There is room again.
        words("CONFIG SET maxmemory 100mb"),
        words("SET new 5"),
        words("MULTI"),
        words("SET new 6"),
        words("EXEC"),
        words("EVAL return(redis.call('set',KEYS[1],'7')) 1 new"),
        vec!["EVAL".into(), "#!lua\nreturn redis.call('set',KEYS[1],'8')".into(), "1".into(), "new".into()],
        words("GET new"),
    ])
    .filter_map(|command| pair.compare(&command).err())
    .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// `EXEC` is refused as a whole if memory was used up after its commands were queued.
#[test]
fn transaction_queued_before_memory_was_used_up_is_refused_as_a_whole() {
    let Some((mut pair, (redis, server))) = full_pair() else { return };
    pair.compare(&words("CONFIG SET maxmemory 100mb")).unwrap();
    let mut others = Pair::connect(&redis, &server);
    let scripts = ["EVAL return(redis.call('set',KEYS[1],'1')) 1 new", "EVAL #!lua\u{a0}return(1) 0"];
    pair.compare(&["SCRIPT", "LOAD", "#!lua\nreturn(1)"].map(String::from)).unwrap();
    for commands in [
        &["GET long", "SET string 20", "SET new 1"][..],
        &["GET long", scripts[0], scripts[1]],
        &["GET long", "EVALSHA f9fa78a452c66cff82762c5d6c9d1ac40c0d9015 0"],
        &["GET long", "DEL string"],
    ] {
        pair.compare(&words("MULTI")).unwrap();
        for command in commands {
            // A no-break space stands for the end of a line.
            let command: Vec<String> =
                words(command).into_iter().map(|word| word.replace('\u{a0}', "\n")).collect();
            pair.compare(&command).unwrap();
        }
        others.compare(&words("CONFIG SET maxmemory 1mb")).unwrap();
        pair.compare(&words("EXEC")).unwrap();
        others.compare(&words("CONFIG SET maxmemory 100mb")).unwrap();
        pair.compare(&words("MGET string new")).unwrap();
    }
}

#[test]
fn policies_are_set_and_refused_as_in_redis() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    pair.compare(&words("SET k v")).unwrap();
    for name in MemoryPolicy::ALL.map(MemoryPolicy::name).into_iter().chain(["VOLATILE-TTL", "nothing", "''"])
    {
        let set = words(&format!("CONFIG SET maxmemory-policy {name}"));
        pair.compare(&set).unwrap();
        pair.compare(&words("CONFIG GET maxmemory-policy")).unwrap();
        // Redis knows one of the two of every key; here the key is described by neither.
        let is_lfu = name.ends_with("lfu");
        pair.compare(&words(if is_lfu { "OBJECT IDLETIME k" } else { "OBJECT FREQ k" })).unwrap();
        pair.compare(&words("OBJECT IDLETIME nothing")).unwrap();
    }
}

#[test]
fn noeviction_refuses_exactly_what_does_not_fit() {
    let server = small_server(MemoryPolicy::Noeviction);
    let mut client = server.connect();
    let stored = fill(&mut client, "k", &[]);
    assert!((400..520).contains(&stored), "{stored}");
    let stats = || server.stats().snapshot();
    assert_eq!((stats().evicted, stats().keys, stats().expired), (0, stored as u64, 0));
    assert!(stats().memory_used_bytes <= 1 << 20);
    // As long as before, in place or not.
    let (same, longer) = ("y".repeat(2_000), "y".repeat(9_000));
    assert_eq!(client.call(&["SET", "k:1", &same]), ok());
    assert_eq!(client.call(&["SET", "k:1", &same, "GET"]).as_bytes(), Some(same.as_bytes()));
    for request in [
        &["SET", "k:1", &longer][..],
        &["SET", "k:1", &longer, "GET"],
        &["SET", "k:1", &longer, "XX"],
        &["SET", "new", &longer, "EX", "100"],
        &["SETNX", "new", &longer],
        &["GETSET", "k:1", &longer],
        &["APPEND", "k:1", &longer],
        &["SETRANGE", "k:1", "9000", "x"],
        &["SETBIT", "k:1", "90000", "1"],
        &["BITFIELD", "k:1", "SET", "u8", "90000", "1"],
        &["BITOP", "NOT", "new", "filler"],
        &["ZADD", "new", "1", &longer],
        &["MSET", "k:1", &longer, "k:2", "short"],
        &["MSET", "k:2", "short", "k:1", &longer],
        &["MSETNX", "new", "short", "other", &longer],
        &["PFADD", "new", "a"],
        &["COPY", "k:1", "new"],
        &["COPY", "k:1", "new", "DB", "3"],
    ] {
        let reply = client.call(request);
        let is_small = matches!(request[0], "PFADD" | "COPY" | "BITOP");
        assert!(reply == oom() || is_small, "{}: {reply:?}", request[..2].join(" "));
        assert!(stats().memory_used_bytes <= 1 << 20, "{}", request[0]);
        for key in ["k:1", "k:2"] {
            assert_eq!(client.call(&["STRLEN", key]), Frame::Integer(2_000), "{}", request[0]);
        }
        client.call(&["DEL", "new"]);
    }
    assert_eq!((stats().evicted, stats().keys), (0, stored as u64));
    // Room of one key.
    assert_eq!(client.call(&["DEL", "k:0"]), Frame::Integer(1));
    assert_eq!(client.call(&["SET", "new", &same]), ok());
    assert_eq!(client.call(&["GET", "k:1"]).as_bytes(), Some(same.as_bytes()));
}

/// A set that exists grows in place: whether there is room for the request is known before.
#[test]
fn sorted_set_is_not_changed_by_a_request_that_does_not_fit() {
    let server = small_server(MemoryPolicy::Noeviction);
    let mut client = server.connect();
    line(&mut client, "ZADD set 1 a");
    fill(&mut client, "k", &[]);
    let long = "m".repeat(9_000);
    assert_eq!(client.call(&["ZADD", "set", "1", "b", "2", &long]), oom());
    assert_eq!(client.call(&["ZINCRBY", "set", "1", &long]), oom());
    assert_eq!(line(&mut client, "ZRANGE set 0 -1"), Frame::Array(vec![Frame::Bulk("a".into())]));
    assert_eq!(line(&mut client, "ZADD set 5 a"), Frame::Integer(0));
    assert_eq!(line(&mut client, "ZREM set a"), Frame::Integer(1));
}

/// Their commands hold the locks of the keys until the messages are taken.
#[test]
fn connections_that_receive_messages_are_refused_what_does_not_fit() {
    let (value, longer) = ("x".repeat(2_000), "y".repeat(9_000));
    for policy in [MemoryPolicy::Noeviction, MemoryPolicy::VolatileLru] {
        for setting in ["CLIENT TRACKING ON", "SUBSCRIBE channel"] {
            let server = small_server(policy);
            let (mut client, mut other) = (server.connect_as(Protocol::Resp3), server.connect());
            line(&mut client, setting);
            fill(&mut other, "k", &[]);
            for request in [
                &["SET", "k:1", &longer][..],
                &["SET", "new", &longer],
                &["SETNX", "new", &longer],
                &["GETSET", "k:1", &longer],
                &["APPEND", "k:1", &longer],
                &["SETRANGE", "k:1", "9000", "x"],
                &["MSET", "k:1", &longer, "new", "short"],
                &["MSETNX", "new", "short", "more", &longer],
                &["COPY", "k:1", "new"],
            ] {
                let name = request[0];
                assert_eq!(client.call(request), oom(), "{policy}: {setting}: {name}");
                assert!(
                    server.stats().snapshot().memory_used_bytes <= 1 << 20,
                    "{policy}: {setting}: {name}"
                );
                assert_eq!(line(&mut other, "STRLEN k:1"), Frame::Integer(2_000), "{name}");
                assert_eq!(line(&mut other, "EXISTS new more"), Frame::Integer(0), "{name}");
            }
            // Under one of the policies a key with a deadline makes room.
            line(&mut other, "DEL k:2");
            assert_eq!(other.call(&["SET", "t:2", &value, "EX", "1000"]), ok());
            let is_evicted = policy == MemoryPolicy::VolatileLru;
            let expected = if is_evicted { ok() } else { oom() };
            assert_eq!(client.call(&["SET", "n:2", &value]), expected, "{policy}: {setting}");
            assert_eq!(server.stats().snapshot().evicted, u64::from(is_evicted), "{policy}: {setting}");
        }
    }
}

/// A transaction or a script is refused as a whole, or not at all.
#[test]
fn transaction_that_has_begun_is_not_stopped_halfway() {
    let server = small_server(MemoryPolicy::Noeviction);
    let mut client = server.connect();
    fill(&mut client, "k", &[]);
    let long = "m".repeat(9_000);
    // Does not fit: nothing is executed.
    assert_eq!(line(&mut client, "MULTI"), ok());
    for request in [&["SET", "first", "1"][..], &["SET", "second", &long]] {
        assert_eq!(client.call(request), Frame::Simple("QUEUED".into()));
    }
    let aborted = format!("EXECABORT Transaction discarded because of: {REFUSED}");
    assert_eq!(line(&mut client, "EXEC"), Frame::Error(aborted));
    assert_eq!(line(&mut client, "EXISTS first second"), Frame::Integer(0));
    // A script makes more than it says: all of it is done, and the next one is refused.
    let script = "redis.call('set', KEYS[1], '1'); return redis.call('set', KEYS[2], string.rep('m', 9000))";
    let mut eval = || client.call(&["EVAL", script, "2", "first", "second"]);
    assert_eq!(eval(), ok());
    assert!(matches!(eval(), Frame::Error(text) if text.starts_with(REFUSED)));
    assert_eq!(line(&mut client, "STRLEN second"), Frame::Integer(9_000));
    assert!(server.stats().snapshot().memory_used_bytes > 1 << 20);
    assert_eq!(line(&mut client, "INCR first"), oom());
    assert_eq!(line(&mut client, "MULTI"), ok());
    assert_eq!(line(&mut client, "GET first"), oom());
    assert!(matches!(line(&mut client, "EXEC"), Frame::Error(text) if text.starts_with("EXECABORT")));
    line(&mut client, "DEL second");
    assert_eq!(line(&mut client, "INCR first"), Frame::Integer(2));
}

/// An undone script restores values that are larger than the limit is by then.
#[test]
fn undone_script_restores_values_beyond_a_lower_limit() {
    let server =
        TestServer::with(Config { max_memory_policy: Some(MemoryPolicy::Noeviction), ..Config::default() });
    let mut client = server.connect();
    client.call(&["SET", "large", &"x".repeat(3 << 20)]);
    line(&mut client, "ZADD set 1 a");
    line(&mut client, "CONFIG SET maxmemory 1mb");
    line(&mut client, "CONFIG SET busy-reply-threshold 50");
    let script = "redis.call('del', KEYS[1], KEYS[2]); while true do end";
    assert!(matches!(client.call(&["EVAL", script, "2", "large", "set"]), Frame::Error(_)));
    assert_eq!(line(&mut client, "STRLEN large"), Frame::Integer(3 << 20));
    assert_eq!(line(&mut client, "ZCARD set"), Frame::Integer(1));
    // So does a new name.
    assert_eq!(line(&mut client, "RENAME large other"), ok());
    assert_eq!(line(&mut client, "STRLEN other"), Frame::Integer(3 << 20));
    assert_eq!(server.stats().snapshot().evicted, 0);
}

#[test]
fn expired_keys_make_room_before_a_write_is_refused() {
    let server = small_server(MemoryPolicy::Noeviction);
    let mut client = server.connect();
    let value = "x".repeat(900_000);
    assert_eq!(client.call(&["SET", "short", &value, "PX", "1000"]), ok());
    assert_eq!(client.call(&["SET", "long", &value]), oom());
    until("the key expires", || (line(&mut client, "EXISTS short") == Frame::Integer(0)).then_some(()));
    assert_eq!(client.call(&["SET", "long", &value]), ok());
    assert_eq!(server.stats().snapshot().evicted, 0);
}

#[test]
fn volatile_policies_evict_keys_with_deadlines_only() {
    for policy in MemoryPolicy::ALL.into_iter().filter(|policy| policy.name().starts_with("volatile")) {
        let server = small_server(policy);
        let mut client = server.connect();
        let value = "x".repeat(2_000);
        for number in 0..100 {
            assert_eq!(client.call(&["SET", &format!("keep:{number}"), &value]), ok());
            assert_eq!(client.call(&["SET", &format!("lost:{number}"), &value, "EX", "1000"]), ok());
        }
        // They change sides.
        for number in 0..50 {
            assert_eq!(line(&mut client, &format!("PERSIST lost:{number}")), Frame::Integer(1));
            assert_eq!(line(&mut client, &format!("EXPIRE keep:{number} 1000")), Frame::Integer(1));
        }
        // The deadline stays with the key.
        assert_eq!(client.call(&["SET", "keep:0", &value, "KEEPTTL"]), ok());
        assert_eq!(client.call(&["APPEND", "keep:1", "more"]), Frame::Integer(2_004));
        let stored = fill(&mut client, "more", &[]);
        assert!(stored > 200, "{policy}: {stored}");
        let exists =
            |client: &mut Client<_>, key: String| line(client, &format!("EXISTS {key}")) == Frame::Integer(1);
        for number in 0..100 {
            assert_eq!(
                exists(&mut client, format!("keep:{number}")),
                number >= 50,
                "{policy}: keep:{number}"
            );
            assert_eq!(exists(&mut client, format!("lost:{number}")), number < 50, "{policy}: lost:{number}");
        }
        let stats = server.stats().snapshot();
        assert_eq!((stats.evicted, stats.keys), (100, 100 + stored as u64), "{policy}");
        let info = line(&mut client, "INFO");
        let info = String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned();
        for field in ["evicted_keys:100\r\n".to_owned(), format!("maxmemory_policy:{policy}\r\n")] {
            assert!(info.contains(&field), "{policy}: no {field}");
        }
        // Keys with deadlines find room as long as there are others with deadlines.
        assert_eq!(client.call(&["SET", "another", &value, "EX", "10"]), oom(), "{policy}");
        line(&mut client, "EXPIRE keep:99 100");
        (0..10).for_each(|n| {
            assert_eq!(client.call(&["SET", &format!("timed:{n}"), &value, "EX", "10"]), ok(), "{policy}");
        });
        assert!(!exists(&mut client, "keep:99".to_owned()), "{policy}");
    }
}

/// Shards evict on their own, so the order is that of Redis in the mean: those who are left have later deadlines.
#[test]
fn volatile_ttl_evicts_the_nearest_deadlines() {
    let server = small_server(MemoryPolicy::VolatileTtl);
    let mut client = server.connect();
    let value = "x".repeat(500);
    let name = |rank: u32| format!("k:{rank}");
    // 2,000 in an order without any relation to their deadlines, of which about half has room.
    for rank in (0..2_000).map(|n| n * 777 % 2_000) {
        let secs = (1_000 + 60 * rank).to_string();
        assert_eq!(client.call(&["SET", &name(rank), &value, "EX", &secs]), ok());
    }
    let left: BTreeSet<u32> = (0..2_000)
        .filter(|rank| line(&mut client, &format!("EXISTS {}", name(*rank))) == Frame::Integer(1))
        .collect();
    let latest = (2_000 - left.len() as u32)..2_000;
    let kept = left.iter().filter(|rank| latest.contains(rank)).count();
    assert!(
        left.len() > 1_000 && kept * 10 > left.len() * 8,
        "{kept} of {} have the latest deadlines",
        left.len()
    );
}

/// A connection that asks for the number of keys all the time sees some in between, sooner or later.
#[test]
fn lower_limit_evicts_in_slices_before_the_reply() {
    const KEYS: u64 = 20_000;
    const REQUESTS: usize = 20_000;
    let server = TestServer::with(Config { threads: Some(1), ..Config::default() });
    let (mut client, mut other) = (server.connect(), server.connect());
    let value = "x".repeat(100);
    until("entries are evicted in slices", || {
        assert_eq!(line(&mut client, "CONFIG SET maxmemory 64mb"), ok());
        for number in 0..KEYS {
            client.send(&encode(&["SET", &format!("k:{number}"), &value]));
            if number % 100 == 99 {
                (0..100).for_each(|_| assert_eq!(client.receive(), ok()));
            }
        }
        let evicted = server.stats().snapshot().evicted;
        // More than one turn executes.
        other.send("DBSIZE\r\n".repeat(REQUESTS).as_bytes());
        client.send(&encode(&["CONFIG", "SET", "maxmemory", "1mb"]));
        let sizes: BTreeSet<i64> = (0..REQUESTS)
            .map(|_| match other.receive() {
                Frame::Integer(keys) => keys,
                reply => panic!("{reply:?}"),
            })
            .collect();
        assert_eq!(client.receive(), ok());
        let stats = server.stats().snapshot();
        assert!(stats.memory_used_bytes <= 1 << 20 && stats.keys > 1_000, "{} keys", stats.keys);
        assert_eq!(stats.evicted - evicted + stats.keys, KEYS);
        sizes.iter().any(|keys| (stats.keys + 1..KEYS).contains(&keys.cast_unsigned())).then_some(())
    });
}

#[test]
fn lower_limit_without_eviction_refuses_writes_until_there_is_room() {
    for policy in [MemoryPolicy::Noeviction, MemoryPolicy::VolatileTtl] {
        let server = TestServer::with(Config { max_memory_policy: Some(policy), ..Config::default() });
        let mut client = server.connect();
        let value = "x".repeat(500_000);
        for number in 0..4 {
            assert_eq!(client.call(&["SET", &format!("k:{number}"), &value]), ok());
        }
        assert_eq!(line(&mut client, "CONFIG SET maxmemory 1mb"), ok());
        assert_eq!(
            line(&mut client, "CONFIG GET maxmemory"),
            Frame::Array(vec![Frame::Bulk("maxmemory".into()), Frame::Bulk("1048576".into()),])
        );
        for request in ["SET k:0 short", "INCR n", "APPEND k:1 x"] {
            assert_eq!(line(&mut client, request), oom(), "{policy}");
        }
        assert_eq!(line(&mut client, "DEL k:0 k:1 k:2"), Frame::Integer(3));
        assert_eq!(line(&mut client, "INCR n"), Frame::Integer(1), "{policy}");
        assert_eq!(line(&mut client, "CONFIG SET maxmemory-policy allkeys-lfu maxmemory 1mb"), ok());
        assert_eq!(client.call(&["SET", "k:9", &value]), ok(), "{policy}");
        assert!(server.stats().snapshot().memory_used_bytes <= 1 << 20);
    }
}

/// The next command of the same pipeline follows the policy, and those of other connections do.
#[test]
fn policy_takes_effect_at_once() {
    let server = small_server(MemoryPolicy::AllkeysLfu);
    let mut client = server.connect();
    let value = "x".repeat(900_000);
    let set = encode(&["SET", "a", &value]);
    let other = encode(&["SET", "b", &value]);
    let policy = |name| encode(&["CONFIG", "SET", "maxmemory-policy", name]);
    let requests = [set, other.clone(), policy("noeviction"), encode(&["DEL", "b"])];
    client.send(&requests.concat());
    assert_eq!([(); 4].map(|()| client.receive()), [ok(), ok(), ok(), Frame::Integer(1)]);
    let third = encode(&["SET", "c", &value]);
    client.send(&[other, third.clone(), policy("allkeys-lru"), third].concat());
    assert_eq!([(); 4].map(|()| client.receive()), [ok(), oom(), ok(), ok()]);
}

/// Nobody is told of a change that was refused.
#[test]
fn refused_write_tells_no_observer() {
    let server = small_server(MemoryPolicy::Noeviction);
    let (mut client, mut listener, mut watcher) = (server.connect(), server.connect(), server.connect());
    line(&mut client, "SET k v");
    line(&mut client, "CONFIG SET notify-keyspace-events KEA");
    line(&mut listener, "PSUBSCRIBE __keyspace*");
    line(&mut watcher, "WATCH k");
    let long = "x".repeat(1 << 20);
    for request in [
        &["SET", "k", &long][..],
        &["MSET", "k", &long],
        &["APPEND", "k", &long],
        &["SETRANGE", "k", "1000000", "xx"],
    ] {
        assert_eq!(client.call(request), oom());
    }
    line(&mut watcher, "MULTI");
    line(&mut watcher, "GET k");
    assert_eq!(line(&mut watcher, "EXEC"), Frame::Array(vec![Frame::Bulk("v".into())]));
    line(&mut client, "DEL k");
    let (Frame::Array(message) | Frame::Push(message)) = listener.receive() else { panic!("a message") };
    assert_eq!(message.last(), Some(&Frame::Bulk("del".into())), "the first message is of DEL");
}

/// Several connections write beyond the limit while another one changes the policy: no key without a deadline is evicted
/// while no policy allows it, and all agree at the end.
#[test]
fn policies_change_under_load() {
    let server = TestServer::with(Config {
        max_memory: Some(ByteSize(1 << 20)),
        max_memory_policy: Some(MemoryPolicy::Noeviction),
        threads: Some(2),
        ..Config::default()
    });
    let mut client = server.connect();
    let value = "x".repeat(1_000);
    (0..100).for_each(|n| assert_eq!(client.call(&["SET", &format!("keep:{n}"), &value]), ok()));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in [1, 2, 3] {
            let (mut client, done, value) = (server.connect(), &done, &value);
            scope.spawn(move || {
                for n in 0.. {
                    let key = format!("timed:{}", n * seed % 2_000);
                    let reply = match n % 7 {
                        0 => client.call(&["DEL", &key]),
                        1 => client.call(&["GET", &key]),
                        2 => client.call(&["MSET", &format!("plain:{}", n % 50), value]),
                        _ => client.call(&["SET", &key, value, "EX", "1000"]),
                    };
                    assert!(!matches!(&reply, Frame::Error(text) if text != REFUSED), "{reply:?}");
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let mut change_until_evicted = |policies: &[MemoryPolicy], count| {
            for (n, policy) in policies.iter().cycle().enumerate() {
                assert_eq!(line(&mut client, &format!("CONFIG SET maxmemory-policy {policy}")), ok());
                if n > 200 && server.stats().snapshot().evicted > count {
                    break;
                }
            }
        };
        let without_allkeys = &MemoryPolicy::ALL[3..];
        assert!(without_allkeys.iter().all(|policy| !policy.name().starts_with("allkeys")));
        change_until_evicted(without_allkeys, 500);
        let mut checker = server.connect();
        for n in 0..100 {
            assert_eq!(line(&mut checker, &format!("EXISTS keep:{n}")), Frame::Integer(1), "keep:{n}");
        }
        change_until_evicted(&MemoryPolicy::ALL, 1_500);
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(line(&mut client, "CONFIG SET maxmemory-policy allkeys-lfu"), ok());
    let stats = server.stats().snapshot();
    assert!(stats.memory_used_bytes <= 1 << 20, "{}", stats.memory_used_bytes);
    assert_eq!(line(&mut client, "DBSIZE"), Frame::Integer(stats.keys as i64));
}
