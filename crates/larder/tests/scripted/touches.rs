//! A read that begins times to live anew, on its way to Redis while the value is changed.

use crate::{Stage, node};
use larder::Policy;
use larder_testkit::RedisServer;
use std::time::Duration;

#[tokio::test]
async fn touch_does_not_refresh_expired_value() {
    let Some(server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, false).await;
    let grace = Policy::new().grace(Duration::from_secs(60));
    let (far, near) =
        (stage.far.clone().with_policy(grace).touch_on_read(), stage.near.clone().with_policy(grace));
    near.write("touched", 1).await.expect("written");
    let touches = stage.proxy.hold(|frame| frame.is_request("EVALSHA"));
    assert_eq!(far.read("touched").await.as_deref(), Some(&1));
    touches.arrival().await;
    assert_eq!(near.expire("touched").await.ok(), Some(true));
    let replies = stage.proxy.hold(|frame| frame.is_reply("EVALSHA"));
    drop(touches);
    replies.arrival().await;
    let new = node(server.url(), false).1.with_policy(grace);
    assert!(new.read("touched").await.is_none(), "it is stale from then on");
}
