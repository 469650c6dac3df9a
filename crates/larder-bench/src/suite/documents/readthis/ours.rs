//! Our library under the loads of document 2: one caller on one thread, as in Ruby.

use super::Servers;
use crate::measure::alloc::count_allocations;
use crate::measure::rounds::Value;
use crate::suite::documents::case::{Case, Outcome, Run};
use anyhow::{Result, ensure};
use larder::{Cache, Codec, Format, Raw, View};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

const VALUE_BYTES: usize = 1 << 10;
/// The reads whose allocations are counted.
const COUNTED: u32 = 100;

type Values = View<str, Vec<u8>, Infallible>;
type Map = BTreeMap<String, String>;

/// How 26 values are read from Redis.
#[derive(Clone, Copy)]
enum Driver {
    /// One read waits for the other.
    Sequential,
    /// One call, which sends one pipeline.
    Pipelined,
    /// 26 reads at once, which share the connection.
    Multiplexed,
}

pub(super) fn cases<'a>(servers: &'a Servers, limit: Duration) -> Vec<Case<'a>> {
    let case = |group: &str, subject, run: Run<'a>| Case {
        group: group.to_owned(),
        subject,
        estimate: limit * 5 / 2,
        run,
    };
    let mut cases = vec![
        case("multi", "larder", Box::new(move || multi(servers, 64 << 20, limit))),
        case("multi", "larder, Redis alone", Box::new(move || multi(servers, NO_MEMORY, limit))),
    ];
    let drivers = [
        ("larder", Driver::Pipelined),
        ("larder, one after another", Driver::Sequential),
        ("larder, multiplexed", Driver::Multiplexed),
    ];
    cases.extend(
        drivers.map(|(subject, driver)| {
            case("driver", subject, Box::new(move || read_by(driver, servers, limit)))
        }),
    );
    let formats = [
        ("larder", Format::Postcard),
        ("larder, JSON", Format::Json),
        ("larder, MessagePack", Format::MessagePack),
    ];
    cases.extend(formats.map(|(subject, format)| {
        case("marshal", subject, Box::new(move || marshal(pairs(), format, servers, limit)))
    }));
    let text = || format!("{:?}", pairs()).into_bytes();
    cases.push(case("marshal", "larder, raw", Box::new(move || marshal(text(), Raw, servers, limit))));
    cases
}

/// The least memory: with values that weigh more than it, each read goes to Redis.
const NO_MEMORY: u64 = 1 << 10;
/// What such a value is taken to weigh.
const TOO_HEAVY: u64 = 1 << 20;

fn cache(servers: &Servers, memory_bytes: u64) -> Result<Cache> {
    let builder = Cache::builder("bench").memory_bytes(memory_bytes).ttl(Duration::from_secs(60));
    Ok(builder.redis(servers.redis.url()).build()?)
}

/// That memory had no room: its hits are not what Redis costs.
fn check_redis_has_answered(cache: &Cache) -> Result<()> {
    let hits = cache.stats().memory.hits;
    ensure!(hits == 0, "memory has answered {hits} reads that are those of Redis");
    Ok(())
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn keys() -> Vec<String> {
    ('a'..='z').map(String::from).collect()
}

fn pairs() -> Map {
    keys().into_iter().map(|key| (key.clone(), key)).collect()
}

/// Stores the 26 values and checks that they are read.
async fn fill(cache: &Cache, memory_bytes: u64) -> Result<Values> {
    let mut view: Values = cache.view_with_codec("kib", Raw);
    if memory_bytes == NO_MEMORY {
        view = view.with_weigher(|_| TOO_HEAVY);
    }
    for key in keys() {
        let value = key.repeat(VALUE_BYTES).into_bytes();
        ensure!(view.write(&key, value).await?.is_everywhere(), "redis refuses a write");
    }
    let keys = keys();
    let values = view.read_multi(keys.iter().map(String::as_str)).await;
    let is_right =
        |(key, value): (&String, &Option<_>)| value.as_deref() == Some(&key.repeat(VALUE_BYTES).into_bytes());
    ensure!(keys.iter().zip(&values).all(is_right), "a value is wrong");
    Ok(view)
}

/// How many times a second an operation is done, after a warm-up.
async fn rate(limit: Duration, mut operation: impl AsyncFnMut()) -> f64 {
    let mut rate = 0.0;
    for limit in [limit / 5, limit] {
        let (start, mut count) = (Instant::now(), 0_u32);
        while start.elapsed() < limit {
            operation().await;
            count += 1;
        }
        rate = f64::from(count) / start.elapsed().as_secs_f64();
    }
    rate
}

fn multi(servers: &Servers, memory_bytes: u64, limit: Duration) -> Result<Vec<Outcome>> {
    let (runtime, keys) = (runtime()?, keys());
    let keys = || keys.iter().map(String::as_str);
    let cache = runtime.block_on(async { cache(servers, memory_bytes) })?;
    let view = runtime.block_on(fill(&cache, memory_bytes))?;
    let values = runtime.block_on(async {
        let read = rate(limit, async || _ = black_box(view.read_multi(keys()).await)).await;
        let fetch = rate(limit, async || {
            // Never called: all values are hits.
            let loader = |_, _| async { Ok::<Vec<(String, Vec<u8>)>, Infallible>(Vec::new()) };
            black_box(view.fetch_multi(keys()).load(loader).await);
        })
        .await;
        vec![Value::high("read-multi", "/s", read), Value::high("fetch-multi", "/s", fetch)]
    });
    if memory_bytes == NO_MEMORY {
        check_redis_has_answered(&cache)?;
    }
    let mut outcomes = vec![Outcome { workload: "multi".to_owned(), values, remark: None }];
    let read = |times: u32| {
        count_allocations(|| {
            runtime.block_on(async {
                for _ in 0..times {
                    black_box(view.read_multi(keys()).await);
                }
            })
        })
    };
    // Entering the runtime allocates: subtract that.
    if let (Some(((), one)), Some(((), all))) = (read(1), read(1 + COUNTED)) {
        let each = (all - one) as f64 / f64::from(COUNTED) / keys().count() as f64;
        let values = vec![Value::low("allocations", "per value", each)];
        outcomes.push(Outcome { workload: "allocations".to_owned(), values, remark: None });
    }
    Ok(outcomes)
}

fn read_by(driver: Driver, servers: &Servers, limit: Duration) -> Result<Vec<Outcome>> {
    let keys = keys();
    let keys = || keys.iter().map(String::as_str);
    let rate = runtime()?.block_on(async {
        let cache = cache(servers, NO_MEMORY)?;
        let view = fill(&cache, NO_MEMORY).await?;
        let read = async || match driver {
            Driver::Pipelined => _ = black_box(view.read_multi(keys()).await),
            Driver::Sequential => {
                for key in keys() {
                    black_box(view.read(key).await);
                }
            }
            Driver::Multiplexed => {
                let mut reads = tokio::task::JoinSet::new();
                for key in keys() {
                    let (view, key) = (view.clone(), key.to_owned());
                    reads.spawn(async move { view.read(&key).await });
                }
                black_box(reads.join_all().await);
            }
        };
        let rate = rate(limit, read).await;
        check_redis_has_answered(&cache)?;
        anyhow::Ok(rate)
    })?;
    let values = vec![Value::high("read-multi", "/s", rate)];
    Ok(vec![Outcome { workload: "driver".to_owned(), values, remark: None }])
}

fn marshal<V: Clone + PartialEq + Send + Sync + 'static>(
    value: V,
    codec: impl Codec<V>,
    servers: &Servers,
    limit: Duration,
) -> Result<Vec<Outcome>> {
    let (load, dump) = runtime()?.block_on(async {
        let cache = cache(servers, NO_MEMORY)?;
        let view: View<str, V> = cache.view_with_codec("pairs", codec).with_weigher(|_| TOO_HEAVY);
        ensure!(view.write("pairs", value.clone()).await?.is_everywhere(), "redis refuses a write");
        ensure!(view.read("pairs").await.as_deref() == Some(&value), "the value is wrong");
        let load = rate(limit, async || _ = black_box(view.read("pairs").await)).await;
        let dump = rate(limit, async || _ = black_box(view.write("pairs", value.clone()).await)).await;
        check_redis_has_answered(&cache)?;
        anyhow::Ok((load, dump))
    })?;
    let values = vec![Value::high("load", "/s", load), Value::high("dump", "/s", dump)];
    Ok(vec![Outcome { workload: "marshal".to_owned(), values, remark: None }])
}
