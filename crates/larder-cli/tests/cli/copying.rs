//! `larder server --from` with a real Redis in use, and with another `larder server`.

use crate::process::{FREE, Process, larder, run, start_server};
use crate::resp::command;
use larder_testkit::{RedisServer, until};
use redis::{Connection, Value, cmd};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

/// Keys that are there before the copy begins.
const KEYS: u64 = 10_000;

/// The databases that are written to.
const DATABASES: [u8; 2] = [0, 3];

fn connect(address: SocketAddr, database: u8) -> Connection {
    let client = redis::Client::open(format!("redis://{address}/{database}")).expect("an address");
    client.get_connection().expect("a connection")
}

/// A copy of the server at this port, and its address.
fn start_copy(port: u16) -> (Process, SocketAddr) {
    start_server(["--from", &format!("redis://127.0.0.1:{port}")])
}

fn await_state(address: SocketAddr, state: &str) {
    until(state, || command(address, "INFO replication").contains(state).then_some(()));
}

/// Ends the copy as an operator does.
fn end(address: SocketAddr) {
    assert_eq!(command(address, "REPLICAOF NO ONE"), "+OK");
    await_state(address, "role:master");
}

/// Writes a value of some type to some key, removes one, or changes its deadline.
fn write(connection: &mut Connection, number: u64) {
    // Numbers that look random, and are the same in each run.
    let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let key = format!("key:{}", random % KEYS);
    let line = match random / KEYS % 11 {
        0 => format!("DEL {key}"),
        1 => format!("PEXPIRE {key} {}", 100_000_000 + random % 1_000),
        2 => format!("PERSIST {key}"),
        3 => format!("HSET hash:{} f{} {number}", random % 50, random % 700),
        4 => format!("SADD set:{} {}", random % 50, random % 900),
        5 => format!("ZADD sorted:{} {number} m{}", random % 50, random % 500),
        6 => format!("RPUSH list:{} {number}", random % 50),
        7 => format!("XADD stream:{} * n {number}", random % 50),
        8 => format!("RENAME {key} other:{}", random % 100),
        9 => format!("PSETEX {key} {} {number}", 50 + random % 200),
        _ => format!("SET {key} {number}"),
    };
    let mut words = line.split(' ');
    let mut request = cmd(words.next().expect("a command"));
    words.for_each(|word| _ = request.arg(word));
    // A key that is not there cannot be renamed.
    _ = request.query::<Value>(connection);
}

/// All keys of a database, each with its type, its deadline and its content.
fn content(connection: &mut Connection) -> Vec<(String, String, i64, Value)> {
    let mut names: Vec<String> = cmd("KEYS").arg("*").query(connection).expect("the keys");
    names.sort();
    let mut keys = Vec::new();
    for name in names {
        let kind: String = cmd("TYPE").arg(&name).query(connection).expect("a type");
        let (read, arguments): (&str, &[&str]) = match kind.as_str() {
            "string" => ("GET", &[]),
            "hash" => ("HGETALL", &[]),
            "set" => ("SMEMBERS", &[]),
            "zset" => ("ZRANGE", &["0", "-1", "WITHSCORES"]),
            "list" => ("LRANGE", &["0", "-1"]),
            "stream" => ("XRANGE", &["-", "+"]),
            // It has expired since.
            _ => continue,
        };
        let mut value: Value = cmd(read).arg(&name).arg(arguments).query(connection).expect("a value");
        if let ("hash" | "set", Value::Array(members)) = (kind.as_str(), &mut value) {
            let members_each = if kind == "hash" { 2 } else { 1 };
            let mut sorted: Vec<_> =
                members.chunks(members_each).map(|member| format!("{member:?}")).collect();
            sorted.sort();
            value = Value::SimpleString(sorted.join(" "));
        }
        let deadline: i64 = cmd("PEXPIRETIME").arg(&name).query(connection).expect("a deadline");
        // What expires while this test compares is left out.
        if deadline == -1 || deadline > now_ms() + 10_000_000 {
            keys.push((name, kind, deadline, value));
        }
    }
    keys
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("it is later").as_millis() as i64
}

fn assert_equal(source: SocketAddr, copy: SocketAddr) {
    for database in DATABASES {
        let (expected, copied) =
            (content(&mut connect(source, database)), content(&mut connect(copy, database)));
        assert!(expected.len() > 100, "{} keys in database {database}", expected.len());
        assert_eq!(copied.len(), expected.len(), "keys in database {database}");
        for (copied, expected) in copied.iter().zip(&expected) {
            assert_eq!(copied, expected, "in database {database}");
        }
    }
}

/// The connection of the copy to a Redis: it is told of all changes.
fn id_of_copy(redis: &RedisServer) -> Option<String> {
    let clients = redis.command("CLIENT LIST");
    let copy = clients.lines().find(|line| line.contains(" flags=tB "))?;
    Some(copy.split_once("id=")?.1.split(' ').next()?.to_owned())
}

/// Others write all the time. Meanwhile the connection of the copy is lost, and all keys are removed.
#[test]
fn copy_has_all_that_was_written_to_a_redis_in_use() {
    let Some((redis, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    let source: SocketAddr = ([127, 0, 0, 1], port).into();
    let fill = || {
        for database in DATABASES {
            let mut connection = connect(source, database);
            (0..KEYS).for_each(|number| write(&mut connection, number));
        }
    };
    fill();
    let goes_on = AtomicBool::new(true);
    let address = scope(|scope| {
        for database in DATABASES {
            let goes_on = &goes_on;
            scope.spawn(move || {
                let mut connection = connect(source, database);
                let numbers = (KEYS..).take_while(|_| goes_on.load(Ordering::Relaxed));
                numbers.for_each(|number| write(&mut connection, number));
            });
        }
        // Ends the writers also if an assertion fails.
        let _stop = Stop(&goes_on);
        let (copy, address) = start_copy(port);
        await_state(address, "master_link_status:up\r\nmaster_sync_in_progress:0");
        assert!(command(address, "SET key value").starts_with("-READONLY "));
        let script = "EVAL \"return redis.call('SET',KEYS[1],1)\" 1 key";
        assert!(command(address, script).starts_with("-READONLY "));
        assert_eq!(command(address, "ROLE"), "*5");

        let id = id_of_copy(&redis).expect("a connection that is told of all changes");
        redis.command(&format!("CLIENT KILL ID {id}"));
        until("another connection", || id_of_copy(&redis).filter(|other| *other != id));
        await_state(address, "master_link_status:up\r\nmaster_sync_in_progress:0");
        assert!(copy.stderr().contains("the copy begins anew"), "{}", copy.stderr());

        redis.command("FLUSHALL");
        fill();
        Some((copy, address))
    });
    let (copy, address) = address.expect("a copy");
    end(address);
    assert!(copy.stderr().contains("the copy has ended with "), "{}", copy.stderr());
    assert_equal(source, address);
    assert_eq!(command(address, "SET key value"), "+OK");
}

/// Dropping it ends the writers.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn copy_of_another_larder_server_is_equal() {
    let (_source, source) = start_server::<&str>([]);
    for database in DATABASES {
        let mut connection = connect(source, database);
        (0..KEYS / 10).for_each(|number| write(&mut connection, number));
    }
    let (_copy, copy) = start_copy(source.port());
    end(copy);
    assert_equal(source, copy);
}

#[test]
fn copy_counts_what_it_cannot_have() {
    let Some((redis, port)) = RedisServer::start_with_port("--port", &["--databases", "17"]) else { return };
    let source: SocketAddr = ([127, 0, 0, 1], port).into();
    assert_eq!(cmd("SET").arg("k").arg("v").query(&mut connect(source, 16)), Ok("OK".to_owned()));
    redis.command("SET key value");
    redis.command("XGROUP CREATE events group $ MKSTREAM");
    let (copy, address) = start_copy(port);
    end(address);
    let stderr = copy.stderr();
    for line in [
        "larder server: 1 keys are not copied, \"events\" first: a stream with consumer groups",
        "larder server: 1 keys are not copied, \"database 16\" first: a database that does not exist here",
    ] {
        assert!(stderr.lines().any(|other| other == line), "{stderr}");
    }
    assert_eq!(command(address, "GET key"), "value");
}

/// A snapshot from before the copy must not come back, and half of a copy is none.
#[test]
fn snapshot_is_neither_loaded_nor_written_while_a_redis_is_copied() {
    let Some((redis, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    redis.command("SET key new");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("snapshot");
    let snapshot = ["--snapshot", file.to_str().expect("text")];
    let stop = |mut process: Process| {
        process.running().terminate();
        process.end().assert_clean_stop()
    };
    let (first, address) = start_server(snapshot);
    command(address, "SET other old");
    stop(first);
    assert!(file.exists());

    let from = format!("redis://127.0.0.1:{port}");
    let (copy, address) = start_server(snapshot.into_iter().chain(["--from", &from]));
    await_state(address, "master_link_status:up\r\nmaster_sync_in_progress:0");
    assert_eq!((command(address, "GET key"), command(address, "GET other")), ("new".into(), "$-1".into()));
    stop(copy);
    assert!(!file.exists());
}

#[test]
fn redis_that_cannot_be_copied_is_an_error_at_the_start() {
    let ended = run(&mut larder(["server", "--listen", FREE, "--from", "http://user:secret@h"]));
    ended.assert_wrong_usage(
        "larder server: --from has a wrong URL, expected redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH",
    );
    let ended = run(&mut larder(["server", "--listen", FREE, "--from", "redis://:secret@127.0.0.1:1"]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.starts_with("larder server: cannot copy 127.0.0.1:1: "), "{ended:?}");
    assert!(!ended.stderr.contains("secret"), "{ended:?}");

    let Some((redis, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    redis.command("ACL SETUSER reader on nopass ~* &* +@all -dump");
    let from = format!("redis://reader:x@127.0.0.1:{port}");
    let ended = run(&mut larder(["server", "--listen", FREE, "--from", &from]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("dump"), "{ended:?}");
}

/// A Redis tells nobody that databases were swapped.
#[test]
fn copy_has_what_databases_have_after_a_swap() {
    let Some((redis, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    let source: SocketAddr = ([127, 0, 0, 1], port).into();
    for database in DATABASES {
        let mut connection = connect(source, database);
        let first = u64::from(database) * KEYS;
        (first..first + KEYS / 10).for_each(|number| write(&mut connection, number));
    }
    let (_copy, copy) = start_copy(port);
    let equal = || {
        DATABASES.iter().all(|one| content(&mut connect(source, *one)) == content(&mut connect(copy, *one)))
    };
    await_state(copy, "master_sync_in_progress:0");
    assert_eq!(redis.command("SWAPDB 0 3").trim_end(), "+OK");
    until("the swapped databases are copied", || equal().then_some(()));
    // One that comes just before the end.
    assert_eq!(redis.command("SWAPDB 3 0").trim_end(), "+OK");
    end(copy);
    assert_equal(source, copy);
}
