//! Values in both tiers: what a node reads of another one's, and what it must not.

use crate::{MAX_LAG, Raised, TEXT, Texts, blocked, cache, options, texts};
use larder::{Event, Format, Source, Unreadable, View};
use larder_host::{HostCache, HostCodec, HostValue, HostView, Objects, PrivateFormat, SignedView, Signer};
use larder_testkit::RedisServer;

fn text_value(text: &str) -> HostValue<String> {
    let mut encoder = larder_host::profile::Encoder::new(1 << 10);
    encoder.text(text).expect("short");
    HostCodec::message_pack().value(b"", encoder.finish().expect("a value"))
}

fn written(view: &Texts, key: &[u8], value: HostValue<String>) {
    let reach = blocked(view.get().expect("starts").write(key, value)).expect("valid");
    assert!(reach.is_everywhere());
}

#[test]
fn bytes_and_codec_reach_another_node_and_an_object_stays_in_memory() {
    let Some(server) = RedisServer::start() else { return };
    let [one, two] = [(); 2].map(|()| texts(&cache(Some(server.url()))));
    written(&one, b"k", text_value("apple"));
    let found = blocked(two.get().expect("starts").read(b"k")).expect("it is in Redis");
    assert_eq!((found.source(), found.codec(), found.object()), (Source::Redis, 3, None));
    assert_eq!(found.payload(b"k"), Some(&b"\xa5apple"[..]));
    found.keep("apple".to_owned());
    let hit = two.get().expect("started").hit(b"k").expect("it is in memory");
    assert_eq!(hit.object().map(String::as_str), Some("apple"), "the object is kept with the entry");
    written(&one, b"k", text_value("pear"));
    std::thread::sleep(MAX_LAG);
    let found = blocked(two.get().expect("started").read(b"k")).expect("it is in Redis");
    assert_eq!((found.payload(b"k"), found.object()), (Some(&b"\xa4pear"[..]), None), "no old object");
}

#[test]
fn kept_objects_are_part_of_the_weight() {
    let bytes_of = |objects: Objects| {
        let cache = cache(None);
        let view: Texts = cache
            .view(move |cache| HostCodec::message_pack().view(cache, "text", TEXT, objects))
            .expect("valid");
        written(&view, b"k", text_value(&"x".repeat(98)));
        cache.cache().expect("started").stats().memory.bytes.expect("bounded by bytes")
    };
    // With its head the text has 100 bytes.
    assert_eq!(bytes_of(Objects::kept()), bytes_of(Objects::Copied) + 400);
}

/// A program in Rust knows the type, and one in another language its encoding.
#[test]
fn programs_of_one_schema_read_each_others_values() {
    let Some(server) = RedisServer::start() else { return };
    let (hosts, (name, number)) = (cache(Some(server.url())), TEXT);
    let program = |number| -> View<str, String, Raised> {
        let options = options(Some(server.url()))().expect("valid options").format(Format::MessagePack);
        let cache = options.runtime(hosts.runtime().expect("starts").clone()).build();
        cache.expect("valid options").view("text").with_shared_schema(name, number)
    };
    let theirs = program(number);
    let ours = texts(&hosts);
    assert!(blocked(theirs.write("k", "apple".to_owned())).expect("valid").is_everywhere());
    let found = blocked(ours.get().expect("starts").read(b"k")).expect("it is in Redis");
    assert_eq!(found.payload(b"k"), Some(&b"\xa5apple"[..]));
    written(&ours, b"k", text_value("pear"));
    std::thread::sleep(MAX_LAG);
    assert_eq!(blocked(theirs.read("k")).as_deref().map(String::as_str), Some("pear"));
    assert!(blocked(program(number + 1).read("k")).is_none(), "another number is another schema");
}

/// Text of JSON in Redis, whoever wrote it; memory has MessagePack.
#[test]
fn values_of_a_json_view_are_text_in_redis_and_read_by_views_of_both_formats() {
    let Some(server) = RedisServer::start() else { return };
    let (hosts, (name, number)) = (cache(Some(server.url())), TEXT);
    let json: Texts = hosts
        .view(|cache| HostCodec::json().view(cache, "text", TEXT, Objects::Copied))
        .expect("valid options");
    let message_pack = texts(&cache(Some(server.url())));
    let options = options(Some(server.url()))().expect("valid options").format(Format::Json);
    let program = options.runtime(hosts.runtime().expect("starts").clone()).build().expect("valid options");
    let program: View<str, String, Raised> = program.view("text").with_shared_schema(name, number);

    let value = HostCodec::json().message_pack_value(b"k", b"\xa6\xc3\x84 \"b\"".to_vec());
    written(&json, b"k", value);
    assert!(server.command("GET test:text:k").contains(r#" \"b\""#), "a text");
    assert_eq!(blocked(program.read("k")).as_deref().map(String::as_str), Some("Ä \"b\""));
    let found = blocked(message_pack.get().expect("starts").read(b"k")).expect("it is in Redis");
    assert_eq!((found.codec(), found.payload(b"k")), (3, Some(&b"\xa6\xc3\x84 \"b\""[..])));

    written(&message_pack, b"k", text_value("pear"));
    std::thread::sleep(MAX_LAG);
    let found = blocked(json.get().expect("started").read(b"k")).expect("it is in Redis");
    assert_eq!((found.codec(), found.payload(b"k")), (2, Some(&b"\xa4pear"[..])));
    assert!(blocked(program.write("k", "apple".to_owned())).expect("valid").is_everywhere());
    std::thread::sleep(MAX_LAG);
    let found = blocked(json.get().expect("started").read(b"k")).expect("it is in Redis");
    assert_eq!(found.payload(b"k"), Some(&b"\xa5apple"[..]));
}

const ALICE: &[u8] = b"alice";

/// A node whose sessions are pickled, and signed by these keys.
fn sessions(server: &RedisServer, keys: &[u8]) -> (HostCache, HostCodec, Texts) {
    let signer = Signer::new(keys.iter().map(|key| [*key; 32])).expect("long enough");
    let view = SignedView { namespace: "test", view: "session", schema: "" };
    let codec = HostCodec::private(PrivateFormat::Pickle, &signer, view);
    let cache = HostCache::new(options(Some(server.url()))).expect("valid options");
    let sessions: HostView<String, Raised> = cache
        .view({
            let codec = codec.clone();
            move |cache| codec.view(cache, "session", ("session", 1), Objects::Copied)
        })
        .expect("valid options");
    (cache, codec, sessions)
}

#[test]
fn value_that_no_key_has_signed_is_a_miss() {
    let Some(server) = RedisServer::start() else { return };
    let (_, codec, writer) = sessions(&server, &[1]);
    written(&writer, ALICE, codec.value(ALICE, b"pickled".to_vec()));
    let (_, _, rotated) = sessions(&server, &[2, 1]);
    let found = blocked(rotated.get().expect("starts").read(ALICE)).expect("the second key has signed it");
    assert_eq!(found.payload(ALICE), Some(&b"pickled"[..]));
    let (cache, _, other) = sessions(&server, &[2]);
    assert!(blocked(other.get().expect("starts").read(ALICE)).is_none());
    assert_eq!(cache.cache().expect("started").stats().redis.map(|tier| tier.unreadable), Some(1));
}

#[test]
fn value_of_another_codec_is_a_miss_and_an_event() {
    let Some(server) = RedisServer::start() else { return };
    let (_, codec, writer) = sessions(&server, &[1]);
    written(&writer, ALICE, codec.value(ALICE, b"pickled".to_vec()));
    let cache = cache(Some(server.url()));
    let view: Texts = cache
        .view(|cache| HostCodec::message_pack().view(cache, "session", ("session", 1), Objects::Copied))
        .expect("valid options");
    let mut events = cache.cache().expect("starts").events();
    assert!(blocked(view.get().expect("starts").read(ALICE)).is_none());
    let unreadable = std::iter::from_fn(|| events.try_recv().ok())
        .find_map(|event| if let Event::Unreadable { why, .. } = event { Some(why) } else { None });
    assert_eq!(unreadable, Some(Unreadable::Codec(16)));
}

#[test]
fn value_that_was_moved_to_another_key_has_no_payload() {
    let Some(server) = RedisServer::start() else { return };
    let (_, codec, view) = sessions(&server, &[1]);
    written(&view, ALICE, codec.value(ALICE, b"pickled".to_vec()));
    server.command("COPY test:session:alice test:session:mallory");
    let moved = blocked(view.get().expect("started").read(b"mallory")).expect("the envelope is valid");
    assert_eq!(moved.payload(b"mallory"), None);
}
