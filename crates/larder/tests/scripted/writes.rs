//! Changes on their way meet each other, reads, loads and another server: what was confirmed is what is read.

use crate::{MAX_LAG, Origin, Stage, Versions, node, node_with};
use larder::{Event, Invalidation, Policy, Source};
use larder_testkit::{Gate, PATIENCE, RedisServer, ScriptedProxy, eventually, within};
use std::time::Duration;

/// While a write is on its way, another node's write overtakes it, is heard of, and is read into memory: what Redis has in
/// the end is what memory may have.
#[tokio::test]
async fn overtaken_write_is_read_by_its_writer() {
    let Some(server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, false).await;
    let requests = stage.proxy.hold(|frame| frame.is_request("EXEC"));
    let far = stage.far.clone();
    let writing = tokio::spawn(async move { far.write("overtaken", 2).await });
    requests.arrival().await;
    stage.near.write("overtaken", 1).await.expect("written");
    eventually("the other write is in memory", async || {
        stage.far.read("overtaken").await.is_some_and(|found| *found == 1 && found.source() == Source::Memory)
    })
    .await;
    requests.release();
    writing.await.expect("no panic").expect("written");
    assert_eq!(stage.far.read("overtaken").await.as_deref(), Some(&2));
    eventually("the other node agrees", async || stage.near.read("overtaken").await.as_deref() == Some(&2))
        .await;
}

/// While a key is being expired, a read puts the fresh value into memory: it is not fresh afterwards.
#[tokio::test]
async fn value_read_during_expire_is_stale_afterwards() {
    let Some(server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, false).await;
    let far = stage.far.clone().with_policy(Policy::new().grace(Duration::from_secs(60)));
    far.write("soft", 1).await.expect("written");
    let commits = stage.proxy.hold(|frame| frame.is_request("EVALSHA") && frame.contains("soft"));
    let expires = far.clone();
    let expiring = tokio::spawn(async move { expires.expire("soft").await });
    commits.arrival().await;
    eventually("the value is in memory", async || {
        far.read("soft").await.is_some_and(|found| found.source() == Source::Memory)
    })
    .await;
    commits.release();
    assert_eq!(expiring.await.expect("no panic").ok(), Some(true));
    assert!(far.read("soft").await.is_none(), "it is stale from now on");
}

/// A loaded value that Redis refused is in no tier, although nobody has said why yet: neither if the lease was its own, nor
/// if it was loaded beside somebody else's.
#[tokio::test]
async fn refused_load_is_not_in_memory() {
    let Some(server) = RedisServer::start() else { return };
    for (beside, redis_is_lost) in [(false, false), (false, true), (true, false), (true, true)] {
        let what = format!("beside another lease: {beside}, redis is lost: {redis_is_lost}");
        let proxy = ScriptedProxy::before(&server);
        let (_far_cache, far) = node_with(proxy.url(), |options| {
            let options = options.redis_timeout(Duration::from_millis(500)).lease_wait(Duration::ZERO);
            options.max_lag(Duration::from_secs(20)).disconnected(Duration::from_secs(30))
        });
        let (_near_cache, near) = node(server.url(), false);
        let (origin, gate, other_gate) = (Origin::new(), Gate::closed(), Gate::closed());
        let load = |view: Versions, gate: Gate| {
            let origin = origin.clone();
            tokio::spawn(async move {
                let loader = move |_| async move {
                    let version = origin.read();
                    gate.pass().await;
                    Ok(version)
                };
                view.fetch("refused").load(loader).await.map(|value| *value).ok()
            })
        };
        let other = beside.then(|| load(near.clone(), other_gate.clone()));
        if beside {
            other_gate.arrival().await;
        }
        let loading = load(far.clone(), gate.clone());
        gate.arrival().await;
        let pushes = proxy.hold(|frame| frame.is_push("refused"));
        near.delete("refused").await.expect("deleted");
        pushes.arrival().await;
        gate.open(1);
        assert_eq!(loading.await.expect("no panic"), Some(1), "{what}: its caller asked before");
        if redis_is_lost {
            server.pause();
        }
        let found = far.read("refused").await.map(|value| *value);
        if redis_is_lost {
            server.resume();
        }
        assert_eq!(found, None, "{what}");
        drop(pushes);
        other_gate.open(1);
        if let Some(other) = other {
            other.await.expect("no panic");
        }
        near.delete("refused").await.expect("deleted");
    }
}

/// What is owed is paid in one go: a write does not come between the debts that were looked at and their payment.
#[tokio::test]
async fn replay_in_progress_keeps_newer_value() {
    let Some(server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, false).await;
    server.command("CONFIG SET min-replicas-to-write 1");
    stage.far.delete("owed").await.expect_err("refused");
    stage.far_cache.invalidate_tags(["owed too"], Invalidation::Hard).await.expect_err("refused");
    let stamps = stage.proxy.hold(|frame| frame.is_request("EVALSHA") && frame.contains("owed too"));
    stamps.arrival().await;
    server.command("CONFIG SET min-replicas-to-write 0");
    let far = stage.far.clone();
    let writing = tokio::spawn(async move { far.write("owed", 2).await });
    tokio::task::yield_now().await;
    stamps.release();
    writing.await.expect("no panic").expect("written");
    eventually("nothing is owed", async || stage.far_cache.coherence().pending_invalidations == 0).await;
    assert_eq!(node(server.url(), false).1.read("owed").await.as_deref(), Some(&2));
}

/// The server confirmed a deletion and is then an older copy of itself; the confirmation comes when the last minute has
/// been repeated. It is repeated too.
#[tokio::test]
async fn delete_confirmed_by_replaced_server_is_replayed() {
    let Some(mut server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, false).await;
    // Loaded, for what is written is repeated as a deletion.
    stage.near.fetch("deleted").load(async |_| Ok(1)).await.expect("loads");
    server.take_snapshot();
    let mut events = stage.far_cache.events();
    let replies = stage.proxy.hold(|frame| frame.is_reply("EXEC"));
    let far = stage.far.clone();
    let deleting = tokio::spawn(async move { far.delete("deleted").await });
    replies.arrival().await;
    server.restart_from_snapshot();
    assert_eq!(server.command("EXISTS s:v:deleted"), ":1\r\n", "the snapshot is older");
    eventually("it is noticed", async || events.try_recv() == Ok(Event::Connected)).await;
    replies.release();
    let confirmed = deleting.await.expect("no panic");
    eventually("nothing is owed", async || stage.far_cache.coherence().pending_invalidations == 0).await;
    tokio::time::sleep(MAX_LAG).await;
    let new = node(server.url(), false).1;
    assert!(new.read("deleted").await.is_none(), "{confirmed:?}, and it is there");
    assert!(stage.far.read("deleted").await.is_none(), "{confirmed:?}, and it is there");
}

/// An entry is compared with Redis while another program deletes it: what the comparison brings is older than what was
/// heard meanwhile.
#[tokio::test]
async fn foreign_delete_during_revalidation_is_noticed() {
    let Some(server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, true).await;
    stage.near.write("compared", 1).await.expect("written");
    eventually("it is in memory", async || {
        stage.far.read("compared").await.is_some_and(|found| found.source() == Source::Memory)
    })
    .await;
    let pushes = stage.proxy.hold(|frame| frame.is_push("compared"));
    server.command("PEXPIRE s:v:compared 500000");
    pushes.arrival().await;
    pushes.release_one();
    let replies = stage.proxy.hold(|frame| frame.is_reply("GETRANGE"));
    let far = stage.far.clone();
    let reading = tokio::spawn(async move {
        while far.read("compared").await.is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    replies.arrival().await;
    server.command("DEL s:v:compared");
    pushes.arrival().await;
    stage.hear(pushes).await;
    drop(replies);
    within(PATIENCE, "the deleted value is gone", reading).await.expect("no panic");
}

/// What a node hears of its own doing comes when it has gone on: it keeps what it wrote, and what it loaded since.
#[tokio::test]
async fn own_announcement_keeps_own_entries() {
    let Some(server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, false).await;
    let pushes = stage.proxy.hold(|frame| frame.command == "PUSH");
    stage.far_cache.clear().await.expect("cleared");
    stage.far.write("mine", 1).await.expect("written");
    pushes.arrival().await;
    stage.hear(pushes).await;
    assert_eq!(stage.far.read("mine").await.map(|found| found.source()), Some(Source::Memory));
}
