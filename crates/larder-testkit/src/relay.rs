//! The plumbing of everything that stands between clients and a server: a TCP port, and two threads a connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

/// Decides what becomes of the bytes of a connection. Called from two threads, one for each way.
pub(crate) trait Middle: Send + Sync + 'static {
    /// What one direction of one connection remembers.
    type Side: Send + 'static;

    /// A connection begins; `None` refuses it.
    fn connected(&self, connection: usize) -> Option<[Self::Side; 2]>;

    /// Bytes arrived: passes on what may go. An error ends the connection.
    fn arrived(&self, link: &Link, way: Way, side: &mut Self::Side, bytes: &[u8]) -> io::Result<()>;
}

/// One connection through the relay.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) number: usize,
    client: TcpStream,
    server: UnixStream,
}

impl Link {
    /// Sends bytes on.
    pub(crate) fn send(&self, way: Way, bytes: &[u8]) -> io::Result<()> {
        match way {
            Way::ToServer => (&self.server).write_all(bytes),
            Way::ToClient => (&self.client).write_all(bytes),
        }
    }

    /// Ends the connection on both sides.
    pub(crate) fn cut(&self) {
        // Either side may have gone already.
        _ = self.client.shutdown(Shutdown::Both);
        _ = self.server.shutdown(Shutdown::Both);
    }
}

/// A port of its own on the loopback, and the connections that came through it.
#[derive(Debug)]
pub(crate) struct Relay {
    port: u16,
    ended: Arc<AtomicBool>,
    links: Arc<Mutex<Vec<Weak<Link>>>>,
}

impl Relay {
    /// Listens, and passes on to the server on a Unix socket.
    pub(crate) fn start<M: Middle>(server: PathBuf, middle: Arc<M>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound port").port();
        let (ended, links) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let relay = Relay { port, ended: ended.clone(), links: links.clone() };
        thread::spawn(move || {
            let numbers = AtomicUsize::new(0);
            for client in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(client) = client else { continue };
                let number = numbers.fetch_add(1, Ordering::SeqCst);
                // A refused connection, or a dead server, closes the client's socket by dropping it.
                let Some(sides) = middle.connected(number) else { continue };
                let Ok(server) = UnixStream::connect(&server) else { continue };
                _ = client.set_nodelay(true);
                let link = Arc::new(Link { number, client, server });
                let mut known = links.lock().unwrap_or_else(PoisonError::into_inner);
                known.retain(|link: &Weak<Link>| link.strong_count() > 0);
                known.push(Arc::downgrade(&link));
                drop(known);
                for (way, side) in [Way::ToServer, Way::ToClient].into_iter().zip(sides) {
                    let (link, middle) = (link.clone(), middle.clone());
                    thread::spawn(move || carry(&link, &*middle, way, side));
                }
            }
        });
        relay
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The connections that are open.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.links().iter().for_each(|link| link.cut());
        // Wakes the thread that accepts.
        _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn carry<M: Middle>(link: &Link, middle: &M, way: Way, mut side: M::Side) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = match way {
            Way::ToServer => (&link.client).read(&mut buffer),
            Way::ToClient => (&link.server).read(&mut buffer),
        };
        let Ok(length @ 1..) = read else { break };
        if middle.arrived(link, way, &mut side, &buffer[..length]).is_err() {
            break;
        }
    }
    link.cut();
}
