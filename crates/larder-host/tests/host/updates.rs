//! Updates by a function of the host, which its caller runs between two steps: none is lost.

use crate::{MAX_LAG, Texts, blocked, cache, texts};
use larder::{Invalidation, WriteOptions};
use larder_host::{Change, HostCodec, HostValue, UpdateStep, UpdateTry};
use larder_testkit::RedisServer;
use std::time::{Duration, Instant};

fn value(text: &str) -> HostValue<String> {
    let bytes = [&[0xa0 | text.len() as u8], text.as_bytes()].concat();
    HostCodec::message_pack().value(b"", bytes)
}

fn text(found: &HostValue<String>) -> String {
    String::from_utf8_lossy(&found.payload(b"").expect("not signed")[1..]).into_owned()
}

fn read(view: &Texts) -> Option<String> {
    blocked(view.get().expect("open").read(b"k")).map(|found| text(&found))
}

type Try = UpdateTry<String, &'static str>;

/// Begins an update that has something to decide.
fn begin(view: &Texts, options: Option<WriteOptions>) -> Try {
    decides(blocked(view.update(b"k".to_vec(), options).expect("open")).expect("a value"))
}

fn decides(step: UpdateStep<String, &'static str>) -> Try {
    match step {
        UpdateStep::Decide(step) => step,
        UpdateStep::Done(found) => panic!("it has ended with {found:?}"),
    }
}

fn ended(step: UpdateStep<String, &'static str>) -> Option<String> {
    match step {
        UpdateStep::Decide(step) => panic!("it decides again: {step:?}"),
        UpdateStep::Done(found) => found.map(|found| text(&found)),
    }
}

/// Adds one to a number as text.
fn count(view: &Texts) {
    let mut step = begin(view, None);
    loop {
        let number = step.value().map_or(0, |found| text(found).parse::<u32>().expect("a number"));
        let change = Change::Put(value(&(number + 1).to_string()));
        match blocked(step.decide(change)).expect("it is not contended") {
            UpdateStep::Decide(again) => step = again,
            UpdateStep::Done(_) => return,
        }
    }
}

#[test]
fn updates_of_many_threads_on_two_nodes_add_up() {
    const THREADS: usize = 4;
    const TIMES: usize = 25;
    let Some(server) = RedisServer::start() else { return };
    let (alone, url) = (cache(None), server.url());
    for nodes in [vec![alone], vec![cache(Some(url.clone())), cache(Some(url))]] {
        let views: Vec<_> = nodes.iter().map(texts).collect();
        std::thread::scope(|scope| {
            for view in &views {
                for _ in 0..THREADS {
                    scope.spawn(|| (0..TIMES).for_each(|_| count(view)));
                }
            }
        });
        assert_eq!(read(&views[0]), Some((views.len() * THREADS * TIMES).to_string()));
    }
}

#[test]
fn function_decides_again_if_another_writer_came_first() {
    let Some(server) = RedisServer::start() else { return };
    let nodes = [cache(Some(server.url())), cache(Some(server.url()))];
    let [view, other] = nodes.each_ref().map(texts);
    let step = begin(&view, None);
    assert!(step.value().is_none());
    assert!(
        blocked(other.get().expect("open").write(b"k", value("theirs"))).expect("stored").is_everywhere()
    );
    let step = decides(blocked(step.decide(Change::Put(value("mine")))).expect("valid"));
    assert_eq!(step.value().map(|found| text(found)), Some("theirs".to_owned()));
    assert_eq!(
        ended(blocked(step.decide(Change::Put(value("both")))).expect("valid")),
        Some("both".to_owned())
    );
    std::thread::sleep(MAX_LAG);
    assert_eq!((read(&view), read(&other)), (Some("both".to_owned()), Some("both".to_owned())));
    // A removal is one too, and so is a deletion by another one.
    let step = begin(&view, None);
    assert!(blocked(other.get().expect("open").delete(b"k")).expect("done").reach.is_everywhere());
    let step = decides(blocked(step.decide(Change::Remove)).expect("valid"));
    assert!(step.value().is_none());
    assert_eq!(ended(blocked(step.decide(Change::Remove)).expect("valid")), None);
}

#[test]
fn value_keeps_its_times_and_tags_unless_the_update_has_its_own() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [cache(None), cache(Some(server.url()))] {
        let view = texts(&cache);
        let native = view.get().expect("starts");
        let invalidate = || {
            let invalidated = cache.cache().expect("open").invalidate_tags(["t"], Invalidation::Hard);
            assert!(blocked(invalidated).expect("valid").is_everywhere());
        };
        let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3_600));
        let tagged = WriteOptions::new().ttl(hour).tag("t");
        assert!(blocked(native.write_with(b"k", value("one"), &tagged)).expect("stored").is_everywhere());
        ended(blocked(begin(&view, None).decide(Change::Put(value("two")))).expect("valid"));
        assert!(blocked(native.ttl(b"k")).is_some_and(|ttl| ttl > minute));
        invalidate();
        assert_eq!(read(&view), None, "it has the tag");
        ended(blocked(begin(&view, Some(tagged)).decide(Change::Put(value("three")))).expect("valid"));
        let own = Some(WriteOptions::new().ttl(minute));
        ended(blocked(begin(&view, own).decide(Change::Put(value("four")))).expect("valid"));
        assert!(blocked(native.ttl(b"k")).is_some_and(|ttl| ttl <= minute));
        invalidate();
        assert_eq!(read(&view), Some("four".to_owned()), "it has no tag");
        assert_eq!(
            ended(blocked(begin(&view, None).decide(Change::Keep)).expect("valid")),
            Some("four".to_owned())
        );
    }
}

#[test]
fn try_that_is_left_holds_nobody_up() {
    let cache = cache(None);
    let view = texts(&cache);
    drop(begin(&view, None));
    let began = Instant::now();
    count(&view);
    assert!(began.elapsed() < Duration::from_secs(1), "no turn is waited for");
    // Nor does one that never ends, for long.
    let forgotten = begin(&view, None);
    count(&view);
    assert_eq!(read(&view), Some("2".to_owned()));
    drop(forgotten);
}

#[test]
fn update_while_the_cache_is_off_asks_nobody() {
    let cache = cache(None);
    let view = texts(&cache);
    count(&view);
    cache.cache().expect("open").set_enabled(false);
    assert_eq!(ended(blocked(view.update(b"k".to_vec(), None).expect("open")).expect("valid")), None);
    cache.cache().expect("open").set_enabled(true);
    assert_eq!(read(&view), None, "an older value does not come back");
}
