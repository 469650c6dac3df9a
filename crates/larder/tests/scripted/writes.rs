//! Mutations in flight meet each other, reads, loads and another server: a read returns what was confirmed.

use crate::mutation::Mutation;
use crate::{Fixture, MAX_LAG, Origin, Versions, node, node_with, on_first_connection};
use larder::{Event, Invalidation, Policy, Reach, Source, Update};
use larder_testkit::{Gate, PATIENCE, RedisServer, ScriptedProxy, eventually, within};
use std::time::Duration;

/// While a write is in flight, another node's write overtakes it, is announced, and is read into memory. In the end memory
/// has what Redis has.
#[tokio::test]
async fn overtaken_write_is_read_by_its_writer() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    let requests = fixture.proxy.hold(|frame| frame.is_request("SET") && frame.contains("overtaken"));
    let far = fixture.far.clone();
    let writing = tokio::spawn(async move { far.write("overtaken", 2).await });
    requests.arrival().await;
    fixture.near.write("overtaken", 1).await.everywhere();
    eventually("the other write is in memory", async || {
        fixture
            .far
            .read("overtaken")
            .await
            .is_some_and(|found| *found == 1 && found.source() == Source::Memory)
    })
    .await;
    requests.release();
    writing.await.expect("no panic").everywhere();
    assert_eq!(fixture.far.read("overtaken").await.as_deref(), Some(&2));
    eventually("the other node agrees", async || fixture.near.read("overtaken").await.as_deref() == Some(&2))
        .await;
}

/// A write finds that everything was cleared after it had stored its value. Before that, an update has read and replaced the
/// value: it does not come back.
#[tokio::test]
async fn write_does_not_restore_what_an_update_has_replaced() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    // Of the same pipeline, behind the value.
    let clocks = fixture.proxy.hold(|frame| frame.is_request("ZMSCORE"));
    let far = fixture.far.clone();
    let writing = tokio::spawn(async move { far.write("updated", 1).await });
    clocks.arrival().await;
    eventually("the value is stored", async || server.command("EXISTS s:v:updated") == ":1\r\n").await;
    let update = |found: Option<&u64>| Update::Put(found.map_or(0, |value| value + 1));
    let updated = fixture.near.update("updated", update).await.expect("updated");
    assert_eq!(updated.value.as_deref(), Some(&2));
    fixture.near_cache.clear().await.everywhere();
    clocks.release();
    writing.await.expect("no panic").everywhere();
    for view in [&fixture.far, &fixture.near, &node(server.url(), false).1] {
        assert!(view.read("updated").await.is_none(), "it was cleared");
    }
}

/// A write does not know yet that everything was cleared. An update that knows it finds no value, and stores one before the
/// write has the newer clock: the write comes after it.
#[tokio::test]
async fn write_is_not_lost_to_an_update_that_did_not_see_it() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    let pushes = fixture.proxy.hold(|frame| frame.command == "PUSH" || frame.is_request("HELLO"));
    let replies = fixture.proxy.hold(|frame| frame.is_reply("ZMSCORE"));
    fixture.near_cache.clear().await.everywhere();
    let (far, mut events) = (fixture.far.clone(), fixture.near_cache.events());
    let writing = tokio::spawn(async move { far.write("unseen", 10).await });
    replies.arrival().await;
    eventually("the other node has heard of the value", async || {
        events.try_recv().is_ok_and(|event| matches!(event, Event::Announced { .. }))
    })
    .await;
    let updated = fixture.near.update("unseen", |found| Update::Put(found.map_or(1, |value| value + 1)));
    assert_eq!(
        updated.await.expect("updated").value.as_deref(),
        Some(&1),
        "the write is older than the clear"
    );
    eventually("the other node has its own value in memory", async || {
        fixture.near.read("unseen").await.is_some_and(|found| *found == 1 && found.source() == Source::Memory)
    })
    .await;
    replies.release();
    writing.await.expect("no panic").everywhere();
    pushes.release();
    assert_eq!(node(server.url(), false).1.read("unseen").await.as_deref(), Some(&10));
    assert_eq!(fixture.far.read("unseen").await.as_deref(), Some(&10));
    eventually("the other node agrees", async || fixture.near.read("unseen").await.as_deref() == Some(&10))
        .await;
}

/// The same with another write instead of the update. The first one may have been read, or taken, before that: it does not come
/// back.
#[tokio::test]
async fn write_does_not_take_the_place_of_a_later_one() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    let pushes = fixture.proxy.hold(|frame| frame.command == "PUSH" || frame.is_request("HELLO"));
    let replies = fixture.proxy.hold(|frame| frame.is_reply("ZMSCORE"));
    fixture.near_cache.clear().await.everywhere();
    let far = fixture.far.clone();
    let writing = tokio::spawn(async move { far.write("later", 1).await });
    replies.arrival().await;
    eventually("the value is stored", async || server.command("EXISTS s:v:later") == ":1\r\n").await;
    fixture.near.write("later", 2).await.everywhere();
    replies.release();
    writing.await.expect("no panic").everywhere();
    pushes.release();
    for view in [&fixture.far, &fixture.near, &node(server.url(), false).1] {
        eventually("the later one stays", async || view.read("later").await.as_deref() == Some(&2)).await;
    }
}

/// While a key is being expired, a read puts the fresh value into memory: it is not fresh afterwards.
#[tokio::test]
async fn value_read_during_expire_is_stale_afterwards() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    let far = fixture.far.clone().with_policy(Policy::new().grace(Duration::from_secs(60)));
    far.write("soft", 1).await.everywhere();
    let commits = fixture.proxy.hold(|frame| frame.is_request("EVALSHA") && frame.contains("soft"));
    let expires = far.clone();
    let expiring = tokio::spawn(async move { expires.expire("soft").await });
    commits.arrival().await;
    eventually("the value is in memory", async || {
        far.read("soft").await.is_some_and(|found| found.source() == Source::Memory)
    })
    .await;
    commits.release();
    assert!(expiring.await.expect("no panic").everywhere());
    assert!(far.read("soft").await.is_none(), "it is stale from now on");
}

/// A loaded value that Redis refused is in no tier, also before the announcement arrives: neither with a lease of its own
/// nor beside a foreign lease.
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
        near.delete("refused").await.everywhere();
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
        near.delete("refused").await.everywhere();
    }
}

/// A replay is not interrupted: no write comes between the list of pending invalidations and their removal.
#[tokio::test]
async fn replay_in_progress_keeps_newer_value() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    server.command("CONFIG SET min-replicas-to-write 1");
    fixture.far.delete("pending").await.queued();
    fixture.far_cache.invalidate_tags(["pending tag"], Invalidation::Hard).await.queued();
    let stamps = fixture.proxy.hold(|frame| frame.is_request("EVALSHA") && frame.contains("pending tag"));
    server.command("CONFIG SET min-replicas-to-write 0");
    stamps.arrival().await;
    let far = fixture.far.clone();
    let writing = tokio::spawn(async move { far.write("pending", 2).await });
    tokio::task::yield_now().await;
    stamps.release();
    writing.await.expect("no panic").everywhere();
    eventually("no invalidation is pending", async || {
        fixture.far_cache.coherence().pending_invalidations == 0
    })
    .await;
    assert_eq!(node(server.url(), false).1.read("pending").await.as_deref(), Some(&2));
}

/// The server confirms a deletion and is then restored from an older snapshot. The confirmation arrives after the replay of
/// the last minute; the deletion is replayed too.
#[tokio::test]
async fn delete_confirmed_by_replaced_server_is_replayed() {
    let Some(mut server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    // Loaded, for what is written is repeated as a deletion.
    fixture.near.fetch("deleted").load(|_| async { Ok(1) }).await.expect("loads");
    server.take_snapshot();
    let mut events = fixture.far_cache.events();
    let replies = fixture.proxy.hold(on_first_connection(|frame| frame.is_reply("UNLINK")));
    let far = fixture.far.clone();
    let deleting = tokio::spawn(async move { far.delete("deleted").await });
    replies.arrival().await;
    server.restart_from_snapshot();
    assert_eq!(server.command("EXISTS s:v:deleted"), ":1\r\n", "the snapshot is older");
    eventually("it is noticed", async || events.try_recv() == Ok(Event::Connected)).await;
    replies.release();
    let confirmed = deleting.await.expect("no panic");
    eventually("no invalidation is pending", async || {
        fixture.far_cache.coherence().pending_invalidations == 0
    })
    .await;
    tokio::time::sleep(MAX_LAG).await;
    let new = node(server.url(), false).1;
    assert!(new.read("deleted").await.is_none(), "{confirmed:?}, and it is there");
    assert!(fixture.far.read("deleted").await.is_none(), "{confirmed:?}, and it is there");
}

/// As above, with tags: the ledger of the snapshot does not know the invalidation until it is replayed.
#[tokio::test]
async fn tag_invalidation_confirmed_by_replaced_server_is_queued() {
    let Some(mut server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    fixture.near.fetch("tagged").tag("t").load(|_| async { Ok(1) }).await.expect("loads");
    server.take_snapshot();
    let mut events = fixture.far_cache.events();
    let replies = fixture.proxy.hold(on_first_connection(|frame| frame.is_reply("EVALSHA")));
    let far = fixture.far_cache.clone();
    let invalidating = tokio::spawn(async move { far.invalidate_tags(["t"], Invalidation::Hard).await });
    replies.arrival().await;
    server.restart_from_snapshot();
    eventually("it is noticed", async || events.try_recv() == Ok(Event::Connected)).await;
    replies.release();
    let reach = invalidating.await.expect("no panic").expect("in effect here");
    assert_eq!(reach, Reach::HereAndQueued, "the server that confirmed it is gone");
    eventually("no invalidation is pending", async || {
        fixture.far_cache.coherence().pending_invalidations == 0
    })
    .await;
    assert!(node(server.url(), false).1.read("tagged").await.is_none());
}

/// A node revalidates an entry while another program deletes it: the reply is older than the push that arrived meanwhile.
#[tokio::test]
async fn foreign_delete_during_revalidation_is_noticed() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, true).await;
    fixture.near.write("compared", 1).await.everywhere();
    eventually("it is in memory", async || {
        fixture.far.read("compared").await.is_some_and(|found| found.source() == Source::Memory)
    })
    .await;
    let pushes = fixture.proxy.hold(|frame| frame.is_push("compared"));
    server.command("PEXPIRE s:v:compared 500000");
    pushes.arrival().await;
    pushes.release_one();
    let replies = fixture.proxy.hold(|frame| frame.is_reply("GETRANGE"));
    let far = fixture.far.clone();
    let reading = tokio::spawn(async move {
        while far.read("compared").await.is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    replies.arrival().await;
    server.command("DEL s:v:compared");
    pushes.arrival().await;
    fixture.forward_pushes(pushes).await;
    drop(replies);
    within(PATIENCE, "the deleted value is gone", reading).await.expect("no panic");
}

/// The announcements of a node's own mutations arrive later: it keeps what it wrote and loaded since.
#[tokio::test]
async fn own_announcement_keeps_own_entries() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    let pushes = fixture.proxy.hold(|frame| frame.command == "PUSH");
    fixture.far_cache.clear().await.everywhere();
    fixture.far.write("mine", 1).await.everywhere();
    pushes.arrival().await;
    fixture.forward_pushes(pushes).await;
    assert_eq!(fixture.far.read("mine").await.map(|found| found.source()), Some(Source::Memory));
}
