//! Servers on free ports, and blocking clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::JoinHandle;

use larder_resp::{Frame, Limits, Progress, Protocol, ReplyParser};
use larder_server::{CertificateHandle, Config, Server, ServerError, StatsHandle, Store};
use larder_testkit::{Deadline, PATIENCE};
use tokio::sync::oneshot;

/// A running server. It stops when it is dropped.
pub(crate) struct TestServer {
    config: Config,
    address: Option<SocketAddr>,
    tls_address: Option<SocketAddr>,
    certificate: Option<CertificateHandle>,
    stats: StatsHandle,
    store: Store,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _deadline: Deadline,
}

impl TestServer {
    pub(crate) fn start() -> TestServer {
        TestServer::with(Config::default())
    }

    /// A server with this configuration, on a free port.
    pub(crate) fn with(config: Config) -> TestServer {
        let max_memory = config.max_memory.map_or(64 << 20, |size| size.0);
        TestServer::with_store(config, Store::new(Some(max_memory)).unwrap())
    }

    /// A server with this configuration and keyspace, on a free port.
    pub(crate) fn with_store(config: Config, store: Store) -> TestServer {
        let listen = Some("127.0.0.1:0".parse().unwrap());
        TestServer::bind(Config { listen, ..config }, store)
    }

    /// A server with this configuration at its address, whose port may be 0.
    pub(crate) fn at(config: Config) -> TestServer {
        TestServer::bind(config, Store::new(Some(64 << 20)).unwrap())
    }

    /// A server with this configuration that others on the network can connect to, on a free port.
    pub(crate) fn exposed(config: Config) -> TestServer {
        let listen = Some("0.0.0.0:0".parse().unwrap());
        TestServer::bind(Config { listen, ..config }, Store::new(Some(64 << 20)).unwrap())
    }

    fn bind(config: Config, store: Store) -> TestServer {
        let server = Server::bind_with(config.clone(), store).unwrap();
        let (address, stats, store) = (server.local_addr(), server.stats_handle(), server.store());
        let (tls_address, certificate) = (server.tls_addr(), server.certificate_handle());
        let (shutdown, shutdown_requested) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(server.run(async { shutdown_requested.await.unwrap_or(()) })).unwrap();
        });
        let _deadline = Deadline::start();
        let (shutdown, thread) = (Some(shutdown), Some(thread));
        TestServer { config, address, tls_address, certificate, stats, store, shutdown, thread, _deadline }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address.expect("it listens without TLS")
    }

    pub(crate) fn tls_address(&self) -> SocketAddr {
        self.tls_address.expect("it listens with TLS")
    }

    /// Reads the certificate again.
    pub(crate) fn reload(&self) -> Result<(), ServerError> {
        self.certificate.as_ref().expect("it has a certificate").reload()
    }

    pub(crate) fn stats(&self) -> &StatsHandle {
        &self.stats
    }

    pub(crate) fn store(&self) -> Store {
        self.store.clone()
    }

    pub(crate) fn connect(&self) -> Client<TcpStream> {
        connect(self.address())
    }

    /// A connection with this protocol version.
    pub(crate) fn connect_as(&self, protocol: Protocol) -> Client<TcpStream> {
        let mut client = self.connect();
        let version = protocol.version().to_string();
        assert!(!matches!(client.call(&["HELLO", &version]), Frame::Error(_)));
        client
    }

    /// Stops the server, and starts one with the same configuration at the same address, which is empty.
    pub(crate) fn restart(&mut self) {
        self.end();
        let listen = Some(self.address());
        *self = TestServer::at(Config { listen, ..self.config.clone() });
    }

    /// Stops the server and waits for its end.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(shutdown) = self.shutdown.take() {
            let _ = shutdown.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the server panicked");
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// A blocking connection.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
    parser: ReplyParser,
}

/// A connection to a server at this address.
pub(crate) fn connect(address: SocketAddr) -> Client<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Client::new(stream)
}

/// A connection to a Unix socket.
pub(crate) fn connect_unix(path: &Path) -> std::io::Result<Client<UnixStream>> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(Client::new(stream))
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Client { stream, buffer: Vec::new(), parser: ReplyParser::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next reply.
    pub(crate) fn receive(&mut self) -> Frame {
        self.try_receive().unwrap().expect("the server has closed the connection")
    }

    /// The next reply; `None` if the connection is closed.
    pub(crate) fn try_receive(&mut self) -> std::io::Result<Option<Frame>> {
        loop {
            let limits = Limits::default();
            if let Progress::Complete { consumed, frame } = self.parser.parse(&self.buffer, &limits).unwrap()
            {
                self.buffer.drain(..consumed);
                return Ok(Some(frame));
            }
            let mut chunk = [0; 16 << 10];
            match self.stream.read(&mut chunk)? {
                0 => return Ok(None),
                n => self.buffer.extend_from_slice(&chunk[..n]),
            }
        }
    }

    /// The replies up to one, which is the last of them.
    pub(crate) fn receive_until(&mut self, is_last: impl Fn(&Frame) -> bool) -> Vec<Frame> {
        let mut replies = vec![self.receive()];
        while !replies.last().is_some_and(&is_last) {
            replies.push(self.receive());
        }
        replies
    }

    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Frame {
        self.send(&encode(args));
        self.receive()
    }

    /// All bytes before `end`, which must be the last bytes that the server sends.
    pub(crate) fn read_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut chunk = [0; 16 << 10];
        while !self.buffer.ends_with(end) {
            let n = self.stream.read(&mut chunk).unwrap_or_else(|error| {
                let (end, buffer) = (end.escape_ascii(), self.buffer.escape_ascii());
                panic!("{end} did not arrive: {error}; received so far: {buffer}")
            });
            assert_ne!(n, 0, "connection closed after {}", self.buffer.escape_ascii());
            self.buffer.extend_from_slice(&chunk[..n]);
        }
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.truncate(bytes.len() - end.len());
        bytes
    }

    /// What `MEMORY USAGE` says of a key.
    pub(crate) fn memory_usage(&mut self, key: &str) -> u64 {
        match self.call(&["MEMORY", "USAGE", key]) {
            Frame::Integer(bytes) => bytes as u64,
            reply => panic!("{reply:?}"),
        }
    }

    /// What all entries are charged together, without the overhead that is measured from time to time.
    pub(crate) fn charged_memory(&mut self) -> u64 {
        let Frame::Array(fields) = self.call(&["MEMORY", "STATS"]) else { panic!("an array") };
        let is_name = |field: &Frame| field.as_bytes() == Some(b"dataset.bytes");
        match fields.iter().position(is_name).and_then(|at| fields.get(at + 1)) {
            Some(Frame::Integer(bytes)) => *bytes as u64,
            other => panic!("{other:?}"),
        }
    }

    /// All bytes until the server closes or resets the connection.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.buffer);
        let mut chunk = [0; 16 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return bytes,
                Ok(n) => bytes.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return bytes,
                Err(error) => panic!("the server does not close: {error}"),
            }
        }
    }
}

/// A request as an array of bulk strings.
pub(crate) fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}
