//! The least that a server can do: one thread, `epoll`, and constant replies. The distance to it is the cost of parsing
//! requests, of the cache and of the rest of a server.

use anyhow::Result;
use clap::Args;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// The bytes of the value that it answers.
pub(super) const VALUE_BYTES: usize = 64;

/// The key of the listener; the keys of connections are their file descriptors.
const LISTENER: u64 = u64::MAX;
const READ_BYTES: usize = 64 << 10;
const EVENTS: usize = 1024;

/// Flags of the hidden command `bare-loop`.
#[derive(Debug, Args)]
pub struct BareLoopArgs {
    /// The address to listen on.
    listen: SocketAddr,
}

/// Serves until the process is killed.
pub(crate) fn run_bare_loop(args: &BareLoopArgs) -> Result<()> {
    serve(&TcpListener::bind(args.listen)?)
}

/// Answers each request of each connection: the constant value to `GET`, `OK` to anything else. A request is recognised
/// by its first byte alone, `*`, so arguments must not contain that byte.
fn serve(listener: &TcpListener) -> Result<()> {
    let value = format!("${VALUE_BYTES}\r\n{}\r\n", "x".repeat(VALUE_BYTES)).into_bytes();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut streams: HashMap<u64, TcpStream> = HashMap::new();
    let mut events = Vec::with_capacity(EVENTS);
    let (mut input, mut output) = (vec![0; READ_BYTES], Vec::new());
    loop {
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            let key = event.data.u64();
            if key == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let key = stream.as_raw_fd() as u64;
                epoll::add(&epoll, &stream, epoll::EventData::new_u64(key), epoll::EventFlags::IN)?;
                streams.insert(key, stream);
                continue;
            }
            let Some(stream) = streams.get(&key) else { continue };
            let received = match recv(stream, &mut input[..], RecvFlags::empty()) {
                Ok((length @ 1.., _)) => &input[..length],
                _ => {
                    // Closing it removes it from the poll.
                    streams.remove(&key);
                    continue;
                }
            };
            let reply: &[u8] = match received.get(8..11) {
                Some(name) if name.eq_ignore_ascii_case(b"get") => &value,
                _ => b"+OK\r\n",
            };
            output.clear();
            received.iter().filter(|byte| **byte == b'*').for_each(|_| output.extend_from_slice(reply));
            let mut rest = &output[..];
            while !rest.is_empty()
                && let Ok(sent @ 1..) = send(stream, rest, SendFlags::NOSIGNAL)
            {
                rest = &rest[sent..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn every_request_of_a_pipeline_is_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std::thread::spawn(move || serve(&listener));
        stream.write_all(&b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(3)).unwrap();
        let mut replies = vec![0; 3 * (VALUE_BYTES + 7)];
        stream.read_exact(&mut replies).unwrap();
        assert!(replies.starts_with(b"$64\r\nxx") && replies.ends_with(b"xx\r\n"));
        stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n").unwrap();
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+OK\r\n");
    }
}
