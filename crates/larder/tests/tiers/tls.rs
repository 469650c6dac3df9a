//! TLS to a real redis-server, with certificates of the test's own.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with, over};
use larder::{BuildError, Cache, CoherenceMode, RedisTls, View};
use larder_testkit::{Deadline, RedisServer, eventually};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    root: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let root = params.self_signed(&key).expect("a certificate").pem();
        Authority { issuer: Issuer::new(params, key), root }
    }

    /// A certificate for a name, and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    /// A server with a certificate of this authority for `localhost`. `clients` is whether it demands certificates of
    /// clients: `yes` or `no`.
    fn server(&self, clients: &str) -> Option<(RedisServer, u16)> {
        // The server has read its files once it replies.
        self.with_certificate("localhost", clients, |options| {
            RedisServer::start_with_port("--tls-port", options)
        })
    }

    /// Starts servers with the options that have a certificate for this name. `clients` as above.
    pub(crate) fn with_certificate<T>(
        &self,
        name: &str,
        clients: &str,
        start: impl FnOnce(&[&str]) -> T,
    ) -> T {
        let folder = tempfile::tempdir().expect("a folder");
        let (certificate, key) = self.sign(name);
        let file = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).expect("a file");
            // A server may refuse a key that others can read.
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("its owner");
            path.to_str().expect("the path is text").to_owned()
        };
        let (certificate, key) = (file("server.pem", &certificate), file("server.key", &key));
        let roots = file("roots.pem", &self.root);
        let certificates = ["--tls-cert-file", &certificate, "--tls-key-file", &key];
        let clients = ["--tls-ca-cert-file", &roots, "--tls-auth-clients", clients];
        start(&[certificates, clients].concat())
    }

    pub(crate) fn roots(&self) -> RedisTls {
        RedisTls::new().with_root_certificates(self.root.clone())
    }
}

fn url(port: u16) -> String {
    format!("rediss://localhost:{port}")
}

/// A node, and the errors that it reports.
pub(crate) fn node(url: String, tls: RedisTls) -> (Cache, Arc<Mutex<Vec<String>>>) {
    node_with_timeout(url, tls, Duration::from_secs(5))
}

fn node_with_timeout(url: String, tls: RedisTls, timeout: Duration) -> (Cache, Arc<Mutex<Vec<String>>>) {
    let errors: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = errors.clone();
    let cache = node_with(url, |options| {
        options
            .redis_tls(tls)
            .redis_timeout(timeout)
            .on_error(move |error| log.lock().expect("no panic").push(error.to_string()))
    });
    (cache, errors)
}

/// The only message of the errors of a node that cannot use its server.
async fn refusal(url: String, tls: RedisTls) -> String {
    let (cache, errors) = node(url, tls);
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1, "the cache works without it");
    view.delete("k").await.queued();
    assert_eq!(cache.coherence().mode, CoherenceMode::Unknown);
    let errors = errors.lock().expect("no panic");
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    errors[0].clone()
}

#[tokio::test]
async fn nodes_are_coherent_over_tls() {
    let authority = Authority::new("test");
    let Some((server, port)) = authority.server("no") else { return };
    let (one, errors) = node(url(port), authority.roots());
    let other = over(server.url());
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.write("k", 1).await.everywhere();
    assert_eq!(cached(&b, "k").await, 1);
    assert_eq!(cached(&a, "k").await, 1);
    b.write("k", 2).await.everywhere();
    eventually("the invalidation arrives", async || cached(&a, "k").await == 2).await;
    eventually("announcements are received", async || one.coherence().mode == CoherenceMode::Full).await;
    assert!(server.command("CLIENT LIST").contains(&format!("laddr=127.0.0.1:{port}")), "by TLS");
    assert!(errors.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn connection_over_tls_that_was_closed_is_replaced() {
    let authority = Authority::new("test");
    let Some((server, port)) = authority.server("no") else { return };
    let (cache, _) = node(url(port), authority.roots());
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    for _ in 0..5 {
        assert_ne!(server.command("CLIENT KILL TYPE normal"), ":0\r\n");
        assert_ne!(server.command("CLIENT KILL TYPE pubsub"), ":0\r\n");
        assert_eq!(view.read("k").await.as_deref(), Some(&1));
        view.delete("none").await.everywhere();
        eventually("it subscribes again", async || {
            server.command("PUBSUB NUMPAT") == ":0\r\n"
                && !server.command("CLIENT LIST TYPE pubsub").starts_with("$0")
        })
        .await;
    }
}

#[tokio::test]
async fn server_certificate_of_unknown_root_is_refused_with_advice() {
    let authority = Authority::new("test");
    let Some((_server, port)) = authority.server("no") else { return };
    for tls in [Authority::new("other").roots(), Authority::new("test").roots(), RedisTls::new()] {
        let message = refusal(url(port), tls).await;
        assert!(message.contains("RedisTls::with_root_certificates"), "{message}");
    }
}

#[tokio::test]
async fn server_certificate_of_another_name_is_refused_with_advice() {
    let authority = Authority::new("test");
    let Some((_server, port)) = authority.server("no") else { return };
    let message = refusal(format!("rediss://127.0.0.1:{port}"), authority.roots()).await;
    assert!(message.contains("the server's certificate is not for 127.0.0.1"), "{message}");
}

#[tokio::test]
async fn client_certificate_is_sent_if_demanded() {
    let authority = Authority::new("test");
    let Some((_server, port)) = authority.server("yes") else { return };
    let (certificate, key) = authority.sign("node");
    let (cache, _) = node(url(port), authority.roots().with_client_certificate(certificate, key));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
}

#[tokio::test]
async fn certificates_and_key_may_be_files() {
    let authority = Authority::new("test");
    let Some((_server, port)) = authority.server("yes") else { return };
    let (certificate, key) = authority.sign("node");
    let folder = tempfile::tempdir().expect("a folder");
    let files = [("redis_key", key), ("redis_roots", authority.root), ("redis_certificate", certificate)];
    let cache = node_with(url(port), |options| {
        files.iter().fold(options.redis_timeout(Duration::from_secs(5)), |options, (name, pem)| {
            let path = folder.path().join(name);
            std::fs::write(&path, pem).expect("a file");
            options.option(name, path.to_str().expect("the path is text")).expect("a readable file")
        })
    });
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
}

#[tokio::test]
async fn missing_client_certificate_is_refused_with_advice() {
    let authority = Authority::new("test");
    let Some((_server, port)) = authority.server("yes") else { return };
    let message = refusal(url(port), authority.roots()).await;
    assert!(message.contains("RedisTls::with_client_certificate"), "{message}");
}

#[tokio::test]
async fn client_certificate_of_unknown_root_is_refused_with_advice() {
    let authority = Authority::new("test");
    let Some((_server, port)) = authority.server("yes") else { return };
    let (certificate, key) = Authority::new("other").sign("node");
    let tls = authority.roots().with_client_certificate(certificate, key);
    let message = refusal(url(port), tls).await;
    assert!(message.contains("check the client certificate"), "{message}");
}

#[tokio::test]
async fn port_without_tls_is_refused_with_advice() {
    let authority = Authority::new("test");
    let Some((_server, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    let (cache, errors) = node_with_timeout(url(port), authority.roots(), Duration::from_millis(500));
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1, "the cache works without it");
    let errors = errors.lock().expect("no panic");
    // The server answers only if a random byte of the handshake is the end of a line.
    assert!(errors.iter().any(|error| error.contains("TLS port")), "{errors:?}");
}

#[tokio::test]
async fn tls_port_without_tls_is_reported_with_advice() {
    let authority = Authority::new("test");
    let Some((_server, port)) = authority.server("no") else { return };
    let errors: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = errors.clone();
    let cache = node_with(format!("redis://localhost:{port}"), |options| {
        options.on_error(move |error| log.lock().expect("no panic").push(error.to_string()))
    });
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1, "the cache works without it");
    let errors = errors.lock().expect("no panic");
    assert!(errors.iter().any(|error| error.contains("use rediss://")), "{errors:?}");
}

#[test]
fn certificates_are_checked_when_the_cache_is_built() {
    let _deadline = Deadline::start();
    let authority = Authority::new("test");
    let (certificate, key) = authority.sign("node");
    let (_, other_key) = authority.sign("node");
    let build = |url: &str, tls: RedisTls| {
        let builder = Cache::builder("test").ttl(Duration::from_secs(1)).redis(url).redis_tls(tls);
        let error = builder.build().expect_err("refused");
        assert!(matches!(error, BuildError::RedisUrl { .. }), "{error:?}");
        error.to_string()
    };
    let client = |certificate: &str, key: &str| RedisTls::new().with_client_certificate(certificate, key);
    for (tls, expected) in [
        (
            RedisTls::new().with_root_certificates("no PEM"),
            "the root certificates have no certificate in PEM",
        ),
        (client("no PEM", &key), "the client certificate has no certificate in PEM"),
        (client(&certificate, "no PEM"), "the key of the client certificate: "),
        (client(&certificate, &other_key), "the key of the client certificate: "),
    ] {
        let message = build("rediss://localhost", tls);
        assert!(message.contains(expected), "{message}");
        assert!(!message.contains("BEGIN"), "{message}");
    }
    let message = build("redis://localhost", RedisTls::new());
    assert!(message.contains("redis_tls needs an address with rediss://"), "{message}");
    let message = build("rediss://ada:secret@localhost/#insecure", RedisTls::new());
    assert!(message.contains("RedisTls::with_root_certificates"), "{message}");
    assert!(!message.contains("secret@"), "{message}");
}

#[test]
fn debug_shows_no_key() {
    let (certificate, key) = Authority::new("other").sign("node");
    let tls = RedisTls::new().with_client_certificate(certificate, key.clone());
    let secret = key.lines().nth(1).expect("a key");
    let builder = Cache::builder("test").redis_tls(tls.clone());
    let shown = format!("{tls:?} {builder:?}");
    assert!(!shown.contains(secret) && !shown.contains("PRIVATE"), "{shown}");
    assert!(shown.contains("has_client_certificate: true"), "{shown}");
}
