//! A response is fresh no longer than the values that its handler gets, also from Redis.

use std::time::Duration;

use larder::{Cache, View};
use larder_http::{Cached, Outcome};
use larder_testkit::RedisServer;

use crate::support::*;

type Prices = View<str, u32>;

const TTL: Duration = Duration::from_secs(10);

fn prices(server: &RedisServer) -> (Cache, Prices) {
    let values = Cache::builder("prices").ttl(TTL).redis(server.url()).max_lag(LAG).build().unwrap();
    let prices = values.view("price");
    (values, prices)
}

#[tokio::test]
async fn value_from_redis_limits_the_response() {
    let Some(server) = RedisServer::start() else { return };
    let (_writer, writing) = prices(&server);
    writing.fetch("jam").load(|_| async { Ok(1) }).await.unwrap();
    let (_reader, reading) = prices(&server);
    let replica = Replica::new(server.url(), move |request, _| {
        let prices = reading.clone();
        async move {
            let price = match request.uri().path() {
                "/read" => prices.read("jam").await.unwrap(),
                _ => prices.fetch("jam").load(|_| async { Ok(2) }).await.unwrap(),
            };
            let settings = match request.uri().path() {
                "/outliving" => Cached::ttl(MINUTE).may_outlive_values(),
                _ => Cached::ttl(MINUTE),
            };
            cached(format!("{price:?}", price = price.source()), settings)
        }
    });
    let ttl_of = async |target, source| {
        assert_eq!(replica.body(target).await, source, "{target}");
        let Outcome::Hit { ttl } = replica.get(target).await.outcome else { panic!("a hit of {target}") };
        Duration::from_secs(ttl)
    };
    assert!(ttl_of("/from-redis", "Redis").await <= TTL);
    assert!(ttl_of("/from-memory", "Memory").await <= TTL);
    assert!(ttl_of("/read", "Memory").await <= TTL);
    assert!(ttl_of("/outliving", "Memory").await > TTL);
}
