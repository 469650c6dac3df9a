//! The commands and scripts that `docs/wire.md` shows are those that a node sends, and they do what the page says.

use crate::raw::{Raw, Reply};
use crate::wire::{CLOCK, bytes, corpus};
use crate::{Raised, TEXT, blocked};
use larder::{Cache, Format, Invalidation, Policy, View, WriteOptions};
use larder_host::HostCache;
use larder_testkit::{RedisServer, until};
use std::time::Duration;

const PAGE: &str = include_str!("../../../../docs/wire.md");
const KEY: &str = "shop:price:apple";

/// The blocks of the page in a language.
fn blocks(language: &str) -> impl Iterator<Item = &'static str> {
    let blocks = PAGE.split(&format!("\n```{language}\n")).skip(1).collect::<Vec<_>>();
    blocks.into_iter().map(|rest| rest.split_once("\n```").expect("a block has an end").0)
}

/// The scripts of the page, by the command that only they use.
fn scripts() -> [(&'static str, &'static str); 3] {
    [("advance", "ZCARD"), ("compare-and-set", "GETRANGE"), ("trim", "ZREMRANGEBYSCORE")].map(
        |(name, command)| {
            let script = blocks("lua").find(|script| script.contains(command));
            (name, script.unwrap_or_else(|| panic!("the page has the script {name}")))
        },
    )
}

/// A node and a connection of a program beside it.
struct Shop {
    server: RedisServer,
    raw: Raw,
    host: HostCache,
}

impl Shop {
    fn open() -> Option<Self> {
        let server = RedisServer::start()?;
        let mut raw = Raw::to(&server);
        raw.words(&format!("ZADD shop::ledger {CLOCK} clock 1 floor"));
        let url = server.url();
        let host = HostCache::new(move || {
            let builder = Cache::builder("shop").ttl(Duration::from_secs(60)).format(Format::MessagePack);
            Ok(builder.redis(&url).redis_timeout(Duration::from_secs(5)).lease_wait(Duration::from_secs(20)))
        });
        Some(Shop { server, raw, host: host.expect("valid options") })
    }

    fn prices(&self) -> View<str, String, Raised> {
        self.host.cache().expect("starts").view("price").with_shared_schema(TEXT.0, TEXT.1)
    }

    fn fetch(&self, result: Result<&'static str, Raised>) -> Result<String, String> {
        let load = async move |_| result.map(str::to_owned);
        let fetched = blocked(self.prices().fetch("apple").load(load));
        fetched.map(|value| value.to_string()).map_err(|error| error.to_string())
    }
}

/// The words of a line of MONITOR, without its time and connection. `None` for what a script calls.
fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let at = line.iter().position(|byte| *byte == b']')?;
    if line[..at].ends_with(b"lua") {
        return None;
    }
    let (mut words, mut bytes) = (Vec::new(), line[at + 1..].iter().copied());
    while bytes.by_ref().any(|byte| byte == b'"') {
        let mut word = Vec::new();
        loop {
            match bytes.next()? {
                b'"' => break,
                b'\\' => match bytes.next()? {
                    b'x' => {
                        let digits = [bytes.next()?, bytes.next()?];
                        word.push(u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?);
                    }
                    b'n' => word.push(b'\n'),
                    b'r' => word.push(b'\r'),
                    b't' => word.push(b'\t'),
                    b'a' => word.push(7),
                    b'b' => word.push(8),
                    escaped => word.push(escaped),
                },
                byte => word.push(byte),
            }
        }
        words.push(word);
    }
    Some(words)
}

/// A word as the page shows it: what differs each time has a name.
fn shown(word: &[u8], digests: &[(Vec<u8>, &str)]) -> String {
    if let Some((_, name)) = digests.iter().find(|(digest, _)| digest == word) {
        return (*name).to_owned();
    }
    let is_number = word.iter().all(u8::is_ascii_digit);
    match (word, word.len()) {
        (b"", _) => "\"\"".to_owned(),
        ([b'L', b'r', 2, 2, ..], 20) => "LEASE".to_owned(),
        ([b'L', b'r', 2, 1, ..], 20) => "HEAD".to_owned(),
        ([b'L', b'r', 2, 1, ..], _) => "ENVELOPE".to_owned(),
        ([1, 1 | 2, ..], 18..) => "MESSAGE".to_owned(),
        (_, 13) if is_number => "DEADLINE".to_owned(),
        (_, 16) if is_number => "CLOCK".to_owned(),
        _ => match word.strip_prefix(b"shop::reload:") {
            Some(_) => "shop::reload:ID".to_owned(),
            None => String::from_utf8_lossy(word).into_owned(),
        },
    }
}

/// Notes the commands of a node as the page shows them.
struct Observer {
    shop: Shop,
    monitor: Raw,
    /// The scripts, by the names under which the server knows them.
    digests: Vec<(Vec<u8>, &'static str)>,
}

impl Observer {
    /// The commands that the node sends in a step, but for heartbeats and new connections.
    fn step(&mut self, title: &str, run: impl FnOnce(&mut Shop)) -> String {
        run(&mut self.shop);
        self.shop.raw.words("ECHO end");
        let mut commands = format!("# {title}\n");
        loop {
            let line = self.monitor.next().bytes();
            let Some(words) = words(&line).filter(|words| !words.is_empty()) else { continue };
            match &words[0][..] {
                b"ECHO" => return commands,
                b"HELLO" | b"TIME" | b"ZSCORE" | b"INFO" | b"EXISTS" => {}
                _ if words.iter().any(|word| word.starts_with(b"shop::marker")) => {}
                _ => {
                    let words: Vec<_> = words.iter().map(|word| shown(word, &self.digests)).collect();
                    commands += &format!("{}\n", words.join(" "));
                }
            }
        }
    }
}

#[test]
fn page_shows_the_commands_of_a_node() {
    let Some(mut shop) = Shop::open() else { return };
    if !shop.server.is_redis() {
        // Another server may have no MONITOR.
        return;
    }
    let load_script = |(name, script)| (shop.raw.call(["SCRIPT", "LOAD", script]).bytes(), name);
    let digests = scripts().map(load_script).into();
    // The first load of a node reads the ledger, and announcements keep it up to date.
    assert_eq!(shop.fetch(Ok("three")), Ok("three".to_owned()));
    let mut monitor = Raw::to(&shop.server);
    monitor.words("MONITOR");
    let mut observer = Observer { shop, monitor, digests };
    let mut page = observer.step("a deletion", |shop| {
        assert!(blocked(shop.prices().delete("apple")).is_ok());
    });
    page += &observer.step("an invalidation of a tag", |shop| {
        let node = shop.host.cache().expect("started");
        assert!(blocked(node.invalidate_tags(["fruit"], Invalidation::Hard)).is_ok());
    });
    page += &observer.step("a load", |shop| {
        assert_eq!(shop.fetch(Ok("three")), Ok("three".to_owned()));
    });
    page += &observer.step("a write", |shop| {
        let options = WriteOptions::new().policy(Policy::new().grace(Duration::from_secs(60)));
        assert!(blocked(shop.prices().write_with("apple", "two".to_owned(), &options)).is_ok());
    });
    observer.step("", |shop| assert!(blocked(shop.prices().expire("apple")).is_ok()));
    page += &observer.step("a load of what is stale", |shop| {
        assert_eq!(shop.fetch(Ok("one")), Ok("one".to_owned()));
    });
    observer.step("", |shop| {
        assert!(blocked(shop.prices().delete("apple")).is_ok());
        shop.raw.words(&format!("SET {KEY} bytes"));
    });
    page += &observer.step("a load over bytes that are no value, which fails", |shop| {
        assert!(shop.fetch(Err("the origin is away")).is_err());
        until("the lease is gone", || {
            (shop.raw.words(&format!("EXISTS {KEY}")) == Reply::Number(0)).then_some(())
        });
    });
    assert!(blocks("text").any(|block| format!("{block}\n") == page), "the page does not have:\n{page}");
}

#[test]
fn page_shows_the_scripts_of_the_library() {
    let Some(mut shop) = Shop::open() else { return };
    const FILL: &str = "for i=1,100000 do redis.call('ZADD',KEYS[1],i,'!'..i) end";
    shop.raw.call(["EVAL", FILL, "1", "shop::ledger"]);
    assert_eq!(shop.fetch(Ok("three")), Ok("three".to_owned()));
    let node = shop.host.cache().expect("started").clone();
    assert!(blocked(node.invalidate_tags(["fruit"], Invalidation::Hard)).is_ok());
    for (name, script) in scripts() {
        let digest = shop.raw.call(["EVAL", "return redis.sha1hex(ARGV[1])", "0", script]).bytes();
        let is_known = shop.raw.call([&b"SCRIPT"[..], b"EXISTS", &digest]);
        assert_eq!(is_known, Reply::List(vec![Reply::Number(1)]), "the library has another script {name}");
    }
    let clients = include_str!("../../../../bindings/interop/clients/advance.lua");
    assert_eq!(clients.strip_suffix('\n'), Some(scripts()[0].1), "the clients have another script");
}

/// What the page says of level 2, done by hand.
#[test]
fn loads_of_a_program_and_of_a_node_share_their_leases() {
    let Some(mut shop) = Shop::open() else { return };
    let corpus = corpus();
    let [lease, followed] = [0, 1].map(|row| bytes(&corpus["leases"][row]["bytes"]));
    let value = bytes(&corpus["envelopes"][0]["bytes"]);
    let deadline = "4102444800000";
    let put = [&b"SET"[..], KEY.as_bytes(), &lease, b"PX", b"10000", b"NX", b"GET"];
    let swap = |raw: &mut Raw, action: [&[u8]; 3]| {
        let call = [&b"EVAL"[..], scripts()[1].1.as_bytes(), b"1", KEY.as_bytes(), b"", b"", &lease];
        raw.call(call.into_iter().chain(action)).list().remove(0)
    };
    let mut other = Raw::to(&shop.server);

    assert_eq!(shop.raw.call(put), Reply::Nil, "the lease is granted");
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| shop.fetch(Err("the node loads beside the program")));
        assert_eq!(swap(&mut other, [b"PEXPIRE", b"", b"10000"]), Reply::Number(1), "renewed");
        assert_eq!(swap(&mut other, [b"PXAT", &value, deadline.as_bytes()]), Reply::Number(1), "stored");
        assert_eq!(waiting.join().expect("no panic"), Ok("apple".to_owned()));
    });

    assert!(blocked(shop.prices().delete("apple")).is_ok());
    assert_eq!(shop.raw.call(put), Reply::Nil);
    assert!(blocked(shop.prices().delete("apple")).is_ok());
    assert_eq!(swap(&mut other, [b"PXAT", &value, deadline.as_bytes()]), Reply::Number(0), "refused");
    assert_eq!(shop.raw.words(&format!("GET {KEY}")), Reply::Nil);

    assert_eq!(shop.raw.call(put), Reply::Nil);
    assert_eq!(swap(&mut other, [b"RELEASE", b"", b"10000"]), Reply::Number(1), "the load has failed");
    assert_eq!(shop.raw.words(&format!("GET {KEY}")), Reply::Nil);

    shop.raw.call([&b"SET"[..], KEY.as_bytes(), &followed]);
    assert_eq!(swap(&mut other, [b"RELEASE", b"", b"10000"]), Reply::Number(1));
    let successor = shop.raw.words(&format!("GET {KEY}")).bytes();
    assert_eq!(successor, followed[lease.len()..], "it stays");
}
