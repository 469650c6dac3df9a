//! Scripts are atomic: with declared and other keys, on several threads, and when they are ended and undone.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use larder_resp::{Frame, Protocol};
use larder_server::{Config, Store};
use larder_testkit::PATIENCE;

use crate::support::{Client, TestServer, encode};

/// Moves an amount between two keys, one byte string after the other.
const TRANSFER: &str = "
    local from, to = redis.call('get', KEYS[1]), redis.call('get', KEYS[2])
    redis.call('set', KEYS[1], from - ARGV[1])
    redis.call('set', KEYS[2], to + ARGV[1])
    return redis.call('get', KEYS[1]) + redis.call('get', KEYS[2])";

/// The same with keys that are not declared.
const HIDDEN_TRANSFER: &str = "
    local names = {ARGV[2], ARGV[3]}
    redis.call('set', names[1], redis.call('get', names[1]) - ARGV[1])
    redis.call('set', names[2], redis.call('get', names[2]) + ARGV[1])
    return redis.call('get', names[1]) + redis.call('get', names[2])";

fn integer(reply: &Frame) -> i64 {
    match reply {
        Frame::Integer(number) => *number,
        Frame::Bulk(text) => std::str::from_utf8(text).unwrap().parse().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Servers that share a keyspace have threads of their own, whatever the load is.
#[test]
fn no_reader_sees_a_part_of_a_script() {
    const TOTAL: i64 = 1000;
    let store = Store::new(Some(64 << 20)).unwrap();
    let servers = [0, 1, 2].map(|_| TestServer::with_store(Config::default(), store.clone()));
    servers[0].connect().call(&["MSET", "a", "1000", "b", "0"]);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (script, server) in [(TRANSFER, &servers[0]), (HIDDEN_TRANSFER, &servers[1])] {
            let is_done = &is_done;
            scope.spawn(move || {
                let mut client = server.connect();
                for amount in 0..1_000 {
                    let amount = (amount % 7 - 3).to_string();
                    let request = match script {
                        TRANSFER => vec!["EVAL", script, "2", "a", "b", &amount],
                        // Another text is another script, which is not known to use other keys.
                        _ => vec!["EVAL", script, "0", &amount, "a", "b"],
                    };
                    assert_eq!(integer(&client.call(&request)), TOTAL);
                    if amount.ends_with('3') {
                        client.call(&["SCRIPT", "FLUSH"]);
                    }
                }
                is_done.store(true, Ordering::Relaxed);
            });
        }
        let mut client = servers[2].connect();
        while !is_done.load(Ordering::Relaxed) {
            let Frame::Array(values) = client.call(&["MGET", "a", "b"]) else { panic!("not an array") };
            assert_eq!(values.iter().map(integer).sum::<i64>(), TOTAL);
            let sum =
                client.call(&["EVAL", "local v = redis.call('mget', 'a', 'b') return v[1] + v[2]", "0"]);
            assert_eq!(integer(&sum), TOTAL);
        }
    });
}

/// All messages that arrive until the reply to a `PING`.
fn messages(client: &mut Client<std::net::TcpStream>) -> Vec<String> {
    client.send(b"PING end\r\n");
    let mut messages = Vec::new();
    loop {
        match client.receive() {
            Frame::Push(parts) => {
                let texts = parts.iter().skip(1).map(|part| match part {
                    Frame::Array(names) => format!("{:?}", names[0].as_bytes()),
                    part => String::from_utf8_lossy(part.as_bytes().unwrap_or_default()).into_owned(),
                });
                messages.push(texts.collect::<Vec<_>>().join(" "));
            }
            _ => return messages,
        }
    }
}

fn subscriber(server: &TestServer) -> Client<std::net::TcpStream> {
    let mut client = server.connect_as(Protocol::Resp3);
    client.call(&["CONFIG", "SET", "notify-keyspace-events", "EA"]);
    client.call(&["SUBSCRIBE", "channel"]);
    client.call(&["PSUBSCRIBE", "__keyevent@*"]);
    client
}

/// The script starts again at the second key, after it has written the first one.
#[test]
fn run_that_starts_again_is_seen_by_nobody() {
    let server = TestServer::start();
    let mut subscriber = subscriber(&server);
    let mut client = server.connect();
    client.call(&["ZADD", "set", "1", "a", "2", "b"]);
    client.call(&["SET", "counter", "5", "EX", "100"]);
    messages(&mut subscriber);
    let script = "
        local receivers = redis.call('publish', 'channel', 'from the script')
        redis.call('incr', KEYS[1])
        redis.call('zadd', KEYS[2], 3, 'c')
        redis.call('zrem', KEYS[2], 'a')
        redis.call('set', 'not declared', redis.call('get', KEYS[1]))
        return {receivers, redis.call('get', KEYS[1]), redis.call('zcard', KEYS[2])}";
    let reply = client.call(&["EVAL", script, "2", "counter", "set"]);
    let Frame::Array(values) = &reply else { panic!("{reply:?}") };
    assert_eq!(values.iter().map(integer).collect::<Vec<_>>(), [1, 6, 2]);
    let expected = [
        "channel from the script",
        "__keyevent@* __keyevent@0__:incrby counter",
        "__keyevent@* __keyevent@0__:zadd set",
        "__keyevent@* __keyevent@0__:zrem set",
        "__keyevent@* __keyevent@0__:new not declared",
        "__keyevent@* __keyevent@0__:set not declared",
    ];
    let received = messages(&mut subscriber);
    assert_eq!(received.iter().filter(|text| !text.contains(":new")).count(), 5, "{received:?}");
    for text in expected.iter().filter(|text| !text.contains(":new")) {
        assert_eq!(received.iter().filter(|message| message == text).count(), 1, "{text}: {received:?}");
    }
    assert!(integer(&client.call(&["TTL", "counter"])) > 90);
}

#[test]
fn script_that_takes_too_long_is_ended_and_undone() {
    let server = TestServer::start();
    let mut subscriber = subscriber(&server);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.call(&["CONFIG", "SET", "busy-reply-threshold", "50"]);
    client.call(&["SET", "k", "before"]);
    client.call(&["ZADD", "set", "1", "a"]);
    messages(&mut subscriber);
    other.call(&["WATCH", "k", "set"]);
    let writes = "redis.call('set', KEYS[1], 'after') redis.call('zadd', 'set', 2, 'b') redis.call('del', 'set') \
                  redis.call('publish', 'channel', 'x') redis.call('flushall') redis.call('set', 'new', 1) ";
    for endless in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() pcall(f) while true do pcall(f) end end f()",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "while true do local c = coroutine.create(function() while true do end end) coroutine.resume(c) end",
        "local c = coroutine.wrap(function() while true do coroutine.yield() end end) while true do c() end",
        "while true do redis.pcall('get', KEYS[1]) end",
        "while true do local s = ('x'):rep(100000) end",
        "while true do pcall(error) end",
        "while true do collectgarbage() end",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) while true do pcall(function() return t[1] end) end",
        "repeat local ok = pcall(string.rep, 'x', 1e9) until false",
        "for i = 1, 1e15 do end",
        "table.sort({3, 2, 1}, function() while true do end end)",
        "string.gsub('xxx', 'x', function() while true do end end)",
        "load(function() while true do end end)",
    ] {
        let reply = client.call(&["EVAL", &(writes.to_owned() + endless), "1", "k"]);
        let is_named = |text: &str| text.contains("busy-reply-threshold, 50 ms") && text.contains("undone");
        assert!(matches!(&reply, Frame::Error(text) if is_named(text)), "{endless}: {reply:?}");
        assert_eq!(other.call(&["GET", "k"]).as_bytes(), Some(&b"before"[..]), "{endless}");
        assert_eq!(other.call(&["ZRANGE", "set", "0", "-1"]), client.call(&["ZRANGE", "set", "0", "0"]));
        assert_eq!(other.call(&["DBSIZE"]), Frame::Integer(2), "{endless}");
    }
    assert_eq!(messages(&mut subscriber), [""; 0]);
    other.call(&["MULTI"]);
    other.call(&["PING"]);
    assert!(matches!(other.call(&["EXEC"]), Frame::Array(_)), "writes that were undone fail no transaction");
    assert_eq!(client.call(&["EVAL", "return 1", "0"]), Frame::Integer(1));
}

/// The limit ends the script and not the transaction.
#[test]
fn script_in_a_transaction_is_undone_alone() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(&["CONFIG", "SET", "busy-reply-threshold", "20"]);
    for command in [
        &["MULTI"][..],
        &["SET", "k", "1"],
        &["EVAL", "redis.call('incr', 'k') return redis.call('incr', 'other')", "0"],
        &["EVAL", "redis.call('set', 'k', 9) while true do end", "0"],
        &["GET", "k"],
    ] {
        client.call(command);
    }
    let Frame::Array(replies) = client.call(&["EXEC"]) else { panic!("not executed") };
    assert_eq!(replies[1], Frame::Integer(1));
    assert!(matches!(&replies[2], Frame::Error(text) if text.contains("undone")));
    assert_eq!(integer(&replies[3]), 2);
}

#[test]
fn write_of_a_script_fails_a_watching_transaction() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    for (script, fails) in [
        ("redis.call('set', KEYS[1], 1)", true),
        ("redis.call('get', KEYS[1])", false),
        ("redis.call('set', KEYS[1], 1) redis.call('get', 'not declared')", true),
        ("redis.call('set', 'k', 1) error('x')", true),
    ] {
        client.call(&["WATCH", "k"]);
        other.call(&["EVAL", script, "1", "k"]);
        client.call(&["MULTI"]);
        client.call(&["PING"]);
        assert_eq!(client.call(&["EXEC"]) == Frame::Null, fails, "{script}");
    }
}

/// Keys that a script reads are tracked for its caller, and keys that it writes are reported to others.
#[test]
fn tracking_sees_reads_and_writes_of_scripts() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect_as(Protocol::Resp3), server.connect());
    client.call(&["CLIENT", "TRACKING", "ON"]);
    client.call(&["EVAL", "return redis.call('get', KEYS[1])", "1", "declared"]);
    client.call(&["EVAL", "return redis.call('get', 'hidden')", "0"]);
    for name in ["declared", "hidden", "never read"] {
        other.call(&["EVAL", "return redis.call('set', KEYS[1], 1)", "1", name]);
    }
    let received = messages(&mut client);
    assert_eq!(received, [format!("{:?}", Some(b"declared")), format!("{:?}", Some(b"hidden"))]);
    // The caller is told of its own writes behind the reply.
    client.call(&["GET", "declared"]);
    client.send(&encode(&["EVAL", "return redis.call('set', KEYS[1], 2)", "1", "declared"]));
    assert_eq!(client.receive(), Frame::Simple("OK".into()));
    assert_eq!(messages(&mut client), [format!("{:?}", Some(b"declared"))]);
}

/// A subscriber that runs a script finds the messages of earlier commands ahead of its reply, and its own publications.
#[test]
fn messages_of_a_script_precede_its_reply() {
    let server = TestServer::start();
    let mut client = server.connect_as(Protocol::Resp3);
    client.call(&["SUBSCRIBE", "channel"]);
    let script =
        "redis.call('publish', 'channel', 'one') redis.call('publish', 'channel', 'two') return 'reply'";
    client.send(&encode(&["EVAL", script, "0"]));
    for expected in ["one", "two"] {
        let Frame::Push(parts) = client.receive() else { panic!("not a message") };
        assert_eq!(parts[2].as_bytes(), Some(expected.as_bytes()));
    }
    assert_eq!(client.receive().as_bytes(), Some(&b"reply"[..]));
    client.send(&encode(&["CLIENT", "REPLY", "SKIP"]));
    client.send(&encode(&["EVAL", script, "0"]));
    for expected in ["one", "two"] {
        let Frame::Push(parts) = client.receive() else { panic!("not a message") };
        assert_eq!(parts[2].as_bytes(), Some(expected.as_bytes()));
    }
    client.send(b"PING\r\n");
    assert_eq!(client.receive(), Frame::Simple("PONG".into()));
}

/// Selecting a database, and the version of replies, end with the script.
#[test]
fn script_leaves_the_connection_as_it_was() {
    let server = TestServer::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut client = server.connect_as(protocol);
        client.call(&["SELECT", "3"]);
        for script in [
            "redis.call('select', 5) redis.setresp(3) return 1",
            "redis.call('select', 5) redis.setresp(3) error('x')",
            "redis.call('select', 5) redis.setresp(2) redis.call('set', 'not declared', 1)",
        ] {
            client.call(&["EVAL", script, "0"]);
            client.call(&["SET", "k", "v"]);
            let database: Frame = client.call(&["CLIENT", "INFO"]);
            let text = String::from_utf8_lossy(database.as_bytes().unwrap()).into_owned();
            assert!(
                text.contains(" db=3 ") && text.contains(&format!("resp={}", protocol.version())),
                "{text}"
            );
            assert_eq!(client.call(&["DBSIZE"]), Frame::Integer(1));
        }
    }
}

/// A script whose changes were undone, by the thousand: the records of single keys and of many.
#[test]
fn many_changes_are_undone() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(&["CONFIG", "SET", "busy-reply-threshold", "200"]);
    for index in 0..200 {
        let name = format!("key {index}");
        client.call(&["SET", &name, &"v".repeat(index)]);
        client.call(&["ZADD", &format!("set {index}"), &index.to_string(), "a", "1", "b"]);
        client.call(&["HSET", &format!("map {index}"), "a", &index.to_string(), "b", "1"]);
        client.call(&["HPEXPIREAT", &format!("map {index}"), "4000000000000", "FIELDS", "1", "b"]);
    }
    let script = "
        for round = 1, 3 do
            for i = 0, 199 do
                redis.call('append', 'key ' .. i, 'x')
                redis.call('zadd', 'set ' .. i, round, 'new')
                redis.call('zincrby', 'set ' .. i, round, 'a')
                redis.call('expire', 'set ' .. i, 100)
                redis.call('hincrby', 'map ' .. i, 'a', round)
                redis.call('hsetex', 'map ' .. i, 'EX', 100, 'FIELDS', 2, 'b', round, 'new', 1)
                redis.call('hpersist', 'map ' .. i, 'FIELDS', 1, 'b')
                redis.call('rename', 'key ' .. i, 'renamed ' .. i)
                redis.call('rename', 'renamed ' .. i, 'key ' .. i)
                redis.call('zunionstore', 'union ' .. i, 2, 'set ' .. i, 'set 0')
            end
            redis.call('zremrangebyrank', 'set 7', 0, -1)
            redis.call('hdel', 'map 7', 'a', 'b', 'new')
        end
        while true do end";
    let digest =
        "local s = '' local keys = redis.call('keys', '*') table.sort(keys) for _, k in ipairs(keys) do
        local kind = redis.call('type', k).ok
        s = s .. k .. redis.call('ttl', k) .. (kind == 'zset'
            and table.concat(redis.call('zrange', k, 0, -1, 'withscores'), ',') or kind == 'hash'
            and redis.call('hlen', k) .. table.concat(redis.call('hmget', k, 'a', 'b'), ',')
                .. table.concat(redis.call('hpexpiretime', k, 'FIELDS', 2, 'a', 'b'), ',')
            or redis.call('get', k)) end
        return redis.sha1hex(s)";
    let before = client.call(&["EVAL", digest, "0"]);
    let reply = client.call(&["EVAL", script, "0"]);
    assert!(matches!(&reply, Frame::Error(text) if text.contains("undone")), "{reply:?}");
    assert_eq!(client.call(&["EVAL", digest, "0"]), before);
}

/// The thread of the script serves nobody else; a new connection is on the other thread.
#[test]
fn script_kill_ends_a_slow_script_from_another_thread() {
    let server = TestServer::with(Config { threads: Some(2), ..Config::default() });
    let mut client = server.connect();
    client.call(&["SET", "k", "before"]);
    assert!(matches!(client.call(&["SCRIPT", "KILL"]), Frame::Error(text) if text.starts_with("NOTBUSY")));
    client.call(&["CONFIG", "SET", "busy-reply-threshold", "0"]);
    client.send(&encode(&["EVAL", "redis.call('set', KEYS[1], 'after') while true do end", "1", "k"]));
    // Connections that were opened before the script is slow wait for it.
    let killed = (0..).any(|_| {
        let mut other = server.connect();
        other.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        other.send(b"SCRIPT KILL\r\n");
        matches!(other.try_receive(), Ok(Some(Frame::Simple(_))))
    });
    assert!(killed);
    let reply = client.receive();
    assert!(
        matches!(&reply, Frame::Error(text) if text.contains("SCRIPT KILL") && text.contains("undone")),
        "{reply:?}"
    );
    assert_eq!(client.call(&["GET", "k"]).as_bytes(), Some(&b"before"[..]));
    assert!(matches!(client.call(&["SCRIPT", "KILL"]), Frame::Error(text) if text.starts_with("NOTBUSY")));
}

/// A connection on a thread that serves it now.
fn connect_to_free_thread(server: &TestServer) -> Client<TcpStream> {
    loop {
        let mut client = server.connect();
        client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        client.send(b"PING\r\n");
        if client.try_receive().is_ok() {
            client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
            return client;
        }
    }
}

/// Runs a script that does not end by itself, and holds `k`.
fn run_endless_script(client: &mut Client<TcpStream>) {
    client.send(&encode(&["EVAL", "while true do end", "1", "k"]));
}

/// A server with so many threads, and a connection that runs such a script on it.
fn server_with_endless_script(threads: usize) -> (TestServer, Client<TcpStream>) {
    let server = TestServer::with(Config { threads: Some(threads), ..Config::default() });
    let mut running = server.connect();
    running.call(&["CONFIG", "SET", "busy-reply-threshold", "0"]);
    run_endless_script(&mut running);
    (server, running)
}

/// Sends `SCRIPT KILL` until a script is slow enough for it.
fn kill_script(client: &mut Client<TcpStream>) {
    while matches!(client.call(&["SCRIPT", "KILL"]), Frame::Error(_)) {}
}

/// The first thread waited for the keys of the script when it reclaimed memory, and nobody could end the script.
#[test]
fn first_thread_serves_others_while_a_script_runs_on_another() {
    let (server, mut first) = server_with_endless_script(2);
    let mut second = connect_to_free_thread(&server);
    kill_script(&mut second);
    assert!(matches!(first.receive(), Frame::Error(_)));
    run_endless_script(&mut second);
    kill_script(&mut first);
    assert!(matches!(second.receive(), Frame::Error(_)));
}

/// Only sections that count keys wait for all of them: a script or a transaction that reads others is not stopped by one that
/// holds a key, and stops nobody.
#[test]
fn sections_without_counters_need_no_keys() {
    let (server, mut running) = server_with_endless_script(2);
    let mut beside = connect_to_free_thread(&server);
    let script = "return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')";
    let id = beside.call(&["EVAL", script, "0"]);
    assert_eq!(id.as_bytes().map(<[u8]>::len), Some(40), "{id:?}");
    beside.call(&["MULTI"]);
    beside.call(&["INFO", "server"]);
    assert!(matches!(beside.call(&["EXEC"]), Frame::Array(replies) if replies.len() == 1));
    kill_script(&mut beside);
    assert!(matches!(running.receive(), Frame::Error(_)));
}

/// A thread that waits for a key serves nobody else, just as the one that runs the script, and has no load either.
#[test]
fn new_connections_avoid_threads_that_wait_for_the_keys_of_a_script() {
    let (server, mut running) = server_with_endless_script(3);
    let mut waiting = connect_to_free_thread(&server);
    waiting.send(b"GET k\r\n");
    // The first of these may be on the same thread, if that does not wait for long yet.
    kill_script(&mut connect_to_free_thread(&server));
    assert!(matches!(running.receive(), Frame::Error(_)));
    assert_eq!(waiting.receive(), Frame::Null);
}

/// They wait for its keys, but not longer than the limit of the script.
#[test]
fn commands_on_all_keys_are_answered_when_a_script_ends_at_its_limit() {
    let store = Store::new(Some(8 << 20)).unwrap();
    let config = Config { threads: Some(1), ..Config::default() };
    let servers = [(); 2].map(|()| TestServer::with_store(config.clone(), store.clone()));
    let (mut running, mut waiting) = (servers[0].connect(), servers[1].connect());
    running.call(&["CONFIG", "SET", "busy-reply-threshold", "500"]);
    for request in [&["INFO"][..], &["DBSIZE"], &["KEYS", "*"]] {
        run_endless_script(&mut running);
        let mut beside = servers[0].connect();
        beside.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        // Until the thread of the script answers nobody.
        while {
            beside.send(b"PING\r\n");
            beside.try_receive().is_ok()
        } {}
        assert!(!matches!(waiting.call(request), Frame::Error(_)), "{request:?}");
        assert!(matches!(running.receive(), Frame::Error(text) if text.contains("500 ms")), "{request:?}");
    }
}

/// `SCRIPT FLUSH` by one thread ends what another has compiled, and only `SCRIPT LOAD` or `EVAL` brings it back.
#[test]
fn threads_share_the_scripts() {
    let store = Store::new(Some(8 << 20)).unwrap();
    let server = TestServer::with_store(Config { threads: Some(2), ..Config::default() }, store);
    let mut clients = [server.connect(), server.connect()];
    let digest = clients[0].call(&["SCRIPT", "LOAD", "return 7"]);
    let digest = std::str::from_utf8(digest.as_bytes().unwrap()).unwrap().to_owned();
    for client in &mut clients {
        assert_eq!(client.call(&["EVALSHA", &digest, "0"]), Frame::Integer(7));
    }
    clients[1].call(&["SCRIPT", "FLUSH"]);
    let reply = clients[0].call(&["EVALSHA", &digest, "0"]);
    assert!(matches!(&reply, Frame::Error(text) if text.starts_with("NOSCRIPT")), "{reply:?}");
    clients[0].call(&["EVAL", "return 7", "0"]);
    assert_eq!(clients[1].call(&["EVALSHA", &digest, "0"]), Frame::Integer(7));
}
