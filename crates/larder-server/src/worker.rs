//! The threads that serve connections. Each has its own runtime; a connection stays on its thread.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::clients::Client;
use crate::connection;
use crate::listener::Socket;
use crate::state::ServerState;

/// Interval at which expired entries are reclaimed.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(100);
/// Entries that are reclaimed at a time: less than a millisecond.
const RECLAIM_BUDGET: usize = 512;
/// Interval at which a draining thread checks its connections.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running thread.
pub(crate) struct Worker {
    index: usize,
    runtime: Handle,
    state: Arc<ServerState>,
    done: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread that serves until `stop` changes, and then drains.
    pub(crate) fn start(
        index: usize,
        state: Arc<ServerState>,
        stop: watch::Receiver<bool>,
    ) -> io::Result<Worker> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (finished, done) = oneshot::channel();
        let thread_state = Arc::clone(&state);
        let thread = std::thread::Builder::new().name(format!("larder-{index}")).spawn(move || {
            runtime.block_on(run_thread(index, thread_state, stop));
            // Closes the connections that are left after the drain timeout.
            drop(runtime);
            let _ = finished.send(());
        })?;
        Ok(Worker { index, runtime: handle, state, done: Some(done), thread: Some(thread) })
    }

    /// The number of connections on this thread.
    pub(crate) fn connections(&self) -> u64 {
        self.state.stats.threads[self.index].connections()
    }

    /// Serves a connection on this thread.
    pub(crate) fn add_connection(&self, socket: Socket) {
        let (address, local_address) = socket.addresses();
        let client = self.state.clients.register(self.index, address, local_address);
        self.state.stats.threads[self.index].connected();
        let guard = ConnectionGuard { state: Arc::clone(&self.state), client: Arc::clone(&client) };
        let task = self.runtime.spawn(serve(socket, guard));
        let _ = client.task.set(task.abort_handle());
    }

    /// Waits until the thread has drained and ended.
    pub(crate) async fn join(&mut self) {
        if let Some(done) = self.done.take() {
            let _ = done.await;
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(thread = self.index, "a server thread panicked");
        }
    }
}

async fn serve(socket: Socket, guard: ConnectionGuard) {
    let (state, client) = (Arc::clone(&guard.state), Arc::clone(&guard.client));
    match socket {
        Socket::Tcp(stream) => match tokio::net::TcpStream::from_std(stream) {
            Ok(stream) => connection::serve(stream, state, client).await,
            Err(error) => tracing::warn!(%error, "cannot register a connection with the runtime"),
        },
        Socket::Unix(stream) => match tokio::net::UnixStream::from_std(stream) {
            Ok(stream) => connection::serve(stream, state, client).await,
            Err(error) => tracing::warn!(%error, "cannot register a connection with the runtime"),
        },
    }
}

/// Deregisters a connection when its task returns, is aborted or panics. A panic ends only this connection.
struct ConnectionGuard {
    state: Arc<ServerState>,
    client: Arc<Client>,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.state.stats.panics.add(1);
            tracing::error!(client = self.client.id, "a command panicked; its connection is closed");
        }
        self.state.clients.deregister(&self.client);
        self.state.stats.threads[self.client.thread].disconnected();
    }
}

/// The main task of a thread: reclaims expired entries until the server stops, then drains.
async fn run_thread(index: usize, state: Arc<ServerState>, mut stop: watch::Receiver<bool>) {
    let mut reclaim_timer = interval(RECLAIM_INTERVAL);
    reclaim_timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // An error means that the future of the server was dropped.
            _ = stop.changed() => break,
            // One thread is enough; the others need no timer.
            _ = reclaim_timer.tick(), if index == 0 => {
                while state.store.reclaim_expired(RECLAIM_BUDGET) >= RECLAIM_BUDGET {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
    let deadline = Duration::from_millis(state.config.drain_timeout_ms);
    let _ = tokio::time::timeout(deadline, drain(index, &state)).await;
}

/// Closes idle connections, and waits until the others have sent their replies.
async fn drain(index: usize, state: &ServerState) {
    loop {
        let own = state.clients.all().into_iter().filter(|client| client.thread == index);
        let idle = own.filter(|client| !client.blocked.load(Ordering::Acquire));
        // No turn of a connection is interrupted: turns run on this thread and never wait.
        idle.filter_map(|client| client.task.get().cloned()).for_each(|task| task.abort());
        if state.stats.threads[index].connections() == 0 {
            return;
        }
        tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
    }
}

/// Sends a client the reason why it is not served, and closes the connection.
pub(crate) fn reject(socket: Socket) {
    use std::io::Write;
    const TEXT: &[u8] = b"-ERR max number of clients reached\r\n";
    // The send buffer of a new socket is empty, so this does not block. The client may have disconnected already.
    let _ = match socket {
        Socket::Tcp(mut stream) => stream.write_all(TEXT).and_then(|()| stream.shutdown(Shutdown::Write)),
        Socket::Unix(mut stream) => stream.write_all(TEXT).and_then(|()| stream.shutdown(Shutdown::Write)),
    };
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::config::Config;
    use crate::db::Store;
    use crate::stats::Stats;

    #[test]
    fn panic_closes_only_its_connection() {
        let store = Store::new(Some(1 << 20)).unwrap();
        let state = Arc::new(ServerState::new(Config::default(), store, Arc::new(Stats::new(1)), 0));
        let (stop, stopped) = watch::channel(false);
        let mut worker = Worker::start(0, Arc::clone(&state), stopped).unwrap();

        let client = state.clients.register(0, String::new(), String::new());
        state.stats.threads[0].connected();
        let guard = ConnectionGuard { state: Arc::clone(&state), client };
        let panicking_task = worker.runtime.spawn(async move {
            let _guard = guard;
            panic!("a bug in a command");
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(panicking_task).unwrap_err().is_panic());
        assert_eq!((state.stats.panics.get(), worker.connections()), (1, 0));
        assert!(state.clients.all().is_empty());

        let (server_end, mut client_end) = UnixStream::pair().unwrap();
        server_end.set_nonblocking(true).unwrap();
        worker.add_connection(Socket::Unix(server_end));
        client_end.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        client_end.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");

        stop.send_replace(true);
        runtime.block_on(worker.join());
        assert_eq!(worker.connections(), 0);
    }
}
