//! Who serves what was invalidated: a loader has read the old value, the key is invalidated or written, the loader
//! returns. What does the cache have now?
//!
//! No times: a loader that waits is told to go on when the other has happened.

use super::Findings;
use super::memory_hit::runtime;
use crate::rounds::{self, Entrant, Sample, Value};
use anyhow::Result;
use indicatif::ProgressBar;
use larder::{Cache, View};
use std::sync::mpsc;
use std::time::Duration;

const OLD: u64 = 1;
const NEW: u64 = 2;

pub(super) fn measure(bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let runtime = runtime()?;
    let ours = move || {
        sample(runtime.block_on(larder(Event::Invalidated)), runtime.block_on(larder(Event::Written)))
    };
    let moka = || sample(of(Event::Invalidated, moka), of(Event::Written, moka));
    let quick_cache = || sample(of(Event::Invalidated, quick_cache), of(Event::Written, quick_cache));
    let mut entrants = [
        Entrant { subject: "larder", round: Box::new(ours) },
        Entrant { subject: "moka", round: Box::new(moka) },
        Entrant { subject: "quick_cache", round: Box::new(quick_cache) },
    ];
    findings.figures.extend(rounds::run("stale", &mut entrants, 1, bar)?);
    Ok(())
}

/// What happens during the load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Invalidated,
    Written,
}

/// What was cached after an invalidation, and after a write, during a load.
fn sample(invalidated: Option<u64>, written: Option<u64>) -> Sample {
    let stale = |cached: Option<u64>| f64::from(u8::from(cached == Some(OLD)));
    let values = vec![
        Value::low("invalidated", "stale", stale(invalidated)),
        Value::low("overwritten", "stale", stale(written)),
    ];
    Sample { values, succeeded: 1, expected: 1 }
}

/// Called by a loader that has read the old value.
struct Paused {
    arrived: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

impl Paused {
    fn load(self) -> u64 {
        self.arrived.send(()).expect("the bench waits");
        self.go_on.recv().expect("the bench goes on");
        OLD
    }
}

/// Runs a load on a thread, does something meanwhile, and returns what is cached afterwards.
fn of(
    event: Event,
    run: fn(Event, Paused, mpsc::Receiver<()>, mpsc::Sender<()>) -> Option<u64>,
) -> Option<u64> {
    let ((arrived, arrival), (going, go_on)) = (mpsc::channel(), mpsc::channel());
    run(event, Paused { arrived, go_on }, arrival, going)
}

fn moka(event: Event, paused: Paused, arrival: mpsc::Receiver<()>, going: mpsc::Sender<()>) -> Option<u64> {
    let cache = moka::sync::Cache::new(100);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| cache.get_with(7_u64, || paused.load()));
        arrival.recv().expect("the loader begins");
        match event {
            Event::Invalidated => cache.invalidate(&7),
            Event::Written => cache.insert(7, NEW),
        }
        going.send(()).expect("the loader waits");
        loading.join().expect("the loader returns")
    });
    cache.get(&7)
}

fn quick_cache(
    event: Event,
    paused: Paused,
    arrival: mpsc::Receiver<()>,
    going: mpsc::Sender<()>,
) -> Option<u64> {
    let cache = quick_cache::sync::Cache::new(100);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| {
            _ = cache.get_or_insert_with(&7_u64, || Ok::<_, std::convert::Infallible>(paused.load()));
        });
        arrival.recv().expect("the loader begins");
        match event {
            Event::Invalidated => _ = cache.remove(&7),
            Event::Written => cache.insert(7, NEW),
        }
        going.send(()).expect("the loader waits");
        loading.join().expect("the loader returns");
    });
    cache.get(&7)
}

async fn larder(event: Event) -> Option<u64> {
    let cache =
        Cache::builder("stale").ttl(Duration::from_secs(60)).build().expect("the options are in range");
    let view: View<u64, u64> = cache.view("n");
    let (arrived, arrival) = tokio::sync::oneshot::channel();
    let (going, go_on) = tokio::sync::oneshot::channel();
    let loading = {
        let view = view.clone();
        let loader = async move |_| {
            arrived.send(()).expect("the bench waits");
            go_on.await.expect("the bench goes on");
            Ok(OLD)
        };
        tokio::spawn(async move { view.fetch(&7).load(loader).await.is_ok() })
    };
    arrival.await.expect("the loader begins");
    match event {
        Event::Invalidated => _ = view.delete(&7).await.expect("memory takes it"),
        Event::Written => view.write(&7, NEW).await.expect("memory takes it"),
    }
    going.send(()).expect("the loader waits");
    loading.await.expect("the loader returns");
    view.read(&7).await.map(|value| *value)
}
