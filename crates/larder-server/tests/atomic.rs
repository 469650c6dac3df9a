//! Commands on several keys are atomic. Two servers with one keyspace run them on threads of their own at the same time.

use larder_resp::Frame;
use larder_server::{Config, Store};

use crate::support::{Client, TestServer, encode};

const KEYS: usize = 64;
const ROUNDS: usize = 2_000;

/// Two servers with one keyspace.
fn pair() -> [TestServer; 2] {
    let store = Store::new(Some(64 << 20)).unwrap();
    [(); 2].map(|()| TestServer::with_store(Config::default(), store.clone()))
}

fn names() -> Vec<String> {
    (0..KEYS).map(|number| format!("k{number}")).collect()
}

/// A command and all keys.
fn with_keys(command: &str) -> Vec<u8> {
    let names = names();
    let words: Vec<&str> = std::iter::once(command).chain(names.iter().map(String::as_str)).collect();
    encode(&words)
}

/// `MSET` or `MSETNX` of all keys to the same value.
fn with_pairs(command: &str, value: &str) -> Vec<u8> {
    let names = names();
    let pairs = names.iter().flat_map(|name| [name.as_str(), value]);
    encode(&std::iter::once(command).chain(pairs).collect::<Vec<_>>())
}

/// Sends each request in turn, `ROUNDS` times on each server, and passes the replies of the second one to `check`.
fn run(first: &[Vec<u8>], second: &[Vec<u8>], check: impl Fn(Frame)) {
    let servers = pair();
    let [mut writer, mut reader] = [0, 1].map(|server: usize| servers[server].connect());
    writer.send(&with_pairs("MSET", "0"));
    writer.receive();
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&mut writer, first, |_| ()));
        exchange(&mut reader, second, &check);
    });
}

fn exchange(client: &mut Client<std::net::TcpStream>, requests: &[Vec<u8>], check: impl Fn(Frame)) {
    for _ in 0..ROUNDS / 50 {
        let batch = requests.concat().repeat(50);
        client.send(&batch);
        (0..50 * requests.len()).for_each(|_| check(client.receive()));
    }
}

#[test]
fn mget_sees_no_part_of_an_mset() {
    run(&[with_pairs("MSET", "1"), with_pairs("MSET", "2")], &[with_keys("MGET")], |reply| {
        let Frame::Array(values) = reply else { panic!("{reply:?}") };
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    });
}

#[test]
fn exists_and_touch_see_all_keys_of_an_mset_and_a_del_or_none() {
    let changes = [with_keys("DEL"), with_pairs("MSETNX", "1"), with_keys("UNLINK"), with_pairs("MSET", "2")];
    run(&changes, &[with_keys("EXISTS"), with_keys("TOUCH")], |reply| {
        assert!([0, KEYS as i64].map(Frame::Integer).contains(&reply), "{reply:?}");
    });
}

#[test]
fn two_dels_remove_each_set_of_keys_once() {
    let changes = [with_pairs("MSETNX", "1"), with_keys("DEL")];
    run(&changes, &changes, |reply| {
        assert!([0, 1, KEYS as i64].map(Frame::Integer).contains(&reply), "{reply:?}");
    });
}

/// Memory is short for one of the values only.
#[test]
fn mset_that_cannot_fit_changes_nothing() {
    let server = TestServer::with_store(Config::default(), Store::new(Some(1 << 20)).unwrap());
    let mut client = server.connect();
    client.call(&["SET", "a", "before"]);
    for command in ["MSET", "MSETNX"] {
        let large = "x".repeat(2 << 20);
        let first = if command == "MSET" { "a" } else { "c" };
        let reply = client.call(&[command, first, "after", "b", &large]);
        assert!(matches!(&reply, Frame::Error(text) if text.starts_with("OOM")), "{command}: {reply:?}");
        assert_eq!(client.call(&["EXISTS", first, "b"]), Frame::Integer(i64::from(command == "MSET")));
    }
    assert_eq!(client.call(&["GET", "a"]).as_bytes(), Some(&b"before"[..]));
}
