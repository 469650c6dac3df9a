//! The bytes of `docs/wire.md`: what `bindings/interop/wire.json` has, the library writes and reads.

use crate::raw::{Raw, Reply};
use crate::{Raised, TEXT, Texts, blocked, cache, options, texts};
use larder::{Cache, Event, Invalidation, Policy, Reach, WriteOptions};
use larder_host::{HostCache, HostCodec};
use larder_testkit::{RedisServer, until};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// The clock of the ledger, and of every value, in the corpus.
pub(crate) const CLOCK: u64 = 1_700_000_000_000_000;
/// The part of a head that differs each time: the id, or the origin of an announcement.
const RANDOM: usize = 16;

pub(crate) fn corpus() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/interop/wire.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("it is there")).expect("it is JSON")
}

fn rows(section: &Value) -> &[Value] {
    section.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    let digits = text(value).as_bytes().chunks(2).map(|pair| str::from_utf8(pair).expect("ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn milliseconds(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().expect("milliseconds"))
}

/// A server whose ledger has the clock of the corpus and was advanced there, and a connection to it.
pub(crate) fn server() -> Option<(RedisServer, Raw)> {
    let server = RedisServer::start()?;
    let mut raw = Raw::to(&server);
    let info = String::from_utf8(raw.words("INFO replication").bytes()).expect("text");
    let id = info.lines().find_map(|line| line.strip_prefix("master_replid:")).expect("it has one");
    let here = u64::from_str_radix(&id[..11], 16).expect("hexadecimal");
    raw.words(&format!("ZADD test::ledger {CLOCK} clock 1 floor {here} server"));
    Some((server, raw))
}

#[test]
fn keys_of_views_and_spaces_have_these_names() {
    let corpus = corpus();
    let Some((server, mut raw)) = server() else { return };
    for row in rows(&corpus["names"]) {
        let host = cache(Some(server.url()));
        let spaces = rows(&row["spaces"]).iter().map(text);
        let space: Cache =
            spaces.fold(host.cache().expect("starts").clone(), |cache, name| cache.space(name));
        let view = space.view::<str, u32, Raised>(text(&row["view"]));
        assert!(blocked(view.write(text(&row["key"]), 1)).expect("valid").is_everywhere());
        let stored = raw.words(&format!("GET {}", text(&row["redis_key"]))).bytes();
        let tags: Vec<Vec<u8>> = rows(&row["tags"]).iter().map(|tag| text(tag).into()).collect();
        assert_eq!(tags_of(&stored), tags, "{row}");
    }
}

/// The tags of an envelope, by the page alone.
fn tags_of(envelope: &[u8]) -> Vec<Vec<u8>> {
    let (count, mut rest) = envelope[82..].split_first().expect("a count");
    let mut next = || {
        let (length, behind) = rest.split_first().expect("a length");
        let (tag, behind) = behind.split_at(usize::from(*length));
        rest = behind;
        tag.to_vec()
    };
    (0..*count).map(|_| next()).collect()
}

#[test]
fn nodes_announce_these_messages() {
    let corpus = corpus();
    let Some((server, _)) = server() else { return };
    let mut news = Raw::to(&server);
    news.call(["SUBSCRIBE", text(&corpus["channel"])]);
    let (host, keys) = (cache(Some(server.url())), b"test:text:");
    let (node, view) = (host.cache().expect("starts"), texts(&host));
    for row in rows(&corpus["announcements"]) {
        let parts: Vec<Vec<u8>> = rows(&row["parts"]).iter().map(bytes).collect();
        match text(&row["kind"]) {
            "keys" => {
                let keys: Vec<_> = parts.iter().map(|part| part.strip_prefix(keys).expect("a key")).collect();
                blocked(view.get().expect("starts").delete_multi(keys)).map(drop)
            }
            "glob" => {
                let pattern = parts[0].strip_prefix(b"test:").expect("of the namespace");
                blocked(node.delete_matched(str::from_utf8(pattern).expect("text"))).map(drop)
            }
            _ if parts == [b"clear"] => blocked(node.clear()).map(drop),
            _ => {
                let soft = parts[0].starts_with(b"~");
                let how = if soft { Invalidation::Soft } else { Invalidation::Hard };
                let tags = parts.iter().map(|part| str::from_utf8(&part[1..]).expect("UTF-8"));
                blocked(node.invalidate_tags(tags, how)).map(drop)
            }
        }
        .expect("valid");
        // Nodes that subscribe announce no key, and a glob is announced twice.
        let expected = bytes(&row["message"]);
        let announced = std::iter::repeat_with(|| news.next().list().remove(2).bytes());
        let mut announced =
            announced.filter(|message| message.len() > 18 && (message[1] != 3 || expected[1] == 3));
        let mut message = announced.next().expect("endless");
        message.splice(2..2 + RANDOM, bytes(&row["origin"]));
        assert_eq!(hexadecimal(&message), text(&row["message"]), "{}", row["name"]);
    }
}

fn write(view: &Texts, row: &Value) {
    let policy = Policy::new().ttl(milliseconds(&row["ttl_ms"])).grace(milliseconds(&row["grace_ms"]));
    let options = rows(&row["tags"])
        .iter()
        .fold(WriteOptions::new().policy(policy), |options, tag| options.tag(text(tag)));
    let value = HostCodec::message_pack().value(b"", bytes(&row["payload"]));
    let reach = blocked(view.get().expect("starts").write_with(b"k", value, &options)).expect("valid");
    assert!(reach.is_everywhere());
}

#[test]
fn values_have_these_envelopes() {
    let corpus = corpus();
    let Some((server, mut raw)) = server() else { return };
    let writer = texts(&cache(Some(server.url())));
    for row in rows(&corpus["envelopes"]) {
        assert_eq!((text(&row["schema"][0]), row["schema"][1].as_u64()), (TEXT.0, Some(TEXT.1.into())));
        write(&writer, row);
        let mut written = raw.words("GET test:text:k").bytes();
        let deadline = u64::from_le_bytes(written[20..28].try_into().expect("eight bytes"));
        let expires = raw.words("PEXPIRETIME test:text:k");
        assert_eq!(expires, Reply::Number(deadline as i64), "the deadline in the value is that of its key");
        written.splice(4..4 + RANDOM, bytes(&row["id"]));
        written.splice(20..28, row["deadline_ms"].as_u64().expect("a time").to_le_bytes());
        assert_eq!(hexadecimal(&written), text(&row["bytes"]), "{}", row["name"]);
        raw.call([&b"SET"[..], b"test:text:k", &written]);
        let found =
            blocked(texts(&cache(Some(server.url()))).get().expect("starts").read(b"k")).expect("readable");
        assert_eq!(found.payload(b"k").map(<[u8]>::to_vec), Some(bytes(&row["payload"])), "{}", row["name"]);
    }
}

#[test]
fn other_bytes_are_a_miss_with_this_reason() {
    let corpus = corpus();
    let Some((server, mut raw)) = server() else { return };
    let host = cache(Some(server.url()));
    let mut events = host.cache().expect("starts").events();
    for row in rows(&corpus["unreadable"]) {
        raw.call([&b"SET"[..], b"test:text:k", &bytes(&row["bytes"])]);
        assert!(blocked(texts(&host).get().expect("starts").read(b"k")).is_none(), "{}", row["name"]);
        let mut events = std::iter::from_fn(|| events.try_recv().ok());
        let reason = events.find_map(|event| match event {
            Event::Unreadable { why, .. } => Some(format!("{why:?}")),
            _ => None,
        });
        // A lease is no value that was meant to be read: nobody is told.
        let reason = reason.unwrap_or_else(|| "Lease".into());
        assert_eq!(reason.split('(').next(), Some(text(&row["why"])), "{}", row["name"]);
    }
}

/// Whether a node serves the value of the corpus that has tags and a grace period, under this ledger.
fn verdict(server: &RedisServer, raw: &mut Raw, envelope: &[u8], ledger: &Value) -> &'static str {
    raw.words("FLUSHALL");
    for (member, score) in ledger.as_object().expect("members") {
        let score = score.as_str().map_or_else(|| score.to_string(), str::to_owned);
        raw.call(["ZADD", "test::ledger", &score, member]);
    }
    raw.call([&b"SET"[..], b"test:text:k", envelope]);
    let view = texts(&HostCache::new(options(Some(server.url()))).expect("valid options"));
    let view = view.get().expect("starts");
    if blocked(view.read(b"k")).is_some() {
        return "valid";
    }
    let served = blocked(view.fetch(b"k").load(|_| async { Err("the origin is away") }));
    if served.is_ok() { "stale" } else { "miss" }
}

#[test]
fn ledgers_judge_values_so() {
    let corpus = corpus();
    let Some((server, mut raw)) = server() else { return };
    let envelopes = rows(&corpus["envelopes"]);
    let tagged = envelopes.iter().find(|row| row["grace_ms"] != 0).expect("one with a grace period");
    for row in rows(&corpus["judgements"]) {
        let found = verdict(&server, &mut raw, &bytes(&tagged["bytes"]), &row["ledger"]);
        assert_eq!(found, text(&row["verdict"]), "{}", row["name"]);
    }
}

#[test]
fn messages_drop_what_they_name_from_memory() {
    let corpus = corpus();
    let Some((server, mut raw)) = server() else { return };
    let url = server.url();
    // A slow machine must not make the node doubt its memory meanwhile.
    let host = HostCache::new(move || Ok(options(Some(url.clone()))()?.max_lag(Duration::from_secs(20))));
    let view = texts(&host.expect("valid options"));
    let view = view.get().expect("starts");
    let mut reaches = |message: &[u8]| {
        let value = || HostCodec::message_pack().value(b"", b"\x03".to_vec());
        let options = WriteOptions::new().tag("fruit").tag("space:eu");
        assert!(blocked(view.write_with(b"apple", value(), &options)).is_ok_and(Reach::is_everywhere));
        assert!(blocked(view.write(b"pear", value())).is_ok_and(Reach::is_everywhere));
        // Announcements arrive in their order: once the pear is gone, the message has taken effect.
        let pear = [&[1, 1][..], &[0; RANDOM], &[14, 0, 0, 0], b"test:text:pear"].concat();
        for message in [message, &pear] {
            assert_eq!(raw.call([&b"PUBLISH"[..], b"test::news:0", message]), Reply::Number(1));
        }
        until("the pear is gone", || view.hit(b"pear").is_none().then_some(()));
        view.hit(b"apple").is_none()
    };
    let mut ledger = Raw::to(&server);
    for row in rows(&corpus["announcements"]) {
        if let Some(clock) = row["clock"].as_u64() {
            // A node that hears of a clock which the ledger has not reached takes the ledger for another one.
            ledger.words(&format!("ZADD test::ledger {clock} clock"));
        }
        assert_eq!(reaches(&bytes(&row["message"])), row["name"] != "keys of bytes", "{}", row["name"]);
    }
    assert!(!reaches(&[&[1, 1][..], &[0; RANDOM]].concat()), "no key");
    for unknown in
        [&b"\x02\x01 of a later version"[..], b"\x01\x04 of a later kind, maybe", b"of another program"]
    {
        assert!(reaches(unknown), "everything is compared with Redis");
    }
}
