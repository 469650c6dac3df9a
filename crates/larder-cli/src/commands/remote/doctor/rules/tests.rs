//! Each rule with figures that break it, and with figures that just do not.

use super::*;
use crate::commands::remote::doctor::finding::Severity;
use serde_json::{Value, json};

/// The findings about a part with these fields.
fn found(part: Value) -> Vec<Finding> {
    let mut part = part;
    part["part"] = "shop".into();
    if part.get("state").is_none() {
        part["state"] = "running".into();
    }
    findings(&serde_json::from_value(json!({ "parts": [part] })).unwrap())
}

/// There is one finding about the first, whose text has this in it, and none about the second.
#[track_caller]
fn assert_found(broken: Value, text: &str, well: Value) {
    let of_broken = found(broken);
    let [own] = &of_broken[..] else { panic!("{of_broken:?}") };
    assert!(own.finding.contains(text), "{own:?}");
    assert!(!own.advice.is_empty() && own.part.starts_with("shop"), "{own:?}");
    assert_eq!(found(well), []);
}

fn figure(name: &str, value: f64) -> Value {
    json!({ "name": name, "total": true, "value": value })
}

fn figures(values: &[(&str, f64)]) -> Value {
    json!({ "figures": values.iter().map(|(name, value)| figure(name, *value)).collect::<Vec<_>>() })
}

fn tiers(tiers: Value) -> Value {
    json!({ "tiers": tiers })
}

/// As many durations of this length.
fn latency(seconds: f64, count: u64) -> Value {
    json!({ "count": count, "buckets": [[seconds, count]] })
}

#[test]
fn part_that_does_not_run_or_was_restarted_is_found() {
    assert_found(
        json!({ "state": "restarting", "restarts": 3, "last_failure": "address in use" }),
        "it is restarting: address in use",
        json!({}),
    );
    assert_found(
        json!({ "restarts": 1, "last_failure": "a panic" }),
        "it was restarted once: a panic",
        json!({}),
    );
}

#[test]
fn degradation_is_found_with_its_duration_and_advice_of_its_own() {
    let degraded = |name: &str, meaning: &str| {
        let own = json!({ "name": name, "seconds": 95.0, "ready": true, "meaning": meaning });
        json!({ "state": "degraded", "degradations": [own] })
    };
    let meaning = "1 of 3 primaries does not answer, 127.0.0.1:7001: memory is compared with the others";
    assert_found(
        degraded("redis", meaning),
        "for 1 min 35 s: 1 of 3 primaries does not answer, 127.0.0.1:7001",
        json!({}),
    );
    let advice = |name, meaning| found(degraded(name, meaning)).remove(0).advice;
    let all = [
        advice("redis", meaning),
        advice("redis", "the server is not supported: EVAL"),
        advice("origin", "http://a does not answer"),
        advice("disk", "full"),
        advice("database", "gone"),
        advice("connections", "maxclients is reached"),
    ];
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len(), "{all:?}");
    assert_eq!(found(degraded("redis", meaning))[0].severity, Severity::Critical);
    let refused = &found(degraded("redis", "Redis cannot be used (WRONGPASS)"))[0];
    assert_eq!(refused.advice, "mend the password, the user, the certificates or the address");
    assert_eq!(found(degraded("connections", "many"))[0].severity, Severity::Warning);
}

#[test]
fn pending_invalidations_are_found_unless_redis_is_known_to_be_lost() {
    assert_found(
        figures(&[("pending_invalidations", 4.0)]),
        "4 invalidations of this node are not confirmed",
        figures(&[("pending_invalidations", 0.0)]),
    );
    let mut lost = figures(&[("pending_invalidations", 4.0)]);
    lost["degradations"] = json!([{ "name": "redis", "meaning": "Redis does not answer" }]);
    assert_eq!(found(lost).len(), 1);
}

#[test]
fn redis_that_fails_is_found_with_its_latency() {
    let redis = |hits: u64, errors: u64| {
        tiers(json!([{
            "tier": "redis", "lookups": { "hit": hits, "error": errors, "skipped": errors }, "latency": latency(0.25, hits),
        }]))
    };
    assert_found(
        redis(90, 5),
        "10.0 % of its requests to Redis fail; the 99th percentile is 250.00 ms",
        redis(999, 1),
    );
    assert_eq!(found(redis(10, 10)), [], "too few");
}

#[test]
fn redis_that_is_slower_than_a_load_is_found() {
    let both = |redis: f64, count: u64| {
        tiers(json!([
            { "tier": "redis", "latency": latency(redis, count) }, { "tier": "origin", "latency": latency(0.02, count) },
        ]))
    };
    assert_found(
        both(0.2, 50),
        "Redis takes 200.00 ms at the 99th percentile, and a load 20.00 ms",
        both(0.01, 50),
    );
    assert_eq!(found(both(0.2, 49)), [], "too few");
}

#[test]
fn memory_that_is_too_small_is_found_also_at_a_high_hit_ratio() {
    let memory = |evicted: u64| {
        tiers(json!([{
            "tier": "memory", "lookups": { "hit": 80, "miss": 20 }, "miss_causes": { "evicted": evicted, "first": 5 },
            "bytes": 1_000, "capacity_bytes": 1_024,
        }]))
    };
    assert_found(
        memory(15),
        "15.0 % of the lookups miss what was evicted. It uses 1.0 KiB of 1.0 KiB.",
        memory(10),
    );
}

#[test]
fn low_hit_ratio_is_found_with_its_main_cause() {
    let memory = |hits: u64, causes: Value| {
        tiers(
            json!([{ "tier": "memory", "lookups": { "hit": hits, "miss": 100 - hits }, "miss_causes": causes }]),
        )
    };
    for (causes, text) in [
        (json!({ "expired": 60, "first": 20 }), "75.0 % of the misses: the TTL was over"),
        (
            json!({ "first": 30, "unknown": 30, "expired": 20 }),
            "75.0 % of the misses: the key was read for the first time",
        ),
        (
            json!({ "invalidated": 30, "purged": 30 }),
            "100.0 % of the misses: the key was invalidated or purged",
        ),
        (json!({ "not_stored": 9 }), "100.0 % of the misses: nothing was stored"),
        (json!({ "unservable": 9 }), "100.0 % of the misses: the value was stale"),
    ] {
        assert_found(
            memory(20, causes.clone()),
            &format!("its hit ratio is 20.0 %; {text}"),
            memory(50, causes),
        );
    }
    assert_eq!(found(memory(20, json!({}))), [], "no cause is known");
    let few = json!([{ "tier": "memory", "lookups": { "miss": 49 }, "miss_causes": { "first": 49 } }]);
    assert_eq!(found(tiers(few)), []);
}

#[test]
fn values_that_are_not_kept_or_not_read_are_found() {
    assert_found(figures(&[("too_heavy", 7.0)]), "7 values weigh more", figures(&[("too_heavy", 0.0)]));
    let redis = |count: u64| tiers(json!([{ "tier": "redis", "lookups": { "unreadable": count } }]));
    assert_found(redis(3), "3 lookups found a value that cannot be read", redis(0));
}

#[test]
fn loads_and_redirects_that_fail_are_found() {
    let origin = |failures: u64| {
        tiers(json!([{ "tier": "origin", "operations": { "load": 100 - failures, "failure": failures } }]))
    };
    assert_found(origin(10), "10.0 % of its loads fail", origin(5));
    let redirects = |errors: u64| {
        tiers(json!([{ "tier": "redirects", "operations": { "found": 100 - errors, "error": errors } }]))
    };
    assert_found(redirects(10), "10.0 % of its redirects fail", redirects(5));
}

#[test]
fn slow_and_refused_loads_are_found() {
    let origin = |seconds: f64| tiers(json!([{ "tier": "origin", "latency": latency(seconds, 50) }]));
    assert_found(origin(2.0), "a load takes 2.00 s at the 99th percentile", origin(1.0));
    let refused = |count: f64| {
        let mut part = figures(&[("refused_loads", count)]);
        part["tiers"] = json!([{ "tier": "origin", "operations": { "load": 100 } }]);
        part
    };
    assert_found(refused(30.0), "30.0 % of its loads were not stored", refused(20.0));
}

#[test]
fn clients_that_a_server_refuses_are_found() {
    for (name, text) in [
        ("rejected_connections", "2 connections were refused: maxclients"),
        ("out_of_memory_errors", "2 commands were refused: the memory limit"),
    ] {
        assert_found(figures(&[(name, 2.0)]), text, figures(&[(name, 0.0)]));
    }
    let errors = |count: f64| {
        let mut part = figures(&[("command_errors", count)]);
        part["tiers"] = json!([{ "tier": "memory", "operations": { "command": 100 } }]);
        part
    };
    assert_found(errors(20.0), "20.0 % of the commands fail", errors(10.0));
}

#[test]
fn lost_visits_and_failing_responses_are_found() {
    assert_found(
        figures(&[("visits_dropped", 1.0)]),
        "1 visit was dropped",
        figures(&[("visits_dropped", 0.0)]),
    );
    let responses = |errors: f64| figures(&[("responses", 100.0), ("server_error_responses", errors)]);
    assert_found(responses(10.0), "10.0 % of the responses have a status from 500 on", responses(5.0));
    let disk = |errors: f64| figures(&[("disk_write_errors", errors), ("disk_dropped_writes", errors)]);
    assert_found(disk(2.0), "4 responses could not be written to the disk", disk(0.0));
}

#[test]
fn certificate_that_ends_soon_is_found() {
    let certificate = |days: f64| figures(&[("certificate_remaining", days * 86_400.0)]);
    assert_found(certificate(13.0), "its certificate expires in 13 d 0 h", certificate(15.0));
    assert_found(certificate(-1.0), "its certificate expired 1 d 0 h ago", certificate(15.0));
    let severity = |days| found(certificate(days))[0].severity;
    assert_eq!((severity(13.0), severity(1.0)), (Severity::Warning, Severity::Critical));
}

#[test]
fn open_files_near_the_limit_are_found() {
    let process = |open: u64| {
        let server = json!({ "open_files": open, "max_open_files": 1_000 });
        findings(&serde_json::from_value(json!({ "server": server })).unwrap())
    };
    assert!(process(900)[0].finding.contains("90.0 % of 1000 file descriptors are open"));
    assert_eq!(process(800), []);
    assert_eq!(findings(&Figures::default()), [], "not known");
}

#[test]
fn clock_that_differs_is_found() {
    let text = |seconds| clocks_differ(seconds).map(|own| own.finding);
    assert_eq!(text(1.9), None);
    assert_eq!(text(-2.5).as_deref(), Some("its clock is 2.50 s behind the clock of this machine"));
    assert_eq!(text(60.0).as_deref(), Some("its clock is 60.00 s ahead of the clock of this machine"));
}
