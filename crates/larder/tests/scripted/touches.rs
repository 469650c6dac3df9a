//! A read that restarts TTLs, in flight while the value is changed.

use crate::mutation::Mutation;
use crate::{Fixture, node};
use larder::Policy;
use larder_testkit::RedisServer;
use std::time::Duration;

#[tokio::test]
async fn touch_does_not_refresh_expired_value() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    let grace = Policy::new().grace(Duration::from_secs(60));
    let (far, near) =
        (fixture.far.clone().with_policy(grace).touch_on_read(), fixture.near.clone().with_policy(grace));
    near.write("touched", 1).await.everywhere();
    let touches = fixture.proxy.hold(|frame| frame.is_request("EVALSHA"));
    assert_eq!(far.read("touched").await.as_deref(), Some(&1));
    touches.arrival().await;
    assert!(near.expire("touched").await.everywhere());
    let replies = fixture.proxy.hold(|frame| frame.is_reply("EVALSHA"));
    drop(touches);
    replies.arrival().await;
    let new = node(server.url(), false).1.with_policy(grace);
    assert!(new.read("touched").await.is_none(), "it is stale from then on");
}
