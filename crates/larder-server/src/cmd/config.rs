//! `CONFIG`: the settings under the names that Redis gives them.

use larder_resp::{Args, parse_integer};

use super::{CommandError, Context, Outcome};
use crate::config::ByteSize;
use crate::db::{DATABASES, MIN_MEMORY_BYTES, default_memory_bytes};
use crate::glob;
use crate::info::POLICY;
use crate::shared::Shared;

/// A setting's name, its value as text, and how it is changed, if it can be.
struct Setting {
    name: &'static str,
    get: fn(&Shared) -> String,
    set: Option<Check>,
}

/// Checks a new value; the error says what is wrong with it.
type Check = fn(&[u8]) -> Result<Update, &'static str>;

/// A new value, checked and not yet in force.
enum Update {
    MaxMemory(u64),
    MaxClients(usize),
    /// The value that is in force already.
    Nothing,
}

impl Setting {
    const fn fixed(name: &'static str, get: fn(&Shared) -> String) -> Setting {
        Setting { name, get, set: None }
    }
}

/// What benchmarks, clients and frameworks ask for. Settings that Redis can change and that have one value here accept
/// that value.
static SETTINGS: [Setting; 15] = [
    Setting { name: "appendonly", get: |_| "no".to_owned(), set: Some(|value| only(value, b"no")) },
    Setting::fixed("bind", |shared| shared.config.listen.map(|a| a.ip().to_string()).unwrap_or_default()),
    Setting::fixed("databases", |_| DATABASES.to_string()),
    Setting::fixed("io-threads", |shared| shared.stats.threads.len().to_string()),
    Setting { name: "maxclients", get: |shared| shared.max_clients().to_string(), set: Some(maxclients) },
    Setting { name: "maxmemory", get: |shared| shared.store.max_memory().to_string(), set: Some(maxmemory) },
    Setting { name: "maxmemory-policy", get: |_| POLICY.to_owned(), set: Some(policy) },
    Setting::fixed("port", |shared| shared.port.to_string()),
    Setting::fixed("proto-max-bulk-len", |shared| shared.limits.max_bulk_bytes.to_string()),
    Setting::fixed("replica-read-only", |_| "yes".to_owned()),
    Setting { name: "save", get: |_| String::new(), set: Some(|value| only(value, b"")) },
    Setting::fixed("slave-read-only", |_| "yes".to_owned()),
    Setting::fixed("tcp-keepalive", |shared| shared.config.tcp_keepalive_secs.to_string()),
    Setting { name: "timeout", get: |_| "0".to_owned(), set: Some(|value| only(value, b"0")) },
    Setting::fixed("unixsocket", |shared| {
        shared.config.unixsocket.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }),
];

pub(super) fn config(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let subcommand = &args[1];
    match (subcommand.to_ascii_lowercase().as_slice(), args.len()) {
        (b"get", 3..) => get(cx, args.skip(2)),
        (b"get", _) => Err(CommandError::Arity("config|get")),
        (b"set", 4..) if args.len().is_multiple_of(2) => set(cx, args.skip(2)),
        (b"set", _) => Err(CommandError::Arity("config|set")),
        (b"resetstat", 2) => {
            cx.publish_tally();
            cx.shared.stats.reset(&cx.shared.store);
            cx.ok()
        }
        (b"resetstat", _) => Err(CommandError::Arity("config|resetstat")),
        _ => Err(CommandError::unknown_subcommand(subcommand, "CONFIG")),
    }
}

fn get(cx: &mut Context<'_>, patterns: Args<'_>) -> Outcome {
    let shared = cx.shared;
    let is_wanted = |setting: &&Setting| {
        patterns.iter().any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), setting.name.as_bytes()))
    };
    let wanted: Vec<&Setting> = SETTINGS.iter().filter(is_wanted).collect();
    let mut reply = cx.reply();
    reply.map(wanted.len());
    for setting in wanted {
        reply.bulk(setting.name.as_bytes());
        reply.bulk((setting.get)(shared).as_bytes());
    }
    Ok(())
}

/// All or nothing: every value is checked before the first one changes.
fn set(cx: &mut Context<'_>, pairs: Args<'_>) -> Outcome {
    let mut changes = Vec::new();
    for index in (0..pairs.len()).step_by(2) {
        changes.push(check(&pairs[index], &pairs[index + 1])?);
    }
    for change in changes {
        match change {
            Update::MaxMemory(bytes) => cx.shared.store.set_max_memory(bytes),
            Update::MaxClients(n) => cx.shared.set_max_clients(n),
            Update::Nothing => {}
        }
    }
    cx.ok()
}

fn check(name: &[u8], value: &[u8]) -> Result<Update, CommandError> {
    let failed = |shown: &str, reason: &str| {
        CommandError::Other(format!("CONFIG SET failed (possibly related to argument '{shown}') - {reason}"))
    };
    let setting = SETTINGS.iter().find(|setting| setting.name.as_bytes().eq_ignore_ascii_case(name));
    let shown = String::from_utf8_lossy(name);
    let Some(setting) = setting else {
        return Err(CommandError::Other(format!(
            "Unknown option or number of arguments for CONFIG SET - '{shown}'"
        )));
    };
    let set = setting.set.ok_or_else(|| failed(&shown, "can't set immutable config"))?;
    set(value).map_err(|reason| failed(&shown, reason))
}

/// 0, which in Redis means no limit, is the default limit here: a cache without one ends with the machine.
fn maxmemory(value: &[u8]) -> Result<Update, &'static str> {
    let size: Option<ByteSize> = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    match size.ok_or("argument must be a memory value")? {
        ByteSize(0) => Ok(Update::MaxMemory(default_memory_bytes())),
        ByteSize(bytes) if bytes < MIN_MEMORY_BYTES => Err("argument must be at least 1mb"),
        ByteSize(bytes) => Ok(Update::MaxMemory(bytes)),
    }
}

fn maxclients(value: &[u8]) -> Result<Update, &'static str> {
    let number = parse_integer(value).ok_or("argument couldn't be parsed into an integer")?;
    match usize::try_from(number) {
        Ok(n) if (1..=u32::MAX as usize).contains(&n) => Ok(Update::MaxClients(n)),
        _ => Err("argument must be between 1 and 4294967295 inclusive"),
    }
}

fn policy(value: &[u8]) -> Result<Update, &'static str> {
    match value.eq_ignore_ascii_case(POLICY.as_bytes()) {
        true => Ok(Update::Nothing),
        false => Err("argument must be 'allkeys-lfu', the only policy of this server"),
    }
}

fn only(value: &[u8], allowed: &[u8]) -> Result<Update, &'static str> {
    match value.eq_ignore_ascii_case(allowed) {
        true => Ok(Update::Nothing),
        false => Err("this server has no other value for it"),
    }
}
