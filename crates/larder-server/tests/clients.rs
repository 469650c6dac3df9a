//! A client library as its users call it: transactions, optimistic locks, and subscriptions with the crate `redis`.

use redis::{Commands, Connection, RedisResult};

use crate::support::TestServer;

fn connect(server: &TestServer, protocol: &str) -> Connection {
    let url = format!("redis://{}/?protocol={protocol}", server.address());
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

#[test]
fn atomic_pipeline_returns_all_replies() {
    let server = TestServer::start();
    for protocol in ["resp2", "resp3"] {
        let mut connection = connect(&server, protocol);
        let mut pipe = redis::pipe();
        pipe.atomic().set("k", 41).ignore().incr("k", 1).get("missing").mget(&["k", "missing"]);
        type Replies = (i64, Option<String>, Vec<Option<i64>>);
        let replies: Replies = pipe.query(&mut connection).unwrap();
        assert_eq!(replies, (42, None, vec![Some(42), None]), "{protocol}");
        let failed: RedisResult<()> =
            redis::pipe().atomic().set("k", "text").incr("k", 1).query(&mut connection);
        assert!(failed.is_err(), "an error of a queued command reaches the caller");
    }
}

/// `WATCH`, `MULTI`, `EXEC` until no other connection has written in between.
#[test]
fn transactions_of_several_threads_lose_no_increment() {
    let server = TestServer::start();
    const INCREMENTS: i64 = 300;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut connection = connect(&server, "resp3");
                for _ in 0..INCREMENTS {
                    let _: (i64,) = redis::transaction(&mut connection, &["n"], |connection, pipe| {
                        let before: Option<i64> = connection.get("n")?;
                        pipe.set("n", before.unwrap_or(0) + 1).ignore().get("n").query(connection)
                    })
                    .unwrap();
                }
            });
        }
    });
    let total: i64 = connect(&server, "resp2").get("n").unwrap();
    assert_eq!(total, 3 * INCREMENTS);
}

#[test]
fn subscriber_gets_messages_and_unsubscribes() {
    let server = TestServer::start();
    let mut publisher = connect(&server, "resp2");
    for protocol in ["resp2", "resp3"] {
        let mut connection = connect(&server, protocol);
        let mut subscriber = connection.as_pubsub();
        subscriber.subscribe("news").unwrap();
        subscriber.psubscribe("n*").unwrap();
        let receivers: i64 = publisher.publish("news", "first").unwrap();
        assert_eq!(receivers, 2);
        for pattern in [None, Some("n*")] {
            let message = subscriber.get_message().unwrap();
            assert_eq!(
                (message.get_channel_name(), message.get_payload::<String>().unwrap()),
                ("news", "first".into())
            );
            assert_eq!(message.get_pattern::<Option<String>>().unwrap().as_deref(), pattern);
        }
        drop(subscriber);
        // The connection is used for commands again.
        let _: () = connection.set("k", "v").unwrap();
        let receivers: i64 = publisher.publish("news", "second").unwrap();
        assert_eq!(receivers, 0, "{protocol}");
    }
}

/// The library sends `EVALSHA`, and the script itself if the server does not know it.
#[test]
fn script_is_loaded_when_it_is_needed() {
    let server = TestServer::start();
    for protocol in ["resp2", "resp3"] {
        let mut connection = connect(&server, protocol);
        let release = redis::Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end",
        );
        for (owner, released) in [("other", 0), ("me", 1)] {
            let _: () = connection.set("lock", "me").unwrap();
            let result: i64 = release.key("lock").arg(owner).invoke(&mut connection).unwrap();
            assert_eq!(result, released, "{protocol}");
            let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut connection).unwrap();
        }
        let value: (Option<String>, Vec<i64>, f64) =
            redis::Script::new("return {false, {1, 2}, '2.5'}").invoke(&mut connection).unwrap();
        assert_eq!(value, (None, vec![1, 2], 2.5));
    }
}
