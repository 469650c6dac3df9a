//! What caches of the crate `larder` rely on when this server is their shared tier. Their own tests run on it, too; these
//! name one fact each.

use larder_resp::Frame;
use larder_server::{ByteSize, Config};

use crate::support::{TestServer, encode};

/// The ledger of a cache is a sorted set that every load reads and every heartbeat. An eviction of it would empty the
/// cache.
#[test]
fn sorted_set_in_use_survives_the_eviction_of_many_times_the_capacity() {
    const CAPACITY: u64 = 4 << 20;
    let server = TestServer::with(Config { max_memory: Some(ByteSize(CAPACITY)), ..Config::default() });
    let mut client = server.connect();
    for member in 0..1_000 {
        client.call(&["ZADD", "ledger", "1700000000000000", &format!("tag:{member}")]);
    }
    let value = "x".repeat(1_000);
    for number in 0..100_000 {
        client.send(&encode(&["SET", &format!("key:{number}"), &value, "PX", "600000"]));
        if number % 100 == 99 {
            client.send(&encode(&["ZSCORE", "ledger", "tag:7"]));
            (0..100).for_each(|_| _ = client.receive());
            assert_ne!(client.receive(), Frame::Null, "evicted after {number} writes");
        }
    }
    assert!(server.stats().snapshot().evicted > 90_000);
}

/// A cache gives its values deadlines by the clock that `TIME` tells, and by no other.
#[test]
fn deadline_by_the_time_of_the_server_is_no_later_than_meant() {
    let number =
        |frame: &Frame| std::str::from_utf8(frame.as_bytes().unwrap()).unwrap().parse::<u64>().unwrap();
    // The clocks of a server differ by a part of a millisecond, which depends on its start.
    for _ in 0..20 {
        let server = TestServer::start();
        let mut client = server.connect();
        for _ in 0..200 {
            let Frame::Array(time) = client.call(&["TIME"]) else { panic!("no array") };
            let deadline = number(&time[0]) * 1_000 + number(&time[1]) / 1_000 + 100_000;
            client.call(&["SET", "k", "v", "PXAT", &deadline.to_string()]);
            let Frame::Integer(left) = client.call(&["PTTL", "k"]) else { panic!("no integer") };
            assert!((50_000..=100_000).contains(&left), "{left}");
        }
    }
}
