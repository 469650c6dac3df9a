//! Both sides encrypt, verify, and take new certificates.

use crate::support::*;
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use larder_proxy::{Config, Proxy};
use rcgen::{CertificateParams, CertifiedIssuer, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A root of the test's own, and what it signs.
struct Authority {
    folder: TempDir,
    root: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("root.pem"), root.pem()).unwrap();
        Authority { folder, root }
    }

    fn root_file(&self) -> PathBuf {
        self.folder.path().join("root.pem")
    }

    /// The files of a certificate for these names, and of its key.
    fn certificate(&self, file: &str, names: &[&str]) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let issuer: &Issuer<'_, KeyPair> = &self.root;
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, issuer).unwrap();
        let path = |ending: &str| self.folder.path().join(format!("{file}.{ending}"));
        std::fs::write(path("pem"), certificate.pem()).unwrap();
        write_key(&path("key"), &key.serialize_pem());
        (path("pem"), path("key"))
    }

    /// A client that trusts the root.
    fn client(&self, protocols: &[&str]) -> TlsConnector {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.root.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }

    /// The TLS of an origin for these names.
    fn acceptor(&self, names: &[&str], protocols: &[&str]) -> TlsAcceptor {
        let (chain, key) = self.certificate("origin", names);
        let chain: Vec<_> = CertificateDer::pem_file_iter(chain).unwrap().map(Result::unwrap).collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let mut config = config.with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// An origin with TLS. It responds with the protocol and the authority of a request.
    async fn origin(&self, names: &[&str], protocols: &[&str]) -> SocketAddr {
        let acceptor = self.acceptor(names, protocols);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = hyper::service::service_fn(
                        |request: http::Request<hyper::body::Incoming>| async move {
                            let host =
                                request.headers().get("host").map(|host| host.to_str().unwrap().to_owned());
                            let asked = request.uri().authority().map(ToString::to_string).or(host);
                            let text = format!("{:?} {}", request.version(), asked.unwrap());
                            let body = request.into_body().collect().await.unwrap().to_bytes();
                            let text = format!("{text} {}", String::from_utf8_lossy(&body));
                            Ok::<_, std::convert::Infallible>(http::Response::new(full(text)))
                        },
                    );
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        address
    }
}

fn write_key(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn origin_is_reached_by_the_protocol_that_it_chooses() {
    let authority = Authority::new();
    for (protocols, expected) in
        [(&["h2", "http/1.1"][..], "HTTP/2.0"), (&["http/1.1"], "HTTP/1.1"), (&[], "HTTP/1.1")]
    {
        let origin = authority.origin(&["localhost"], protocols).await;
        let mut options = config([format!("https://localhost:{}", origin.port())]);
        options.origin_roots = Some(authority.root_file());
        let proxy = start(options).await;
        for body in ["", "hello"] {
            let request = format!(
                "POST / HTTP/1.1\r\nHost: site.example\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let answer = proxy.exchange(request).await;
            assert!(answer.ends_with(&format!("{expected} site.example {body}")), "{answer}");
        }
        let via = if expected == "HTTP/2.0" { "2.0 larder" } else { "1.1 larder" };
        assert_eq!(values(&proxy.get("/").await, "via"), [via]);
    }
}

/// An origin of HTTP/2 that answers the first stream, and refuses the second one as `refuse` says. Further connections answer
/// all streams. The number of the requests that came.
async fn refusing(authority: &Authority, refuse: Vec<u8>) -> (SocketAddr, Arc<AtomicUsize>) {
    let acceptor = authority.acceptor(&["localhost"], &["h2"]);
    let requests = Arc::<AtomicUsize>::default();
    let counted = requests.clone();
    let address = raw_origin(move |stream, connection| {
        let (acceptor, refuse, counted) = (acceptor.clone(), refuse.clone(), counted.clone());
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut preface = [0; 24];
            stream.read_exact(&mut preface).await.unwrap();
            stream.write_all(&http2_frame(4, 0, 0, &[])).await.unwrap();
            let mut id = 1;
            while let Some((kind, _)) = read_http2_frame(&mut stream).await {
                match kind {
                    1 if connection == 0 && id > 1 => {
                        counted.fetch_add(1, Ordering::SeqCst);
                        stream.write_all(&refuse).await.unwrap();
                    }
                    // The status 200, and the end of the stream.
                    1 => {
                        counted.fetch_add(1, Ordering::SeqCst);
                        stream.write_all(&http2_frame(1, 0x5, id, &[0x88])).await.unwrap();
                        id += 2;
                    }
                    _ => {}
                }
            }
        }
    })
    .await;
    (address, requests)
}

#[tokio::test]
async fn request_that_an_http2_origin_has_not_processed_is_repeated() {
    let reset = |reason: u32| http2_frame(3, 0, 3, &reason.to_be_bytes());
    // The last stream that it goes on with is the first one.
    let go_away = http2_frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
    let (refused, internal_error) = (reset(7), reset(2));
    for (refuse, method, status, expected) in [
        (&refused, "GET", "200", 3),
        (&go_away, "GET", "200", 3),
        (&internal_error, "GET", "502", 2),
        (&refused, "POST", "502", 2),
    ] {
        let authority = Authority::new();
        let (origin, requests) = refusing(&authority, refuse.clone()).await;
        let mut options = config([format!("https://localhost:{}", origin.port())]);
        options.origin_roots = Some(authority.root_file());
        let proxy = start(options).await;
        assert!(proxy.get("/first").await.starts_with("HTTP/1.1 200 "));
        let answer =
            proxy.exchange(format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {refuse:?}: {answer}");
        assert_eq!(requests.load(Ordering::SeqCst), expected, "{method} {refuse:?}");
    }
}

#[tokio::test]
async fn origin_that_cannot_be_verified_is_a_502() {
    let authority = Authority::new();
    let good = authority.origin(&["localhost"], &[]).await;
    let other_name = authority.origin(&["other.example"], &[]).await;
    let plain = HttpOrigin::echo().await.address;
    for (origin, roots, error) in [
        (good, None, "tls_certificate_error"),
        (other_name, Some(authority.root_file()), "tls_certificate_error"),
        (plain, Some(authority.root_file()), "tls_protocol_error"),
    ] {
        let mut options = config([format!("https://localhost:{}", origin.port())]);
        options.origin_roots = roots.or_else(|| Some(Authority::new().root_file_kept()));
        let answer = start(options).await.get("/").await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert_eq!(values(&answer, "proxy-status"), [format!("larder; error={error}")]);
    }
}

impl Authority {
    /// The file of the root, which stays.
    fn root_file_kept(self) -> PathBuf {
        self.folder.keep().join("root.pem")
    }
}

/// A proxy with a certificate for `localhost`.
async fn encrypted(authority: &Authority) -> Running {
    let origin = HttpOrigin::echo().await;
    let (chain, key) = authority.certificate("proxy", &["localhost"]);
    let mut options = config([origin.address]);
    (options.tls_cert, options.tls_key) = (Some(chain), Some(key));
    start(options).await
}

async fn handshake(
    proxy: &Running,
    client: &TlsConnector,
    name: &'static str,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    client.connect(ServerName::try_from(name).unwrap(), proxy.connect().await).await
}

#[tokio::test]
async fn clients_get_http1_and_http2_over_tls() {
    let authority = Authority::new();
    let proxy = encrypted(&authority).await;
    let mut stream = handshake(&proxy, &authority.client(&["http/1.1"]), "localhost").await.unwrap();
    stream.write_all(get("/").as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.contains("x-forwarded-proto: https\r\n"), "{answer}");

    let stream = handshake(&proxy, &authority.client(&["h2"]), "localhost").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("https://site.example/").body(full("")).unwrap();
    let answer = text(sender.send_request(request).await.unwrap()).await;
    assert!(answer.contains("forwarded: for=127.0.0.1;host=\"site.example\";proto=https\r\n"), "{answer}");
}

#[tokio::test]
async fn handshake_has_a_deadline_and_plain_text_is_no_handshake() {
    let authority = Authority::new();
    let (chain, key) = authority.certificate("proxy", &["localhost"]);
    let mut options = config([HttpOrigin::echo().await.address]);
    (options.tls_cert, options.tls_key, options.header_timeout_ms) = (Some(chain), Some(key), 100);
    let proxy = start(options).await;
    let mut silent = proxy.connect().await;
    assert_eq!(read_to_end(&mut silent).await, "");
    let answer = proxy.get("/").await;
    assert!(!answer.starts_with("HTTP/"), "{answer}");
}

#[tokio::test]
async fn new_certificate_is_taken_and_a_bad_one_is_not() {
    let authority = Authority::new();
    let proxy = encrypted(&authority).await;
    let client = authority.client(&[]);
    assert!(handshake(&proxy, &client, "localhost").await.is_ok());
    assert!(handshake(&proxy, &client, "new.example").await.is_err());

    // The same files.
    let (chain, key) = authority.certificate("proxy", &["new.example"]);
    assert!(handshake(&proxy, &client, "localhost").await.is_ok(), "nothing was reloaded");
    proxy.proxy.reload_certificate().unwrap();
    assert!(handshake(&proxy, &client, "new.example").await.is_ok());
    assert!(handshake(&proxy, &client, "localhost").await.is_err());

    for (path, content) in [(&chain, "no certificate"), (&key, "no key")] {
        let before = std::fs::read_to_string(path).unwrap();
        std::fs::write(path, content).unwrap();
        let error = proxy.proxy.reload_certificate().unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()) && error.contains("in PEM"), "{error}");
        assert!(handshake(&proxy, &client, "new.example").await.is_ok(), "the old certificate stays");
        std::fs::write(path, before).unwrap();
    }
    proxy.proxy.reload_certificate().unwrap();
}

fn refusal(options: Config) -> String {
    Proxy::new(options).expect_err("refused").to_string()
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_clear_errors() {
    let authority = Authority::new();
    let (chain, key) = authority.certificate("one", &["localhost"]);
    let (_, other_key) = authority.certificate("two", &["localhost"]);
    let with = |chain: Option<&Path>, key: Option<&Path>| Config {
        tls_cert: chain.map(Path::to_owned),
        tls_key: key.map(Path::to_owned),
        ..config(["http://127.0.0.1:1"])
    };
    assert!(Proxy::new(with(Some(&chain), Some(&key))).is_ok());
    assert_eq!(
        refusal(with(Some(&chain), None)),
        "tls_key is missing, expected a file, since tls_cert is set"
    );
    assert_eq!(refusal(with(None, Some(&key))), "tls_cert is missing, expected a file, since tls_key is set");
    let message = refusal(with(Some(&chain), Some(&other_key)));
    assert!(message.starts_with(&format!("tls_key: {}: ", other_key.display())), "{message}");
    let message = refusal(with(Some(&key), Some(&key)));
    assert!(message.ends_with(": no certificate in PEM"), "{message}");
    let message = refusal(with(Some(&chain), Some(Path::new("/nowhere/key"))));
    assert!(message.starts_with("tls_key: /nowhere/key: No such file"), "{message}");
    for mode in [0o640, 0o604, 0o610] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let message = refusal(with(Some(&chain), Some(&key)));
        assert!(message.contains("which gives others access to the key: chmod 600"), "{message}");
    }
    let mut options = config(["https://127.0.0.1:1"]);
    options.origin_roots = Some(key);
    let message = refusal(options);
    assert!(message.starts_with("origin_roots: ") && message.ends_with("no certificate in PEM"), "{message}");
}
