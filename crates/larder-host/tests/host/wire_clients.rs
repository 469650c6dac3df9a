//! The clients of `bindings/interop/clients`: what they invalidate is gone from the memory of a node, and no load that
//! began before brings it back.

use crate::{MAX_LAG, Raised, TEXT, blocked, cache, options};
use larder::{Format, View};
use larder_host::HostCache;
use larder_testkit::{Gate, RedisServer, program, until};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{scope, sleep};

type Texts = View<[u8], String, Raised>;

/// Keys that a shell, a command line or a protocol could misread.
const AWKWARD: [&[u8]; 9] = [
    b"",
    b" ",
    b"a b\t",
    b"\"quoted\" 'twice'",
    b"line\nand line\n\n",
    b"a\\:b:c\\\\",
    b"\xff\xfe not UTF-8",
    b"-n %s $(x) `y` *?",
    b"\xc3\xa4pfel\r",
];

fn clients_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/interop/clients")
}

/// The client for a shell; `None` and a note if redis-cli is not installed.
fn shell() -> Option<PathBuf> {
    program("redis-cli")?;
    Some(clients_folder().join("invalidate.sh"))
}

/// The client in Go, which is built first; `None` and a note if Go is not installed.
fn go() -> Option<PathBuf> {
    let compiler = program("go")?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wire-go");
    let client = folder.join("invalidate");
    let mut build = Command::new(compiler);
    build.args(["build", "-o"]).arg(&client).arg("invalidate.go").current_dir(clients_folder());
    build.env("GOCACHE", folder.join("cache")).env("GOPATH", folder.join("path")).env("CGO_ENABLED", "0");
    build.env("GOFLAGS", "").env("GOPROXY", "off").env("GOTOOLCHAIN", "local");
    let output = build.output().expect("go runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(client)
}

/// A client, and the server and the node for which it invalidates.
struct Setup {
    client: PathBuf,
    server: RedisServer,
    url: String,
    host: HostCache,
    texts: Texts,
}

impl Setup {
    fn new(client: PathBuf) -> Option<Self> {
        let (server, port) = RedisServer::start_with_port("--port", &[])?;
        let url = format!("redis://127.0.0.1:{port}/5");
        let host = cache(Some(url.clone()));
        // A program in Rust knows the type, and needs no host.
        let node = options(Some(url.clone()))().expect("valid options").format(Format::MessagePack);
        let node = node.runtime(host.runtime().expect("starts").clone()).build().expect("valid options");
        let texts = node.view("text").with_shared_schema(TEXT.0, TEXT.1);
        Some(Setup { client, server, url, host, texts })
    }

    /// Runs the client; returns its exit status and what it has said.
    fn run(&self, arguments: &[&[u8]]) -> (Option<i32>, String) {
        let arguments = arguments.iter().map(|argument| OsStr::from_bytes(argument));
        let output = Command::new(&self.client).arg(&self.url).args(arguments).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn invalidate(&self, what: &[u8], names: &[Vec<u8>]) {
        let arguments = [&b"test"[..], what].into_iter().chain(names.iter().map(|name| &name[..]));
        let (status, said) = self.run(&arguments.collect::<Vec<_>>());
        assert_eq!(status, Some(0), "{said}");
    }

    fn fetch(&self, key: &[u8], tag: &str, value: &str) -> String {
        let value = value.to_owned();
        let fetched = blocked(self.texts.fetch(key).tag(tag).load(|_| async { Ok(value) }));
        fetched.expect("the loader returns it").to_string()
    }

    /// Loads values into the memory of the node.
    fn hold(&self, keys: &[&[u8]], tag: &str) {
        for key in keys {
            assert_eq!(self.fetch(key, tag, "old"), "old");
            until("memory has it", || self.texts.hit(key));
        }
    }

    /// Whether the node serves the value of a loader that began before the client invalidated this, once `max_lag` is over.
    fn serves_earlier_load(&self, key: &[u8], tag: &str, what: &[u8], name: &[u8]) -> bool {
        let gate = Gate::closed();
        let inside = gate.clone();
        scope(|threads| {
            let load = threads.spawn(move || {
                let loading = self.texts.fetch(key).tag(tag).load(move |_| async move {
                    inside.pass().await;
                    Ok("old".to_owned())
                });
                blocked(loading).map(|value| value.to_string())
            });
            self.host.runtime().expect("runs").block_on(gate.arrival());
            self.invalidate(what, &[name.to_vec()]);
            gate.open(1);
            assert_eq!(
                load.join().expect("no panic").as_deref().ok(),
                Some("old"),
                "its caller gets the value"
            );
        });
        sleep(MAX_LAG);
        blocked(self.texts.read(key)).is_some()
    }
}

fn named(key: &[u8]) -> Vec<u8> {
    [b"text:", key].concat()
}

fn check(client: Option<PathBuf>) {
    let Some(mut setup) = client.and_then(Setup::new) else { return };
    setup.hold(&AWKWARD, "fruit");
    setup.invalidate(b"key", &AWKWARD.map(named));
    sleep(MAX_LAG);
    for key in AWKWARD {
        assert_eq!(setup.fetch(key, "fruit", "new"), "new", "{key:?}");
    }

    let tag = "gr\u{f6}\u{df}e \"of\" it's\n$tag";
    setup.hold(&[b"pear", b"plum"], tag);
    setup.hold(&[b"kale"], "vegetable");
    setup.invalidate(b"tag", &[tag.into(), "never used".into()]);
    sleep(MAX_LAG);
    for key in [&b"pear"[..], b"plum"] {
        assert_eq!(setup.fetch(key, tag, "new"), "new");
    }
    assert_eq!(setup.fetch(b"kale", "vegetable", "new"), "old", "it has another tag");

    assert!(!setup.serves_earlier_load(b"fig", "fruit", b"key", b"text:fig"));
    assert!(!setup.serves_earlier_load(b"date", "fruit", b"tag", b"fruit"));
    assert!(setup.serves_earlier_load(b"lime", "fruit", b"key", b"text:other"), "nobody has invalidated it");

    let long = [b'x'; 256];
    let mistakes: [[&[u8]; 3]; 7] = [
        [b"test", b"key", b"no view"],
        [b"test", b"key", b":ledger"],
        [b"te:st", b"key", b"text:k"],
        [b"", b"key", b"text:k"],
        [b"test", b"tag", &long],
        [b"test", b"tag", b"\xff"],
        [b"test", b"other", b"text:k"],
    ];
    for mistake in &mistakes {
        let (status, said) = setup.run(mistake);
        assert_eq!(status, Some(2), "{said}");
    }
    setup.url.push('9');
    assert_eq!(setup.run(&[b"test", b"key", b"text:k"]).0, Some(1), "there is no database 59");
    setup.url.pop();
    if setup.server.is_redis() {
        setup.server.set_read_only(true);
        for what in [b"key", b"tag"] {
            assert_eq!(setup.run(&[b"test", what, b"text:k"]).0, Some(1), "the server refuses to write");
        }
    }
    setup.server.kill();
    assert_eq!(setup.run(&[b"test", b"key", b"text:k"]).0, Some(1), "nobody confirms it");
}

#[test]
fn client_of_a_shell_invalidates_on_every_node() {
    check(shell());
}

#[test]
fn client_in_go_invalidates_on_every_node() {
    check(go());
}
