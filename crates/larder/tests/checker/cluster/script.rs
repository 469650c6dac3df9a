//! The scripts of the protocol, as a simulated server runs them.

use super::store::{Published, Store, number};
use larder::tier::{DEADLINE_AT, HEAD_BYTES, UNKNOWN_ADVANCES};
use larder_resp::Encoder;
use sha1::{Digest, Sha1};

#[derive(Clone, Copy, Debug)]
pub(super) enum Script {
    /// With this the library tries out whether there are scripts.
    One,
    CompareAndSet,
    Advance,
    Increment,
    /// Called on servers of another version, or on a damaged or a very large ledger.
    Unused,
}

impl Script {
    pub(super) fn of(text: &str) -> Self {
        match text {
            "return 1" => Script::One,
            text if text.contains("'RELEASE'") => Script::CompareAndSet,
            text if text.contains("'INCRBY'") => Script::Increment,
            text if text.contains("'PUBLISH'") => Script::Advance,
            _ => Script::Unused,
        }
    }
}

/// The name by which `EVALSHA` calls a script.
pub(super) fn digest(text: &[u8]) -> Vec<u8> {
    Sha1::digest(text).iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

/// Runs `EVALSHA digest keys key…`.
pub(super) fn run(
    store: &mut Store,
    history: u64,
    script: Script,
    command: &[Vec<u8>],
    now: u64,
    out: &mut Encoder<'_>,
) -> Vec<Published> {
    let (key, args) = match command.get(3) {
        Some(key) => (&key[..], &command[4..]),
        None => (&[][..], &[][..]),
    };
    match script {
        Script::One => out.integer(1),
        Script::CompareAndSet => return compare_and_set(store, key, args, now, out),
        Script::Advance => return advance(store, history, key, args, now, out),
        Script::Increment => increment(store, key, args, now, out),
        Script::Unused => panic!("the simulated server does not run this script: {command:?}"),
    }
    Vec::new()
}

/// Channel, message, the expected bytes, what to do, the new bytes, a time.
fn compare_and_set(
    store: &mut Store,
    key: &[u8],
    args: &[Vec<u8>],
    now: u64,
    out: &mut Encoder<'_>,
) -> Vec<Published> {
    let [channel, message, expected, what, new, time] = args else { panic!("{} arguments", args.len()) };
    let before = store.bytes(key, now).map(|bytes| bytes.clone()).unwrap_or_default();
    let accepted = before[..before.len().min(HEAD_BYTES)] == expected[..];
    out.array(1);
    out.integer(accepted.into());
    if !accepted {
        return Vec::new();
    }
    let time = number(time) * 1_000;
    match &what[..] {
        b"PX" => store.put(key, new.clone(), Some(now + time)),
        b"PXAT" => store.put(key, new.clone(), Some(time)),
        b"PEXPIRE" => store.expire(key, now + time),
        b"PEXPIREAT" => {
            if let Some(deadline) = store.bytes(key, now).and_then(|bytes| bytes.get_mut(DEADLINE_AT..)) {
                deadline[..new.len()].copy_from_slice(new);
            }
            store.expire(key, time);
        }
        b"RELEASE" if before.len() > HEAD_BYTES => {
            store.put(key, before[HEAD_BYTES..].to_vec(), Some(now + time));
        }
        _ => _ = store.remove(key, now),
    }
    let message = Published { channel: channel.clone(), message: message.clone() };
    if channel.is_empty() { Vec::new() } else { vec![message] }
}

/// The lowest new clock, the message about the floor, channel, message, members.
fn advance(
    store: &mut Store,
    history: u64,
    key: &[u8],
    args: &[Vec<u8>],
    now: u64,
    out: &mut Encoder<'_>,
) -> Vec<Published> {
    let [at_least, floor_message, channel, message, members @ ..] = args else {
        panic!("{} arguments", args.len())
    };
    let known = number(at_least);
    let ledger = store.scores(key);
    let former = ledger.get(&b"clock"[..]).copied();
    let is_other = !floor_message.is_empty() && former.is_some_and(|former| former < known);
    let mut clock = known.max(former.unwrap_or_default()) + 1;
    if former.is_none() || is_other || ledger.get(&b"server"[..]) != Some(&history) {
        // Virtual time has the same microseconds again and again.
        let random = history.wrapping_add(now).wrapping_mul(0x9E37_79B9_7F4A_7C15) % UNKNOWN_ADVANCES;
        clock = now.max(clock + UNKNOWN_ADVANCES + random);
    }
    ledger.insert(b"clock".to_vec(), clock);
    ledger.insert(b"server".to_vec(), history);
    let mut messages = Vec::new();
    if former.is_none() || is_other {
        ledger.insert(b"floor".to_vec(), clock);
    }
    if is_other {
        messages.push(floor_message);
    }
    for member in members {
        let score = ledger.entry(member.clone()).or_insert(clock);
        *score = clock.max(*score);
        if member == b"expire" || member.starts_with(b"~") {
            ledger.insert([b"@", &member[..]].concat(), now / 1_000);
        }
    }
    messages.push(message);
    out.array(3);
    out.bulk(clock.to_string().as_bytes());
    out.integer(ledger.len() as i64);
    out.integer(is_other.into());
    let with_clock = |message: &Vec<u8>| Published {
        channel: channel.clone(),
        message: [&message[..], clock.to_string().as_bytes()].concat(),
    };
    messages.into_iter().map(with_clock).collect()
}

/// The number, the time to live of a new counter.
fn increment(store: &mut Store, key: &[u8], args: &[Vec<u8>], now: u64, out: &mut Encoder<'_>) {
    if !store.has(key, now) {
        store.put(key, b"0".to_vec(), Some(now + number(&args[1]) * 1_000));
    }
    let sum = store.bytes(key, now).map(|bytes| {
        let sum = number(bytes) + number(&args[0]);
        *bytes = sum.to_string().into_bytes();
        bytes.clone()
    });
    out.bulk(&sum.unwrap_or_default());
}
