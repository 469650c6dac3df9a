//! The service manager, such as systemd: the sockets that it has opened for this process, and what it hears of the process. A
//! process that nobody manages has no such sockets and tells nobody.

use anyhow::{Context, Result, bail, ensure};
use rustix::net::{AddressFamily, SocketType, sockopt};
use sd_notify::NotifyState;
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;

/// The name of a TCP socket whose connections have TLS, beside a plain one.
const TLS: &str = "tls";

/// Whether there is one that wants to hear of the process.
pub(crate) fn is_present() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// A stop of which the service manager hears. Whoever serves polls it first when it accepts connections: the process is ready
/// then. It stops when `stop` completes.
pub(crate) async fn announced(stop: impl Future<Output = ()>) {
    tell(&[NotifyState::Ready]);
    stop.await;
    tell(&[NotifyState::Stopping]);
}

/// Reads files again, between the messages that say so.
pub(crate) fn reload(read: impl FnOnce()) {
    // Without the time, which every system has, a service manager takes the message for that of an earlier request.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
    read();
    tell(&[NotifyState::Ready]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told of the state of the process");
    }
}

/// The sockets that the service manager has opened: at most one of each kind.
#[derive(Debug, Default)]
pub(crate) struct PassedSockets {
    pub(crate) tcp: Option<TcpListener>,
    /// The TCP socket of the name `tls`.
    pub(crate) tls: Option<TcpListener>,
    pub(crate) unix: Option<UnixListener>,
}

impl PassedSockets {
    /// Takes the sockets, if there are any. Only the first call gets them.
    pub(crate) fn take() -> Result<Option<PassedSockets>> {
        let mut passed = PassedSockets::default();
        let sockets = sd_notify::listen_fds_with_names().context("cannot take the sockets of LISTEN_FDS")?;
        let count = sockets.len();
        for (number, name) in sockets {
            // SAFETY: the variables say that the socket was opened for this process, and it is open: it has just been asked
            // to be closed in child processes. Nothing else knows its number.
            let socket = unsafe { OwnedFd::from_raw_fd(number) };
            passed.add(socket, &name).with_context(|| format!("LISTEN_FDS: socket {number} ({name})"))?;
        }
        Ok((count > 0).then_some(passed))
    }

    fn add(&mut self, socket: OwnedFd, name: &str) -> Result<()> {
        let is_stream = sockopt::socket_type(&socket).context("no socket")? == SocketType::STREAM;
        ensure!(is_stream && sockopt::socket_acceptconn(&socket)?, "it does not listen for connections");
        let is_first = match sockopt::socket_domain(&socket)? {
            AddressFamily::UNIX => self.unix.replace(socket.into()).is_none(),
            AddressFamily::INET | AddressFamily::INET6 if name == TLS => {
                self.tls.replace(socket.into()).is_none()
            }
            AddressFamily::INET | AddressFamily::INET6 => self.tcp.replace(socket.into()).is_none(),
            other => bail!("its address family is {}, expected IP or Unix", other.as_raw()),
        };
        ensure!(
            is_first,
            "there is another one: at most one TCP socket, one with the name {TLS}, and one Unix socket"
        );
        Ok(())
    }

    /// The only TCP socket, for a part that serves no other.
    pub(crate) fn only_tcp(self) -> Result<TcpListener> {
        match self {
            PassedSockets { tcp: Some(listener), tls: None, unix: None }
            | PassedSockets { tcp: None, tls: Some(listener), unix: None } => {
                listener.set_nonblocking(true)?;
                Ok(listener)
            }
            _ => bail!("LISTEN_FDS: expected one TCP socket, and no Unix socket"),
        }
    }
}
