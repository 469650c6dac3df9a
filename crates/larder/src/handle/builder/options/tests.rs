//! The table of the options is the same as the calls of the builder, and as the page for users.

use super::*;
use crate::tier::redis::{CredentialsSource, Password};
use std::collections::BTreeSet;

/// What the options of a builder set. A new field is named here, and is either in the table or no data.
fn settings(builder: &Builder) -> String {
    let Builder {
        namespace: _,
        capacity,
        redis_url,
        redis,
        tier: _,
        max_lag,
        disconnected,
        prefer,
        foreign_writers,
        lease_wait,
        policy,
        clock: _,
        seed: _,
        format,
        packing,
        allow_uncoordinated,
        enabled,
        on_error: _,
        runtime: _,
    } = builder;
    let password = match &redis.credentials {
        CredentialsSource::Given { password: Some(Password::Text(password)), .. } => {
            format!("text {password}")
        }
        CredentialsSource::Given { password: Some(Password::File(file)), .. } => {
            format!("file {}", file.display())
        }
        _ => String::new(),
    };
    let of_redis = (redis_url, redis, password, max_lag, disconnected, prefer, foreign_writers, lease_wait);
    format!("{:?}", (of_redis, capacity, policy, format, packing, allow_uncoordinated, enabled))
}

fn builder() -> Builder {
    Builder::new("test")
}

fn set(name: &str, text: &str) -> Builder {
    builder().option(name, text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

type Call = fn(Builder) -> Builder;

/// Each option with a text that is not its default, and the call that does the same.
const CALLS: [(&str, &str, Call); 27] = [
    ("ttl", "5m", |builder| builder.ttl(5 * MINUTE)),
    ("negative_ttl", "30s", |builder| builder.policy(Policy::new().negative_ttl(30 * SECOND))),
    ("grace", "1.5h", |builder| builder.policy(Policy::new().grace(90 * MINUTE))),
    ("retry_after", "0", |builder| builder.policy(Policy::new().retry_after(Duration::ZERO))),
    ("soft_timeout", "0ms", |builder| builder.policy(Policy::new().soft_timeout(Duration::ZERO))),
    ("hard_timeout", "2s", |builder| builder.policy(Policy::new().hard_timeout(2 * SECOND))),
    ("jitter", "0.25", |builder| builder.policy(Policy::new().jitter(0.25))),
    ("memory_bytes", "256MiB", |builder| builder.memory_bytes(256 << 20)),
    ("memory_entries", "1000", |builder| builder.memory_entries(1_000)),
    ("redis", "redis://host", |builder| builder.redis("redis://host")),
    ("redis_timeout", "1s", |builder| builder.redis_timeout(SECOND)),
    ("redis_connect_timeout", "2s", |builder| builder.redis_connect_timeout(2 * SECOND)),
    ("redis_keepalive", "1h", |builder| builder.redis_keepalive(60 * MINUTE)),
    ("redis_connections", "1", |builder| builder.redis_connections(1)),
    ("sentinel_fence", "no", |builder| builder.sentinel_fence(false)),
    ("replica_fence", "2", |builder| builder.replica_fence(2)),
    ("max_lag", "200ms", |builder| builder.max_lag(200 * MS)),
    ("disconnected", "0", |builder| builder.disconnected(Duration::ZERO)),
    ("prefer", "availability", |builder| builder.prefer(Prefer::Availability)),
    ("lease_wait", "100ms", |builder| builder.lease_wait(100 * MS)),
    ("foreign_writers", "true", |builder| builder.foreign_writers(true)),
    ("allow_uncoordinated", "1", |builder| builder.allow_uncoordinated(true)),
    ("enabled", "False", |builder| builder.enabled(false)),
    ("format", "messagepack", |builder| builder.format(Format::MessagePack)),
    ("compression", "zstd", |builder| builder.compression(Compression::Zstd)),
    ("compress_from_bytes", "4kb", |builder| builder.compress_from_bytes(4 << 10)),
    ("max_value_bytes", "1000", |builder| builder.max_value_bytes(1_000)),
];

/// The options that are parts of an argument of a call.
const PARTS: [&str; 6] =
    ["redis_user", "redis_password", "redis_password_file", "redis_roots", "redis_certificate", "redis_key"];

#[test]
fn option_is_the_same_as_its_call() {
    for (name, text, call) in CALLS {
        assert_eq!(settings(&set(name, text)), settings(&call(builder())), "{name}");
        assert_ne!(settings(&set(name, text)), settings(&builder()), "{name} is not at its default");
    }
    let tested: BTreeSet<&str> = CALLS.iter().map(|(name, ..)| *name).chain(PARTS).collect();
    let listed: Vec<&str> = Builder::options().iter().map(BuilderOption::name).collect();
    assert_eq!(tested, listed.iter().copied().collect(), "the options of the table");
    assert_eq!(tested.len(), listed.len(), "none is listed twice");
}

#[test]
fn default_of_the_table_changes_nothing() {
    let defaults = Policy::new().grace(Duration::ZERO).retry_after(Policy::new().retry_after_or_default());
    let builder = || builder().policy(defaults.jitter(0.0));
    for option in Builder::options() {
        if let Some(default) = option.default() {
            let set = builder().option(option.name, default).expect("a valid default");
            assert_eq!(settings(&set), settings(&builder()), "{}", option.name);
        }
    }
}

/// The bound that a text of the table means.
fn bound(text: &str) -> u64 {
    match text {
        "2^62" => 1 << 62,
        "2^32 - 1" => u32::MAX.into(),
        size => size.parse::<ByteSize>().expect("a size").0,
    }
}

fn time_bound(text: &str) -> Duration {
    match text {
        "8,900 years" => MAX_TTL,
        "4,450 years" => MAX_GRACE,
        time => parse_time(time).expect("a time"),
    }
}

#[test]
fn range_of_the_table_is_the_one_that_is_checked() {
    for option in Builder::options() {
        let ends = option.range.split_once(" to ");
        match &option.set {
            Set::Time(range, _) => {
                let shown = ends.map_or(ANY_TIME, |(from, to)| time_bound(from)..=time_bound(to));
                assert_eq!(*range, shown, "{}", option.name);
            }
            Set::Size(range, _) | Set::Count(range, _) => {
                let shown = ends.map_or(0..=u64::MAX, |(from, to)| bound(from)..=bound(to));
                assert_eq!(*range, shown, "{}", option.name);
            }
            _ => {}
        }
    }
}

#[test]
fn wrong_text_is_refused_with_option_value_and_range() {
    for (name, text, message) in [
        ("ttl", "0", r#"ttl is "0"; it must be a time such as 250ms, 30s or 5m, from 1 ms to 8,900 years"#),
        (
            "max_lag",
            "30",
            r#"max_lag is "30"; it must be a time such as 250ms, 30s or 5m, from 10 ms to 1 min"#,
        ),
        ("lease_wait", "soon", r#"lease_wait is "soon"; it must be a time such as 250ms, 30s or 5m"#),
        (
            "memory_bytes",
            "1023",
            r#"memory_bytes is "1023"; it must be a size such as 64MiB, from 1 KiB to 2^62"#,
        ),
        ("compress_from_bytes", "", r#"compress_from_bytes is ""; it must be a size such as 64MiB"#),
        ("redis_connections", "65", r#"redis_connections is "65"; it must be a whole number, from 1 to 64"#),
        (
            "redis_connections",
            "1.5",
            r#"redis_connections is "1.5"; it must be a whole number, from 1 to 64"#,
        ),
        ("jitter", "1.01", r#"jitter is "1.01"; it must be a number, from 0 to 1"#),
        ("jitter", "NaN", r#"jitter is "NaN"; it must be a number, from 0 to 1"#),
        ("enabled", "maybe", r#"enabled is "maybe"; it must be true or false"#),
        ("prefer", "Coherence", r#"prefer is "Coherence"; it must be coherence or availability"#),
        (
            "compression",
            "gzip",
            r#"compression is "gzip"; it must be none, lz4 (feature `lz4`) or zstd (feature `zstd`)"#,
        ),
        (
            "redis_roots",
            "/no/such.pem",
            r#"redis_roots is "/no/such.pem"; it must be a file in PEM: No such file or directory (os error 2)"#,
        ),
    ] {
        let error = builder().option(name, text).expect_err("refused");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn unknown_name_is_refused_with_similar_names() {
    let message = |name| builder().option(name, "1").expect_err("refused").to_string();
    assert_eq!(message("max_lagg"), r#"there is no option "max_lagg"; did you mean max_lag?"#);
    assert_eq!(
        message("redis-time"),
        r#"there is no option "redis-time"; did you mean redis_timeout, redis or redis_key?"#
    );
    assert_eq!(message("zzz"), r#"there is no option "zzz""#);
    for no_data in ["namespace", "clock", "tier", "on_error", "redis_credentials", "random_seed"] {
        assert!(matches!(builder().option(no_data, "1"), Err(BuildError::UnknownOption { .. })), "{no_data}");
    }
}

#[test]
fn part_of_credentials_or_certificates_needs_its_other_part() {
    let refused = |options: &[(&str, &str)]| {
        let builder = options.iter().fold(builder().ttl(SECOND), |builder, (name, text)| {
            builder.option(name, text).expect("a valid text")
        });
        builder.build().err().map(|error| error.to_string())
    };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let no_password = Some(
        "redis_password is missing; it must be given, or redis_password_file, since redis_user is set".into(),
    );
    assert_eq!(refused(&[("redis_user", "ada")]), no_password);
    assert_eq!(refused(&[("redis_user", "ada"), ("redis_password", "")]), None);
    assert_eq!(refused(&[("redis_password_file", "/any"), ("redis_user", "ada")]), None);
    assert_eq!(
        refused(&[("redis_certificate", file)]),
        Some("redis_key is missing; it must be a file, since redis_certificate is set".into())
    );
    assert_eq!(
        refused(&[("redis_key", file)]),
        Some("redis_certificate is missing; it must be a file, since redis_key is set".into())
    );
    assert_eq!(refused(&[("redis_key", file), ("redis_certificate", file), ("redis_roots", file)]), None);
}

#[test]
fn later_credentials_replace_earlier_ones() {
    use crate::RedisCredentials;
    let by_call = |builder: Builder| builder.redis_user(RedisCredentials::new("ada", "one"));
    let [user, password] = [("redis_user", "ada"), ("redis_password", "one")];
    let by_text = |builder: Builder| {
        let builder = builder.option(user.0, user.1).expect("valid");
        builder.option(password.0, password.1).expect("valid")
    };
    assert_eq!(settings(&by_text(builder())), settings(&by_call(builder())));
    let file = by_text(builder()).option("redis_password_file", "/run/secret").expect("valid");
    assert!(settings(&file).contains("file /run/secret"));
    assert_eq!(settings(&by_call(file)), settings(&by_call(builder())));
}

/// The rows of the page. A difference shows the whole table, to be copied there.
#[test]
fn page_has_the_table() {
    let rows: Vec<String> = Builder::options()
        .iter()
        .map(|option| {
            let (default, range) = (option.default().unwrap_or("–"), option.range().unwrap_or("–"));
            format!("| `{}` | {} | {default} | {range} |\n", option.name(), option.takes())
        })
        .collect();
    let table = rows.concat();
    let page = include_str!("../../../../../../docs/options.md");
    let (_, section) =
        page.split_once("| name | takes | default | range |\n|---|---|---|---|\n").expect("a table");
    let (shown, _) = section.split_once("\n\n").expect("text behind the table");
    assert!(format!("{shown}\n") == table, "docs/options.md has another table than\n{table}");
}
