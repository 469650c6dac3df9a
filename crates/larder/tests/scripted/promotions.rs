//! A value in flight from Redis into memory meets its invalidation: reply before push, push before reply, both at once,
//! push lost. Many client-side caches lose this race.

use crate::mutation::Mutation;
use crate::{Fixture, is_step_reply, settled};
use larder_testkit::RedisServer;
use std::convert::Infallible;

/// In which order the far node gets the reply with the old value and the push that says that it is old.
#[derive(Clone, Copy, Debug)]
enum Order {
    PushThenReply,
    ReplyThenPush,
    Together,
    PushLost,
    ReplyLost,
}

const ORDERS: [Order; 5] =
    [Order::PushThenReply, Order::ReplyThenPush, Order::Together, Order::PushLost, Order::ReplyLost];

/// How the far node asks.
#[derive(Clone, Copy, Debug)]
enum How {
    Read,
    ReadMulti,
    Fetch,
}

/// Who makes the value old.
#[derive(Clone, Copy, Debug)]
enum Who {
    /// Another node.
    Node,
    /// Another program: tracking reports its writes.
    Program,
}

async fn play(server: &RedisServer, order: Order, how: How, who: Who) {
    let what = format!("{order:?}, {how:?}, {who:?}");
    let key = format!("{order:?}-{how:?}-{who:?}");
    let fixture = Fixture::new(server, matches!(who, Who::Program)).await;
    fixture.near.write(&key, 1).await.everywhere();

    let name = key.clone();
    let named = key.clone();
    let replies = fixture.proxy.hold(move |frame| is_step_reply(frame, &named) || frame.is_reply("MGET"));
    let (far, asked) = (fixture.far.clone(), key.clone());
    let asking = tokio::spawn(async move {
        match how {
            How::Read => far.read(&asked).await.map(|value| *value),
            How::ReadMulti => {
                let values = far.read_multi([asked.as_str(), "another"]).await;
                values[0].as_deref().copied()
            }
            How::Fetch => {
                far.fetch(&asked).load(|_| async { Ok::<_, Infallible>(2) }).await.ok().map(|value| *value)
            }
        }
    });
    let reply = replies.arrival().await;
    assert!(reply.bytes.len() > 20, "{what}: the old value is on its way");

    let pushes = fixture.proxy.hold(move |frame| frame.is_push(&name));
    match who {
        Who::Node => assert!(fixture.near.delete(&key).await.everywhere()),
        Who::Program => assert_eq!(server.command(&format!("DEL s:v:{key}")), ":1\r\n"),
    }
    pushes.arrival().await;
    match order {
        Order::PushThenReply => {
            pushes.release_one();
            replies.release_one();
        }
        Order::ReplyThenPush => {
            replies.release_one();
            tokio::task::yield_now().await;
            pushes.release_one();
        }
        Order::Together => {
            drop((pushes, replies));
            asking.await.expect("no panic");
            return settled(server, &fixture, &key, 2, &what).await;
        }
        Order::PushLost => {
            pushes.lose_one();
            replies.release_one();
        }
        Order::ReplyLost => {
            replies.lose_one();
            pushes.release_one();
        }
    }
    drop((pushes, replies));
    let seen = asking.await.expect("no panic");
    assert!(seen.is_none_or(|version| version <= 2), "{what}: it started before, and may return either");
    settled(server, &fixture, &key, 2, &what).await;
}

async fn play_all(who: Who) {
    let Some(server) = RedisServer::start() else { return };
    let mut plays = Vec::new();
    for order in ORDERS {
        for how in [How::Read, How::ReadMulti, How::Fetch] {
            plays.push(Box::pin(play(&server, order, how, who)));
        }
    }
    std::future::poll_fn(|context| {
        plays.retain_mut(|play| play.as_mut().poll(context).is_pending());
        if plays.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn value_deleted_by_node_in_flight_is_not_kept() {
    play_all(Who::Node).await;
}

#[tokio::test]
async fn value_deleted_by_program_in_flight_is_not_kept() {
    play_all(Who::Program).await;
}
