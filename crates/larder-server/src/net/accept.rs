//! The acceptor: passes each new connection to a thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};

use super::listener::Socket;
use super::worker::Workers;
use crate::state::ServerState;

/// The pause after a failed accept, for example without free file descriptors. It doubles with each failure.
const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Accepts connections; never returns.
pub(crate) async fn accept(
    tcp: Option<TcpListener>,
    tls: Option<TcpListener>,
    unix: Option<UnixListener>,
    state: Arc<ServerState>,
    workers: &Workers,
) {
    let mut pause = MIN_PAUSE;
    loop {
        let next = tokio::select! {
            socket = next_tcp(tcp.as_ref(), &state) => socket,
            socket = next_tls(tls.as_ref(), &state) => socket,
            socket = next_unix(unix.as_ref()) => socket,
        };
        match next {
            Ok(socket) => {
                pause = MIN_PAUSE;
                assign(socket, &state, workers);
            }
            Err(error) if is_peer_error(&error) => {}
            Err(error) => {
                tracing::warn!(%error, pause_ms = pause.as_millis() as u64, "cannot accept connections");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }
}

async fn next_tcp(listener: Option<&TcpListener>, state: &ServerState) -> io::Result<Socket> {
    match listener {
        Some(listener) => {
            let (stream, _) = listener.accept().await?;
            Socket::tcp(stream.into_std()?, state.config.tcp_keepalive_secs)
        }
        None => std::future::pending().await,
    }
}

#[cfg(feature = "tls")]
async fn next_tls(listener: Option<&TcpListener>, state: &ServerState) -> io::Result<Socket> {
    match listener.zip(state.certificate.as_ref()) {
        Some((listener, certificate)) => {
            let (stream, _) = listener.accept().await?;
            Socket::tls(stream.into_std()?, state.config.tcp_keepalive_secs, certificate.current())
        }
        None => std::future::pending().await,
    }
}

#[cfg(not(feature = "tls"))]
async fn next_tls(_: Option<&TcpListener>, _: &ServerState) -> io::Result<Socket> {
    std::future::pending().await
}

async fn next_unix(listener: Option<&UnixListener>) -> io::Result<Socket> {
    match listener {
        Some(listener) => Socket::unix(listener.accept().await?.0.into_std()?),
        None => std::future::pending().await,
    }
}

fn assign(socket: Socket, state: &ServerState, workers: &Workers) {
    if state.stats.connections() >= state.max_clients() as u64 {
        state.stats.rejected.add(1);
        return reject(socket);
    }
    state.stats.accepted.add(1);
    workers.serve(socket);
}

/// Sends a client the reason why it is not served, and closes the connection.
fn reject(mut socket: Socket) {
    // It would have to wait for a handshake to say more.
    if socket.is_handshaking() {
        return;
    }
    // The send buffer of a new socket is empty, so it accepts all of this. The client may have disconnected already.
    let _ = socket.send(b"-ERR max number of clients reached\r\n").and_then(|_| socket.shutdown());
}

/// Whether the error concerns one connection, whose peer has disconnected already. It needs no pause.
fn is_peer_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, InvalidInput, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | NotConnected | InvalidInput)
}
