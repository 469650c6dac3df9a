//! The threads that serve connections: each with a runtime of its own, on which a connection stays for its life.

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
use crate::shared::Shared;

/// How often expired entries are reclaimed that no request has come across.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(100);
/// Entries reclaimed at a time: well below a millisecond.
const RECLAIM_BUDGET: usize = 512;
/// How often a draining thread looks whether its last connections are done.
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// A running thread.
pub(crate) struct Worker {
    index: usize,
    runtime: Handle,
    shared: Arc<Shared>,
    done: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread that serves until `stop` changes, and then drains.
    pub(crate) fn start(
        index: usize,
        shared: Arc<Shared>,
        stop: watch::Receiver<bool>,
    ) -> io::Result<Worker> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (finished, done) = oneshot::channel();
        let state = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(format!("larder-{index}")).spawn(move || {
            runtime.block_on(live(index, state, stop));
            // Connections that outlived the deadline end here.
            drop(runtime);
            let _ = finished.send(());
        })?;
        Ok(Worker { index, runtime: handle, shared, done: Some(done), thread: Some(thread) })
    }

    /// Connections it serves now.
    pub(crate) fn connections(&self) -> u64 {
        self.shared.stats.threads[self.index].connections()
    }

    /// Gives it a connection for life.
    pub(crate) fn adopt(&self, socket: Socket) {
        let (address, local_address) = socket.addresses();
        let client = self.shared.clients.register(self.index, address, local_address);
        self.shared.stats.threads[self.index].connected();
        let guard = ConnectionGuard { shared: Arc::clone(&self.shared), client: Arc::clone(&client) };
        let task = self.runtime.spawn(serve(socket, guard));
        let _ = client.task.set(task.abort_handle());
    }

    /// Waits until the thread has drained and ended.
    pub(crate) async fn ended(&mut self) {
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
    let (shared, client) = (Arc::clone(&guard.shared), Arc::clone(&guard.client));
    match socket {
        Socket::Tcp(stream) => match tokio::net::TcpStream::from_std(stream) {
            Ok(stream) => connection::serve(stream, shared, client).await,
            Err(error) => tracing::warn!(%error, "cannot watch a socket"),
        },
        Socket::Unix(stream) => match tokio::net::UnixStream::from_std(stream) {
            Ok(stream) => connection::serve(stream, shared, client).await,
            Err(error) => tracing::warn!(%error, "cannot watch a socket"),
        },
    }
}

/// Takes a connection off the books however its task ends: returned, aborted, or by a panic, which ends this
/// connection alone.
struct ConnectionGuard {
    shared: Arc<Shared>,
    client: Arc<Client>,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.stats.panics.add(1);
            tracing::error!(client = self.client.id, "a command panicked; its connection is closed");
        }
        self.shared.clients.deregister(&self.client);
        self.shared.stats.threads[self.client.thread].disconnected();
    }
}

/// The thread's own task: upkeep while it runs, then the drain.
async fn live(index: usize, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut upkeep = interval(RECLAIM_INTERVAL);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // An error means that the server was dropped without a farewell.
            _ = stop.changed() => break,
            // One thread is enough, and the others sleep undisturbed.
            _ = upkeep.tick(), if index == 0 => {
                while shared.store.reclaim_expired(RECLAIM_BUDGET) >= RECLAIM_BUDGET {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
    let deadline = Duration::from_millis(shared.config.drain_timeout_ms);
    let _ = tokio::time::timeout(deadline, drain(index, &shared)).await;
}

/// Ends the connections that owe no reply, and waits for those that do.
async fn drain(index: usize, shared: &Shared) {
    loop {
        let mine = shared.clients.all().into_iter().filter(|client| client.thread == index);
        let idle = mine.filter(|client| !client.blocked.load(Ordering::Acquire));
        // No connection is in the middle of a turn: turns run on this thread and never wait.
        idle.filter_map(|client| client.task.get().cloned()).for_each(|task| task.abort());
        if shared.stats.threads[index].connections() == 0 {
            return;
        }
        tokio::time::sleep(DRAIN_POLL).await;
    }
}

/// Tells a client why it is not served, and hangs up.
pub(crate) fn reject(socket: Socket) {
    use std::io::Write;
    const TEXT: &[u8] = b"-ERR max number of clients reached\r\n";
    // A fresh socket takes so few bytes at once; a client that is gone already needs no answer.
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
    fn a_panic_ends_its_connection_and_nothing_else() {
        let store = Store::new(Some(1 << 20)).unwrap();
        let shared = Arc::new(Shared::new(Config::default(), store, Arc::new(Stats::new(1)), 0));
        let (stop, stopped) = watch::channel(false);
        let mut worker = Worker::start(0, Arc::clone(&shared), stopped).unwrap();

        let client = shared.clients.register(0, String::new(), String::new());
        shared.stats.threads[0].connected();
        let guard = ConnectionGuard { shared: Arc::clone(&shared), client };
        let broken = worker.runtime.spawn(async move {
            let _departure = guard;
            panic!("a bug in a command");
        });
        let wait = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(wait.block_on(broken).unwrap_err().is_panic());
        assert_eq!((shared.stats.panics.get(), worker.connections()), (1, 0));
        assert!(shared.clients.all().is_empty());

        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        worker.adopt(Socket::Unix(ours));
        theirs.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        theirs.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");

        stop.send_replace(true);
        wait.block_on(worker.ended());
        assert_eq!(worker.connections(), 0);
    }
}
