//! Connections with TLS: real clients, certificates, handshakes that fail or never end, and the same promises as without TLS.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use larder_resp::Frame;
use larder_server::{ByteSize, ClientCertificates, Config, Server, ServerError};
use larder_testkit::{PATIENCE, program};
use rcgen::{CertificateParams, CertifiedIssuer, DnType, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::support::{Client, TestServer, encode};

/// A root of the test's own, and what it signs.
struct Authority {
    folder: TempDir,
    root: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
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

    /// The files of a certificate for `localhost` and of its key.
    fn certificate(&self, file: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let issuer: &Issuer<'_, KeyPair> = &self.root;
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "localhost");
        let certificate = params.signed_by(&key, issuer).unwrap();
        let path = |ending: &str| self.folder.path().join(format!("{file}.{ending}"));
        std::fs::write(path("pem"), certificate.pem()).unwrap();
        write_key(&path("key"), &key.serialize_pem(), 0o600);
        (path("pem"), path("key"))
    }

    fn config(&self) -> Config {
        let (tls_cert, tls_key) = self.certificate("server");
        Config {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            tls_port: Some(0),
            tls_cert: Some(tls_cert),
            tls_key: Some(tls_key),
            ..Config::default()
        }
    }

    fn client_config(&self, certificate: Option<&(PathBuf, PathBuf)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        Arc::new(match certificate {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = CertificateDer::pem_file_iter(chain).unwrap().map(Result::unwrap).collect();
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
            }
        })
    }

    fn connect(&self, address: SocketAddr) -> Client<StreamOwned<ClientConnection, TcpStream>> {
        self.connect_with(address, None)
    }

    fn connect_with(
        &self,
        address: SocketAddr,
        certificate: Option<&(PathBuf, PathBuf)>,
    ) -> Client<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(self.client_config(certificate), name).unwrap();
        Client::new(StreamOwned::new(session, tcp(address)))
    }
}

fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn write_key(path: &Path, pem: &str, mode: u32) {
    std::fs::write(path, pem).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn start(config: Config) -> (TestServer, SocketAddr) {
    let server = TestServer::with(config);
    let address = server.tls_address();
    (server, address)
}

fn pong() -> Frame {
    Frame::Simple("PONG".into())
}

#[test]
fn pipelines_large_values_and_messages_arrive_in_order() {
    let authority = Authority::new();
    let (server, address) = start(authority.config());
    let mut client = authority.connect(address);
    let requests: Vec<u8> =
        (0..5_000).flat_map(|n| encode(&["SET", &format!("k{n}"), &n.to_string()])).collect();
    client.send(&requests);
    (0..5_000).for_each(|_| assert_eq!(client.receive(), Frame::Simple("OK".into())));
    // What was stored with TLS is there without, and the other way round.
    let mut plain = server.connect();
    assert_eq!(plain.call(&["GET", "k4999"]).as_bytes(), Some(&b"4999"[..]));
    for bytes in [1 << 20, 16 << 20] {
        let value: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        assert_eq!(client.call(&[&b"SET"[..], b"large", &value]), Frame::Simple("OK".into()));
        assert_eq!(plain.call(&["STRLEN", "large"]), Frame::Integer(bytes as i64));
        for _ in 0..2 {
            assert!(client.call(&["GET", "large"]).as_bytes() == Some(&value[..]));
        }
    }
    let mut subscriber = authority.connect(address);
    assert!(matches!(subscriber.call(&["SUBSCRIBE", "c"]), Frame::Array(_)));
    for n in 0..200 {
        assert_eq!(plain.call(&["PUBLISH", "c", &n.to_string()]), Frame::Integer(1));
    }
    for n in 0..200 {
        let Frame::Array(parts) = subscriber.receive() else { panic!("a message") };
        assert_eq!(parts[2].as_bytes(), Some(n.to_string().as_bytes()));
    }
    // One that waits is woken.
    subscriber = authority.connect(address);
    subscriber.send(b"BLPOP list 0\r\n");
    while !String::from_utf8_lossy(plain.call(&["INFO", "clients"]).as_bytes().unwrap())
        .contains("blocked_clients:1\r\n")
    {}
    plain.call(&["RPUSH", "list", "x"]);
    assert!(matches!(subscriber.receive(), Frame::Array(_)));
}

/// The client sends all requests before it reads the first reply.
#[test]
fn client_that_reads_late_gets_all_replies() {
    let authority = Authority::new();
    let (_server, address) = start(authority.config());
    let mut client = authority.connect(address);
    let value = "v".repeat(100_000);
    client.call(&["SET", "k", &value]);
    let requests: Vec<u8> = (0..300).flat_map(|_| encode(&["GET", "k"])).collect();
    client.send(&requests);
    for _ in 0..300 {
        assert!(client.receive().as_bytes() == Some(value.as_bytes()));
    }
    assert_eq!(client.call(&["PING"]), pong());
}

#[test]
fn half_closed_connection_gets_its_replies() {
    let authority = Authority::new();
    let (_server, address) = start(authority.config());
    for ends_by_tls in [true, false] {
        let mut client = authority.connect(address);
        client.send(b"PING\r\nPING\r\n");
        if ends_by_tls {
            client.stream.conn.send_close_notify();
            client.stream.flush().unwrap();
        } else {
            client.stream.sock.shutdown(Shutdown::Write).unwrap();
        }
        assert_eq!(client.read_to_end(), b"+PONG\r\n+PONG\r\n");
    }
}

#[test]
fn what_is_no_tls_is_refused_and_others_go_on() {
    let authority = Authority::new();
    let (_server, address) = start(authority.config());
    let mut other = authority.connect(address);
    assert_eq!(other.call(&["PING"]), pong());
    let advice = &b"-ERR this port speaks TLS: use rediss://\r\n"[..];
    for (bytes, expected) in [
        (&b"PING\r\n"[..], Some(advice)),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Some(advice)),
        (&[0; 100], Some(advice)),
        (&[0x16, 3, 1, 0xff, 0xff, 1], None),
    ] {
        let mut stream = tcp(address);
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut reply = Vec::new();
        _ = stream.read_to_end(&mut reply);
        assert!(!reply.starts_with(b"+"), "{}", reply.escape_ascii());
        assert!(expected.is_none_or(|expected| reply == expected), "{}", reply.escape_ascii());
    }
    // A handshake that never goes on holds nobody up.
    let stuck: Vec<TcpStream> = (0..50).map(|_| tcp(address)).collect();
    let started = Instant::now();
    assert_eq!(authority.connect(address).call(&["PING"]), pong());
    assert_eq!(other.call(&["PING"]), pong());
    assert!(started.elapsed() < PATIENCE);
    drop(stuck);
}

/// Takes the ten seconds that a handshake may take.
#[test]
fn handshake_that_takes_too_long_is_closed() {
    let authority = Authority::new();
    let (_server, address) = start(authority.config());
    let mut silent = tcp(address);
    let mut half = tcp(address);
    half.write_all(&[0x16, 3, 1]).unwrap();
    let started = Instant::now();
    for stream in [&mut silent, &mut half] {
        // The end of TLS at most.
        let mut bytes = Vec::new();
        assert!(stream.read_to_end(&mut bytes).is_ok_and(|length| length < 16), "{}", bytes.escape_ascii());
    }
    assert!(started.elapsed() < PATIENCE, "they are closed by the server");
}

#[test]
fn clients_need_the_certificates_that_are_asked_for() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (own, foreign) = (authority.certificate("client"), stranger.certificate("client"));
    for (needed, without) in [
        (ClientCertificates::Yes, false),
        (ClientCertificates::Optional, true),
        (ClientCertificates::No, true),
    ] {
        let config =
            Config { tls_ca: Some(authority.root_file()), tls_auth_clients: needed, ..authority.config() };
        let (_server, address) = start(config);
        let works = |certificate: Option<&(PathBuf, PathBuf)>| {
            let mut client = authority.connect_with(address, certificate);
            let sent = client.stream.write_all(b"PING\r\n").and_then(|()| client.stream.flush());
            sent.is_ok() && matches!(client.try_receive(), Ok(Some(_)))
        };
        assert!(works(Some(&own)), "{needed:?}");
        assert_eq!(works(None), without, "{needed:?}");
        assert_eq!(works(Some(&foreign)), needed == ClientCertificates::No, "{needed:?}");
    }
}

#[test]
fn new_certificate_is_read_and_the_old_one_stays_if_it_cannot_be_used() {
    let authority = Authority::new();
    let config = authority.config();
    let (key, listen) = (config.tls_key.clone().unwrap(), config.listen);
    let (server, address) = start(config.clone());
    let serial = || {
        let mut client = authority.connect(address);
        assert_eq!(client.call(&["PING"]), pong());
        client.stream.conn.peer_certificates().unwrap()[0].to_vec()
    };
    let (first, mut open) = (serial(), authority.connect(address));
    assert_eq!(open.call(&["PING"]), pong());
    let pem = std::fs::read_to_string(&key).unwrap();
    write_key(&key, &pem, 0o644);
    let error = server.reload().unwrap_err();
    assert!(
        matches!(&error, ServerError::Tls { option: "tls_key", reason } if reason.contains("0644")),
        "{error}"
    );
    assert!(serial() == first);
    let refused = Server::bind(Config { listen, ..config }).map(drop);
    assert!(matches!(refused, Err(ServerError::Tls { option: "tls_key", .. })));
    authority.certificate("server");
    server.reload().unwrap();
    assert!(serial() != first);
    assert_eq!(open.call(&["PING"]), pong(), "connections stay");
}

#[test]
fn plain_port_may_be_closed_and_limits_hold() {
    let authority = Authority::new();
    let config =
        Config { tls_only: true, maxclients: 2, max_reply_bytes: ByteSize(1 << 20), ..authority.config() };
    let (_server, address) = start(config);
    let mut first = authority.connect(address);
    assert_eq!(first.call(&["CONFIG", "GET", "port"]), Frame::Array(vec![bulk("port"), bulk("0")]));
    let port = address.port().to_string();
    assert_eq!(first.call(&["CONFIG", "GET", "tls-port"]), Frame::Array(vec![bulk("tls-port"), bulk(&port)]));
    let mut second = authority.connect(address);
    assert_eq!(second.call(&["PING"]), pong());
    let mut third = authority.connect(address);
    assert!(third.stream.write_all(b"PING\r\n").is_err() || !matches!(third.try_receive(), Ok(Some(_))));
    let value = "v".repeat(1 << 20);
    first.call(&["SET", "k", &value]);
    assert!(matches!(first.call(&["MGET", "k", "k"]), Frame::Error(_)));
}

fn bulk(text: &str) -> Frame {
    Frame::Bulk(text.as_bytes().to_vec().into())
}

#[test]
fn redis_cli_and_openssl_connect_and_old_versions_are_refused() {
    let authority = Authority::new();
    let (_server, address) = start(authority.config());
    let port = address.port().to_string();
    if let Some(cli) = program("redis-cli") {
        let root = authority.root_file();
        let mut command = Command::new(cli);
        command.args(["-h", "127.0.0.1", "-p", &port, "--tls", "--sni", "localhost", "--cacert"]).arg(root);
        let output = command.args(["ECHO", "hello"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n", "{output:?}");
    }
    let Some(openssl) = program("openssl") else { return };
    for (version, works) in [("-tls1_1", false), ("-tls1_2", true), ("-tls1_3", true)] {
        let mut command = Command::new(&openssl);
        command.args([
            "s_client",
            "-connect",
            &format!("127.0.0.1:{port}"),
            version,
            "-cipher",
            "ALL:@SECLEVEL=0",
        ]);
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.contains("BEGIN CERTIFICATE"), works, "{version}: {output:?}");
    }
}
