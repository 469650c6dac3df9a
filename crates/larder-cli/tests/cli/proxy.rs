//! `larder proxy` as a process: `larder warm`, `larder explain` and `larder purge` with it, and what idle connections cost it.

use crate::admin_port::dashboard_of;
use crate::http::{Reply, connect, get, request};
use crate::process::{Ended, FREE, Process, larder, run};
use larder_testkit::{RedisServer, may_open, needs, resident_bytes};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A web service that counts its requests. Its pages are fresh for a minute and have the tag `page`, but for `/cart`, which sets a
/// cookie. It answers each condition with a 304.
pub(crate) struct Origin {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Origin {
    pub(crate) fn start() -> Origin {
        let listener = TcpListener::bind(FREE).unwrap();
        let (address, requests) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
        let counted = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, counted) = (stream.unwrap(), counted.clone());
                std::thread::spawn(move || {
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0)
                    {
                        head.push(byte[0]);
                    }
                    counted.fetch_add(1, Ordering::SeqCst);
                    let head = String::from_utf8_lossy(&head).to_lowercase();
                    let cookie = if head.starts_with("get /cart") { "Set-Cookie: cart=1\r\n" } else { "" };
                    let fields =
                        "Cache-Control: max-age=60\r\nETag: \"a\"\r\nxkey: page\r\nConnection: close\r\n";
                    let answer = match head.contains("if-none-match") {
                        true => format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"),
                        false => format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n{cookie}{fields}\r\npage"),
                    };
                    _ = stream.write_all(answer.as_bytes());
                });
            }
        });
        Origin { address, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

pub(crate) struct Proxy {
    process: Process,
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Proxy {
    pub(crate) fn start(origin: &Origin, data: &Path, flags: &[&str]) -> Proxy {
        let mut command = larder(["proxy", "--listen", FREE, "--admin", FREE, "--data"]);
        command.arg(data).args(["--origin", &format!("http://{}", origin.address)]).args(flags);
        let mut process = Process::start(&mut command);
        let http = process.await_line("larder proxy listens on http://");
        let http = http.trim_end_matches('/').parse().unwrap();
        let admin = dashboard_of(&mut process);
        Proxy { process, http, admin }
    }

    /// A command that talks to it.
    fn remote(&self, data: &Path, words: &[&str]) -> Ended {
        let mut command = larder(words);
        command
            .env("LARDER_ADMIN", format!("http://{}", self.admin))
            .env("LARDER_UP_DATA", data)
            .env("LARDER_WARM_PROXY", format!("http://{}", self.http));
        run(&mut command)
    }

    pub(crate) fn stop(mut self) {
        self.process.running().terminate();
        self.process.end().assert_clean_stop();
    }
}

fn status(reply: &Reply) -> &str {
    reply.header("cache-status").expect("a proxy answers")
}

#[test]
fn warmed_pages_are_answered_from_the_cache() {
    let (origin, data) = (Origin::start(), tempfile::tempdir().unwrap());
    let proxy = Proxy::start(&origin, data.path(), &[]);
    let list = data.path().join("urls");
    let mut urls: String = (0..40).map(|number| format!("/{number}\n")).collect();
    urls += "# of a shop\nhttp://shop.example/jam\n/cart\nhttps://shop.example/\n";
    std::fs::write(&list, urls).unwrap();
    let list = list.to_str().unwrap();
    let warmed = proxy.remote(data.path(), &["warm", list]);
    assert_eq!(warmed.code, Some(0), "{warmed:?}");
    let lines: Vec<&str> = warmed.stdout.lines().collect();
    assert!(lines[0].starts_with("42 URLs in "), "{warmed:?}");
    assert!(lines[0].ends_with(" s: 41 stored, 0 were stored already, 1 not stored, 0 failed"), "{warmed:?}");
    assert_eq!(lines[1], "  not stored: 1 × set-cookie");
    assert!(lines[2].starts_with("  line 44: responses over https are stored apart"), "{warmed:?}");
    assert_eq!(origin.requests(), 42);
    assert!(status(&get(proxy.http, "/7")).starts_with("larder; hit"));
    let shop = request(proxy.http, "GET", "/jam", &[("Host", "shop.example")], "").unwrap();
    assert!(status(&shop).starts_with("larder; hit"));
    let again = proxy.remote(data.path(), &["warm", list]).stdout;
    assert!(again.contains(": 0 stored, 41 were stored already, 1 not stored, 0 failed\n"), "{again}");

    let at = proxy.http;
    proxy.stop();
    let empty = data.path().join("empty");
    std::fs::write(&empty, "# nothing\nshop\n").unwrap();
    let mut command = larder(["warm", empty.to_str().unwrap()]);
    run(&mut command).assert_failure(&format!(
        "larder warm: {} has no URL: line 2: expected http://HOST/PATH, or a path such as /products",
        empty.display()
    ));
    let gone = run(&mut larder(["warm", list, "--proxy", &format!("http://{at}")]));
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.stdout.contains("0 not stored, 42 failed\n"), "{gone:?}");
    assert!(gone.stdout.contains("/0: Connection refused"), "{gone:?}");
    assert_eq!(gone.stderr, "larder warm: no URL was answered\n");
}

#[test]
fn proxy_is_purged_hard_and_softly_and_explains_its_pages() {
    let (origin, data) = (Origin::start(), tempfile::tempdir().unwrap());
    let proxy = Proxy::start(&origin, data.path(), &[]);
    let url = format!("http://{}/page", proxy.http);
    let verdict = || {
        let ended = proxy.remote(data.path(), &["explain", &url]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout.lines().next().unwrap().to_owned()
    };
    assert!(verdict().starts_with("responses: not stored: "), "{}", verdict());
    get(proxy.http, "/page");
    assert_eq!(verdict(), "responses: answered from the cache");
    let purge = |words: &[&str]| {
        let ended = proxy.remote(data.path(), &[&["purge", "responses"], words].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "purged\n"), "{ended:?}");
    };
    purge(&["--tag", "page", "--soft"]);
    assert_eq!(verdict(), "responses: expired: the origin is asked to validate it");
    assert_eq!(status(&get(proxy.http, "/page")), "larder; fwd=stale; fwd-status=304; stored");
    assert_eq!(verdict(), "responses: answered from the cache");
    purge(&["--principal", "user-1"]);
    assert_eq!(verdict(), "responses: answered from the cache");
    purge(&["--uri", &url]);
    assert_eq!(status(&get(proxy.http, "/page")), "larder; fwd=uri-miss; stored");
    let history = get(proxy.admin, "/api/history").json();
    let texts: Vec<_> =
        history["events"].as_array().unwrap().iter().map(|event| event["text"].as_str().unwrap()).collect();
    let uri = format!("purged URI {url:?}");
    assert_eq!(texts, ["purged tag \"page\" softly", "purged principal \"user-1\"", &uri]);
    proxy.stop();
}

#[test]
fn replicas_share_and_are_purged_through_redis() {
    let Some(server) = RedisServer::start() else { return };
    let (origin, data) = (Origin::start(), tempfile::tempdir().unwrap());
    let url = server.url();
    let [first, second] = ["a", "b"].map(|name| {
        let data = data.path().join(name);
        std::fs::create_dir(&data).unwrap();
        (Proxy::start(&origin, &data, &["--redis", &url]), data)
    });
    let ask = |proxy: &Proxy| request(proxy.http, "GET", "/page", &[("Host", "shop.example")], "").unwrap();
    assert_eq!(status(&ask(&first.0)), "larder; fwd=uri-miss; stored");
    assert!(status(&ask(&second.0)).ends_with("; detail=shared"));
    assert_eq!(origin.requests(), 1);
    let purged = first.0.remote(&first.1, &["purge", "responses", "--uri", "http://shop.example/page"]);
    assert_eq!((purged.code, purged.stdout.as_str()), (Some(0), "purged\n"), "{purged:?}");
    larder_testkit::until("the other one has forgotten", || {
        ask(&second.0);
        (origin.requests() == 2).then_some(())
    });
    let stats = first.0.remote(&first.1, &["stats"]).stdout;
    assert!(stats.contains("replicas, redis "), "{stats}");
    let [first, second] = [first.0, second.0];
    first.stop();
    second.stop();

    let wrong =
        run(&mut larder(["proxy", "--origin", "http://127.0.0.1:1", "--redis", "http://127.0.0.1:1"]));
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.starts_with("larder proxy: redis address \"http://127.0.0.1:1\": "), "{wrong:?}");
}

/// An idle connection costs the proxy at most this, with what the system allocates to the process for it.
const MAX_BYTES_OF_A_CONNECTION: u64 = 24 << 10;

#[test]
fn ten_thousand_idle_connections_cost_little_and_still_answer() {
    const CONNECTIONS: usize = 10_000;
    let may_open = may_open(CONNECTIONS as u64 + 500);
    let Some(()) = needs("a limit of 10,500 open files", may_open) else { return };
    let (origin, data) = (Origin::start(), tempfile::tempdir().unwrap());
    let options = data.path().join("larder.toml");
    std::fs::write(&options, "[proxy]\nmax_connections = 10100\nkeepalive_timeout_ms = 600000\n").unwrap();
    let mut proxy = Proxy::start(&origin, data.path(), &["--config", options.to_str().unwrap()]);
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /page HTTP/1.1\r\nHost: shop.example\r\n\r\n").unwrap();
        let (mut answer, mut buffer) = (Vec::new(), [0; 1024]);
        while !answer.ends_with(b"\r\n\r\npage") {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&buffer[..count]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    };
    ask(&mut connect(proxy.http).unwrap());
    let before = resident_bytes(proxy.process.running());
    let mut clients = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut stream = connect(proxy.http).unwrap();
        ask(&mut stream);
        clients.push(stream);
    }
    let each = resident_bytes(proxy.process.running()).saturating_sub(before) / CONNECTIONS as u64;
    println!("{each} bytes for each idle connection");
    assert!(each <= MAX_BYTES_OF_A_CONNECTION, "{each} bytes for each idle connection");
    clients.iter_mut().for_each(ask);
    assert_eq!(origin.requests(), 1);
    drop(clients);
    proxy.stop();
}
