//! Cluster mode: the server as the only node of a cluster, compared with a real `redis-server` that owns all slots.

use std::net::TcpListener;

use larder_resp::{Frame, Protocol};
use larder_server::Config;
use larder_testkit::{RedisServer, until};
use redis::Commands;
use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};

use crate::differential::{assert_equal_replies, words};
use crate::support::{Client, TestServer, connect_unix, encode};

fn cluster_server() -> TestServer {
    TestServer::with(Config { cluster_mode: true, ..Config::default() })
}

fn text(frame: &Frame) -> String {
    String::from_utf8(frame.as_bytes().unwrap_or_else(|| panic!("a text: {frame:?}")).to_vec()).unwrap()
}

/// A real Redis that owns all slots, with its port and the port of its bus; `None` if it is not installed.
fn redis_with_all_slots() -> Option<(RedisServer, [u16; 2])> {
    let bus = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().port();
    // Its own address is unknown to a Redis that has not met another one.
    let options = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--cluster-port"];
    let bus_text = bus.to_string();
    let (redis, port) = RedisServer::start_with_port("--port", &[&options[..], &[&bus_text]].concat())?;
    assert_eq!(redis.command("CLUSTER ADDSLOTSRANGE 0 16383"), "+OK\r\n");
    until("the cluster is ready", || {
        redis.command("CLUSTER INFO").contains("cluster_state:ok").then_some(())
    });
    Some((redis, [port, bus]))
}

/// Sends a request to a Redis and to this server. The error has both replies, where they differ.
fn compare(
    theirs: &mut Client<impl std::io::Read + std::io::Write>,
    ours: &mut Client<impl std::io::Read + std::io::Write>,
    line: &str,
    normalize: impl Fn(Frame, bool) -> String,
) -> Result<(), String> {
    let request = words(line);
    let (redis, larder) = (normalize(theirs.call(&request), true), normalize(ours.call(&request), false));
    match redis == larder {
        true => Ok(()),
        false => Err(format!("{line}\n   redis: {redis}\n  larder: {larder}")),
    }
}

#[test]
fn node_describes_itself_as_a_redis_with_all_slots() {
    let Some((redis, [port, bus])) = redis_with_all_slots() else { return };
    let server = cluster_server();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let (mut theirs, mut ours) = (connect_unix(&redis.socket()).unwrap(), server.connect());
        let ids = {
            let hello = ["HELLO".to_owned(), protocol.version().to_string()];
            theirs.call(&hello);
            ours.call(&hello);
            [text(&theirs.call(&["CLUSTER", "MYID"])), text(&ours.call(&["CLUSTER", "MYID"]))]
        };
        assert!(ids[1].len() == 40 && ids[1].bytes().all(|byte| byte.is_ascii_hexdigit()), "{ids:?}");
        let ports = [port, server.address().port()].map(|port| port.to_string());
        // The ids and the ports are those of each node, and only Redis has a bus.
        let normalize = |reply: Frame, is_redis: bool| {
            let own = usize::from(!is_redis);
            let reply = format!("{reply:?}").replace(&ids[own], "<id>").replace(&ports[own], "<port>");
            reply.replace(&format!("@{bus} "), "@0 ")
        };
        let differences: Vec<String> =
            ["CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER MYID", "cluster info"]
                .into_iter()
                .filter_map(|line| compare(&mut theirs, &mut ours, line, normalize).err())
                .collect();
        assert!(differences.is_empty(), "{protocol:?}:\n{}", differences.join("\n"));
        assert_eq!(text(&ours.call(&["CLUSTER", "MYSHARDID"])), ids[1], "Redis has it since 7.2");
        assert!(text(&ours.call(&["INFO", "cluster"])).contains("cluster_enabled:1\r\n"));
        assert!(text(&ours.call(&["INFO", "server"])).contains("redis_mode:cluster\r\n"));
        let hello = format!("{:?}", ours.call(&["HELLO"]));
        assert!(hello.contains("b\"mode\"") && hello.contains("b\"cluster\""), "{hello}");
    }
}

#[test]
fn requests_get_the_replies_of_a_redis_with_all_slots() {
    let Some((redis, _)) = redis_with_all_slots() else { return };
    let server = cluster_server();
    let (mut theirs, mut ours) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    let differences: Vec<String> = [
        "READONLY",
        "READWRITE",
        "ASKING",
        "READONLY x",
        "CLUSTER",
        "CLUSTER FOO",
        "CLUSTER SLOTS x",
        "CLUSTER HELP x",
        "CLUSTER KEYSLOT",
        "CLUSTER KEYSLOT ''",
        "CLUSTER COUNTKEYSINSLOT x",
        "CLUSTER COUNTKEYSINSLOT -1",
        "CLUSTER COUNTKEYSINSLOT 16384",
        "CLUSTER COUNTKEYSINSLOT 70000",
        "CLUSTER COUNTKEYSINSLOT 16383",
        "CLUSTER GETKEYSINSLOT 0",
        "CLUSTER GETKEYSINSLOT 16384 1",
        "CLUSTER GETKEYSINSLOT 0 -1",
        "CLUSTER GETKEYSINSLOT 0 x",
        "CLUSTER GETKEYSINSLOT 0 10",
        "SELECT 0",
        "SELECT 1",
        "SELECT x",
        "SET {k}a v",
        "MOVE {k}a 1",
        "COPY {k}a {k}b DB 1",
        "COPY {k}a {k}b DB 0",
        "CLUSTER KEYSLOT k",
        "CLUSTER COUNTKEYSINSLOT 7629",
        "MULTI",
        "ASKING",
        "CLUSTER KEYSLOT k",
        "CLUSTER COUNTKEYSINSLOT 7629",
        "CLUSTER GETKEYSINSLOT 7629 0",
        "SELECT 1",
        "EXEC",
        "CONFIG GET cluster-enabled",
    ]
    .into_iter()
    .filter_map(|line| compare(&mut theirs, &mut ours, line, |reply, _| format!("{reply:?}")).err())
    .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let number = ours.call(&["EVAL", "return redis.call('CLUSTER', 'COUNTKEYSINSLOT', '7629')", "0"]);
    assert_eq!(number, Frame::Integer(2));
}

#[test]
fn help_lists_the_subcommands() {
    let server = cluster_server();
    let Frame::Array(lines) = server.connect().call(&["CLUSTER", "HELP"]) else { panic!("an array") };
    let lines: Vec<String> = lines.iter().map(text).collect();
    let mut client = server.connect();
    let listed = client.call(&["COMMAND", "LIST", "FILTERBY", "PATTERN", "cluster|*"]);
    let Frame::Array(names) = listed else { panic!("{listed:?}") };
    assert_eq!(names.len(), 10);
    for name in names {
        let name = text(&name)["cluster|".len()..].to_uppercase();
        assert!(lines.iter().any(|line| line.split(' ').next() == Some(&name)), "{name} is not in {lines:?}");
    }
}

/// Names of up to five bytes, half of which are braces, and longer ones of all bytes.
fn names() -> Vec<Vec<u8>> {
    let mut names = vec![Vec::new()];
    for length in 1..=5_u32 {
        let digit = |number: u32, place: u32| b"{}ab"[(number / 4_u32.pow(place) % 4) as usize];
        names.extend((0..4_u32.pow(length)).map(|number| (0..length).map(|at| digit(number, at)).collect()));
    }
    names.extend(
        (0..=255_u8).map(|first| (0..40_u8).map(|at| first.wrapping_add(at.wrapping_mul(7))).collect()),
    );
    names
}

#[test]
fn slots_of_keys_are_those_of_redis() {
    let Some((redis, _)) = redis_with_all_slots() else { return };
    let server = cluster_server();
    let (mut theirs, mut ours) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    let names = names();
    let requests: Vec<u8> =
        names.iter().flat_map(|name| encode(&[&b"CLUSTER"[..], b"KEYSLOT", name])).collect();
    theirs.send(&requests);
    ours.send(&requests);
    let mut slots = Vec::new();
    for name in &names {
        let slot = theirs.receive();
        assert_eq!(ours.receive(), slot, "{}", name.escape_ascii());
        let Frame::Integer(slot) = slot else { panic!("{slot:?}") };
        slots.push(slot);
    }
    for name in &names {
        for reply in [theirs.call(&[&b"SET"[..], name, b"v"]), ours.call(&[&b"SET"[..], name, b"v"])] {
            assert_eq!(reply, Frame::Simple("OK".into()));
        }
    }
    // A walk takes more than one slice.
    assert!(names.len() > 1024);
    slots.sort_unstable();
    slots.dedup();
    let sorted = |reply: Frame| {
        let Frame::Array(mut names) = reply else { panic!("{reply:?}") };
        names.sort_by_key(|name| format!("{name:?}"));
        names
    };
    for slot in slots.into_iter().step_by(7).map(|slot| slot.to_string()) {
        let count = ["CLUSTER", "COUNTKEYSINSLOT", &slot];
        let number = theirs.call(&count);
        assert_eq!(ours.call(&count), number, "{slot}");
        let all = ["CLUSTER", "GETKEYSINSLOT", &slot, "10000"];
        let expected = sorted(theirs.call(&all));
        assert_eq!(sorted(ours.call(&all)), expected, "{slot}");
        let one = sorted(ours.call(&["CLUSTER", "GETKEYSINSLOT", &slot, "1"]));
        assert!(one.len() == 1 && expected.contains(&one[0]), "{slot}");
    }
}

/// Clients of single servers ask it to find out what they are connected to.
#[test]
fn cluster_commands_without_cluster_mode_get_the_errors_of_redis() {
    assert_equal_replies(&[
        "CLUSTER",
        "CLUSTER FOO",
        "CLUSTER INFO",
        "CLUSTER HELP",
        "CLUSTER SLOTS x",
        "CLUSTER KEYSLOT k",
        "CLUSTER COUNTKEYSINSLOT 1",
        "CLUSTER KEYSLOT",
        "READONLY",
        "READWRITE",
        "ASKING",
        "ASKING x",
        "CONFIG GET cluster-enabled",
        "SELECT 1",
        "SET k v",
        "COPY k l DB 2",
        "MOVE k 3",
        "SELECT 0",
    ]);
}

#[test]
fn one_request_may_have_keys_of_several_slots() {
    let server = cluster_server();
    let mut client = server.connect();
    let mut call = |line: &str| client.call(&words(line));
    assert_ne!(call("CLUSTER KEYSLOT a"), call("CLUSTER KEYSLOT b"));
    assert_eq!(call("MSET a 1 b 2"), Frame::Simple("OK".into()));
    call("MULTI");
    call("INCR a");
    call("INCR b");
    assert_eq!(call("EXEC"), Frame::Array(vec![Frame::Integer(2), Frame::Integer(3)]));
    assert_eq!(call("RENAME a c"), Frame::Simple("OK".into()));
    let script = ["EVAL", "return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[2])", "2", "b", "c"];
    assert_eq!(client.call(&script), Frame::Integer(7));
}

/// The address and the port of `CLUSTER SLOTS`.
fn announced(client: &mut Client<impl std::io::Read + std::io::Write>) -> (String, i64) {
    let reply = client.call(&["CLUSTER", "SLOTS"]);
    let Frame::Array(ranges) = &reply else { panic!("{reply:?}") };
    let Frame::Array(range) = &ranges[0] else { panic!("{reply:?}") };
    let Frame::Array(node) = &range[2] else { panic!("{reply:?}") };
    let Frame::Integer(port) = node[1] else { panic!("{reply:?}") };
    (text(&node[0]), port)
}

#[test]
fn client_gets_the_address_that_it_has_connected_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let config = Config { cluster_mode: true, unixsocket: Some(path.clone()), ..Config::default() };
    let server = TestServer::with(config);
    let port = server.address().port();
    assert_eq!(announced(&mut server.connect()), ("127.0.0.1".to_owned(), port.into()));
    // A Redis that does not know its address does the same.
    assert_eq!(announced(&mut connect_unix(&path).unwrap()), (String::new(), port.into()));
    let nodes = text(&connect_unix(&path).unwrap().call(&["CLUSTER", "NODES"]));
    assert!(nodes.contains(&format!(" :{port}@0 myself,master ")), "{nodes}");
}

fn cluster_connection(server: &TestServer, protocol: redis::ProtocolVersion) -> ClusterConnection {
    let nodes = [format!("redis://{}", server.address())];
    let client = ClusterClient::builder(nodes).use_protocol(protocol).build().unwrap();
    client.get_connection().unwrap()
}

/// A client library that works with clusters only.
#[test]
fn cluster_client_stores_reads_and_pipelines() {
    let server = cluster_server();
    for protocol in [redis::ProtocolVersion::RESP2, redis::ProtocolVersion::RESP3] {
        let mut connection = cluster_connection(&server, protocol);
        for number in 0..100 {
            let _: () = connection.set(format!("key:{number}"), number).unwrap();
        }
        let mut pipe = cluster_pipe();
        (0..100).for_each(|number| {
            pipe.get(format!("key:{number}"));
        });
        let values: Vec<i64> = pipe.query(&mut connection).unwrap();
        assert_eq!(values, (0..100).collect::<Vec<_>>());
        let many: Vec<Option<i64>> = connection.mget(&["key:7", "missing", "key:8"]).unwrap();
        assert_eq!(
            many,
            [Some(7), None, Some(8)],
            "the client splits it by slot, and the server would not need it"
        );
        let removed: i64 = connection.del((0..100).map(|n| format!("key:{n}")).collect::<Vec<_>>()).unwrap();
        assert_eq!(removed, 100);
        let size: i64 = redis::cmd("DBSIZE").query(&mut connection).unwrap();
        assert_eq!(size, 0);
    }
}
