//! Each value comes with its own deadline, whatever happens to its key meanwhile.

use crate::Fixture;
use crate::mutation::Mutation;
use larder_testkit::{PATIENCE, RedisServer, within};
use std::time::Duration;

/// A read that asks for a value and then for the remaining time of its key would get the time of the next value.
#[tokio::test]
async fn value_that_is_replaced_during_its_read_keeps_its_own_deadline() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    let brief = Duration::from_secs(20);
    fixture.near.clone().with_ttl(brief).write("replaced", 1).await.everywhere();
    let second_request = fixture.proxy.hold(|frame| frame.is_request("PTTL"));
    let far = fixture.far.clone();
    let mut reading = tokio::spawn(async move { far.read("replaced").await });
    let found = tokio::select! {
        _ = second_request.arrival() => {
            fixture.near.write("replaced", 2).await.everywhere();
            drop(second_request);
            within(PATIENCE, "the read ends", reading).await
        }
        found = &mut reading => found,
    };
    let found = found.expect("no panic").expect("there is a value");
    let limit = if *found == 1 { brief } else { Duration::from_secs(600) };
    assert!(found.remaining_ttl() <= limit, "{} for value {}", found.remaining_ttl().as_secs(), *found);
}
