//! A proxy before a server that makes one node deaf, or makes it take all announcements for its own. It proves that the checker
//! notices.

use larder_testkit::RedisServer;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Which point the proxy breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgery {
    /// The node subscribes to a channel on which nobody announces anything. Its heartbeats are answered.
    Deaf,
    /// Every announcement that it gets has its own origin, as if its process had inherited that from its sibling's parent.
    SameOrigin,
}

/// The channel on which nodes announce, and one of the same length on which nobody does.
const CHANNEL: &[u8] = b"chaos::news:0\r\n";
const OTHER: &[u8] = b"chaos::news:9\r\n";
/// Where the origin is in an announcement: behind its version and its kind.
const ORIGIN: std::ops::Range<usize> = 2..18;
/// The origin of what a node announces while it tries out what the server has.
const NOBODY: [u8; 16] = [0; 16];

/// The origin of the node, once it has announced something.
type Origin = Arc<Mutex<Option<[u8; 16]>>>;

/// Listens before a server until the test process ends, and returns the address for the node.
pub(crate) fn forge(server: &RedisServer, forgery: Forgery) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("a bound port").port();
    let (server, origin): (PathBuf, Origin) = (server.socket(), Arc::default());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = UnixStream::connect(&server) else { continue };
            let (back, forth) = (client.try_clone(), server.try_clone());
            let (Ok(to_client), Ok(to_server)) = (back, forth) else { continue };
            let (of_requests, of_pushes) = (origin.clone(), origin.clone());
            thread::spawn(move || carry(client, to_server, |bytes| forgery.requests(bytes, &of_requests)));
            thread::spawn(move || carry(server, to_client, |bytes| forgery.replies(bytes, &of_pushes)));
        }
    });
    format!("redis://127.0.0.1:{port}")
}

/// Forwards bytes in one direction. What is forged is short and sent at once, so it is in one piece.
fn carry(mut from: impl Read, mut to: impl Write, forge: impl Fn(&mut [u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        forge(&mut buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}

impl Forgery {
    fn requests(self, bytes: &mut [u8], origin: &Origin) {
        match self {
            // Only where it subscribes: what it announces itself is heard.
            Forgery::Deaf => {
                if let Some(at) = find(bytes, b"\r\nSUBSCRIBE\r\n") {
                    replace(&mut bytes[at..], CHANNEL, OTHER);
                }
            }
            Forgery::SameOrigin => for_each_origin(bytes, |own| {
                let own: Option<[u8; 16]> = (&*own).try_into().ok();
                if let Some(own) = own.filter(|own| *own != NOBODY) {
                    *origin.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
                }
            }),
        }
    }

    fn replies(self, bytes: &mut [u8], origin: &Origin) {
        match self {
            Forgery::Deaf => replace(bytes, OTHER, CHANNEL),
            Forgery::SameOrigin => {
                if let Some(own) = *origin.lock().unwrap_or_else(PoisonError::into_inner) {
                    for_each_origin(bytes, |foreign| foreign.copy_from_slice(&own));
                }
            }
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn replace(bytes: &mut [u8], what: &[u8], by: &[u8]) {
    let mut from = 0;
    while let Some(at) = find(&bytes[from..], what) {
        bytes[from + at..][..what.len()].copy_from_slice(by);
        from += at + what.len();
    }
}

/// The origin in each announcement: behind the channel there is the length of the message, and the message.
fn for_each_origin(bytes: &mut [u8], mut act: impl FnMut(&mut [u8])) {
    let mut from = 0;
    while let Some(at) = find(&bytes[from..], CHANNEL) {
        from += at + CHANNEL.len();
        let Some(line) = find(&bytes[from..], b"\r\n") else { return };
        let message = from + line + 2;
        if bytes.get(from) == Some(&b'$') && bytes.len() >= message + ORIGIN.end {
            act(&mut bytes[message + ORIGIN.start..message + ORIGIN.end]);
        }
    }
}
