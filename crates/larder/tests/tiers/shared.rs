//! Bytes that nodes share through Redis while each keeps its own copies: one load among all nodes, and the promise for
//! every copy.

use crate::mutation::Mutation;
use crate::{node_with, over, pair};
use larder::{
    Cache, Clock, Committed, Invalidation, Policy, RemoteInvalidation, SharedCopy, SharedFetch, SharedLease,
    SharedReload, SharedValue, SharedView, Validity, View, WriteOptions,
};
use larder_testkit::{RedisServer, ScriptedProxy, eventually};
use std::sync::{Arc, Mutex};
use std::time::Duration;

async fn lease(view: &SharedView, key: &str) -> SharedLease {
    match view.fetch(key.as_bytes()).await {
        SharedFetch::Lease(lease) => lease,
        SharedFetch::Found(value) => panic!("redis has {:?}", value.bytes()),
    }
}

async fn found(view: &SharedView, key: &str) -> SharedValue {
    match view.fetch(key.as_bytes()).await {
        SharedFetch::Found(value) => value,
        SharedFetch::Lease(_) => panic!("redis has nothing"),
    }
}

async fn everywhere(lease: SharedLease, bytes: &str, options: &WriteOptions) -> SharedCopy {
    match lease.commit(bytes.as_bytes().to_vec(), options).await {
        Committed::Everywhere(copy) => copy,
        other => panic!("{other:?}"),
    }
}

async fn here(lease: SharedLease, bytes: &str) -> SharedCopy {
    match lease.commit(bytes.as_bytes().to_vec(), &WriteOptions::new()).await {
        Committed::Here(copy) => copy,
        other => panic!("{other:?}"),
    }
}

/// Expects a copy to be valid, if need be after a comparison: a node that has just connected has proved nothing yet.
#[track_caller]
fn valid(view: &SharedView, key: &str, copy: &SharedCopy) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let validity = view.revalidate(key.as_bytes(), copy).await;
        assert_eq!(validity, Validity::Valid, "{caller}");
    }
}

fn tagged() -> WriteOptions {
    WriteOptions::new().tag("t")
}

#[tokio::test]
async fn one_node_loads_and_others_find_its_bytes() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b) = (one.shared("s"), other.shared("s"));
    let leased = lease(&a, "k").await;
    let waiting = tokio::spawn(async move { found(&b, "k").await });
    let asked = || other.stats().redis.expect("a redis tier").latency.count();
    eventually("the other node sees the lease", async || asked() > 1).await;
    assert!(!waiting.is_finished());
    let copy = everywhere(leased, "bytes", &WriteOptions::new().ttl(Duration::from_secs(60))).await;
    let value = waiting.await.expect("found");
    assert_eq!((value.bytes(), value.is_stale()), (&b"bytes"[..], false));
    let left = Duration::from_secs(55)..=Duration::from_secs(60);
    assert!(left.contains(&value.remaining_ttl()) && left.contains(&value.remaining()));
    assert!(value.age() < Duration::from_secs(5));
    valid(&a, "k", &copy).await;
    valid(&other.shared("s"), "k", &value.into_copy()).await;
    server.command("FLUSHALL");
}

#[tokio::test]
async fn released_lease_goes_to_next_node() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b) = (one.shared("s"), other.shared("s"));
    let abandoned = lease(&a, "k").await;
    let waiting = tokio::spawn(async move { lease(&b, "k").await });
    drop(abandoned);
    let second = waiting.await.expect("leased");
    everywhere(second, "second", &WriteOptions::new()).await;
    assert_eq!(found(&a, "k").await.bytes(), b"second");
    server.command("FLUSHALL");
}

#[tokio::test]
async fn lease_of_a_long_load_is_renewed() {
    let Some(server) = RedisServer::start() else { return };
    let a = over(server.url()).shared("s");
    let leased = lease(&a, "k").await;
    let left_ms = || -> u64 {
        let reply = server.command("PTTL test:s:k");
        reply.trim_start_matches(':').trim_end().parse().expect("a lease with a time to live")
    };
    server.pass(Duration::from_secs(5));
    let soon = left_ms();
    eventually("it is renewed", async || left_ms() > soon).await;
    everywhere(leased, "bytes", &WriteOptions::new()).await;
}

#[tokio::test]
async fn bytes_whose_key_was_deleted_during_the_load_are_refused() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b) = (one.shared("s"), other.shared("s"));
    let leased = lease(&a, "k").await;
    b.delete(b"k").await.everywhere();
    assert!(matches!(leased.commit(b"old".to_vec(), &WriteOptions::new()).await, Committed::Refused));
    assert_eq!(one.stats().refused, 1);
    drop(lease(&b, "k").await);
    server.command("FLUSHALL");
}

#[tokio::test]
async fn deletion_reaches_copies_of_all_nodes() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b) = (one.shared("s"), other.shared("s"));
    let of_a = everywhere(lease(&a, "k").await, "bytes", &WriteOptions::new()).await;
    let of_b = found(&b, "k").await.into_copy();
    assert!(a.delete(b"k").await.everywhere(), "it existed");
    assert_ne!(a.validity(&of_a), Validity::Valid, "at once");
    assert_eq!(a.revalidate(b"k", &of_a).await, Validity::Dead);
    eventually("the other node hears of it", async || b.validity(&of_b) != Validity::Valid).await;
    assert_eq!(b.revalidate(b"k", &of_b).await, Validity::Dead);
    assert_eq!(b.validity(&of_b), Validity::Dead, "and stays so");
}

#[tokio::test]
async fn deletion_of_another_key_leaves_copy_valid() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b) = (one.shared("s"), other.shared("s"));
    let copy = everywhere(lease(&a, "k").await, "bytes", &WriteOptions::new()).await;
    b.delete(b"l").await.everywhere();
    other.delete_matched("nothing:*").await.everywhere();
    // A pattern may concern any key, so the copy is compared: twice, for a pattern is announced before and after the
    // deletion.
    eventually("it is told", async || a.validity(&copy) == Validity::Unknown).await;
    eventually("the comparison is the last word", async || {
        assert_eq!(a.revalidate(b"k", &copy).await, Validity::Valid);
        a.validity(&copy) == Validity::Valid
    })
    .await;
    other.delete_matched("s:*").await.everywhere();
    eventually("it is told again", async || a.validity(&copy) == Validity::Unknown).await;
    assert_eq!(a.revalidate(b"k", &copy).await, Validity::Dead);
}

#[tokio::test]
async fn tag_invalidation_reaches_copies_of_all_nodes() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b) = (one.shared("s"), other.shared("s"));
    let of_a = everywhere(lease(&a, "k").await, "bytes", &tagged()).await;
    let of_b = found(&b, "k").await.into_copy();
    let untagged = everywhere(lease(&a, "l").await, "bytes", &WriteOptions::new()).await;
    assert_eq!(of_b.tags().collect::<Vec<_>>(), ["shared:s", "t"]);
    valid(&b, "k", &of_b).await;
    a.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    assert_eq!(a.validity(&of_a), Validity::Dead, "at once");
    valid(&a, "l", &untagged).await;
    eventually("the other node hears of it", async || b.validity(&of_b) == Validity::Dead).await;
    drop(lease(&b, "k").await);
    server.command("FLUSHALL");
}

/// Without a moment in which this node finds the old bytes in Redis.
#[tokio::test]
async fn spawned_invalidation_is_in_effect_here_before_it_is_sent() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b) = (one.shared("s"), other.shared("s"));
    let of_a = everywhere(lease(&a, "k").await, "bytes", &tagged()).await;
    let of_b = found(&b, "k").await.into_copy();
    a.spawn_invalidation(["t"], Invalidation::Hard).expect("a short tag");
    assert_eq!(a.validity(&of_a), Validity::Dead, "no other task has run");
    drop(lease(&a, "k").await);
    eventually("the other node hears of it", async || b.validity(&of_b) == Validity::Dead).await;
    assert!(a.spawn_invalidation(["x".repeat(256)], Invalidation::Hard).is_err());
}

/// One ledger for views and shared bytes: a tag of the application purges both.
#[tokio::test]
async fn tags_of_views_and_shared_bytes_are_the_same() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (view, shared): (View<str, u32>, _) = (one.view("n"), other.shared("s"));
    view.write_with("k", 1, &tagged()).await.everywhere();
    let copy = everywhere(lease(&shared, "k").await, "bytes", &tagged()).await;
    one.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    assert!(view.read("k").await.is_none());
    eventually("the copy is dead", async || shared.validity(&copy) == Validity::Dead).await;
}

#[tokio::test]
async fn tag_invalidated_during_the_load_is_seen_although_it_is_named_late() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b) = (one.shared("s"), other.shared("s"));
    let leased = lease(&a, "k").await;
    let running = leased.copy(&tagged());
    assert_ne!(a.validity(&running), Validity::Dead);
    other.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    drop(lease(&b, "l").await);
    match leased.commit(b"old".to_vec(), &tagged()).await {
        Committed::Everywhere(copy) => {
            eventually("the copy is dead", async || a.validity(&copy) == Validity::Dead).await;
        }
        other => panic!("{other:?}"),
    }
    eventually("the running one too", async || a.validity(&running) == Validity::Dead).await;
    drop(lease(&b, "k").await);
    server.command("FLUSHALL");
}

#[tokio::test]
async fn second_key_of_a_load_has_the_start_of_the_first() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b) = (one.shared("s"), other.shared("s"));
    let first = lease(&a, "k").await;
    other.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    let second = first.also(b"variant").await.expect("redis has none");
    everywhere(second, "old", &tagged()).await;
    drop(lease(&b, "variant").await);
    let third = first.also(b"free").await.expect("redis has none");
    everywhere(third, "bytes", &WriteOptions::new()).await;
    assert_eq!(found(&b, "free").await.bytes(), b"bytes");
    assert!(first.also(b"free").await.is_none(), "redis has it");
}

#[tokio::test]
async fn clear_concerns_its_view_alone() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b, rest) = (one.shared("s"), other.shared("s"), other.shared("rest"));
    let of_a = everywhere(lease(&a, "k").await, "bytes", &WriteOptions::new()).await;
    let of_rest = everywhere(lease(&rest, "k").await, "bytes", &WriteOptions::new()).await;
    b.clear().await.everywhere();
    eventually("it is dead", async || a.validity(&of_a) == Validity::Dead).await;
    valid(&rest, "k", &of_rest).await;
    one.clear().await.everywhere();
    eventually("everything is dead", async || rest.validity(&of_rest) == Validity::Dead).await;
}

#[tokio::test]
async fn copy_is_compared_after_a_gap() {
    let Some(server) = RedisServer::start() else { return };
    let proxy = ScriptedProxy::before(&server);
    let (one, other) = (over(proxy.url()), over(server.url()));
    let (a, b) = (one.shared("s"), other.shared("s"));
    let kept = everywhere(lease(&a, "k").await, "bytes", &tagged()).await;
    let (gone, here) = (everywhere(lease(&a, "l").await, "bytes", &tagged()).await, lease(&a, "m").await);
    let here = here.copy(&WriteOptions::new());
    let subscriptions = proxy.hold(|frame| frame.is_request("SUBSCRIBE"));
    server.command("CLIENT KILL TYPE pubsub");
    b.delete(b"l").await.everywhere();
    subscriptions.release();
    eventually("it is unknown", async || a.validity(&kept) == Validity::Unknown).await;
    eventually("it is valid", async || a.revalidate(b"k", &kept).await == Validity::Valid).await;
    assert_eq!(a.revalidate(b"l", &gone).await, Validity::Dead);
    assert_eq!(a.revalidate(b"m", &here).await, Validity::Dead, "redis never had it");
    eventually("the node hears again", async || a.validity(&kept) == Validity::Valid).await;
}

#[tokio::test]
async fn copy_is_served_for_disconnected_without_redis() {
    let Some(mut server) = RedisServer::start() else { return };
    let lag = Duration::from_millis(100);
    let patient = node_with(server.url(), |options| options.max_lag(lag)).shared("s");
    let strict = node_with(server.url(), |options| options.max_lag(lag).disconnected(Duration::ZERO));
    let strict = strict.shared("s");
    let kept = everywhere(lease(&patient, "k").await, "bytes", &tagged()).await;
    let unkept = found(&strict, "k").await.into_copy();
    server.kill();
    eventually("memory is not trusted", async || strict.validity(&unkept) == Validity::Unknown).await;
    // Each comparison gets no reply, until the circuit breaker opens: then a judgement needs none.
    eventually("redis is lost", async || {
        let compared = patient.revalidate(b"k", &kept).await;
        assert_eq!(compared, Validity::Valid);
        patient.validity(&kept) == Validity::Valid
    })
    .await;
    assert_eq!(strict.revalidate(b"k", &unkept).await, Validity::Unknown);
    let loaded = here(lease(&patient, "new").await, "bytes").await;
    assert_eq!(patient.validity(&loaded), Validity::Valid, "within `disconnected` too");
    patient.delete(b"k").await.queued();
    assert_ne!(patient.validity(&kept), Validity::Valid);
    assert_eq!(patient.revalidate(b"k", &kept).await, Validity::Unknown);
    patient.invalidate_tags(["shared:s"], Invalidation::Hard).await.queued();
    assert_eq!(patient.validity(&loaded), Validity::Dead);
    server.restart();
    eventually("the deletion is replayed", async || {
        matches!(patient.revalidate(b"k", &kept).await, Validity::Dead)
    })
    .await;
    eventually("redis is used again", async || {
        matches!(lease(&strict, "k").await.commit(b"new".to_vec(), &tagged()).await, Committed::Everywhere(_))
    })
    .await;
}

#[tokio::test]
async fn full_server_keeps_bytes_on_their_node() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b) = (one.shared("s"), other.shared("s"));
    let early = lease(&a, "k").await;
    server.set_full(true);
    let copy = here(early, "bytes").await;
    assert_ne!(a.validity(&copy), Validity::Valid, "it must be compared first");
    drop(here(lease(&b, "l").await, "bytes").await);
    server.set_full(false);
}

#[tokio::test]
async fn bytes_that_no_envelope_holds_stay_on_their_node() {
    let Some(server) = RedisServer::start() else { return };
    let short = node_with(server.url(), |options| options.max_value_bytes(4));
    let view = short.shared("s");
    let copy = here(lease(&view, "k").await, "bytes").await;
    assert_eq!(view.validity(&copy), Validity::Valid);
    let many = (0..65).fold(WriteOptions::new(), |options, n| options.tag(n.to_string()));
    let leased = lease(&view, "l").await;
    let Committed::Here(copy) = leased.commit(b"abc".to_vec(), &many).await else { panic!("stored") };
    assert_eq!(view.validity(&copy), Validity::Valid);
    short.invalidate_tags(["64"], Invalidation::Hard).await.everywhere();
    assert_eq!(view.validity(&copy), Validity::Dead, "its tags count all the same");
}

#[tokio::test]
async fn stale_bytes_are_loaded_again_by_one_node() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b) = (one.shared("s"), other.shared("s"));
    let brief = Policy::new().ttl(Duration::from_millis(1)).grace(Duration::from_secs(60));
    let stale = everywhere(lease(&a, "k").await, "old", &WriteOptions::new().policy(brief)).await;
    eventually("it is stale", async || a.validity(&stale) == Validity::Stale).await;
    let value = found(&b, "k").await;
    assert_eq!((value.bytes(), value.is_stale()), (&b"old"[..], true));
    assert!(value.remaining_ttl().is_zero() && value.remaining() > Duration::from_secs(50));
    assert_eq!(b.validity(&value.into_copy()), Validity::Stale);
    let SharedReload::Lease(leased) = a.reload(b"k").await else { panic!("nobody loads") };
    assert!(matches!(b.reload(b"k").await, SharedReload::Elsewhere));
    everywhere(leased, "new", &WriteOptions::new()).await;
    let SharedReload::Found(value) = b.reload(b"k").await else { panic!("it was loaded") };
    assert_eq!(value.bytes(), b"new");
    server.command("FLUSHALL");
}

#[tokio::test]
async fn copy_without_grace_period_ends_with_its_ttl() {
    let (clock, hand) = Clock::manual();
    let cache =
        Cache::builder("test").ttl(Duration::from_secs(60)).clock(clock).build().expect("valid options");
    let view = cache.shared("s");
    let copy = everywhere(lease(&view, "k").await, "bytes", &WriteOptions::new()).await;
    let brief =
        WriteOptions::new().policy(Policy::new().ttl(Duration::from_secs(60)).grace(Duration::from_secs(60)));
    let graced = everywhere(lease(&view, "k").await, "bytes", &brief).await;
    hand.advance(Duration::from_secs(59));
    assert_eq!((view.validity(&copy), view.validity(&graced)), (Validity::Valid, Validity::Valid));
    hand.advance(Duration::from_secs(1));
    assert_eq!((view.validity(&copy), view.validity(&graced)), (Validity::Dead, Validity::Stale));
    hand.advance(Duration::from_secs(60));
    assert_eq!(view.validity(&graced), Validity::Dead);
}

#[tokio::test]
async fn softly_invalidated_copy_is_stale() {
    let cache = crate::in_memory();
    let view = cache.shared("s");
    let graced = Policy::new().grace(Duration::from_secs(60));
    let copy = everywhere(lease(&view, "k").await, "bytes", &tagged().policy(graced)).await;
    cache.invalidate_tags(["t"], Invalidation::Soft).await.everywhere();
    assert_eq!(view.validity(&copy), Validity::Stale);
}

#[tokio::test]
async fn unleased_bytes_are_judged_as_all_others() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b) = (one.shared("s"), other.shared("s"));
    let leased = lease(&a, "k").await;
    let copy = here(b.unleased(b"k").await, "mine").await;
    assert_eq!(b.validity(&copy), Validity::Valid);
    everywhere(leased, "bytes", &WriteOptions::new()).await;
    let late = b.unleased(b"k").await;
    a.clear().await.everywhere();
    eventually("it is dead", async || b.validity(&copy) == Validity::Dead).await;
    assert_eq!(b.validity(&late.copy(&WriteOptions::new())), Validity::Dead);
}

#[tokio::test]
async fn unleased_load_may_take_a_lease_later() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b) = (one.shared("s"), other.shared("s"));
    let (old, new) = (a.unleased(b"old").await, a.unleased(b"new").await);
    b.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    everywhere(old.also(b"old").await.expect("redis has none"), "old", &tagged()).await;
    everywhere(new.also(b"new").await.expect("redis has none"), "new", &WriteOptions::new()).await;
    assert!(b.read(b"old").await.is_none(), "its tag was invalidated during the load");
    assert_eq!(b.read(b"new").await.map(|value| value.bytes().to_vec()).as_deref(), Some(&b"new"[..]));
    assert_eq!(server.command("EXISTS test:s:absent"), ":0\r\n");
    assert!(b.read(b"absent").await.is_none());
    assert_eq!(server.command("EXISTS test:s:absent"), ":0\r\n", "a read leaves no lease");
}

#[tokio::test]
async fn nodes_that_load_at_the_same_time_know_one_identity() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b) = (one.shared("s"), other.shared("s"));
    let leased = lease(&a, "k").await;
    let unleased = b.unleased(b"k").await;
    assert_eq!(unleased.id(), None);
    let beside = unleased.also(b"k").await.expect("redis has no bytes");
    assert!(leased.id().is_some());
    assert_eq!(beside.id(), leased.id());
    assert_ne!(lease(&a, "other").await.id(), leased.id());
}

#[tokio::test]
async fn cache_without_redis_has_copies_too() {
    let cache = crate::in_memory();
    let view = cache.shared("s");
    let copy = everywhere(lease(&view, "k").await, "bytes", &tagged()).await;
    assert_eq!(view.validity(&copy), Validity::Valid);
    let second = copy.duplicate();
    view.delete(b"k").await.everywhere();
    assert_eq!(
        (view.validity(&copy), view.revalidate(b"k", &second).await),
        (Validity::Unknown, Validity::Unknown)
    );
    let copy = everywhere(lease(&view, "k").await, "bytes", &tagged()).await;
    cache.set_enabled(false);
    assert_eq!(
        (view.validity(&copy), view.revalidate(b"k", &copy).await),
        (Validity::Unknown, Validity::Unknown)
    );
    cache.set_enabled(true);
    cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    assert_eq!(view.validity(&copy), Validity::Dead);
}

#[tokio::test]
async fn listener_hears_what_other_nodes_invalidate() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b) = (one.shared("s"), other.shared("s"));
    drop(lease(&a, "k").await);
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = heard.clone();
    let listening = a.listen(move |remote: RemoteInvalidation<'_>| {
        sink.lock().expect("no panic").push(format!("{remote:?}"));
    });
    a.delete(b"own").await.everywhere();
    b.delete(b"k").await.everywhere();
    other.shared("rest").delete(b"k").await.everywhere();
    b.invalidate_tags(["t"], Invalidation::Soft).await.everywhere();
    b.clear().await.everywhere();
    let expected = ["Key([107])", "Tag(\"t\", Soft)", "Everything(Hard)"];
    eventually("it hears them", async || *heard.lock().expect("no panic") == expected).await;
    server.command("CLIENT KILL TYPE pubsub");
    let has_gap = || heard.lock().expect("no panic").last().is_some_and(|last| last == "Unknown");
    eventually("it hears of the gap", async || has_gap()).await;
    drop(listening);
    let before = heard.lock().expect("no panic").len();
    b.clear().await.everywhere();
    let copy = found_or_leased(&a).await;
    b.clear().await.everywhere();
    eventually("the node hears it", async || a.validity(&copy) == Validity::Dead).await;
    assert_eq!(heard.lock().expect("no panic").len(), before);
}

#[tokio::test]
async fn panicking_listener_stops_nothing() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = heard.clone();
    let _first = one.shared("s").listen(|_| panic!("on purpose"));
    let _second = one.shared("s").listen(move |remote: RemoteInvalidation<'_>| {
        sink.lock().expect("no panic").push(format!("{remote:?}"));
    });
    let view: View<str, u32> = one.view("n");
    let written = tokio::time::timeout(Duration::from_secs(5), view.write("k", 1)).await;
    written.expect("the coherence task runs").everywhere();
    other.shared("s").delete(b"k").await.everywhere();
    let hears = async || heard.lock().expect("no panic").iter().any(|remote| remote == "Key([107])");
    eventually("the other listener hears it", hears).await;
}

async fn found_or_leased(view: &SharedView) -> SharedCopy {
    lease(view, "fresh").await.copy(&WriteOptions::new())
}

/// Bytes of another version, of another view, and damaged ones are loaded again.
#[tokio::test]
async fn unreadable_bytes_are_replaced() {
    let Some(server) = RedisServer::start() else { return };
    let one = over(server.url());
    let (view, shared): (View<str, u32>, _) = (one.view("n"), one.shared("n"));
    view.write("k", 1).await.everywhere();
    everywhere(lease(&shared, "k").await, "bytes", &WriteOptions::new()).await;
    assert_eq!(found(&shared, "k").await.bytes(), b"bytes");
    server.command("SETRANGE test:n:k 90 x");
    let second = lease(&shared, "k").await;
    everywhere(second, "again", &WriteOptions::new()).await;
    assert_eq!(found(&over(server.url()).shared("n"), "k").await.bytes(), b"again");
}
