//! Ten thousand callers fetch one key that no tier has.

use super::{Findings, ROUNDS, Scale};
use crate::measure::rounds::{self, Runner, Sample, Value};
use anyhow::Result;
use indicatif::ProgressBar;
use larder::{Cache, Reach, View};
use larder_process::RedisServer;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

/// The duration of the load.
const LOAD: Duration = Duration::from_millis(50);

pub(super) fn measure(
    scale: &Scale,
    server: &RedisServer,
    bar: &ProgressBar,
    findings: &mut Findings,
) -> Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let (callers, url) = (scale.callers, server.url());
    let mut key = 0;
    let round = move || {
        key += 1;
        runtime.block_on(stampede(callers, url.clone(), key))
    };
    let mut runners = [Runner { subject: "larder", round: Box::new(round) }];
    findings.figures.extend(rounds::run("cold-key", &mut runners, ROUNDS, bar)?);
    Ok(())
}

async fn stampede(callers: usize, url: String, key: u64) -> Sample {
    let cache = Cache::builder("stampede")
        .ttl(Duration::from_secs(3_600))
        .redis(url)
        .redis_timeout(Duration::from_secs(10))
        .build()
        .expect("the options are in range");
    let view: View<u64, u64> = cache.view("n");
    // Connect before the callers start.
    let reach = view.write(&u64::MAX, 0).await.expect("the value can be encoded");
    assert_eq!(reach, Reach::Everywhere, "redis accepts the write");
    let reads = || cache.stats().redis.map_or(0, |redis| redis.hits + redis.misses);
    let before = reads();
    let loads = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (view, loads) = (view.clone(), loads.clone());
            tokio::spawn(async move {
                let loader = async move |_| {
                    loads.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(LOAD).await;
                    Ok::<_, Infallible>(7)
                };
                let value = view.fetch(&key).load(loader).await;
                (value.is_ok_and(|value| *value == 7), start.elapsed())
            })
        })
        .collect();
    let (mut succeeded, mut times) = (0, Vec::with_capacity(callers));
    for task in tasks {
        let (ok, elapsed) = task.await.expect("no caller panics");
        succeeded += u64::from(ok);
        times.push(elapsed);
    }
    times.sort_unstable();
    let p99 = times[callers * 99 / 100].saturating_sub(LOAD);
    let values = vec![
        Value::low("loads", "", loads.load(Ordering::Relaxed) as f64),
        Value::low("redis reads", "", (reads() - before) as f64),
        Value::low("p99 after the load", "ms", p99.as_secs_f64() * 1e3),
    ];
    Sample { values, succeeded, expected: callers as u64 }
}
