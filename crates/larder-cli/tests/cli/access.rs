//! Users and TLS of `larder server`, by its flags and with redis-cli.

use crate::process::{Ended, Process, Up, larder, run, start_server};
use larder_testkit::{program, until};
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A self-signed certificate for `localhost`, and its key.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Files {
        let files = Files { folder: tempfile::tempdir().expect("a temporary folder") };
        files.renew();
        files
    }

    /// Writes another certificate.
    fn renew(&self) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        self.write("server.pem", &certificate.pem());
        self.write("server.key", &key.serialize_pem());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("its owner");
        path
    }

    fn flags(&self) -> Vec<String> {
        let path = |name| self.path(name).to_str().expect("text").to_owned();
        ["--tls-port", "0", "--tls-cert", &path("server.pem"), "--tls-key", &path("server.key")]
            .map(str::to_owned)
            .into()
    }
}

/// What redis-cli says over TLS if it trusts this certificate.
fn ask(cli: &Path, port: u16, trusted: &Path, words: &[&str]) -> Ended {
    let mut command = Command::new(cli);
    command.args(["-h", "localhost", "-p", &port.to_string(), "--tls", "--cacert"]).arg(trusted).args(words);
    run(&mut command)
}

fn tls_port(process: &mut Process) -> u16 {
    let line = process.await_line("larder server listens on ");
    let address = line.strip_suffix(", with TLS").unwrap_or_else(|| panic!("no TLS: {line}"));
    address.parse::<SocketAddr>().expect("an address").port()
}

#[test]
fn certificate_is_read_again_after_a_hangup_if_it_is_valid() {
    let Some(cli) = program("redis-cli") else { return };
    let files = Files::new();
    let first = files.path("first.pem");
    std::fs::copy(files.path("server.pem"), &first).expect("a copy");
    let mut server =
        Process::start(larder(["server", "--listen", "127.0.0.1:0", "--tls-only"]).args(files.flags()));
    let port = tls_port(&mut server);
    assert_eq!(ask(&cli, port, &first, &["PING"]).stdout, "PONG\n");

    files.write("server.pem", "no certificate");
    server.running().hang_up();
    until("a refusal", || server.stderr().contains("the old certificate stays").then_some(()));
    assert_eq!(ask(&cli, port, &first, &["PING"]).stdout, "PONG\n");

    files.renew();
    server.running().hang_up();
    until("the new one", || server.stderr().contains("the certificate was read again").then_some(()));
    assert_eq!(ask(&cli, port, &files.path("server.pem"), &["PING"]).stdout, "PONG\n");
    assert_ne!(ask(&cli, port, &first, &["PING"]).stdout, "PONG\n");
}

#[test]
fn certificate_of_all_parts_together_is_read_again_too() {
    let Some(cli) = program("redis-cli") else { return };
    let (files, data) = (Files::new(), tempfile::tempdir().expect("a temporary folder"));
    let path = |name| files.path(name).display().to_string();
    let config = format!(
        "[server]\ntls_port = 0\ntls_cert = {:?}\ntls_key = {:?}\n",
        path("server.pem"),
        path("server.key")
    );
    let mut up = Up::start_with(&data.path().join("data"), &config);
    let address: SocketAddr = up.encrypted.take().expect("a port with TLS");
    let first = files.path("first.pem");
    std::fs::copy(files.path("server.pem"), &first).expect("a copy");
    assert_eq!(ask(&cli, address.port(), &first, &["PING"]).stdout, "PONG\n");
    files.renew();
    up.process.running().hang_up();
    until("the new one", || up.process.stderr().contains("the certificate was read again").then_some(()));
    assert_eq!(ask(&cli, address.port(), &files.path("server.pem"), &["PING"]).stdout, "PONG\n");
    up.stop();
}

#[test]
fn key_that_others_can_read_is_refused_at_the_start() {
    let files = Files::new();
    let key = files.path("server.key");
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("its owner");
    let ended = run(larder(["server", "--listen", "127.0.0.1:0"]).args(files.flags()));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("tls_key") && ended.stderr.contains("chmod 600"), "{ended:?}");
}

#[test]
fn users_of_a_file_have_their_rights() {
    let Some(cli) = program("redis-cli") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("users.acl");
    std::fs::write(&file, "user default off\nuser reader on >secret ~public:* +get\n").expect("a file");
    let (_server, address) = start_server(["--aclfile", file.to_str().expect("text")]);
    let ask = |words: &[&str]| {
        let mut command = Command::new(&cli);
        command.args(["-p", &address.port().to_string()]).args(words);
        run(&mut command).stdout
    };
    assert!(ask(&["GET", "public:a"]).starts_with("NOAUTH "));
    let reader = ["--user", "reader", "--pass", "secret", "--no-auth-warning"];
    let as_reader = |words: &[&str]| ask(&[&reader[..], words].concat());
    assert_eq!(as_reader(&["GET", "public:a"]), "\n");
    assert!(as_reader(&["GET", "private:a"]).starts_with("NOPERM "));
    assert!(as_reader(&["SET", "public:a", "1"]).starts_with("NOPERM "));

    std::fs::write(&file, "user reader on >secret ~* unknown\n").expect("a file");
    let ended =
        run(&mut larder(["server", "--listen", "127.0.0.1:0", "--aclfile", file.to_str().expect("text")]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("unknown"), "{ended:?}");
}
