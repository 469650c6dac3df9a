//! `CONFIG`: the settings, by their names in Redis.

use larder_glob::Pattern;
use larder_resp::{Args, Limits, parse_integer};
use larder_text::ByteSize;

use crate::cmd::help::help;
use crate::cmd::slices::{self, SlicedWork};
use crate::cmd::{CommandError, Context, Outcome};
use crate::config::{MAX_CLIENTS, Password};
use crate::db::{DATABASE_COUNT, MAX_MEMORY_BYTES, MIN_MEMORY_BYTES, MemoryPolicy, default_memory_bytes};
use crate::observers::parse_classes;
use crate::state::ServerState;
use crate::system::raise_open_files_for;

/// Entries that are evicted in one slice, and freed: a policy may examine sixteen entries for each.
const EVICTED_PER_SLICE: usize = 32;

/// The most percentiles of a command in `INFO`.
const MAX_PERCENTILES: usize = 32;
/// The most entries of `ACL LOG`.
const MAX_ACL_LOG_LEN: usize = 100_000;
/// The lowest limit of an argument, as in Redis.
const MIN_BULK_BYTES: usize = 1 << 20;

/// A setting: its name, its value as text, and the check of a new value if it can be changed.
struct Setting {
    name: &'static str,
    get: fn(&ServerState) -> String,
    set: Option<Check>,
}

/// Checks a new value; the error is the reason why it is invalid.
type Check = fn(&[u8]) -> Result<Update, &'static str>;

/// A checked value that is not applied yet.
enum Update {
    MaxMemory(u64),
    Policy(MemoryPolicy),
    MaxClients(usize),
    Password(Password),
    /// Hard limit and soft limit of mailboxes in bytes, and the seconds of the soft limit; `None` for other classes.
    OutputLimits(Option<(u64, u64, u64)>),
    TrackingTableMaxKeys(usize),
    NotificationClasses(u32),
    IdleTimeoutSecs(u64),
    ScriptLimitMs(u64),
    LatencyTracking(bool),
    Percentiles(Vec<f64>),
    MaxBulkBytes(usize),
    SlowLogThreshold(i64),
    SlowLogEntries(usize),
    AclLogMaxLen(usize),
    /// The only valid value, which needs no change.
    Unchanged,
}

impl Setting {
    const fn fixed(name: &'static str, get: fn(&ServerState) -> String) -> Setting {
        Setting { name, get, set: None }
    }
}

/// The settings that benchmarks, clients and frameworks read. Some can be changed in Redis but have only one valid
/// value here; these accept that value.
static SETTINGS: [Setting; 40] = [
    Setting::fixed("aclfile", |state| {
        state.config.aclfile.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }),
    Setting {
        name: "acllog-max-len",
        get: |state| state.users.log.max_entries().to_string(),
        set: Some(acllog_max_len),
    },
    Setting { name: "appendonly", get: |_| "no".to_owned(), set: Some(|value| accept_only(value, b"no")) },
    Setting { name: "busy-reply-threshold", get: script_limit_text, set: Some(script_limit) },
    Setting::fixed("bind", |state| state.config.listen.map(|a| a.ip().to_string()).unwrap_or_default()),
    Setting { name: "client-output-buffer-limit", get: output_limits_text, set: Some(output_limits) },
    Setting::fixed("cluster-enabled", |state| yes_or_no(state.config.cluster_mode)),
    Setting::fixed("databases", |_| DATABASE_COUNT.to_string()),
    Setting {
        name: "hash-max-listpack-entries",
        get: |_| "512".to_owned(),
        set: Some(|value| accept_only(value, b"512")),
    },
    Setting {
        name: "hash-max-listpack-value",
        get: |_| "64".to_owned(),
        set: Some(|value| accept_only(value, b"64")),
    },
    Setting {
        name: "hash-max-ziplist-entries",
        get: |_| "512".to_owned(),
        set: Some(|value| accept_only(value, b"512")),
    },
    Setting {
        name: "hash-max-ziplist-value",
        get: |_| "64".to_owned(),
        set: Some(|value| accept_only(value, b"64")),
    },
    Setting {
        name: "hll-sparse-max-bytes",
        get: |_| "3000".to_owned(),
        set: Some(|value| accept_only(value, b"3000")),
    },
    Setting::fixed("io-threads", |state| state.stats.threads.len().to_string()),
    Setting {
        name: "latency-monitor-threshold",
        get: |_| "0".to_owned(),
        set: Some(|value| accept_only(value, b"0")),
    },
    Setting { name: "latency-tracking", get: latency_tracking_text, set: Some(latency_tracking) },
    Setting { name: "latency-tracking-info-percentiles", get: percentiles_text, set: Some(percentiles) },
    Setting { name: "lua-time-limit", get: script_limit_text, set: Some(script_limit) },
    Setting { name: "maxclients", get: |state| state.max_clients().to_string(), set: Some(maxclients) },
    Setting { name: "maxmemory", get: |state| state.store.max_memory().to_string(), set: Some(maxmemory) },
    Setting { name: "maxmemory-policy", get: |state| state.store.policy().to_string(), set: Some(policy) },
    Setting {
        name: "notify-keyspace-events",
        get: |state| state.store.observers.notification_letters(),
        set: Some(notify_keyspace_events),
    },
    Setting::fixed("port", |state| state.port.to_string()),
    Setting {
        name: "proto-max-bulk-len",
        get: |state| state.max_bulk_bytes().to_string(),
        set: Some(proto_max_bulk_len),
    },
    Setting::fixed("replica-read-only", |_| "yes".to_owned()),
    Setting { name: "requirepass", get: ServerState::password_text, set: Some(requirepass) },
    Setting { name: "save", get: |_| String::new(), set: Some(|value| accept_only(value, b"")) },
    Setting {
        name: "set-max-intset-entries",
        get: |_| "512".to_owned(),
        set: Some(|value| accept_only(value, b"512")),
    },
    Setting::fixed("slave-read-only", |_| "yes".to_owned()),
    Setting {
        name: "slowlog-log-slower-than",
        get: |state| state.slow_log.threshold_micros().to_string(),
        set: Some(slow_log_threshold),
    },
    Setting {
        name: "slowlog-max-len",
        get: |state| state.slow_log.max_entries().to_string(),
        set: Some(slow_log_entries),
    },
    Setting::fixed("tcp-keepalive", |state| state.config.tcp_keepalive_secs.to_string()),
    Setting::fixed("tls-port", |state| state.tls_port.to_string()),
    Setting {
        name: "tracking-table-max-keys",
        get: |state| state.store.observers.tracking.max_keys().to_string(),
        set: Some(tracking_table_max_keys),
    },
    Setting {
        name: "timeout",
        get: |state| state.idle_timeout().map_or(0, |time| time.as_secs()).to_string(),
        set: Some(timeout),
    },
    Setting::fixed("unixsocket", |state| {
        state.config.unixsocket.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }),
    Setting {
        name: "zset-max-listpack-entries",
        get: |_| "128".to_owned(),
        set: Some(|value| accept_only(value, b"128")),
    },
    Setting {
        name: "zset-max-listpack-value",
        get: |_| "64".to_owned(),
        set: Some(|value| accept_only(value, b"64")),
    },
    Setting {
        name: "zset-max-ziplist-entries",
        get: |_| "128".to_owned(),
        set: Some(|value| accept_only(value, b"128")),
    },
    Setting {
        name: "zset-max-ziplist-value",
        get: |_| "64".to_owned(),
        set: Some(|value| accept_only(value, b"64")),
    },
];

/// Settings that are secrets, also of Redis: who sends one that is unknown here may use it elsewhere.
const SECRETS: [&str; 5] =
    ["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass"];

/// The value of a setting that is a secret.
pub(crate) fn is_secret(args: Args<'_>, index: usize) -> bool {
    let is_value = index >= 3 && index % 2 == 1 && args[1].eq_ignore_ascii_case(b"SET");
    is_value && SECRETS.iter().any(|name| args[index - 1].eq_ignore_ascii_case(name.as_bytes()))
}

pub(crate) fn config(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let subcommand = &args[1];
    match (subcommand.to_ascii_lowercase().as_slice(), args.len()) {
        (b"help", 2) => help(
            cx,
            "CONFIG",
            &[
                ("GET <pattern> [<pattern> ...]", "The settings whose names match, and their values."),
                ("SET <name> <value> [<name> <value> ...]", "Changes settings: all of them or none."),
                ("RESETSTAT", "Resets the counters of INFO."),
            ],
        ),
        (b"help", _) => Err(CommandError::Arity("config|help")),
        (b"get", 3..) => get(cx, args.skip(2)),
        (b"get", _) => Err(CommandError::Arity("config|get")),
        (b"set", 4..) if args.len().is_multiple_of(2) => set(cx, args.skip(2)),
        (b"set", _) => Err(CommandError::Arity("config|set")),
        (b"resetstat", 2) => {
            cx.publish_counts();
            cx.state.stats.reset(&cx.db().engine_stats());
            cx.ok()
        }
        (b"resetstat", _) => Err(CommandError::Arity("config|resetstat")),
        _ => Err(CommandError::unknown_subcommand(subcommand, "CONFIG")),
    }
}

fn get(cx: &mut Context<'_>, patterns: Args<'_>) -> Outcome {
    let state = cx.state;
    let mut is_requested = [false; SETTINGS.len()];
    for pattern in patterns.iter() {
        let pattern = Pattern::ignoring_case(pattern)?;
        let requested = is_requested.iter_mut().zip(&SETTINGS);
        requested.for_each(|(one, setting)| *one |= pattern.matches(setting.name.as_bytes()));
    }
    let requested = SETTINGS.iter().zip(is_requested).filter(|(_, is_requested)| *is_requested);
    let settings: Vec<&Setting> = requested.map(|(setting, _)| setting).collect();
    let mut reply = cx.reply();
    reply.map(settings.len());
    for setting in settings {
        reply.bulk(setting.name.as_bytes());
        reply.bulk((setting.get)(state).as_bytes());
    }
    Ok(())
}

/// Checks all names, and then all values, before it changes the first one.
fn set(cx: &mut Context<'_>, pairs: Args<'_>) -> Outcome {
    let mut checks: Vec<(&str, Check)> = Vec::new();
    for name in pairs.iter().step_by(2) {
        let (setting, check) = find(name)?;
        if checks.iter().any(|(earlier, _)| *earlier == setting.name) {
            return Err(failed(name, "duplicate parameter"));
        }
        checks.push((setting.name, check));
    }
    let mut updates = Vec::new();
    for (index, (_, check)) in checks.into_iter().enumerate() {
        let (name, value) = (&pairs[2 * index], &pairs[2 * index + 1]);
        updates.push(check(value).map_err(|reason| failed(name, reason))?);
    }
    if updates.iter().any(|update| matches!(update, Update::Password(password) if password.is_empty()))
        && cx.state.is_exposed()
    {
        return Err(failed(b"requirepass", "the server listens beyond loopback"));
    }
    for update in updates {
        match update {
            Update::MaxMemory(bytes) => cx.state.resize(bytes),
            Update::Policy(policy) => cx.state.store.set_policy(policy),
            Update::MaxClients(n) => cx.state.set_max_clients(n),
            Update::Password(password) => cx.state.set_password(password),
            Update::OutputLimits(limits) => {
                if let Some((hard, soft, secs)) = limits {
                    cx.state.clients.output_limits.set(hard, soft, secs);
                }
            }
            Update::IdleTimeoutSecs(secs) => cx.state.set_idle_timeout(secs),
            Update::ScriptLimitMs(ms) => cx.state.set_script_limit_ms(ms),
            Update::NotificationClasses(classes) => {
                cx.state.store.observers.set_notification_classes(classes);
            }
            Update::LatencyTracking(is_tracking) => cx.state.stats.command_stats.set_tracking(is_tracking),
            Update::Percentiles(list) => cx.state.stats.command_stats.set_percentiles(list),
            Update::SlowLogThreshold(micros) => cx.state.set_slow_log_threshold(micros),
            Update::SlowLogEntries(entries) => cx.state.slow_log.set_max_entries(entries),
            Update::AclLogMaxLen(count) => cx.state.users.log.set_max_entries(count),
            Update::MaxBulkBytes(bytes) => cx.state.set_max_bulk_bytes(bytes),
            Update::TrackingTableMaxKeys(n) => cx.state.store.observers.tracking.set_max_keys(n),
            Update::Unchanged => {}
        }
    }
    cx.session.set_limited(cx.state.store.may_refuse_writes());
    cx.session.follow_users(&cx.state.users);
    // What exceeds a lower limit is evicted before the reply, while other connections have their turns.
    slices::begin(cx, EvictExcess)
}

/// Evicts what exceeds the capacity.
struct EvictExcess;

impl SlicedWork for EvictExcess {
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        if cx.state.store.evict_excess(EVICTED_PER_SLICE) {
            return Ok(false);
        }
        cx.ok().map(|()| true)
    }
}

/// The setting of this name, which can be changed, and the check of its value.
fn find(name: &[u8]) -> Result<(&'static Setting, Check), CommandError> {
    let setting = SETTINGS.iter().find(|setting| setting.name.as_bytes().eq_ignore_ascii_case(name));
    let Some(setting) = setting else {
        let name = String::from_utf8_lossy(name);
        return Err(CommandError::Other(format!(
            "Unknown option or number of arguments for CONFIG SET - '{name}'"
        )));
    };
    let check = setting.set.ok_or_else(|| failed(name, "can't set immutable config"))?;
    Ok((setting, check))
}

fn failed(name: &[u8], reason: &str) -> CommandError {
    let name = String::from_utf8_lossy(name);
    CommandError::Other(format!("CONFIG SET failed (possibly related to argument '{name}') - {reason}"))
}

fn requirepass(value: &[u8]) -> Result<Update, &'static str> {
    let text = std::str::from_utf8(value).map_err(|_| "argument must be text in UTF-8")?;
    Ok(Update::Password(Password::new(text)))
}

/// 0 means no limit in Redis. Here it means the default limit: a cache without a limit would exhaust the memory.
fn maxmemory(value: &[u8]) -> Result<Update, &'static str> {
    let size: Option<ByteSize> = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    match size.ok_or("argument must be a memory value")? {
        ByteSize(0) => Ok(Update::MaxMemory(default_memory_bytes())),
        ByteSize(bytes) if bytes < MIN_MEMORY_BYTES => Err("argument must be at least 1mb"),
        ByteSize(bytes) if bytes > MAX_MEMORY_BYTES => Err("argument must be at most 4611686018427387903"),
        ByteSize(bytes) => Ok(Update::MaxMemory(bytes)),
    }
}

fn maxclients(value: &[u8]) -> Result<Update, &'static str> {
    let number = parse_integer(value).ok_or("argument couldn't be parsed into an integer")?;
    let is_in_range = |number: &usize| (1..=MAX_CLIENTS).contains(&(*number as u64));
    let number = usize::try_from(number).ok().filter(is_in_range);
    let number = number.ok_or("argument must be between 1 and 1000000 inclusive")?;
    let raised = raise_open_files_for(number).map(|()| Update::MaxClients(number));
    raised.map_err(|_| "The operating system is not able to handle the specified number of clients")
}

fn tracking_table_max_keys(value: &[u8]) -> Result<Update, &'static str> {
    let number = parse_integer(value).and_then(|number| usize::try_from(number).ok());
    number.map(Update::TrackingTableMaxKeys).ok_or("argument must be an integer that is not negative")
}

fn acllog_max_len(value: &[u8]) -> Result<Update, &'static str> {
    let number = parse_integer(value).ok_or("argument couldn't be parsed into an integer")?;
    let number = usize::try_from(number).ok().filter(|number| *number <= MAX_ACL_LOG_LEN);
    number.map(Update::AclLogMaxLen).ok_or("argument must be between 0 and 100000 inclusive")
}

fn timeout(value: &[u8]) -> Result<Update, &'static str> {
    let secs = parse_integer(value).ok_or("argument couldn't be parsed into an integer")?;
    match u64::try_from(secs) {
        Ok(secs) if secs <= i32::MAX as u64 => Ok(Update::IdleTimeoutSecs(secs)),
        _ => Err("argument must be between 0 and 2147483647 inclusive"),
    }
}

fn script_limit_text(state: &ServerState) -> String {
    state.script_limit_ms().to_string()
}

fn script_limit(value: &[u8]) -> Result<Update, &'static str> {
    let ms = parse_integer(value).ok_or("argument couldn't be parsed into an integer")?;
    let ms = u64::try_from(ms).map_err(|_| "argument must be between 0 and 9223372036854775807 inclusive")?;
    Ok(Update::ScriptLimitMs(ms))
}

fn slow_log_threshold(value: &[u8]) -> Result<Update, &'static str> {
    let micros = parse_integer(value).ok_or("argument couldn't be parsed into an integer")?;
    match micros {
        -1.. => Ok(Update::SlowLogThreshold(micros)),
        _ => Err("argument must be between -1 and 9223372036854775807 inclusive"),
    }
}

fn slow_log_entries(value: &[u8]) -> Result<Update, &'static str> {
    let entries = parse_integer(value).ok_or("argument couldn't be parsed into an integer")?;
    let entries = usize::try_from(entries)
        .map_err(|_| "argument must be between 0 and 9223372036854775807 inclusive")?;
    Ok(Update::SlowLogEntries(entries))
}

fn notify_keyspace_events(value: &[u8]) -> Result<Update, &'static str> {
    let classes = parse_classes(value).map(Update::NotificationClasses);
    classes.ok_or("Invalid event class character. Use 'Ag$lshzxeKEtdn'.")
}

fn yes_or_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

fn latency_tracking_text(state: &ServerState) -> String {
    yes_or_no(state.stats.command_stats.is_tracking())
}

fn latency_tracking(value: &[u8]) -> Result<Update, &'static str> {
    match value.to_ascii_lowercase().as_slice() {
        b"yes" => Ok(Update::LatencyTracking(true)),
        b"no" => Ok(Update::LatencyTracking(false)),
        _ => Err("argument must be 'yes' or 'no'"),
    }
}

fn percentiles_text(state: &ServerState) -> String {
    let list: Vec<String> = state.stats.command_stats.percentiles().iter().map(f64::to_string).collect();
    list.join(" ")
}

fn percentiles(value: &[u8]) -> Result<Update, &'static str> {
    let text = std::str::from_utf8(value).map_err(|_| "argument must be text")?;
    let percentage = |word: &str| word.parse().ok().filter(|number| (0.0..=100.0).contains(number));
    let list: Option<Vec<f64>> = text.split_ascii_whitespace().map(percentage).collect();
    match list.filter(|list| list.len() <= MAX_PERCENTILES) {
        Some(list) => Ok(Update::Percentiles(list)),
        None => Err("argument must be at most 32 numbers between 0.0 and 100.0 inclusive"),
    }
}

fn proto_max_bulk_len(value: &[u8]) -> Result<Update, &'static str> {
    let size: Option<ByteSize> = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    let bytes = usize::try_from(size.ok_or("argument must be a memory value")?.0).unwrap_or(usize::MAX);
    match (MIN_BULK_BYTES..=Limits::default().max_bulk_bytes).contains(&bytes) {
        true => Ok(Update::MaxBulkBytes(bytes)),
        false => Err("argument must be between 1048576 and 536870912 inclusive"),
    }
}

/// The limits of replicas that Redis has by default. There are none here.
const REPLICA_LIMITS: (u64, u64, u64) = (256 << 20, 64 << 20, 60);

/// Only the class `pubsub` has limits here: other replies have `max_reply_bytes`.
fn output_limits_text(state: &ServerState) -> String {
    let (hard, soft, secs) = state.clients.output_limits.get();
    let (replica_hard, replica_soft, replica_secs) = REPLICA_LIMITS;
    format!("normal 0 0 0 slave {replica_hard} {replica_soft} {replica_secs} pubsub {hard} {soft} {secs}")
}

/// Groups of four words: a class, its hard and its soft limit, and seconds.
fn output_limits(value: &[u8]) -> Result<Update, &'static str> {
    let text = std::str::from_utf8(value).map_err(|_| "argument must be text")?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let size = |text: &str| text.parse::<ByteSize>().map(|size| size.0).ok();
    let mut limits = None;
    for group in words.chunks(4) {
        let [class, hard, soft, secs] = group else {
            return Err("Wrong number of arguments in buffer limit configuration.");
        };
        let group = size(hard).zip(size(soft)).zip(secs.parse().ok());
        let ((hard, soft), secs) =
            group.ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
        match class.to_ascii_lowercase().as_str() {
            "pubsub" => limits = Some((hard, soft, secs)),
            "normal" | "slave" | "replica" if (hard, soft, secs) == (0, 0, 0) => {}
            "slave" | "replica" if (hard, soft, secs) == REPLICA_LIMITS => {}
            "normal" => return Err("the class normal has no limits here: max_reply_bytes bounds a reply"),
            "slave" | "replica" => return Err("there are no replicas whose limits could be set"),
            _ => return Err("Invalid client class specified in buffer limit configuration."),
        }
    }
    Ok(Update::OutputLimits(limits))
}

fn policy(value: &[u8]) -> Result<Update, &'static str> {
    let policy = std::str::from_utf8(value).ok().and_then(|name| name.parse().ok());
    policy.map(Update::Policy).ok_or(
        "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, \
         allkeys-lru, allkeys-lfu, allkeys-random, noeviction",
    )
}

fn accept_only(value: &[u8], allowed: &[u8]) -> Result<Update, &'static str> {
    match value.eq_ignore_ascii_case(allowed) {
        true => Ok(Update::Unchanged),
        false => Err("this server supports no other value"),
    }
}
