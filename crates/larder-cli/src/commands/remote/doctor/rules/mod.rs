//! What the figures of a running Larder say is wrong: each rule is a function of them.

use crate::commands::remote::doctor::finding::Finding;
use crate::commands::remote::figures::{Counts, Degradation, Figures, Part, Process, Tier, share, sum_of};
use crate::commands::remote::shown::{bytes, counted, duration, percent, span};

/// Fewer events than this say nothing about a share.
const ENOUGH: u64 = 50;
/// A hit ratio below this is low.
const LOW_HIT_RATIO: f64 = 0.5;
/// The share of lookups that may miss because of an eviction.
const MAX_EVICTED_SHARE: f64 = 0.1;
/// The share of requests to Redis that may fail.
const MAX_REDIS_FAILURES: f64 = 0.01;
/// The share of loads, redirects or responses that may fail.
const MAX_FAILURES: f64 = 0.05;
/// The share of loads whose result an invalidation may make useless.
const MAX_REFUSED_LOADS: f64 = 0.2;
/// The share of commands that may fail.
const MAX_COMMAND_ERRORS: f64 = 0.1;
/// A load that takes longer is slow, in seconds.
const SLOW_LOAD: f64 = 1.0;
/// The share of the file descriptors that may be open.
const MAX_OPEN_FILES: f64 = 0.8;
/// How long before its end a certificate needs another one, in seconds, and when that is urgent.
const RENEW_BEFORE: f64 = 14.0 * 86_400.0;
const RENEW_AT_ONCE: f64 = 2.0 * 86_400.0;
/// How far the clock of the process may differ from that of this machine, in seconds.
const MAX_CLOCK_DIFFERENCE: f64 = 2.0;

type Rule = fn(&Part) -> Vec<Finding>;

const RULES: [Rule; 14] = [
    does_not_run,
    lacks_something,
    has_pending_invalidations,
    redis_fails,
    redis_is_slower_than_loads,
    misses_by_cause,
    memory_refuses_values,
    loads_fail,
    loads_are_slow,
    loads_are_refused,
    clients_are_refused,
    visits_are_lost,
    proxy_fails,
    certificate_expires,
];

/// What is wrong by these figures, whose totals are those of the time that was watched.
pub(super) fn findings(figures: &Figures) -> Vec<Finding> {
    let of_parts = figures.parts.iter().flat_map(|part| RULES.iter().flat_map(move |rule| rule(part)));
    open_files(&figures.server).into_iter().chain(of_parts).collect()
}

/// The difference of two clocks in seconds, apart from the time of the request.
pub(super) fn clocks_differ(seconds: f64) -> Option<Finding> {
    let (there, direction) = (seconds.abs(), if seconds > 0.0 { "ahead of" } else { "behind" });
    (there > MAX_CLOCK_DIFFERENCE).then(|| {
        Finding::warning(
            "process",
            format!("its clock is {} {direction} the clock of this machine", duration(there)),
            "synchronise both clocks: HTTP compares Date and Expires with them, and so do certificates",
        )
    })
}

fn open_files(process: &Process) -> Option<Finding> {
    let (open, limit) = (process.open_files?, process.max_open_files?);
    let used = share(open, limit).filter(|used| *used > MAX_OPEN_FILES)?;
    Some(Finding::warning(
        "process",
        format!("{} of {limit} file descriptors are open", percent(used)),
        "raise the limit on open files (ulimit -n, LimitNOFILE of systemd), or close idle connections sooner",
    ))
}

fn does_not_run(part: &Part) -> Vec<Finding> {
    let why = part.last_failure.as_ref().map_or(String::new(), |failure| format!(": {failure}"));
    let advice = "read the log of the process";
    if !matches!(&*part.state, "running" | "degraded") {
        return vec![Finding::critical(&part.part, format!("it is {}{why}", part.state), advice)];
    }
    let times = if part.restarts == 1 { "once".to_owned() } else { format!("{} times", part.restarts) };
    let restarted = || Finding::warning(&part.part, format!("it was restarted {times}{why}"), advice);
    (part.restarts > 0).then(restarted).into_iter().collect()
}

/// What the part says of itself, with the primaries of a cluster that are lost.
fn lacks_something(part: &Part) -> Vec<Finding> {
    let finding = |own: &Degradation| {
        let advice = match &*own.name {
            "redis" if own.meaning.contains("not supported") => {
                "use a server that has what is missing, and allow the user of the cache to use it"
            }
            "redis" if own.meaning.contains("cannot be used") => {
                "mend the password, the user, the certificates or the address"
            }
            "redis" => {
                "start that Redis again, or mend the network between; mind its memory and its time-outs"
            }
            "origin" => "start the origin again, or take its URL out of the options",
            "disk" => "make room on the disk, or raise max_database_bytes",
            "database" => "start the database again, and look into its log",
            "connections" => "raise maxclients, or let clients share connections",
            _ => "read the log of the process",
        };
        let text = format!("for {}: {}", span(own.seconds), own.meaning);
        match own.name == "connections" && own.ready {
            true => Finding::warning(&part.part, text, advice),
            false => Finding::critical(&part.part, text, advice),
        }
    };
    part.degradations.iter().map(finding).collect()
}

/// While Redis is lost the part says so itself.
fn has_pending_invalidations(part: &Part) -> Vec<Finding> {
    let pending = part.figure("pending_invalidations").unwrap_or(0.0);
    let is_lost = part.degradations.iter().any(|own| own.name == "redis");
    let finding = || {
        Finding::warning(
            &part.part,
            format!(
                "{} not confirmed by Redis: other nodes may serve old values",
                counted(pending as u64, "invalidation of this node is", "invalidations of this node are")
            ),
            "see whether Redis refuses writes: out of memory, read-only, or without a permission for the user",
        )
    };
    (pending > 0.0 && !is_lost).then(finding).into_iter().collect()
}

fn redis_fails(part: &Part) -> Vec<Finding> {
    let Some(redis) = part.tier("redis") else { return Vec::new() };
    let (failures, all) = (redis.failures(), redis.lookups.values().sum());
    let failing = share(failures, all).filter(|share| all >= ENOUGH && *share > MAX_REDIS_FAILURES);
    let slowest = redis.latency.quantile(0.99);
    let finding = |share: f64| {
        let p99 = slowest.map_or(String::new(), |p99| format!("; the 99th percentile is {}", duration(p99)));
        Finding::warning(
            &part.part,
            format!("{} of its requests to Redis fail{p99}", percent(share)),
            "if the slowest requests take as long as redis_timeout, it is too short or Redis too busy (its slow log); \
             else see its log for refused connections",
        )
    };
    failing.map(finding).into_iter().collect()
}

/// A time-out that is longer than a load lets callers wait for Redis longer than for the origin.
fn redis_is_slower_than_loads(part: &Part) -> Vec<Finding> {
    let p99 = |name: &str| {
        let latency = &part.tier(name)?.latency;
        latency.quantile(0.99).filter(|_| latency.count >= ENOUGH)
    };
    let Some((redis, origin)) = p99("redis").zip(p99("origin")) else { return Vec::new() };
    let finding = || {
        Finding::warning(
            &part.part,
            format!(
                "Redis takes {} at the 99th percentile, and a load {}: asking Redis first does not pay",
                duration(redis),
                duration(origin)
            ),
            "move Redis nearer, give it more processor time, or set a redis_timeout below the time of a load",
        )
    };
    (redis > origin).then(finding).into_iter().collect()
}

/// Why a tier in memory misses: the cause that explains most, and what helps against it.
fn misses_by_cause(part: &Part) -> Vec<Finding> {
    part.tiers.iter().filter_map(|tier| tier_misses(part, tier)).collect()
}

fn tier_misses(part: &Part, tier: &Tier) -> Option<Finding> {
    let lookups = tier.hits() + tier.misses();
    let ratio = tier.hit_ratio().filter(|_| lookups >= ENOUGH)?;
    let evicted = share(sum_of(&tier.miss_causes, &["evicted"]), lookups)?;
    let name = format!("{}, {}", part.part, tier.tier);
    if evicted > MAX_EVICTED_SHARE {
        let full = match (tier.bytes, tier.capacity_bytes) {
            (Some(used), Some(capacity)) => format!(" It uses {} of {}.", bytes(used), bytes(capacity)),
            _ => String::new(),
        };
        let finding = format!("{} of the lookups miss what was evicted.{full}", percent(evicted));
        return Some(Finding::warning(
            &name,
            finding,
            "raise its memory: max_memory, memory_bytes or cache_bytes",
        ));
    }
    if ratio >= LOW_HIT_RATIO {
        return None;
    }
    let (share, cause, advice) = main_cause(&tier.miss_causes)?;
    let finding = format!("its hit ratio is {}; {} of the misses: {cause}", percent(ratio), percent(share));
    Some(Finding::warning(&name, finding, advice))
}

/// The group of causes that explains most misses, its share of them, and what helps.
fn main_cause(causes: &Counts) -> Option<(f64, &'static str, &'static str)> {
    const GROUPS: [(&[&str], &str, &str); 5] = [
        (&["expired"], "the TTL was over", "a longer TTL, or a grace period, if the data allow it"),
        (
            &["first", "unknown"],
            "the key was read for the first time",
            "nothing if the cache is new; else cache what is read again, and look for parts of keys that never repeat",
        ),
        (
            &["invalidated", "purged"],
            "the key was invalidated or purged",
            "invalidate less at a time: by key instead of by tag, by tag instead of everything",
        ),
        (
            &["not_stored"],
            "nothing was stored",
            "see the reasons for unstored responses on the dashboard, and whether loads fail",
        ),
        (
            &["unservable"],
            "the value was stale, invalidated by a tag, or not proved by Redis",
            "a longer TTL, or see whether the cache is coherent",
        ),
    ];
    let all = causes.values().sum();
    let groups = GROUPS.map(|(names, cause, advice)| (sum_of(causes, names), cause, advice));
    let (count, cause, advice) = groups.into_iter().max_by_key(|(count, ..)| *count)?;
    Some((share(count, all)?, cause, advice))
}

fn memory_refuses_values(part: &Part) -> Vec<Finding> {
    let heavy = count_of(part, "too_heavy");
    let unreadable: u64 = part.tiers.iter().map(|tier| sum_of(&tier.lookups, &["unreadable"])).sum();
    let is_heavy = || {
        Finding::warning(
            &part.part,
            format!(
                "{} more than a part of memory and not stored there",
                counted(heavy, "value weighs", "values weigh")
            ),
            "raise memory_bytes, or store smaller values",
        )
    };
    let is_unreadable = || {
        Finding::warning(
            &part.part,
            format!(
                "{} found a value that cannot be read, and loaded it again",
                counted(unreadable, "lookup", "lookups")
            ),
            "see whether other programs write these keys, or nodes of another version with another format",
        )
    };
    let heavy = (heavy > 0).then(is_heavy);
    heavy.into_iter().chain((unreadable > 0).then(is_unreadable)).collect()
}

fn loads_fail(part: &Part) -> Vec<Finding> {
    let of_tier = |name: &str, failed: &str, what: &str, advice: &str| {
        let operations = &part.tier(name)?.operations;
        let (failures, all) = (sum_of(operations, &[failed]), operations.values().sum());
        let failing = share(failures, all).filter(|share| all >= ENOUGH && *share > MAX_FAILURES)?;
        Some(Finding::critical(&part.part, format!("{} of its {what} fail", percent(failing)), advice))
    };
    let log = "see the log: a load fails when the origin does, or takes longer than its timeout";
    let database = "see whether the database answers";
    let origin = of_tier("origin", "failure", "loads", log);
    origin.into_iter().chain(of_tier("redirects", "error", "redirects", database)).collect()
}

fn loads_are_slow(part: &Part) -> Vec<Finding> {
    let latency = part.tier("origin").map(|origin| &origin.latency).filter(|latency| latency.count >= ENOUGH);
    let slow = latency.and_then(|latency| latency.quantile(0.99)).filter(|p99| *p99 > SLOW_LOAD);
    let finding = |p99: f64| {
        Finding::warning(
            &part.part,
            format!("a load takes {} at the 99th percentile", duration(p99)),
            "make the origin faster; a soft timeout with a grace period serves stale values meanwhile",
        )
    };
    slow.map(finding).into_iter().collect()
}

fn loads_are_refused(part: &Part) -> Vec<Finding> {
    let refused = count_of(part, "refused_loads");
    let loads = part.tier("origin").map_or(0, |origin| sum_of(&origin.operations, &["load"]));
    let share = share(refused, loads).filter(|share| loads >= ENOUGH && *share > MAX_REFUSED_LOADS);
    let finding = |share: f64| {
        Finding::warning(
            &part.part,
            format!(
                "{} of its loads were not stored, because an invalidation came meanwhile",
                percent(share)
            ),
            "invalidate after a change only, and not more than what changed",
        )
    };
    share.map(finding).into_iter().collect()
}

/// Of the cache server.
fn clients_are_refused(part: &Part) -> Vec<Finding> {
    let mut found = Vec::new();
    let (rejected, full) = (count_of(part, "rejected_connections"), count_of(part, "out_of_memory_errors"));
    if rejected > 0 {
        found.push(Finding::critical(
            &part.part,
            format!(
                "{} refused: maxclients is reached",
                counted(rejected, "connection was", "connections were")
            ),
            "raise maxclients, or let clients share connections",
        ));
    }
    if full > 0 {
        found.push(Finding::critical(
            &part.part,
            format!(
                "{} refused: the memory limit is reached and nothing may be evicted",
                counted(full, "command was", "commands were")
            ),
            "raise max_memory, or choose a policy of eviction that finds keys: allkeys-lfu for a cache",
        ));
    }
    let errors = count_of(part, "command_errors");
    let commands = part.tier("memory").map_or(0, |memory| sum_of(&memory.operations, &["command"]));
    let failing = share(errors, commands).filter(|_| commands >= ENOUGH);
    if let Some(share) = failing.filter(|share| *share > MAX_COMMAND_ERRORS) {
        found.push(Finding::warning(
            &part.part,
            format!("{} of the commands fail", percent(share)),
            "see which errors they are: INFO errorstats",
        ));
    }
    found
}

/// Of the shortener.
fn visits_are_lost(part: &Part) -> Vec<Finding> {
    let dropped = count_of(part, "visits_dropped");
    let finding = || {
        Finding::critical(
            &part.part,
            format!(
                "{} dropped: the queue for the database was full",
                counted(dropped, "visit was", "visits were")
            ),
            "see whether the database is slow, or raise the length of the queue",
        )
    };
    (dropped > 0).then(finding).into_iter().collect()
}

/// Of the proxy.
fn proxy_fails(part: &Part) -> Vec<Finding> {
    let mut found = Vec::new();
    let (responses, errors) = (count_of(part, "responses"), count_of(part, "server_error_responses"));
    let failing = share(errors, responses).filter(|_| responses >= ENOUGH);
    if let Some(share) = failing.filter(|share| *share > MAX_FAILURES) {
        found.push(Finding::critical(
            &part.part,
            format!("{} of the responses have a status from 500 on", percent(share)),
            "see Proxy-Status of such a response: it says whether the origin answered; then the log of the origin",
        ));
    }
    let unwritten = count_of(part, "disk_write_errors") + count_of(part, "disk_dropped_writes");
    if unwritten > 0 {
        found.push(Finding::warning(
            &part.part,
            format!(
                "{} not be written to the disk, or not fast enough",
                counted(unwritten, "response could", "responses could")
            ),
            "make room on the disk, or give it a faster one",
        ));
    }
    found
}

fn certificate_expires(part: &Part) -> Vec<Finding> {
    let Some(left) = part.figure("certificate_remaining").filter(|left| *left < RENEW_BEFORE) else {
        return Vec::new();
    };
    let finding = match left > 0.0 {
        true => format!("its certificate expires in {}", span(left)),
        false => format!("its certificate expired {} ago", span(-left)),
    };
    let advice = "replace the files of the certificate, and send SIGHUP to the process";
    vec![match left < RENEW_AT_ONCE {
        true => Finding::critical(&part.part, finding, advice),
        false => Finding::warning(&part.part, finding, advice),
    }]
}

fn count_of(part: &Part, figure: &str) -> u64 {
    part.figure(figure).unwrap_or(0.0) as u64
}

#[cfg(test)]
mod tests;
