//! Processes that fork: handles from before the fork, the parent's connections, and locks that its threads had.

use crate::{MAX_LAG, Texts, blocked, cache, texts};
use larder_host::{Completions, HostCodec, HostValue, Outcome, PerProcess};
use larder_testkit::{Child, Deadline, RedisServer, fork, until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

fn value(byte: u8) -> HostValue<String> {
    HostCodec::message_pack().value(b"", vec![byte])
}

fn write(view: &Texts, key: &[u8], byte: u8) -> bool {
    let written = blocked(view.get().expect("starts").write(key, value(byte)));
    written.expect("valid").is_everywhere()
}

fn read(view: &Texts, key: &[u8]) -> Option<u8> {
    let found = blocked(view.get().expect("starts").read(key))?;
    Some(found.payload(key).expect("unsigned")[0])
}

#[test]
fn handle_from_before_the_fork_is_of_another_node_in_the_child() {
    let Some(server) = RedisServer::start() else { return };
    for (cache, from_redis) in [(cache(None), None), (cache(Some(server.url())), Some(1))] {
        let view = texts(&cache);
        assert!(write(&view, b"k", 1));
        let mut child = fork(|line| {
            let is_empty = view.get().expect("starts").hit(b"k").is_none();
            let found = read(&view, b"k");
            let reached = write(&view, b"k", 2);
            line.send(&format!("{is_empty} {found:?} {reached} {:?}", read(&view, b"k")));
            assert_eq!(line.receive(), "close");
            // A handle that the child drops is not the last of the parent's cache.
            drop(cache.clone());
            format!("{:?}", cache.close(Duration::from_secs(60)))
        });
        assert_eq!(child.line.receive(), format!("true {from_redis:?} true Some(2)"));
        std::thread::sleep(MAX_LAG);
        let heard = from_redis.map_or(Some(1), |_| Some(2));
        assert_eq!(read(&view, b"k"), heard, "they are nodes of one Redis, or caches of their own");
        child.line.send("close");
        assert_eq!(child.line.receive(), "Ok(0)");
        drop(child);
        // Its connections and threads are untouched.
        assert!(write(&view, b"k", 3));
        assert_eq!(read(&view, b"k"), Some(3));
        if from_redis.is_some() {
            let is_trusted = || cache.cache().expect("started").coherence().memory_trusted.then_some(());
            until("heartbeats are replied to", is_trusted);
        }
    }
}

#[test]
fn child_of_a_child_has_a_cache_of_its_own() {
    let Some(server) = RedisServer::start() else { return };
    let view = texts(&cache(Some(server.url())));
    assert!(write(&view, b"k", 1));
    let mut child = fork(|line| {
        assert!(write(&view, b"k", 2));
        let mut grandchild: Child = fork(|_| format!("{:?} {}", read(&view, b"k"), write(&view, b"k", 3)));
        line.send(&grandchild.line.receive());
        std::thread::sleep(MAX_LAG);
        format!("{:?}", read(&view, b"k"))
    });
    assert_eq!(child.line.receive(), "Some(2) true");
    assert_eq!(child.line.receive(), "Some(3)");
    assert_eq!(read(&view, b"k"), Some(3));
}

/// The last handles of a cache with open connections are dropped in the child.
#[test]
fn child_that_drops_the_last_handle_leaves_the_parent_alone() {
    let Some(server) = RedisServer::start() else { return };
    let cache = cache(Some(server.url()));
    let view = texts(&cache);
    assert!(write(&view, b"k", 1));
    let mut taken = Some((view, cache));
    let mut child = fork(|_| {
        drop(taken.take());
        "dropped".to_owned()
    });
    assert_eq!(child.line.receive(), "dropped");
    drop(child);
    let (view, _cache) = taken.expect("the child's was another");
    assert!(write(&view, b"k", 2), "its connections still reply");
}

/// Says when it is dropped.
struct Noted<'a>(&'a AtomicBool);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn value_is_dropped_by_the_process_that_made_it_alone() {
    let is_dropped = AtomicBool::new(false);
    let number = PerProcess::new();
    assert!(number.get_or_make(|| Ok::<_, ()>(Noted(&is_dropped))).is_ok());
    let mut taken = Some(number);
    let mut child = fork(|_| {
        let number = taken.take();
        let inherited = number.as_ref().and_then(PerProcess::get).is_some();
        drop(number);
        format!("{inherited} {}", is_dropped.load(Ordering::Relaxed))
    });
    assert_eq!(child.line.receive(), "false false");
    drop(child);
    drop(taken);
    assert!(is_dropped.load(Ordering::Relaxed));
}

#[test]
fn forks_under_load_are_each_answered_at_once() {
    const FORKS: usize = 200;
    let _deadline = Deadline::start();
    let cache = cache(None);
    let view = texts(&cache);
    let calls = Completions::new(cache.runtime().expect("starts").clone(), || {});
    let first = calls.start(0, async {}).expect("open");
    let (stop, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for key in [b"a", b"b"] {
            let (view, calls, stop, written) = (&view, &calls, &stop, &written);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    assert!(write(view, key, 1));
                    _ = calls.start(0, async {});
                    assert!(calls.take().iter().all(|(_, outcome)| *outcome == Outcome::Done(())));
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until("the callers run", || (written.load(Ordering::Relaxed) > 100).then_some(()));
        for _ in 0..FORKS {
            let mut child = fork(|_| {
                let refused = calls.start(7, async {});
                calls.cancel(first);
                let is_empty =
                    calls.take().is_empty() && calls.close().is_empty() && calls.outstanding() == 0;
                format!("{refused:?} {is_empty} {} {:?}", write(&view, b"a", 2), read(&view, b"a"))
            });
            assert_eq!(child.line.receive(), "Err(7) true true Some(2)");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn value_that_another_thread_makes_during_the_fork_is_made_in_the_child() {
    let _deadline = Deadline::start();
    let number = PerProcess::new();
    let (begun, has_begun) = mpsc::channel();
    let (end, may_end) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let number = &number;
        let making = scope.spawn(move || {
            number.get_or_make(|| {
                begun.send(()).expect("awaited");
                may_end.recv().map(|()| 1)
            })
        });
        has_begun.recv().expect("it is made");
        let mut child = fork(|_| format!("{:?} {:?}", number.get_or_make(|| Ok::<_, ()>(2)), number.get()));
        assert_eq!(child.line.receive(), "Ok(2) Some(2)");
        end.send(()).expect("awaited");
        assert_eq!(making.join().expect("no panic"), Ok(&1));
    });
}

#[test]
fn failure_is_not_kept() {
    let number = PerProcess::new();
    assert_eq!(number.get_or_make(|| Err::<u32, _>("no threads")), Err("no threads"));
    assert_eq!((number.get(), number.get_or_make(|| Ok::<_, ()>(1)), number.get()), (None, Ok(&1), Some(&1)));
}
