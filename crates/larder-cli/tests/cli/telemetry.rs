//! What a collector of OpenTelemetry gets from a process.

use crate::certificate::certificate_until;
use crate::process::{Process, Up, larder, run};
use crate::shortener::{create, follow};
use larder_testkit::until;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Accepts every export, and keeps it.
#[derive(Clone)]
struct Collector {
    address: SocketAddr,
    exports: Arc<Mutex<Vec<Export>>>,
}

struct Export {
    path: String,
    body: Vec<u8>,
}

impl Collector {
    fn start() -> Collector {
        Collector::start_with(|stream| stream)
    }

    /// With TLS, by the certificate that is returned: the file of a root, for the clients.
    fn start_with_tls(folder: &Path) -> (Collector, String) {
        let [chain, key] = certificate_until(folder, SystemTime::now() + Duration::from_secs(3_600));
        let certificate = CertificateDer::from_pem_file(&chain).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the versions are known")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .map(Arc::new)
            .expect("they belong together");
        let collector = Collector::start_with(move |stream| {
            StreamOwned::new(ServerConnection::new(config.clone()).expect("a server"), stream)
        });
        (collector, chain)
    }

    fn start_with<S: Read + Write>(accept: impl Fn(TcpStream) -> S + Clone + Send + 'static) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let collector = Collector { address, exports: Arc::default() };
        let accepting = collector.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (collector, accept) = (accepting.clone(), accept.clone());
                std::thread::spawn(move || {
                    let mut stream = accept(stream);
                    while collector.answer(&mut stream).is_some() {}
                });
            }
        });
        collector
    }

    /// Reads one request; `None` at the end of the connection.
    fn answer(&self, stream: &mut (impl Read + Write)) -> Option<()> {
        let mut reader = BufReader::new(&mut *stream);
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).ok()?;
        let path = first.split(' ').nth(1)?.to_owned();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().ok()?
                }
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        self.exports.lock().expect("no panic").push(Export { path, body });
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()
    }

    /// Whether an export to the path has all these texts. Protobuf has texts as they are.
    fn has(&self, path: &str, texts: &[&str]) -> bool {
        let exports = self.exports.lock().expect("no panic");
        let has = |body: &[u8], text: &&str| body.windows(text.len()).any(|part| part == text.as_bytes());
        exports.iter().any(|export| export.path == path && texts.iter().all(|text| has(&export.body, text)))
    }
}

#[test]
fn collector_gets_figures_and_spans() {
    let data = tempfile::tempdir().expect("a folder");
    let collector = Collector::start();
    let up = start_with_collector_at(collector.address, data.path());
    let slug = create(up.http, "https://example.com/");
    assert_eq!(follow(up.http, &slug), "https://example.com/");
    let figures = [
        "service.name",
        "larder.tier.lookups",
        "larder.tier.capacity",
        "larder.tier.latency.bucket",
        "links",
    ];
    until("the figures", || collector.has("/v1/metrics", &figures).then_some(()));
    let fetch = ["larder.fetch", "outcome", "larder.load"];
    until("the spans", || collector.has("/v1/traces", &fetch).then_some(()));
    up.stop();
}

#[test]
fn part_without_an_admin_port_exports_its_figures() {
    let collector = Collector::start();
    let mut command = larder(["server", "--listen", "127.0.0.1:0"]);
    command.env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", format!("http://{}/figures", collector.address));
    command.env("OTEL_METRIC_EXPORT_INTERVAL", "100");
    let _server = Process::start(&mut command);
    until("the figures", || collector.has("/figures", &["larder.command.errors"]).then_some(()));
}

#[test]
fn collector_behind_tls_gets_figures_from_those_who_trust_it() {
    let data = tempfile::tempdir().expect("a folder");
    let (collector, root) = Collector::start_with_tls(data.path());
    let endpoint = format!("https://localhost:{}", collector.address.port());
    let mut trusting = eager(&endpoint);
    trusting.env("SSL_CERT_FILE", root);
    let up = Up::start_as(trusting, &data.path().join("trusting"));
    until("the figures", || collector.has("/v1/metrics", &["larder.tier.lookups"]).then_some(()));
    up.stop();

    collector.exports.lock().expect("no panic").clear();
    let up = Up::start_as(eager(&endpoint), &data.path().join("other"));
    until("the log names it", || up.process.stderr().to_lowercase().contains("export").then_some(()));
    up.stop();
    assert!(collector.exports.lock().expect("no panic").is_empty(), "nothing is sent without trust");
}

#[test]
fn last_spans_are_sent_at_the_end() {
    let data = tempfile::tempdir().expect("a folder");
    let collector = Collector::start();
    let mut command = larder(["up"]);
    command.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("http://{}/own/path", collector.address));
    command.env("OTEL_BSP_SCHEDULE_DELAY", "600000").env("OTEL_SERVICE_NAME", "short links");
    let up = Up::start_as(command, &data.path().join("data"));
    let slug = create(up.http, "https://example.com/");
    follow(up.http, &slug);
    up.stop();
    assert!(collector.has("/own/path", &["larder.fetch", "short links"]));
}

#[test]
fn collector_that_is_not_there_costs_a_line_in_the_log() {
    let data = tempfile::tempdir().expect("a folder");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let up = start_with_collector_at(free, data.path());
    let started = Instant::now();
    let slug = create(up.http, "https://example.com/");
    follow(up.http, &slug);
    assert!(started.elapsed() < Duration::from_secs(5), "requests do not wait for exports");
    until("the log names it", || up.process.stderr().to_lowercase().contains("export").then_some(()));
    up.stop();
}

#[test]
fn collector_that_never_replies_does_not_hold_up_the_end() {
    let data = tempfile::tempdir().expect("a folder");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let up = start_with_collector_at(silent.local_addr().expect("an address"), data.path());
    let slug = create(up.http, "https://example.com/");
    follow(up.http, &slug);
    silent.accept().expect("an export begins");
    up.stop();
}

fn start_with_collector_at(address: SocketAddr, data: &Path) -> Up {
    Up::start_as(eager(&format!("http://{address}")), &data.join("data"))
}

/// `larder up` that exports ten times a second.
fn eager(endpoint: &str) -> Command {
    let mut command = larder(["up"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    command.env("OTEL_BSP_SCHEDULE_DELAY", "100").env("OTEL_METRIC_EXPORT_INTERVAL", "100");
    command
}

#[test]
fn endpoint_that_cannot_be_used_is_an_error() {
    let mut command = larder(["server", "--listen", "127.0.0.1:0"]);
    let ended = run(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://collector.example"));
    ended.assert_failure(
        "larder server: OTEL_EXPORTER_OTLP_ENDPOINT is \"grpc://collector.example\", expected http://HOST:PORT or \
         https://HOST:PORT of a collector",
    );
    let mut other = larder(["config"]);
    let ended = run(other.env("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://collector.example"));
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "it exports nothing");
}
