//! What is wrong with a Redis for caches of Larder: each rule is a function of what it says about itself.

use crate::commands::ask_redis::AskedRedis;
use crate::commands::remote::doctor::finding::Finding;
use crate::commands::remote::doctor::finding::Severity::{self, Critical, Warning};
use crate::commands::remote::figures::share;
use crate::commands::remote::shown::{duration, percent};
use crate::output::remark;
use anyhow::Result;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The share of the memory limit that may be used without eviction, and of `maxclients`.
const NEARLY_ALL: f64 = 0.9;
/// What a node that is behind may leave unread, in bytes: a burst of invalidations fits into it.
const MIN_MAILBOX: u64 = 1 << 20;
/// An idle time in seconds after which connections may be closed without being opened all the time.
const MIN_IDLE: u64 = 10;
/// A round trip that takes longer leaves little of the default of `redis_timeout`, 250 ms.
const SLOW_ROUND_TRIP: Duration = Duration::from_millis(100);

/// What a Redis says about itself.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The fields of `INFO`.
    info: BTreeMap<String, String>,
    /// Those of `CONFIG GET`; empty if the user may not ask.
    settings: BTreeMap<String, String>,
    has_credentials: bool,
    round_trip: Duration,
}

/// Asks a Redis.
pub(super) fn ask(mut redis: AskedRedis) -> Result<Facts> {
    let info = redis.info("default")?;
    let field = |line: &str| line.trim_end().split_once(':').map(|(name, value)| (name.into(), value.into()));
    let settings = redis.settings().unwrap_or_else(|error| {
        remark(&format!("larder doctor: its settings are not known: {error}"));
        BTreeMap::new()
    });
    let (has_credentials, round_trip) = (redis.has_credentials(), redis.round_trip()?);
    Ok(Facts { info: info.lines().filter_map(field).collect(), settings, has_credentials, round_trip })
}

/// How much it matters, what is wrong, and what to do about it.
type Found = Option<(Severity, String, &'static str)>;

type Rule = fn(&Facts) -> Found;

const RULES: [Rule; 10] = [
    is_a_replica,
    refuses_writes,
    is_loading,
    memory_limit,
    eviction_forgets_what_is_used,
    mailboxes_are_short,
    closes_connections,
    lacks_room_for_clients,
    is_open_to_all,
    is_slow,
];

/// What is wrong with the Redis at an address.
pub(super) fn findings(address: &str, facts: &Facts) -> Vec<Finding> {
    let of_rule = |rule: &Rule| {
        let (severity, finding, advice) = rule(facts)?;
        Some(Finding { severity, ..Finding::warning(address, finding, advice) })
    };
    RULES.iter().filter_map(of_rule).collect()
}

impl Facts {
    fn is(&self, field: &str, value: &str) -> bool {
        self.info.get(field).is_some_and(|own| own == value)
    }

    fn number(&self, field: &str) -> Option<u64> {
        self.info.get(field)?.parse().ok()
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }
}

fn is_a_replica(facts: &Facts) -> Found {
    facts.is("role", "slave").then(|| {
        let advice = "give the address of the primary, or the addresses of the sentinels: redis+sentinel://";
        (Critical, "it is a replica: nodes are not coherent over it".to_owned(), advice)
    })
}

fn refuses_writes(facts: &Facts) -> Found {
    let has_failed = facts.is("rdb_last_bgsave_status", "err");
    (has_failed && facts.setting("stop-writes-on-bgsave-error") != Some("no")).then(|| {
        let advice = "make room on its disk and memory for the fork (vm.overcommit_memory=1), or save nothing: a cache need not";
        (Critical, "its last snapshot has failed, and so it refuses writes".to_owned(), advice)
    })
}

fn is_loading(facts: &Facts) -> Found {
    facts.is("loading", "1").then(|| {
        let advice = "wait: caches answer from memory and load meanwhile";
        (Warning, "it loads its data and answers no reads yet".to_owned(), advice)
    })
}

/// A cache needs a limit, and something to evict at it.
fn memory_limit(facts: &Facts) -> Found {
    let limit = facts.number("maxmemory")?;
    if limit == 0 {
        let advice = "set maxmemory, and maxmemory-policy allkeys-lfu";
        return Some((Warning, "it has no memory limit: a cache fills the machine".to_owned(), advice));
    }
    if !facts.is("maxmemory_policy", "noeviction") {
        return None;
    }
    let used = share(facts.number("used_memory")?, limit)?;
    let advice = "set maxmemory-policy to allkeys-lfu, unless what else is there must not be evicted";
    let text = format!("it evicts nothing (noeviction) and uses {} of its memory limit", percent(used));
    Some((if used > NEARLY_ALL { Critical } else { Warning }, text, advice))
}

/// What is used all the time stays under the other policies, and with it the ledger of invalidations.
fn eviction_forgets_what_is_used(facts: &Facts) -> Found {
    let policy = facts.info.get("maxmemory_policy").filter(|policy| policy.ends_with("-random"))?;
    let text = format!(
        "its policy {policy} evicts also what is used most, and may evict the ledger of invalidations"
    );
    Some((Warning, text, "set maxmemory-policy to allkeys-lfu"))
}

/// `client-output-buffer-limit` has a class, a hard limit, a soft limit and its seconds, for each class.
fn mailboxes_are_short(facts: &Facts) -> Found {
    let words: Vec<&str> = facts.setting("client-output-buffer-limit")?.split_whitespace().collect();
    let class = words.chunks_exact(4).find(|class| class[0] == "pubsub")?;
    let limits = [class[1], class[2]].into_iter().filter_map(|limit| limit.parse::<u64>().ok());
    let shortest = limits.filter(|limit| *limit > 0).min()?;
    (shortest < MIN_MAILBOX).then(|| {
        let text = format!(
            "it closes the connection of a node that has not read {shortest} bytes: after a burst of invalidations"
        );
        (Warning, text, "set client-output-buffer-limit pubsub 32mb 8mb 60, its default")
    })
}

fn closes_connections(facts: &Facts) -> Found {
    let idle: u64 = facts.setting("timeout")?.parse().ok()?;
    (1..MIN_IDLE).contains(&idle).then(|| {
        let text = format!(
            "it closes connections that are idle for {idle} s, and they are opened again all the time"
        );
        (Warning, text, "set timeout to 0, its default, or to minutes")
    })
}

fn lacks_room_for_clients(facts: &Facts) -> Found {
    let refused = facts.number("rejected_connections")?;
    let used = facts.number("connected_clients").zip(facts.number("maxclients"));
    let used = used.and_then(|(clients, limit)| share(clients, limit)).unwrap_or(0.0);
    (refused > 0 || used > NEARLY_ALL).then(|| {
        let text = format!(
            "{} of maxclients are connected, and it has refused {refused} connections",
            percent(used)
        );
        (Warning, text, "raise maxclients, or lower redis_connections")
    })
}

/// Whoever reaches it can read and change everything.
fn is_open_to_all(facts: &Facts) -> Found {
    let is_protected = facts.has_credentials || facts.setting("protected-mode") == Some("yes");
    let addresses = facts.setting("bind")?;
    // A leading `-` allows that an address is not available. Without any, all are meant.
    let is_loopback =
        |word: &str| word.trim_start_matches('-').parse().is_ok_and(|address: IpAddr| address.is_loopback());
    let is_local = !addresses.is_empty() && addresses.split_whitespace().all(is_loopback);
    (!is_protected && !is_local).then(|| {
        let text = "it needs no password and listens beyond this machine".to_owned();
        (Critical, text, "set requirepass or users, or bind it to loopback")
    })
}

fn is_slow(facts: &Facts) -> Found {
    (facts.round_trip > SLOW_ROUND_TRIP).then(|| {
        let text = format!("a round trip takes {}", duration(facts.round_trip.as_secs_f64()));
        (Warning, text, "see its slow log, and the network between; or raise redis_timeout")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> BTreeMap<String, String> {
        let field =
            |line: &str| line.split_once(':').map(|(name, value)| (name.trim().into(), value.trim().into()));
        text.lines().filter_map(field).collect()
    }

    fn found(info: &str, settings: &str) -> Vec<Finding> {
        let facts = Facts { info: fields(info), settings: fields(settings), ..Facts::default() };
        findings("10.0.0.1:6379", &facts)
    }

    #[track_caller]
    fn assert_found(broken: (&str, &str), text: &str, severity: Severity, well: (&str, &str)) {
        let of_broken = found(broken.0, broken.1);
        let [own] = &of_broken[..] else { panic!("{of_broken:?}") };
        assert!(own.finding.contains(text) && own.severity == severity, "{own:?}");
        assert_eq!(found(well.0, well.1), []);
    }

    #[test]
    fn redis_that_takes_no_writes_is_found() {
        assert_found(("role: slave", ""), "it is a replica", Critical, ("role: master", ""));
        let failed = "rdb_last_bgsave_status: err";
        let goes_on = (failed, "stop-writes-on-bgsave-error: no");
        assert_found((failed, "stop-writes-on-bgsave-error: yes"), "it refuses writes", Critical, goes_on);
        assert_found(("loading: 1", ""), "it loads its data", Warning, ("loading: 0", ""));
    }

    #[test]
    fn memory_that_is_not_fit_for_a_cache_is_found() {
        let memory = |limit: u64, policy: &str, used: u64| {
            format!("maxmemory: {limit}\nmaxmemory_policy: {policy}\nused_memory: {used}")
        };
        let well = memory(1_000, "allkeys-lfu", 999);
        for (info, text, severity) in [
            (memory(0, "noeviction", 9), "it has no memory limit", Warning),
            (memory(1_000, "noeviction", 900), "uses 90.0 % of its memory limit", Warning),
            (memory(1_000, "noeviction", 950), "uses 95.0 % of its memory limit", Critical),
            (memory(1_000, "allkeys-random", 9), "its policy allkeys-random evicts", Warning),
        ] {
            assert_found((&info, ""), text, severity, (&well, ""));
        }
    }

    #[test]
    fn redis_that_closes_connections_is_found() {
        let limits = |hard: &str, soft: &str| {
            format!("client-output-buffer-limit: normal 0 0 0 slave 0 0 0 pubsub {hard} {soft} 60")
        };
        let (short, well) = (limits("33554432", "65536"), limits("33554432", "8388608"));
        assert_found(("", &short), "that has not read 65536 bytes", Warning, ("", &well));
        assert_eq!(found("", &limits("0", "0")), [], "no limit");
        assert_found(("", "timeout: 5"), "that are idle for 5 s", Warning, ("", "timeout: 0"));
        let clients = |connected: u64, refused: u64| {
            format!("connected_clients: {connected}\nmaxclients: 100\nrejected_connections: {refused}")
        };
        let well = clients(90, 0);
        assert_found((&clients(95, 0), ""), "95.0 % of maxclients", Warning, (&well, ""));
        assert_found((&clients(1, 3), ""), "has refused 3 connections", Warning, (&well, ""));
    }

    #[test]
    fn redis_that_anybody_may_use_is_found() {
        let open = "protected-mode: no\nbind: 127.0.0.1 10.0.0.1";
        for well in ["protected-mode: yes\nbind: * -::*", "protected-mode: no\nbind: 127.0.0.1 -::1"] {
            assert_found(("", open), "it needs no password", Critical, ("", well));
        }
        let all = found("", "protected-mode: no\nbind: ");
        assert_eq!(all.len(), 1);
        let facts = Facts { has_credentials: true, settings: fields(open), ..Facts::default() };
        assert_eq!(findings("a", &facts), []);
    }

    #[test]
    fn slow_redis_is_found() {
        let facts = Facts { round_trip: Duration::from_millis(150), ..Facts::default() };
        let [own] = &findings("a", &facts)[..] else { panic!("one finding") };
        assert_eq!(own.finding, "a round trip takes 150.00 ms");
    }
}
