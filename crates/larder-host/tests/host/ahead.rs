//! Loads ahead of the end of a value: one caller makes each, in its own thread, and the others go on with the value.

use crate::{TEXT, blocked, cache, options};
use larder::{FetchError, RefreshAhead};
use larder_host::{
    AheadHit, CallOptions, HostCache, HostCodec, HostLeased, HostLoad, HostValue, HostView, LoadError,
    Objects, hit_ahead, lease, lease_ahead,
};
use larder_testkit::{RedisServer, until};
use std::fmt;
use std::time::Duration;

#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Broken,
    GivenUp,
}

impl LoadError for Failure {
    fn given_up() -> Self {
        Failure::GivenUp
    }

    fn is_given_up(&self) -> bool {
        *self == Failure::GivenUp
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

type Texts = HostView<String, Failure>;
type Leased = Result<HostLeased<String, Failure>, FetchError<Failure>>;

fn texts(cache: &HostCache, ttl: Duration) -> Texts {
    let make = move |cache: &larder::Cache| {
        let view = HostCodec::message_pack().view(cache, "text", TEXT, Objects::Copied).with_ttl(ttl);
        view.with_policy(larder::Policy::new().ttl(ttl).refresh_ahead(RefreshAhead::After(0.0)))
    };
    cache.view(make).expect("valid options")
}

fn value(text: &str) -> HostValue<String> {
    let bytes = [&[0xa0 | text.len() as u8], text.as_bytes()].concat();
    HostCodec::message_pack().value(b"", bytes)
}

fn text(found: &HostValue<String>) -> String {
    String::from_utf8_lossy(&found.payload(b"").expect("not signed")[1..]).into_owned()
}

fn ahead(view: &Texts) -> Leased {
    let codec = HostCodec::message_pack();
    blocked(lease_ahead(view.get().expect("starts"), &codec, b"k", &CallOptions::default()))
}

fn led(leased: Leased) -> HostLoad<String, Failure> {
    match leased {
        Ok(HostLeased::Lead(load)) => load,
        other => panic!("another caller leads: {other:?}"),
    }
}

fn hit(leased: Leased) -> String {
    match leased {
        Ok(HostLeased::Hit(found)) => text(&found),
        other => panic!("it leads: {other:?}"),
    }
}

fn in_memory(view: &Texts) -> Option<String> {
    view.get().expect("started").hit(b"k").map(|found| text(&found))
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn due_value_is_loaded_by_one_caller_and_answers_the_others() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [cache(None), cache(Some(server.url()))] {
        let view = texts(&cache, MINUTE);
        blocked(led(ahead(&view)).complete(value("old"))).expect("a value");
        let load = led(ahead(&view));
        assert_eq!(load.cx().stale().map(|stale| text(stale)), Some("old".to_owned()));
        assert_eq!((hit(ahead(&view)), in_memory(&view)), ("old".to_owned(), Some("old".to_owned())));
        assert_eq!(text(&blocked(load.complete(value("new"))).expect("a value")), "new");
        until("it is stored", || (in_memory(&view)? == "new").then_some(()));
        assert_eq!(cache.cache().expect("started").stats().loads, 2);
    }
}

#[test]
fn of_two_nodes_one_loads_ahead() {
    let Some(server) = RedisServer::start() else { return };
    let caches = [cache(Some(server.url())), cache(Some(server.url()))];
    let views = caches.each_ref().map(|cache| texts(cache, MINUTE));
    blocked(led(ahead(&views[0])).complete(value("old"))).expect("a value");
    assert_eq!(hit(ahead(&views[1])), "old");
    let load = led(ahead(&views[0]));
    assert_eq!(hit(ahead(&views[1])), "old", "it does not load it too");
    blocked(load.complete(value("new"))).expect("a value");
    until("it is stored", || (in_memory(&views[0])? == "new").then_some(()));
}

#[test]
fn failed_load_ahead_leaves_the_value_and_the_next_one_waits() {
    let cache = cache(None);
    let view = texts(&cache, MINUTE);
    blocked(led(ahead(&view)).complete(value("old"))).expect("a value");
    assert_eq!(text(&blocked(led(ahead(&view)).fail(Failure::Broken)).expect("the value")), "old");
    until("it has ended", || (cache.cache().ok()?.stats().load_failures == 1).then_some(()));
    assert_eq!(hit(ahead(&view)), "old", "it pauses");
}

#[test]
fn callers_that_blocked_a_load_ahead_that_is_given_up_lead() {
    let cache = cache(None);
    let view = texts(&cache, Duration::from_millis(50));
    blocked(led(ahead(&view)).complete(value("old"))).expect("a value");
    let load = led(ahead(&view));
    until("its time ends", || in_memory(&view).is_none().then_some(()));
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let codec = HostCodec::message_pack();
            blocked(lease(view.get().expect("started"), &codec, b"k", &CallOptions::default()))
        });
        let misses = || cache.cache().expect("started").stats().memory.misses;
        until("it follows", || (misses() >= 2).then_some(()));
        drop(load);
        let load = led(follower.join().expect("no panic"));
        blocked(load.complete(value("new"))).expect("a value");
    });
}

#[test]
fn value_that_is_not_due_or_not_there_is_no_load() {
    let cache = HostCache::new(options(None)).expect("valid options");
    let view: Texts = cache
        .view(|cache| HostCodec::message_pack().view(cache, "text", TEXT, Objects::Copied))
        .expect("valid options");
    let native = view.get().expect("starts");
    let (codec, mut options) = (HostCodec::message_pack(), CallOptions::default());
    assert!(!view.loads_ahead(&options));
    options.set_refresh_ahead("0.9").expect("valid");
    assert!(view.loads_ahead(&options));
    assert!(matches!(hit_ahead(native, &codec, b"k", &options), AheadHit::Missed));
    let leased = blocked(lease_ahead(native, &codec, b"k", &options));
    blocked(led(leased).complete(value("old"))).expect("a value");
    assert!(matches!(hit_ahead(native, &codec, b"k", &options), AheadHit::Found(_)));
    assert_eq!(cache.cache().expect("started").stats().loads, 1);
}
