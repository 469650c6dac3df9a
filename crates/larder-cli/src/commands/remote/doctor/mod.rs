//! `larder doctor`: what looks wrong in a running Larder, and what to do about it.
//!
//! ```text
//! admin port ── figures, twice ──── rules ───────┐
//! Redis ─────── INFO, CONFIG GET ── redis_rules ─┴─► findings ─► a page, or JSON
//! ```

mod finding;
mod redis_rules;
mod rules;

use super::client::AdminClient;
use super::figures::Figures;
use super::shown::span;
use crate::commands::ask_redis::AskedRedis;
use crate::flags::DoctorFlags;
use crate::options::settings::File;
use crate::output::print;
use crate::parts::redis_source::{self, RedisSource};
use crate::parts::runtime;
use anyhow::{Context, Result, bail};
use finding::{Finding, Severity, page};
use serde::Serialize;
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn run(flags: DoctorFlags, file: File) -> Result<()> {
    let client = AdminClient::new(file.admin_authority(flags.admin.admin.clone()));
    let seen = runtime()?.block_on(watch(&client, Duration::from_secs(flags.seconds)))?;
    let mut findings = rules::findings(&seen.figures);
    findings.extend(rules::clocks_differ(seen.clock_difference));
    if let Some(url) = &flags.redis {
        findings.extend(of_redis(url, &flags)?);
    }
    findings.sort_by_key(|finding| finding.severity);
    match flags.json {
        true => print(&format!("{}\n", serde_json::to_string(&Report { version: 1, findings: &findings })?))?,
        false => print(&text(&seen, &findings))?,
    }
    let critical = findings.iter().filter(|finding| finding.severity == Severity::Critical).count();
    match findings.len() {
        0 => Ok(()),
        1 => bail!("1 finding, {critical} of them critical"),
        count => bail!("{count} findings, {critical} of them critical"),
    }
}

#[derive(Serialize)]
struct Report<'a> {
    /// Of this shape.
    version: u32,
    findings: &'a [Finding],
}

/// What an admin port has told.
struct Seen {
    /// The totals are those of the time that was watched.
    figures: Figures,
    watched: String,
    /// How far its clock is ahead of that of this machine, in seconds.
    clock_difference: f64,
}

/// Asks twice, with this time between; if it is zero, once, for the totals since the start.
async fn watch(client: &AdminClient, time: Duration) -> Result<Seen> {
    let earlier = figures(client).await?;
    let clock_difference = clock_difference(client).await?;
    if time.is_zero() {
        return Ok(Seen { figures: earlier, watched: "totals since then".to_owned(), clock_difference });
    }
    tokio::time::sleep(time).await;
    let now = figures(client).await?;
    let watched = format!("watched for {}", span(now.seconds_since(&earlier).round()));
    Ok(Seen { figures: now.since(&earlier), watched, clock_difference })
}

async fn figures(client: &AdminClient) -> Result<Figures> {
    let answer = client.get("/api/stats").await?;
    serde_json::from_str(&answer).context("the answer has no figures")
}

/// The clock of the process, compared with the middle of the request for it.
async fn clock_difference(client: &AdminClient) -> Result<f64> {
    let before = since_1970();
    let answer: Value =
        serde_json::from_str(&client.get(&format!("/api/history?after={}", u64::MAX)).await?)?;
    let now = answer["now"].as_f64().context("the answer has no time")?;
    Ok(now - (before + since_1970()) / 2.0)
}

fn since_1970() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// What is wrong with the Redis of an option. One that cannot be asked is a finding too.
fn of_redis(url: &str, flags: &DoctorFlags) -> Result<Vec<Finding>> {
    let password =
        redis_source::password(flags.redis_password_file.as_deref(), flags.redis_password.as_deref())?;
    let source = RedisSource::new("--redis", url, password)?;
    let asked = AskedRedis::connect(&source).and_then(|redis| {
        let address = redis.address().to_owned();
        Ok(redis_rules::findings(&address, &redis_rules::ask(redis)?))
    });
    match asked {
        Err(error) => {
            let advice = "start it, or mend the address, the user or the network between";
            Ok(vec![Finding::critical("redis", format!("{error:#}"), advice)])
        }
        Ok(findings) => Ok(findings),
    }
}

fn text(seen: &Seen, findings: &[Finding]) -> String {
    let process = &seen.figures.server;
    let (uptime, watched) = (span(process.uptime_seconds), &seen.watched);
    let page = if findings.is_empty() { "nothing is wrong\n".to_owned() } else { page(findings) };
    format!("larder {}, up for {uptime}; {watched}\n\n{page}", process.version)
}
