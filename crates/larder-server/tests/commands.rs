//! Requests and their replies, byte by byte, in both protocol versions.
//!
//! Each case starts with an empty keyspace. A request is an inline command; in a reply, `|` stands for CR LF. If the
//! replies of RESP2 and RESP3 differ, the case has both. An `ECHO` after each request marks the end of its reply, so there is
//! no `MULTI` here, which would queue it: `transactions` has those.

use larder_resp::{Frame, Protocol};

use crate::support::TestServer;

/// Requests and their replies, in order.
type Case<'a> = &'a [(&'a str, Reply)];

#[derive(Clone, Copy)]
enum Reply {
    Same(&'static str),
    /// RESP2, RESP3.
    Each(&'static str, &'static str),
}
use Reply::{Each, Same};

const OK: Reply = Same("+OK|");
const NIL: Reply = Each("$-1|", "_|");
const SYNTAX: Reply = Same("-ERR syntax error|");
const NOT_INTEGER: Reply = Same("-ERR value is not an integer or out of range|");

fn run(cases: &[Case<'_>]) {
    let server = TestServer::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut client = server.connect_as(protocol);
        for case in cases {
            client.call(&["FLUSHALL"]);
            for (request, reply) in *case {
                let expected = match (reply, protocol) {
                    (Same(text), _) | (Each(text, _), Protocol::Resp2) | (Each(_, text), Protocol::Resp3) => {
                        text
                    }
                };
                // So that a missing or an additional reply fails the test.
                client.send(format!("{request}\r\nECHO end-of-reply\r\n").as_bytes());
                let reply = client.read_until(b"$12\r\nend-of-reply\r\n");
                let reply = reply.escape_ascii().to_string().replace("\\r\\n", "|");
                assert_eq!(
                    reply.replace("\\\'", "'").replace("\\\"", "\""),
                    *expected,
                    "{request} in {protocol:?}"
                );
            }
        }
    }
}

#[test]
fn string_commands_match_table() {
    run(&[
        &[
            ("GET k", NIL),
            ("SET k v", OK),
            ("GET k", Same("$1|v|")),
            ("get k", Same("$1|v|")),
            ("GeT k", Same("$1|v|")),
        ],
        &[("SET k \"\"", OK), ("GET k", Same("$0||")), ("STRLEN k", Same(":0|")), ("EXISTS k", Same(":1|"))],
        &[("SET k \"a\\r\\nb\\x00\"", OK), ("GET k", Same("$5|a|b\\x00|")), ("STRLEN k", Same(":5|"))],
        &[
            ("SET k v NX", OK),
            ("SET k w NX", NIL),
            ("GET k", Same("$1|v|")),
            ("SET k w XX", OK),
            ("SET x v XX", NIL),
        ],
        &[
            ("SET k v GET", NIL),
            ("SET k w GET", Same("$1|v|")),
            ("SET k x NX GET", Same("$1|w|")),
            ("GET k", Same("$1|w|")),
        ],
        &[
            ("SETNX k v", Same(":1|")),
            ("SETNX k w", Same(":0|")),
            ("GETSET k w", Same("$1|v|")),
            ("GETDEL k", Same("$1|w|")),
            ("GETDEL k", NIL),
        ],
        &[
            ("APPEND k ab", Same(":2|")),
            ("APPEND k cd", Same(":4|")),
            ("GETRANGE k 1 -2", Same("$2|bc|")),
            ("GETRANGE x 0 -1", Same("$0||")),
            ("SUBSTR k 0 0", Same("$1|a|")),
        ],
        &[
            ("SETRANGE k 3 ab", Same(":5|")),
            ("GET k", Same("$5|\\x00\\x00\\x00ab|")),
            ("SETRANGE k 1 \"\"", Same(":5|")),
            ("SETRANGE x 5 \"\"", Same(":0|")),
            ("EXISTS x", Same(":0|")),
        ],
        &[
            ("MSET a 1 b 2", OK),
            ("MGET a x b", Each("*3|$1|1|$-1|$1|2|", "*3|$1|1|_|$1|2|")),
            ("MSETNX b 3 c 3", Same(":0|")),
            ("MSETNX c 3 d 4", Same(":1|")),
        ],
        &[
            ("SETRANGE k -1 x", Same("-ERR offset is out of range|")),
            (
                "SETRANGE k 536870912 x",
                Same("-ERR string exceeds maximum allowed size (proto-max-bulk-len)|"),
            ),
        ],
        &[
            ("SETRANGE k 268435456 x", Same("-OOM command not allowed when used memory > 'maxmemory'.|")),
            ("EXISTS k", Same(":0|")),
        ],
    ]);
}

#[test]
fn compare_and_set_and_compare_and_delete_match_table() {
    run(&[
        &[
            ("SET k w IFEQ v", NIL),
            ("EXISTS k", Same(":0|")),
            ("SET k v", OK),
            ("SET k w IFEQ v", OK),
            ("GET k", Same("$1|w|")),
        ],
        &[
            ("SET k v", OK),
            ("SET k w IFEQ x", NIL),
            ("SET k w IFEQ x GET", Same("$1|v|")),
            ("GET k", Same("$1|v|")),
        ],
        &[("SET k v IFEQ a NX", SYNTAX), ("SET k v XX IFEQ a", SYNTAX), ("SET k v IFEQ", SYNTAX)],
        &[
            ("SET k v", OK),
            ("SET k w IFEQ v EX 100", OK),
            ("TTL k", Same(":100|")),
            ("DELIFEQ k v", Same(":0|")),
            ("DELIFEQ k w", Same(":1|")),
            ("DELIFEQ k w", Same(":0|")),
        ],
    ]);
}

#[test]
fn counter_commands_match_table() {
    run(&[
        &[
            ("INCR n", Same(":1|")),
            ("INCRBY n 41", Same(":42|")),
            ("DECR n", Same(":41|")),
            ("DECRBY n 50", Same(":-9|")),
            ("GET n", Same("$2|-9|")),
        ],
        &[("SET n abc", OK), ("INCR n", NOT_INTEGER), ("GET n", Same("$3|abc|"))],
        &[
            ("SET n 9223372036854775807", OK),
            ("INCR n", Same("-ERR increment or decrement would overflow|")),
            ("GET n", Same("$19|9223372036854775807|")),
        ],
        &[
            ("INCRBY n 1.5", NOT_INTEGER),
            ("DECRBY n -9223372036854775808", Same("-ERR decrement would overflow|")),
            ("EXISTS n", Same(":0|")),
        ],
        &[
            ("SET n 10.50", OK),
            ("INCRBYFLOAT n 0.1", Same("$4|10.6|")),
            ("INCRBYFLOAT n -10.6", Same("$1|0|")),
            ("INCRBYFLOAT n x", Same("-ERR value is not a valid float|")),
        ],
        &[("SET n 5 EX 100", OK), ("INCR n", Same(":6|")), ("TTL n", Same(":100|"))],
        // Values of the same length, shorter and longer: a write in place must have the same effect as a new record.
        &[
            ("SET k abc EX 100", OK),
            ("SET k def", OK),
            ("GET k", Same("$3|def|")),
            ("TTL k", Same(":-1|")),
            ("SET k ghi EX 100", OK),
            ("TTL k", Same(":100|")),
            ("SET k jkl KEEPTTL", OK),
            ("TTL k", Same(":100|")),
            ("SETRANGE k 1 xy", Same(":3|")),
            ("GET k", Same("$3|jxy|")),
            ("TTL k", Same(":100|")),
            ("SET k 99 EX 50", OK),
            ("INCR k", Same(":100|")),
            ("INCR k", Same(":101|")),
            ("TTL k", Same(":50|")),
            ("SET k 19", OK),
            ("DECR k", Same(":18|")),
            ("DECRBY k 9", Same(":9|")),
            ("GET k", Same("$1|9|")),
            ("SET k v EXAT 1", OK),
            ("GET k", NIL),
        ],
    ]);
}

#[test]
fn deadline_commands_match_table() {
    run(&[
        &[
            ("TTL k", Same(":-2|")),
            ("SET k v", OK),
            ("TTL k", Same(":-1|")),
            ("EXPIRE k 100", Same(":1|")),
            ("TTL k", Same(":100|")),
            ("PERSIST k", Same(":1|")),
            ("PERSIST k", Same(":0|")),
            ("TTL k", Same(":-1|")),
        ],
        &[
            ("SET k v EX 100", OK),
            ("SET k w KEEPTTL", OK),
            ("TTL k", Same(":100|")),
            ("SET k w", OK),
            ("TTL k", Same(":-1|")),
        ],
        &[
            ("SET k v PXAT 33177117420000", OK),
            ("PEXPIRETIME k", Same(":33177117420000|")),
            ("EXPIRETIME k", Same(":33177117420|")),
        ],
        &[
            ("SET k v PXAT 2000000000123", OK),
            ("PEXPIRETIME k", Same(":2000000000123|")),
            ("EXPIRETIME k", Same(":2000000000|")),
        ],
        &[("SET k v EXAT 1", OK), ("GET k", NIL), ("TTL k", Same(":-2|"))],
        &[
            ("SET k v", OK),
            ("EXPIRE k -1", Same(":1|")),
            ("EXISTS k", Same(":0|")),
            ("EXPIRE k 10", Same(":0|")),
        ],
        &[
            ("SET k v", OK),
            ("EXPIRE k 10 GT", Same(":0|")),
            ("EXPIRE k 10 LT", Same(":1|")),
            ("EXPIRE k 20 LT", Same(":0|")),
            ("EXPIRE k 20 NX", Same(":0|")),
            ("EXPIRE k 20 XX GT", Same(":1|")),
            ("TTL k", Same(":20|")),
        ],
        &[("SET k v", OK), ("EXPIRE k 10 XX", Same(":0|")), ("EXPIRE k 10 NX", Same(":1|"))],
        &[
            (
                "EXPIRE k 1 NX XX",
                Same("-ERR NX and XX, GT or LT options at the same time are not compatible|"),
            ),
            ("EXPIRE k 1 GT LT", Same("-ERR GT and LT options at the same time are not compatible|")),
            ("EXPIRE k 1 now", Same("-ERR Unsupported option now|")),
        ],
        &[
            ("SETEX k 100 v", OK),
            ("TTL k", Same(":100|")),
            ("PSETEX k 100000 v", OK),
            ("TTL k", Same(":100|")),
        ],
        &[
            ("SET k v", OK),
            ("GETEX k EX 100", Same("$1|v|")),
            ("TTL k", Same(":100|")),
            ("GETEX k", Same("$1|v|")),
            ("GETEX k PERSIST", Same("$1|v|")),
            ("TTL k", Same(":-1|")),
            ("GETEX k PXAT 1", Same("$1|v|")),
            ("GET k", NIL),
            ("GETEX k EX 9", NIL),
        ],
    ]);
}

#[test]
fn invalid_times_are_errors_without_effect() {
    let invalid = Same("-ERR invalid expire time in 'set' command|");
    run(&[
        &[
            ("SET k v EX 18446744073709551615", NOT_INTEGER),
            ("SET k v EX 9223372036854775807", invalid),
            ("SET k v PX 9223372036854775807", invalid),
            ("SET k v EXAT 9223372036854775807", invalid),
            ("EXISTS k", Same(":0|")),
        ],
        &[
            ("SET k v EX 0", invalid),
            ("SET k v EX -1", invalid),
            ("SET k v EX 1.5", NOT_INTEGER),
            ("SET k v EX", SYNTAX),
            ("SET k v EX soon", NOT_INTEGER),
            ("EXISTS k", Same(":0|")),
        ],
        &[
            ("SETEX k 0 v", Same("-ERR invalid expire time in 'setex' command|")),
            ("PSETEX k -5 v", Same("-ERR invalid expire time in 'psetex' command|")),
            ("GETEX k EX 0", NIL),
            ("SET k v", OK),
            ("GETEX k EX 0", Same("-ERR invalid expire time in 'getex' command|")),
        ],
        &[
            ("SET k v", OK),
            ("EXPIRE k 9223372036854775807", Same("-ERR invalid expire time in 'expire' command|")),
            ("PEXPIRE k 9223372036854775807", Same("-ERR invalid expire time in 'pexpire' command|")),
            ("TTL k", Same(":-1|")),
        ],
    ]);
}

#[test]
fn invalid_options_are_errors() {
    run(&[
        &[
            ("SET k v NX XX", SYNTAX),
            ("SET k v EX 1 PX 1", SYNTAX),
            ("SET k v KEEPTTL EX 1", SYNTAX),
            ("SET k v EX 1 KEEPTTL", SYNTAX),
            ("SET k v FOO", SYNTAX),
            ("GETEX k PERSIST EX 1", SYNTAX),
            ("FLUSHALL NOW", SYNTAX),
            ("SCAN 0 COUNT 0", SYNTAX),
            ("SCAN 0 COUNT", SYNTAX),
        ],
        &[
            ("GET", Same("-ERR wrong number of arguments for 'get' command|")),
            ("GET a b", Same("-ERR wrong number of arguments for 'get' command|")),
            ("MSET a", Same("-ERR wrong number of arguments for 'mset' command|")),
            ("MSET a 1 b", Same("-ERR wrong number of arguments for 'mset' command|")),
        ],
        &[
            ("FOO bar baz", Same("-ERR unknown command 'FOO', with args beginning with: 'bar' 'baz' |")),
            ("CLIENT FOO", Same("-ERR unknown subcommand 'FOO'. Try CLIENT HELP.|")),
            ("SELECT 16", Same("-ERR DB index is out of range|")),
            ("SELECT x", NOT_INTEGER),
            ("SCAN x", Same("-ERR invalid cursor|")),
        ],
        &[
            (
                "CONFIG SET nothing 1",
                Same("-ERR Unknown option or number of arguments for CONFIG SET - 'nothing'|"),
            ),
            (
                "CONFIG SET maxmemory lots",
                Same(
                    "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value|",
                ),
            ),
            (
                "CONFIG SET maxmemory 9223372036854775807",
                Same(
                    "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be at most \
                     4611686018427387903|",
                ),
            ),
            (
                "CONFIG SET maxclients 1000001",
                Same(
                    "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument must be between 1 and \
                     1000000 inclusive|",
                ),
            ),
            ("CONFIG GET", Same("-ERR wrong number of arguments for 'config|get' command|")),
        ],
    ]);
}

#[test]
fn key_commands_match_table() {
    run(&[
        &[
            ("MSET a 1 b 2 c 3", OK),
            ("EXISTS a b x a", Same(":3|")),
            ("TOUCH a x", Same(":1|")),
            ("DEL a x", Same(":1|")),
            ("UNLINK b c", Same(":2|")),
            ("DBSIZE", Same(":0|")),
        ],
        &[("SET k v", OK), ("TYPE k", Same("+string|")), ("TYPE x", Same("+none|"))],
        &[
            ("SET user:1 a", OK),
            ("SET other b", OK),
            ("KEYS user:*", Same("*1|$6|user:1|")),
            ("KEYS x*", Same("*0|")),
            ("SCAN 0 COUNT 100 MATCH u*", Same("*2|$1|0|*1|$6|user:1|")),
            ("SCAN 0 TYPE hash", Same("*2|$1|0|*0|")),
        ],
        &[
            ("SET k zero", OK),
            ("SELECT 3", OK),
            ("GET k", NIL),
            ("SET k three", OK),
            ("DBSIZE", Same(":1|")),
            ("FLUSHDB", OK),
            ("DBSIZE", Same(":0|")),
            ("SELECT 0", OK),
            ("GET k", Same("$4|zero|")),
            ("DBSIZE", Same(":1|")),
        ],
    ]);
}

#[test]
fn connection_commands_match_table() {
    run(&[
        &[
            ("PING", Same("+PONG|")),
            ("PING hi", Same("$2|hi|")),
            ("ECHO \"\"", Same("$0||")),
            ("PING a b", Same("-ERR wrong number of arguments for 'ping' command|")),
        ],
        &[
            ("CLIENT GETNAME", NIL),
            ("CLIENT SETNAME me", OK),
            ("CLIENT GETNAME", Same("$2|me|")),
            (
                "CLIENT SETNAME \"a b\"",
                Same("-ERR Client names cannot contain spaces, newlines or special characters.|"),
            ),
            ("CLIENT SETNAME \"\"", OK),
        ],
        &[
            ("CLIENT SETINFO LIB-NAME larder", OK),
            ("CLIENT SETINFO lib-ver 1", OK),
            ("CLIENT SETINFO foo 1", Same("-ERR Unrecognized option 'foo'|")),
            ("CLIENT NO-EVICT ON", OK),
            (
                "CLIENT MAINT_NOTIFICATIONS ON",
                Same("-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.|"),
            ),
        ],
        &[
            ("HELLO 4", Same("-NOPROTO unsupported protocol version|")),
            ("HELLO x", Same("-ERR Protocol version is not an integer or out of range|")),
            ("HELLO 3 FOO", Same("-ERR Syntax error in HELLO option 'FOO'|")),
            ("HELLO 3 AUTH x", Same("-ERR Syntax error in HELLO option 'AUTH'|")),
        ],
        &[
            (
                "AUTH x",
                Same(
                    "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?|",
                ),
            ),
            ("AUTH default x", OK),
            ("AUTH other x", Same("-WRONGPASS invalid username-password pair or user is disabled.|")),
            ("AUTH a b c", SYNTAX),
        ],
        &[
            ("CONFIG GET save", Each("*2|$4|save|$0||", "%1|$4|save|$0||")),
            ("CONFIG GET APPENDONLY", Each("*2|$10|appendonly|$2|no|", "%1|$10|appendonly|$2|no|")),
            ("CONFIG RESETSTAT", OK),
        ],
        &[
            ("COMMAND GETKEYS MSET a 1 b 2", Same("*2|$1|a|$1|b|")),
            ("COMMAND COUNT x", Same("-ERR wrong number of arguments for 'command|count' command|")),
            ("COMMAND INFO nothing", Each("*1|$-1|", "*1|_|")),
        ],
        &[("ROLE", Same("*3|$6|master|:0|*0|"))],
    ]);
}

#[test]
fn hello_reply_has_all_fields() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(b"HELLO 3 SETNAME me\r\nCLIENT ID\r\nCLIENT GETNAME\r\nRESET\r\nCLIENT GETNAME\r\nGET x\r\n");
    let reply = String::from_utf8(client.read_until(b"+RESET\r\n$-1\r\n$-1\r\n")).unwrap();
    let id = reply.split("$2\r\nid\r\n:").nth(1).and_then(|rest| rest.split('\r').next()).unwrap().to_owned();
    let expected = format!(
        "%7|$6|server|$5|redis|$7|version|$5|7.4.0|$5|proto|:3|$2|id|:{id}|$4|mode|$10|standalone|$4|role|$6|master|\
         $7|modules|*0|:{id}|$2|me|"
    );
    assert_eq!(reply.replace("\r\n", "|"), expected);
}

#[test]
fn command_describes_the_table() {
    let server = TestServer::start();
    let mut client = server.connect();
    let count = larder_server::commands().len() as i64;
    assert_eq!(client.call(&["COMMAND", "COUNT"]), larder_resp::Frame::Integer(count));
    let larder_resp::Frame::Array(all) = client.call(&["COMMAND"]) else { panic!("an array") };
    assert_eq!(all.len() as i64, count);
    client.send(b"COMMAND INFO mset\r\n");
    let reply = client.read_until(b"limit\r\n:0\r\n*0\r\n");
    let expected = "*1|*10|$4|mset|:-3|*2|+write|+denyoom|:1|:-1|:2|*3|+@write|+@string|+@slow|*0|*1|*6|$5|flags|*2|+OW|\
                    +update|$12|begin_search|*4|$4|type|$5|index|$4|spec|*2|$5|index|:1|$9|find_keys|*4|$4|type|\
                    $5|range|$4|spec|*6|$7|lastkey|:-1|$7|keystep|:2|$5|";
    assert_eq!(String::from_utf8(reply).unwrap().replace("\r\n", "|"), expected);
}

#[test]
fn info_has_fields_of_frameworks() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(&["SET", "k", "v"]);
    client.call(&["GET", "k"]);
    client.call(&["GET", "nothing"]);
    let text = |frame: larder_resp::Frame| String::from_utf8(frame.as_bytes().unwrap().to_vec()).unwrap();
    let all = text(client.call(&["INFO"]));
    for field in [
        "redis_version:7.4.0",
        "server_name:larder",
        "redis_mode:standalone",
        "arch_bits:64",
        "role:master",
        "loading:0",
        "cluster_enabled:0",
        "maxmemory:67108864",
        "maxmemory_policy:allkeys-lfu",
        "used_memory:",
        "used_memory_overhead:0",
        "larder_keyspace_resident:",
        "mem_fragmentation_ratio:",
        "keyspace_hits:1",
        "keyspace_misses:1",
        "evicted_keys:0",
        "expired_keys:0",
        "connected_clients:1",
        "db0:keys=1,expires=",
    ] {
        assert!(all.lines().any(|line| line.starts_with(field)), "{field} is missing in {all}");
    }
    assert!(all.lines().all(|line| line == line.trim()), "{all}");
    let ratio = all.lines().find_map(|line| line.strip_prefix("mem_fragmentation_ratio:"));
    let ratio: f64 = ratio.and_then(|ratio| ratio.parse().ok()).expect("a number");
    assert!((0.9..1.1).contains(&ratio), "{ratio} with one key");
    let run_id = |info: &str| info.lines().find_map(|line| line.strip_prefix("run_id:")).map(str::to_owned);
    let run = run_id(&all).expect("a run id");
    assert!(run.len() == 40 && run.bytes().all(|byte| byte.is_ascii_hexdigit()), "{run}");
    let another = text(TestServer::start().connect().call(&["INFO", "server"]));
    assert_ne!(run_id(&another), Some(run), "another server has another run id");
    let some = text(client.call(&["INFO", "server", "Keyspace"]));
    assert!(some.contains("# Server") && some.contains("# Keyspace") && !some.contains("# Memory"), "{some}");
    client.call(&["CONFIG", "RESETSTAT"]);
    assert!(text(client.call(&["INFO", "stats"])).contains("keyspace_hits:0"));
}

#[test]
fn help_of_every_container_lists_its_subcommands() {
    let server = TestServer::start();
    let mut client = server.connect();
    for (container, subcommand) in [
        ("CLIENT", "KILL"),
        ("COMMAND", "GETKEYS"),
        ("CONFIG", "RESETSTAT"),
        ("LATENCY", "HISTOGRAM"),
        ("MEMORY", "USAGE"),
        ("MODULE", "LIST"),
        ("OBJECT", "ENCODING"),
        ("SLOWLOG", "RESET"),
    ] {
        let Frame::Array(lines) = client.call(&[container, "HELP"]) else { panic!("{container}") };
        let lines: Vec<String> = lines.iter().map(|line| format!("{line:?}")).collect();
        assert!(lines[0].contains(&format!("{container} <subcommand>")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains(subcommand)), "{lines:?}");
    }
}
