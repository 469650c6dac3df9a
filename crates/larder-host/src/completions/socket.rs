//! A notice as a socket that becomes readable, which the event loop of a host watches.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;

/// The end that the host's event loop watches for reading. A forked child shares it with its parent: it makes another pair.
#[derive(Debug)]
pub struct NoticeSocket(UnixStream);

/// The end that makes it readable.
#[derive(Debug)]
pub struct NoticeSender(UnixStream);

/// A pair of connected ends, closed on `exec`. Neither blocks.
///
/// # Errors
/// If the process may open no further files.
///
/// # Examples
/// ```
/// use larder_host::{Completions, notice_socket};
///
/// let runtime = tokio::runtime::Runtime::new()?;
/// let (socket, sender) = notice_socket()?;
/// let completions = Completions::new(runtime.handle().clone(), move || sender.send());
/// completions.start("promise", async {}).expect("it has not ended");
/// // The event loop: when the socket is readable, first clear it, then take.
/// loop {
///     socket.clear();
///     if !completions.take().is_empty() {
///         break;
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn notice_socket() -> io::Result<(NoticeSocket, NoticeSender)> {
    let (watched, sender) = UnixStream::pair()?;
    watched.set_nonblocking(true)?;
    sender.set_nonblocking(true)?;
    Ok((NoticeSocket(watched), NoticeSender(sender)))
}

impl NoticeSender {
    /// Makes the socket readable. Where its buffer is full it is readable already.
    pub fn send(&self) {
        while (&self.0).write(&[1]).is_err_and(|error| error.kind() == ErrorKind::Interrupted) {}
    }
}

impl NoticeSocket {
    /// Reads the notices that have come. Call it *before* [`Completions::take`](super::Completions::take): what ends between
    /// the two is taken, and what ends after them makes the socket readable again.
    pub fn clear(&self) {
        let mut notices = [0; 64];
        loop {
            match (&self.0).read(&mut notices) {
                Ok(read) if read == notices.len() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }
}

impl AsFd for NoticeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for NoticeSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
