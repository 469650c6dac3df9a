//! The acceptor: hands each new connection to the thread that serves the fewest.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};

use crate::listener::Socket;
use crate::shared::Shared;
use crate::worker::{Worker, reject};

/// First pause after a failed accept, as when file descriptors have run out; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Accepts for ever.
pub(crate) async fn accept(
    tcp: Option<TcpListener>,
    unix: Option<UnixListener>,
    shared: Arc<Shared>,
    workers: &[Worker],
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let next = tokio::select! {
            socket = next_tcp(tcp.as_ref(), &shared) => socket,
            socket = next_unix(unix.as_ref()) => socket,
        };
        match next {
            Ok(socket) => {
                pause = FIRST_PAUSE;
                place(socket, &shared, workers);
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, pause_ms = pause.as_millis() as u64, "cannot accept connections");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn next_tcp(listener: Option<&TcpListener>, shared: &Shared) -> io::Result<Socket> {
    match listener {
        Some(listener) => {
            let (stream, _) = listener.accept().await?;
            Socket::tcp(stream.into_std()?, shared.config.tcp_keepalive_secs)
        }
        None => std::future::pending().await,
    }
}

async fn next_unix(listener: Option<&UnixListener>) -> io::Result<Socket> {
    match listener {
        Some(listener) => Ok(Socket::Unix(listener.accept().await?.0.into_std()?)),
        None => std::future::pending().await,
    }
}

fn place(socket: Socket, shared: &Shared, workers: &[Worker]) {
    if shared.stats.connections() >= shared.max_clients() as u64 {
        shared.stats.rejected.add(1);
        return reject(socket);
    }
    if let Some(worker) = workers.iter().min_by_key(|worker| worker.connections()) {
        shared.stats.accepted.add(1);
        worker.adopt(socket);
    }
}

/// Whether the peer was gone before it was accepted: no reason to pause.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, InvalidInput, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | NotConnected | InvalidInput)
}
