//! What calls cost a Redis: its processor time for a bulk fetch that it answers, and for deletions of one key and of many.

use super::memory_hit::runtime;
use super::remote::{Remote, VALUE_BYTES, VALUES, Values, value};
use super::{Findings, ROUNDS, Scale};
use crate::measure::clock::Timing;
use crate::measure::rounds::{self, Runner, Sample, Value};
use crate::tool::Usage;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use larder_process::RedisServer;
use std::sync::Arc;

const DELETED: u64 = 500;

pub(super) fn measure(
    scale: &Scale,
    server: &RedisServer,
    bar: &ProgressBar,
    findings: &mut Findings,
) -> Result<()> {
    let node = Arc::new(Node::new(server)?);
    let bare = redis_rs(scale.reads, server)?;
    let fetches = node.runner(scale.reads, async |view| {
        let keys: Vec<u64> = (0..VALUES).collect();
        let absent = |_, _| async { Ok(Vec::new()) };
        let found = view.fetch_multi(&keys).load(absent).await;
        found.iter().all(|found| matches!(found, Ok(Some(value)) if value.len() == VALUE_BYTES))
    });
    findings.figures.extend(rounds::run("fetch-multi", &mut [fetches, bare], ROUNDS, bar)?);
    // Keys that are not there cost the server the same commands and announcements as those that are.
    let one = node.runner(scale.reads, async |view| {
        view.delete(&1_000).await.is_ok_and(|removal| removal.reach.is_everywhere())
    });
    findings.figures.extend(rounds::run("delete", &mut [one], ROUNDS, bar)?);
    let many = node.runner(scale.reads / 50, async |view| {
        let keys: Vec<u64> = (1_000..1_000 + DELETED).collect();
        view.delete_multi(&keys).await.is_ok_and(|removal| removal.reach.is_everywhere())
    });
    findings.figures.extend(rounds::run("delete-multi-500", &mut [many], ROUNDS, bar)?);
    Ok(())
}

/// A cache, and the process of its server.
struct Node {
    cache: Remote,
    server: u32,
}

impl Node {
    fn new(server: &RedisServer) -> Result<Self> {
        let cache = Remote::new(server.url())?;
        let server = server.process().context("the server has ended")?.id();
        Ok(Node { cache, server })
    }

    /// A round of calls, each of which returns whether it succeeded.
    fn runner(self: &Arc<Self>, calls: usize, call: impl AsyncFn(&Values) -> bool + 'static) -> Runner {
        let node = self.clone();
        let round = move || {
            measured(node.server, calls, || {
                node.cache.runtime.block_on(async {
                    let mut succeeded = 0;
                    for _ in 0..calls {
                        succeeded += u64::from(call(&node.cache.view).await);
                    }
                    succeeded
                })
            })
        };
        Runner { subject: "larder", round: Box::new(round) }
    }
}

/// The values of one round: times per call of this process, and the processor time of the server.
fn measured(server: u32, calls: usize, run: impl FnOnce() -> u64) -> Sample {
    let before = Usage::of(server);
    let (succeeded, timing) = Timing::measure(run);
    let used = Usage::of(server) - before;
    let mut sample = Sample::time_per_operation(timing, calls, succeeded);
    sample.values.push(Value::low("server cpu", "ns", used.cpu.as_nanos() as f64 / calls as f64));
    sample
}

/// The same values by a bare MGET of the client library.
fn redis_rs(calls: usize, server: &RedisServer) -> Result<Runner> {
    let runtime = runtime()?;
    let keys: Vec<String> = (0..VALUES).map(|key| format!("bare:cost:{key}")).collect();
    let mut connection = runtime.block_on(async {
        let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
        for key in &keys {
            redis::cmd("SET").arg(key).arg(value()).exec_async(&mut connection).await?;
        }
        anyhow::Ok(connection)
    })?;
    let server = server.process().context("the server has ended")?.id();
    let round = move || {
        measured(server, calls, || {
            runtime.block_on(async {
                let mut found = 0;
                for _ in 0..calls {
                    let values: redis::RedisResult<Vec<Vec<u8>>> =
                        redis::cmd("MGET").arg(&keys).query_async(&mut connection).await;
                    found += u64::from(values.is_ok_and(|values| values.len() == keys.len()));
                }
                found
            })
        })
    };
    Ok(Runner { subject: "redis-rs", round: Box::new(round) })
}
