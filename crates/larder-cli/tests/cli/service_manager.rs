//! What systemd and the program say to each other: messages over `NOTIFY_SOCKET`, and sockets that it has opened.

use crate::http::get;
use crate::process::{Ended, FREE, Process, larder, run};
use crate::resp::command;
use larder_testkit::{PATIENCE, program, until};
use std::fs::Permissions;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A service manager that only listens.
struct Manager {
    socket: UnixDatagram,
    folder: TempDir,
}

impl Manager {
    fn new() -> Manager {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        Manager { socket, folder }
    }

    fn start(&self, command: &mut Command) -> Process {
        Process::start(command.env("NOTIFY_SOCKET", self.folder.path().join("notify")))
    }

    /// The next message.
    #[track_caller]
    fn hears(&self) -> String {
        let mut message = [0; 512];
        let length = self.socket.recv(&mut message).expect("a message in time");
        String::from_utf8(message[..length].to_vec()).expect("text")
    }
}

#[test]
fn service_manager_hears_of_start_reload_and_stop_in_this_order() {
    for part in ["server", "proxy", "links", "up"] {
        let manager = Manager::new();
        let data = manager.folder.path().join("data");
        let database = format!("sqlite:{}", data.join("links.db").display());
        let mut command = larder([part]);
        match part {
            "server" => command.args(["--listen", FREE]),
            "proxy" => command.args(["--listen", FREE, "--origin", "http://127.0.0.1:1"]),
            "links" => command.args(["--listen", FREE, "--database", &database]),
            _ => command.args(["--resp", FREE, "--http", FREE, "--admin", FREE, "--data"]).arg(&data),
        };
        let mut process = manager.start(&mut command);
        assert_eq!(manager.hears(), "READY=1\n", "{part}");

        process.running().hang_up();
        let reloading = manager.hears();
        let time =
            reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|rest| rest.strip_suffix('\n'));
        let time: Option<u64> = time.and_then(|time| time.parse().ok());
        assert!(time.is_some_and(|time| time > 0), "{part}: {reloading:?}");
        assert_eq!(manager.hears(), "READY=1\n", "{part}");

        process.running().terminate();
        assert_eq!(manager.hears(), "STOPPING=1\n", "{part}");
        process.end().assert_clean_stop();
    }
}

#[test]
fn ready_server_serves_and_reload_ends_after_the_certificate_is_read() {
    let Some(certificate) = Certificate::new() else { return };
    let manager = Manager::new();
    let mut flags = vec!["server".to_owned(), format!("--listen={FREE}"), "--tls-port=0".to_owned()];
    flags.extend(certificate.flags());
    let mut process = manager.start(&mut larder(flags));
    assert_eq!(manager.hears(), "READY=1\n");
    let address = process.await_line("larder server listens on ").parse().expect("an address");
    assert_eq!(command(address, "PING"), "+PONG");

    std::fs::write(certificate.chain(), "no certificate").expect("the file can be written");
    process.running().hang_up();
    assert!(manager.hears().starts_with("RELOADING=1\n"));
    assert_eq!(manager.hears(), "READY=1\n");
    assert!(process.stderr().contains("the old certificate stays: "), "{}", process.stderr());
}

/// Systemd gives a service access to a key by a list, which the mode shows as a right of the group.
#[test]
fn key_that_its_group_may_read_is_refused_unless_it_is_a_credential() {
    let Some(certificate) = Certificate::new() else { return };
    std::fs::set_permissions(certificate.key(), Permissions::from_mode(0o440)).expect("the mode is set");
    let mut flags = vec!["server".to_owned(), format!("--listen={FREE}"), "--tls-port=0".to_owned()];
    flags.extend(certificate.flags());
    let refused = run(larder(&flags).env_remove("CREDENTIALS_DIRECTORY"));
    assert!(refused.code == Some(1) && refused.stderr.contains("the mode is 0440"), "{refused:?}");
    let mut process = Process::start(larder(&flags).env("CREDENTIALS_DIRECTORY", certificate.0.path()));
    process.await_line("larder server listens on ");
    process.running().terminate();
    process.end().assert_clean_stop();
}

#[test]
fn server_serves_the_sockets_that_systemd_has_opened() {
    let Some((certificate, cli)) = Certificate::new().zip(program("redis-cli")) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("socket");
    let flags = [vec!["server".to_owned(), "--tls-port=1".to_owned()], certificate.flags()].concat();
    let Some(activated) = Activated::start(&flags, &["plain", "tls", "unix"], Some(&path)) else { return };
    let [plain, tls] = activated.ports[..] else { panic!("two ports: {:?}", activated.ports) };
    let (plain, tls, file) = (plain.to_string(), tls.to_string(), path.display().to_string());
    let chain = certificate.chain().display().to_string();
    // The first connection starts the server.
    for to in [&["-p", &plain][..], &["-s", &file], &["-p", &tls, "--tls", "--cacert", &chain]] {
        let ended = run(Command::new(&cli).args(to).arg("PING"));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "PONG\n"), "{to:?}: {ended:?}");
    }
    let ended = activated.stop();
    let expected = format!(
        "larder server listens on 127.0.0.1:{plain}\nlarder server listens on 127.0.0.1:{tls}, with TLS\n\
         larder server listens on {file}\n"
    );
    assert_eq!(ended.stdout, expected);
    assert!(path.exists(), "the socket is the service manager's, which goes on to listen");
}

#[test]
fn proxy_serves_the_socket_that_systemd_has_opened() {
    let flags = ["proxy", "--origin", "http://127.0.0.1:1"].map(str::to_owned);
    let Some(activated) = Activated::start(&flags, &["http"], None) else { return };
    let address = activated.address(0);
    assert_eq!(get(address, "/").status, 502);
    let ended = activated.stop();
    assert!(ended.stdout.starts_with(&format!("larder proxy listens on http://{address}/\n")), "{ended:?}");
}

#[test]
fn sockets_that_do_not_fit_the_options_are_refused() {
    let refused = |flags: &[&str], names: &[&str], unix: Option<&Path>| {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let activated = Activated::start(&flags, names, unix)?;
        drop(TcpStream::connect(activated.address(0)).expect("systemd listens"));
        Some(activated.process.end())
    };
    let Some(ended) = refused(&["server", "--unixsocket=/nowhere"], &["a"], None) else { return };
    let error = "larder server: unixsocket is set, but the service manager has opened no such socket";
    assert_failure(&ended, error);

    let ended = refused(&["server"], &["a", "b"], None).expect("the program is there");
    let error = "larder server: LISTEN_FDS: socket 4 (b): there is another one: at most one TCP socket, one with the name \
                 tls, and one Unix socket";
    assert_failure(&ended, error);

    let ended = refused(&["server"], &["a", "tls"], None).expect("the program is there");
    assert_failure(&ended, "larder server: tls_port: it needs tls_cert, which is missing");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("socket");
    let proxy = ["proxy", "--origin", "http://127.0.0.1:1"];
    let ended = refused(&proxy, &["a", "b"], Some(&path)).expect("the program is there");
    assert_failure(&ended, "larder proxy: LISTEN_FDS: expected one TCP socket, and no Unix socket");
}

/// Beyond loopback the server needs a password, also on a socket that somebody else has opened.
#[test]
fn socket_beyond_loopback_needs_a_password() {
    let flags = ["server".to_owned()];
    let Some(activated) = Activated::start_at("0.0.0.0", &flags, &["a"], None) else { return };
    drop(TcpStream::connect(activated.address(0)).expect("systemd listens"));
    let port = activated.ports[0];
    let ended = activated.process.end();
    let error = format!("larder server: refusing to listen on 0.0.0.0:{port} without a password: ");
    assert!(ended.code == Some(1) && ended.stderr.contains(&error), "{ended:?}");
}

#[track_caller]
fn assert_failure(ended: &Ended, error: &str) {
    assert_eq!((ended.code, ended.stderr.lines().last()), (Some(1), Some(error)), "{ended:?}");
}

/// The program behind systemd-socket-activate, which becomes it at the first connection.
struct Activated {
    process: Process,
    ports: Vec<u16>,
}

impl Activated {
    /// Listens on free ports of this machine and, for the last of the names, on a path if there is one.
    fn start(flags: &[String], names: &[&str], unix: Option<&Path>) -> Option<Activated> {
        Activated::start_at("127.0.0.1", flags, names, unix)
    }

    fn start_at(host: &str, flags: &[String], names: &[&str], unix: Option<&Path>) -> Option<Activated> {
        let activate = program("systemd-socket-activate")?;
        // Another process may take a port before systemd does.
        let mut attempts = (0..10).map(|_| {
            let count = names.len() - usize::from(unix.is_some());
            let ports: Vec<u16> = free_ports(count);
            let mut command = Command::new(&activate);
            for port in &ports {
                command.arg(format!("--listen={host}:{port}"));
            }
            command.args(unix.map(|path| format!("--listen={}", path.display())));
            command.arg(format!("--fdname={}", names.join(":")));
            let mut process = Process::start(command.arg(env!("CARGO_BIN_EXE_larder")).args(flags));
            let listens = until("systemd listens or has ended", || {
                let has_ended =
                    process.running().child().try_wait().expect("a child can be waited for").is_some();
                let listens = process.stderr().matches("Listening on ").count() == names.len();
                (listens || has_ended).then_some(listens)
            });
            listens.then_some(Activated { process, ports })
        });
        Some(attempts.find_map(|attempt| attempt).expect("systemd listens on free ports"))
    }

    fn address(&self, index: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[index]))
    }

    fn stop(mut self) -> Ended {
        self.process.running().terminate();
        self.process.end().assert_clean_stop()
    }
}

/// Different ports that nobody uses at the moment.
fn free_ports(count: usize) -> Vec<u16> {
    let bound: Vec<_> = (0..count).map(|_| TcpListener::bind(FREE).expect("a free port")).collect();
    bound.iter().map(|listener| listener.local_addr().expect("an address").port()).collect()
}

/// A certificate of 127.0.0.1 that has signed itself.
struct Certificate(TempDir);

impl Certificate {
    fn new() -> Option<Certificate> {
        let mut openssl = Command::new(program("openssl")?);
        let certificate = Certificate(tempfile::tempdir().expect("a temporary folder"));
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        openssl.args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
        openssl.arg("-keyout").arg(certificate.key()).arg("-out").arg(certificate.chain());
        let ended = run(&mut openssl);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        Some(certificate)
    }

    fn chain(&self) -> PathBuf {
        self.0.path().join("chain.pem")
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }

    fn flags(&self) -> Vec<String> {
        let flag = |name, path: PathBuf| format!("--tls-{name}={}", path.display());
        vec![flag("cert", self.chain()), flag("key", self.key())]
    }
}
