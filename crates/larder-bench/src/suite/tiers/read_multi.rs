//! Reads of 26 values of 1 KiB from Redis in one call, compared with a bare MGET of the client library.

use super::memory_hit::runtime;
use super::remote::{Remote, VALUE_BYTES, VALUES, value};
use super::{Findings, ROUNDS, Scale};
use crate::measure::clock::Timing;
use crate::measure::rounds::{self, Runner, Sample};
use anyhow::Result;
use indicatif::ProgressBar;
use larder_process::RedisServer;

pub(super) fn measure(
    scale: &Scale,
    server: &RedisServer,
    bar: &ProgressBar,
    findings: &mut Findings,
) -> Result<()> {
    let mut runners = vec![larder(scale.reads, server)?, redis_rs(scale.reads, server)?];
    findings.figures.extend(rounds::run("read-multi", &mut runners, ROUNDS, bar)?);
    Ok(())
}

fn larder(reads: usize, server: &RedisServer) -> Result<Runner> {
    let Remote { runtime, view } = Remote::new(server.url())?;
    let keys: Vec<u64> = (0..VALUES).collect();
    let round = move || {
        let (found, timing) = Timing::measure(|| {
            runtime.block_on(async {
                let mut found = 0;
                for _ in 0..reads {
                    let values = view.read_multi(&keys).await;
                    found += u64::from(
                        values.iter().flatten().filter(|value| value.len() == VALUE_BYTES).count()
                            == keys.len(),
                    );
                }
                found
            })
        });
        Sample::time_per_operation(timing, reads, found)
    };
    Ok(Runner { subject: "larder", round: Box::new(round) })
}

fn redis_rs(reads: usize, server: &RedisServer) -> Result<Runner> {
    let runtime = runtime()?;
    let keys: Vec<String> = (0..VALUES).map(|key| format!("bare:kib:{key}")).collect();
    let mut connection = runtime.block_on(async {
        let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
        for key in &keys {
            redis::cmd("SET").arg(key).arg(value()).exec_async(&mut connection).await?;
        }
        anyhow::Ok(connection)
    })?;
    let round = move || {
        let (found, timing) = Timing::measure(|| {
            runtime.block_on(async {
                let mut found = 0;
                for _ in 0..reads {
                    let values: redis::RedisResult<Vec<Vec<u8>>> =
                        redis::cmd("MGET").arg(&keys).query_async(&mut connection).await;
                    found += u64::from(
                        values.is_ok_and(|values| values.iter().all(|value| value.len() == VALUE_BYTES)),
                    );
                }
                found
            })
        });
        Sample::time_per_operation(timing, reads, found)
    };
    Ok(Runner { subject: "redis-rs", round: Box::new(round) })
}
