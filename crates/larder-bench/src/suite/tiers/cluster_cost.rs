//! What a cluster of three primaries costs the client: beside one server, and beside the bare client library.

use super::memory_hit::runtime;
use super::remote::{Remote, VALUE_BYTES, VALUES, value};
use super::{Findings, ROUNDS, Scale};
use crate::measure::clock::Timing;
use crate::measure::rounds::{self, Runner, Sample};
use crate::tool::{Cluster, start_on_port, url_of};
use anyhow::Result;
use indicatif::ProgressBar;
use redis::aio::MultiplexedConnection;
use std::path::Path;

const PRIMARIES: usize = 3;

pub(super) fn measure(
    scale: &Scale,
    program: &Path,
    bar: &ProgressBar,
    findings: &mut Findings,
) -> Result<()> {
    let (_server, port) = start_on_port(program, &[])?;
    let cluster = Cluster::start(program, PRIMARIES)?;
    let reads = scale.reads;
    let mut fetches =
        [larder("larder", reads, cluster.url(), 1)?, larder("one server", reads, url_of(port), 1)?];
    findings.figures.extend(rounds::run("cluster-fetch", &mut fetches, ROUNDS, bar)?);
    let mut fetches = [larder("larder", reads, cluster.url(), VALUES)?, redis_rs(reads, &cluster)?];
    findings.figures.extend(rounds::run("cluster-fetch-multi", &mut fetches, ROUNDS, bar)?);
    Ok(())
}

/// Fetches of so many keys.
fn larder(subject: &'static str, fetches: usize, url: String, keys: u64) -> Result<Runner> {
    let Remote { runtime, view } = Remote::new(url)?;
    let all: Vec<u64> = (0..keys).collect();
    let round = move || {
        let (found, timing) = Timing::measure(|| {
            runtime.block_on(async {
                let mut found = 0;
                for _ in 0..fetches {
                    let absent = |_, _| async { Ok(Vec::new()) };
                    let values = view.fetch_multi(&all).load(absent).await;
                    let is_found = |value: &Vec<u8>| value.len() == VALUE_BYTES;
                    found += u64::from(values.iter().flatten().flatten().all(|value| is_found(value)));
                }
                found
            })
        });
        Sample::time_per_operation(timing, fetches, found)
    };
    Ok(Runner { subject, round: Box::new(round) })
}

/// The same values by pipelines of GET, one to each primary, at the same time.
fn redis_rs(fetches: usize, cluster: &Cluster) -> Result<Runner> {
    let runtime = runtime()?;
    let mut parts: Vec<(MultiplexedConnection, redis::Pipeline)> = Vec::new();
    for (server, url) in cluster.urls().enumerate() {
        let mut connection =
            runtime.block_on(redis::Client::open(url)?.get_multiplexed_async_connection())?;
        let mut reads = redis::pipe();
        for key in (0..VALUES).map(|key| format!("bare:kib:{key}")) {
            if cluster.owner_of(key.as_bytes())? == server {
                let mut write = redis::cmd("SET");
                write.arg(&key).arg(value());
                runtime.block_on(write.exec_async(&mut connection))?;
                reads.get(key);
            }
        }
        parts.push((connection, reads));
    }
    let Ok(mut parts) = <[_; PRIMARIES]>::try_from(parts) else { unreachable!("one for each primary") };
    let round = move || {
        let (found, timing) = Timing::measure(|| {
            runtime.block_on(async {
                let mut found = 0;
                for _ in 0..fetches {
                    let [one, two, three] = &mut parts;
                    let values: (Read, Read, Read) = tokio::join!(
                        one.1.query_async(&mut one.0),
                        two.1.query_async(&mut two.0),
                        three.1.query_async(&mut three.0),
                    );
                    let values = [values.0, values.1, values.2];
                    let count = values.iter().flatten().map(Vec::len).sum::<usize>();
                    found += u64::from(count as u64 == VALUES);
                }
                found
            })
        });
        Sample::time_per_operation(timing, fetches, found)
    };
    Ok(Runner { subject: "redis-rs", round: Box::new(round) })
}

type Read = redis::RedisResult<Vec<Vec<u8>>>;
