//! Calls of a host: interrupted, cancelled, and ended with the process.

use crate::{Raised, TEXT, Texts, blocked, cache, texts};
use larder::{CacheError, FetchError, Leased, LoadLease, Policy};
use larder_host::{
    Completions, ErrorClass, HostCodec, HostError, HostValue, Objects, Outcome, StartError, WAIT_SLICE,
    WaitError, wait,
};
use larder_testkit::{Deadline, RedisServer, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type TextLease = LoadLease<HostValue<String>, Raised>;
type TextLeased = Result<Leased<HostValue<String>, Raised>, FetchError<Raised>>;

fn value() -> HostValue<String> {
    HostCodec::message_pack().value(b"", b"\xa5apple".to_vec())
}

fn led(leased: TextLeased) -> TextLease {
    match leased {
        Ok(Leased::Lead(lease)) => lease,
        other => panic!("another caller leads: {other:?}"),
    }
}

fn lease(view: &Texts, key: &'static [u8]) -> impl Future<Output = TextLeased> + Send + 'static {
    let view = view.get().expect("starts").clone();
    async move { view.fetch(key).lease().await }
}

#[test]
fn interrupted_follower_leaves_the_load_to_its_leader() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [cache(None), cache(Some(server.url()))] {
        let view = texts(&cache);
        let leading = led(blocked(lease(&view, b"k")));
        let began = Instant::now();
        let ended = wait(lease(&view, b"k"), None, || Err("Ctrl-C"));
        assert!(matches!(ended, Err(WaitError::Interrupted("Ctrl-C"))), "{ended:?}");
        assert!(began.elapsed() >= WAIT_SLICE);
        // Another follower, on a thread of its own, gets the value.
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| blocked(lease(&view, b"k")));
            until("it follows", || {
                (cache.cache().expect("started").stats().memory.misses >= 3).then_some(())
            });
            blocked(leading.complete(value())).expect("a value");
            let followed = follower.join().expect("no panic").expect("a value");
            assert!(matches!(followed, Leased::Hit(_)), "{followed:?}");
        });
    }
}

#[test]
fn cancelled_call_that_led_gives_its_lease_up() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [cache(None), cache(Some(server.url()))] {
        let view = texts(&cache);
        let notices = Arc::new(AtomicUsize::new(0));
        let calls: Completions<u32, TextLeased> =
            Completions::new(cache.runtime().expect("starts").clone(), {
                let notices = notices.clone();
                move || {
                    notices.fetch_add(1, Ordering::SeqCst);
                }
            });
        calls.start(1, lease(&view, b"k")).expect("open");
        let ended = until("it ends", || calls.take().pop());
        let (1, Outcome::Done(leased)) = ended else { panic!("{ended:?}") };
        let leading = led(leased);
        let following = calls.start(2, lease(&view, b"k")).expect("open");
        calls.start(3, lease(&view, b"k")).expect("open");
        calls.cancel(following);
        let ended = until("it ends", || calls.take().pop());
        assert!(matches!(ended, (2, Outcome::Cancelled)), "{ended:?}");
        // The host drops it, as where its task was cancelled: the next caller leads.
        drop(leading);
        let ended = until("it ends", || calls.take().pop());
        let (3, Outcome::Done(leased)) = ended else { panic!("{ended:?}") };
        blocked(led(leased).complete(value())).expect("a value");
        let before = notices.load(Ordering::SeqCst);
        calls.start(4, lease(&view, b"other")).expect("open");
        until("it has ended", || (notices.load(Ordering::SeqCst) > before).then_some(()));
        drop(calls.close());
        // Nobody holds the lease of what was not taken.
        drop(led(blocked(lease(&view, b"other"))));
    }
}

#[test]
fn threads_have_names_and_end_with_the_cache() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [cache(None), cache(Some(server.url()))] {
        let _deadline = Deadline::start();
        let view = texts(&cache);
        let runtime = cache.runtime().expect("starts").clone();
        let name = runtime.spawn(async { std::thread::current().name().map(str::to_owned) });
        let name = blocked(name).expect("no panic").expect("a name");
        assert!(name.starts_with("larder-"), "{name}");
        let reach = blocked(view.get().expect("started").write(b"k", value())).expect("valid");
        assert!(reach.is_everywhere());

        let (began, native) = (Instant::now(), view.get().expect("started").clone());
        assert_eq!(cache.close(Duration::from_secs(60)), Ok(0));
        assert!(began.elapsed() < Duration::from_secs(30), "nothing is pending");
        let written = blocked(native.write(b"k", value()));
        assert!(matches!(written, Err(CacheError::ShutDown)), "{written:?}");
        assert!(native.hit(b"k").is_none());
        assert!(blocked(runtime.spawn(async {})).is_err(), "no thread is left to run it");
        assert_eq!(cache.close(Duration::from_secs(60)), Ok(0), "once more");
    }
}

#[test]
fn call_that_waits_while_the_cache_is_closed_ends() {
    let Some(server) = RedisServer::start() else { return };
    // With a timer, which ends with its runtime, and with nothing that would wake the thread.
    let policies = [Policy::new(), Policy::new().hard_timeout(Duration::from_secs(60))];
    let cases = policies.map(|policy| [(None, policy), (Some(server.url()), policy)]);
    for (url, policy) in cases.into_iter().flatten() {
        let cache = cache(url);
        let view: Texts = cache
            .view(move |cache| {
                HostCodec::message_pack().view(cache, "text", TEXT, Objects::Copied).with_policy(policy)
            })
            .expect("valid options");
        let leading = led(blocked(lease(&view, b"k")));
        let deadline = Instant::now() + Duration::from_secs(30);
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| cache.wait(lease(&view, b"k"), Some(deadline), || Ok::<_, ()>(())));
            until("it follows", || {
                (cache.cache().expect("started").stats().memory.misses >= 2).then_some(())
            });
            assert_eq!(cache.close(Duration::from_secs(60)), Ok(0));
            let followed = follower.join().expect("no timer is polled after its runtime");
            assert!(matches!(followed, Err(WaitError::Closed)), "{followed:?}");
        });
        let completed = cache.wait(leading.complete(value()), None, || Ok::<_, ()>(()));
        assert!(matches!(completed, Err(WaitError::Closed)), "{completed:?}");
    }
}

#[test]
fn closed_cache_does_not_start_again() {
    for was_started in [false, true] {
        let cache = cache(None);
        let view = texts(&cache);
        if was_started {
            cache.cache().expect("starts");
        }
        assert_eq!((cache.close(Duration::ZERO), cache.close(Duration::ZERO)), (Ok(0), Ok(0)));
        assert!(matches!(cache.cache(), Err(StartError::Closed)));
        assert!(matches!(cache.runtime(), Err(StartError::Closed)));
        assert!(matches!(view.get(), Err(StartError::Closed)));
        assert_eq!(HostError::from(StartError::Closed).class, ErrorClass::Closed);
        assert_eq!(format!("{cache:?}").contains("running: None"), !was_started, "{cache:?}");
        assert_eq!(cache.drain(Duration::ZERO), Ok(0), "at the exit nobody asks");
    }
}

#[test]
fn close_in_a_runtime_is_refused() {
    let cache = cache(None);
    let runtime = cache.runtime().expect("starts").clone();
    let closing = cache.clone();
    let closed = runtime.spawn(async move { closing.close(Duration::from_secs(1)) });
    assert_eq!(blocked(closed).expect("no panic"), Err(WaitError::InRuntime));
    assert!(cache.cache().is_ok(), "it goes on");
    // A handle that is dropped last on a thread of its own runtime does not wait for that.
    let dropping = blocked(runtime.spawn(async move { drop(cache) }));
    assert!(dropping.is_ok_and(|()| true));
}

#[test]
fn drained_cache_goes_on_and_one_that_was_not_started_is_not_started() {
    let cache = cache(None);
    assert_eq!(cache.drain(Duration::from_secs(1)), Ok(0));
    assert!(format!("{cache:?}").contains("running: None"), "{cache:?}");
    let texts = texts(&cache);
    let value = || HostCodec::message_pack().value(b"k", b"\xa1v".to_vec());
    let write = || blocked(texts.get().expect("it is open").write(b"k", value())).is_ok();
    assert!(write());
    assert_eq!(cache.drain(Duration::from_secs(1)), Ok(0));
    assert!(write());
    assert!(texts.get().expect("it is open").hit(b"k").is_some());
    assert_eq!(cache.close(Duration::from_secs(1)), Ok(0));
    assert_eq!(cache.drain(Duration::from_secs(1)), Ok(0));
}

#[test]
fn wrong_options_and_names_are_refused_at_once() {
    let refused = larder_host::HostCache::new(|| Ok(larder::Cache::builder("test")));
    assert!(matches!(refused, Err(larder::BuildError::NoTtl)));
    let cache = cache(None);
    let named = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache.view::<String, Raised>(|cache| {
            HostCodec::message_pack().view(cache, "a:b", TEXT, Objects::Copied)
        })
    }));
    assert!(named.is_err());
}
