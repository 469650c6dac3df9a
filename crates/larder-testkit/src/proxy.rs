//! What both proxies have in common: a TCP port before a server, and two threads for each connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

/// In which direction bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

/// Forwards the bytes of a connection, or does not. Called from two threads, one for each direction.
pub(crate) trait Interceptor: Send + Sync + 'static {
    /// The state of one direction of one connection.
    type Side: Send + 'static;

    /// A connection is opened; `None` refuses it.
    fn connected(&self, number: usize) -> Option<[Self::Side; 2]>;

    /// Bytes arrived: sends those that may be forwarded. An error closes the connection.
    fn arrived(
        &self,
        connection: &Connection,
        direction: Direction,
        side: &mut Self::Side,
        bytes: &[u8],
    ) -> io::Result<()>;
}

/// One connection through the proxy.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) number: usize,
    client: TcpStream,
    server: UnixStream,
}

impl Connection {
    /// Forwards bytes.
    pub(crate) fn send(&self, direction: Direction, bytes: &[u8]) -> io::Result<()> {
        match direction {
            Direction::ToServer => (&self.server).write_all(bytes),
            Direction::ToClient => (&self.client).write_all(bytes),
        }
    }

    /// Closes the connection on both sides.
    pub(crate) fn cut(&self) {
        // Either side may have gone already.
        _ = self.client.shutdown(Shutdown::Both);
        _ = self.server.shutdown(Shutdown::Both);
    }
}

/// A port on the loopback, and the connections that were opened through it.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    ended: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<Weak<Connection>>>>,
}

impl Proxy {
    /// Listens, and connects each client to the server on a Unix socket.
    pub(crate) fn start<M: Interceptor>(server: PathBuf, interceptor: Arc<M>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound port").port();
        let (ended, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let proxy = Proxy { port, ended: ended.clone(), connections: connections.clone() };
        thread::spawn(move || {
            let numbers = AtomicUsize::new(0);
            for client in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(client) = client else { continue };
                let number = numbers.fetch_add(1, Ordering::SeqCst);
                // A refused connection, or a dead server, closes the client's socket by dropping it.
                let Some(sides) = interceptor.connected(number) else { continue };
                let Ok(server) = UnixStream::connect(&server) else { continue };
                _ = client.set_nodelay(true);
                let connection = Arc::new(Connection { number, client, server });
                let mut known = connections.lock().unwrap_or_else(PoisonError::into_inner);
                known.retain(|connection: &Weak<Connection>| connection.strong_count() > 0);
                known.push(Arc::downgrade(&connection));
                drop(known);
                for (direction, side) in [Direction::ToServer, Direction::ToClient].into_iter().zip(sides) {
                    let (connection, interceptor) = (connection.clone(), interceptor.clone());
                    thread::spawn(move || carry(&connection, &*interceptor, direction, side));
                }
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The connections that are open.
    pub(crate) fn connections(&self) -> Vec<Arc<Connection>> {
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.connections().iter().for_each(|connection| connection.cut());
        // Wakes the thread that accepts.
        _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn carry<M: Interceptor>(connection: &Connection, interceptor: &M, direction: Direction, mut side: M::Side) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = match direction {
            Direction::ToServer => (&connection.client).read(&mut buffer),
            Direction::ToClient => (&connection.server).read(&mut buffer),
        };
        let Ok(length @ 1..) = read else { break };
        if interceptor.arrived(connection, direction, &mut side, &buffer[..length]).is_err() {
            break;
        }
    }
    connection.cut();
}
