//! The threads that serve connections, as the rest of the server sees them.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connection::Connection;
use super::event_loop::EventLoop;
use super::listener::Socket;
use super::peers::{Peer, Peers, peers};
use crate::client::Message;
use crate::state::ServerState;

/// The running threads. Dropping this stops them without waiting for them.
pub(crate) struct Workers {
    state: Arc<ServerState>,
    peers: Peers,
    threads: Vec<JoinHandle<()>>,
    /// Has a permit for each thread that has ended.
    ended: Arc<Semaphore>,
}

impl Workers {
    /// Starts the threads of `state`.
    pub(crate) fn start(state: &Arc<ServerState>) -> io::Result<Self> {
        let mut workers = Workers {
            state: Arc::clone(state),
            peers: peers(state.inboxes.len()),
            threads: Vec::new(),
            ended: Arc::new(Semaphore::new(0)),
        };
        for index in 0..workers.peers.len() {
            let event_loop = EventLoop::new(index, Arc::clone(state), Arc::clone(&workers.peers))?;
            let end = PermitAtEnd(Arc::clone(&workers.ended));
            let thread = std::thread::Builder::new().name(format!("larder-{index}")).spawn(move || {
                let _end = end;
                event_loop.run();
            })?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Serves a new connection on the first thread that is not overloaded. If all are, on one that is not stuck, and of these
    /// on the one with the fewest connections.
    pub(crate) fn serve(&self, socket: Socket) {
        let Workers { state, peers, .. } = self;
        let now_ms = state.stats.started.elapsed().as_millis() as u64;
        let has_time = |peer: &Peer| !peer.load.is_overloaded(now_ms);
        let order =
            |index: &usize| (peers[*index].load.is_stuck(now_ms), state.stats.threads[*index].connections());
        let first = || (0..peers.len()).min_by_key(order);
        let thread = peers.iter().position(has_time).or_else(first).unwrap_or(0);
        peers[thread].arrivals.send(Connection::open(socket, state, thread));
    }

    /// Waits until a thread ends. Before [`stop`](Self::stop) this is a failure: it has panicked, or cannot go on.
    pub(crate) async fn one_ended(&self) {
        let _ended = self.ended.acquire().await;
    }

    /// Asks all threads to drain and end.
    fn stop(&self) {
        self.state.inboxes.iter().for_each(|inbox| inbox.send(Message::Stop));
    }

    /// Waits until all threads have drained and ended. Ends scripts that run longer than the drain may take.
    pub(crate) async fn drain(mut self) {
        self.stop();
        let limit = Duration::from_millis(self.state.config.drain_timeout_ms);
        let mut ended = pin!(join(std::mem::take(&mut self.threads), &self.ended));
        if timeout(limit, &mut ended).await.is_err() {
            self.state.drain_is_over.store(true, Ordering::Release);
            ended.await;
        }
    }
}

async fn join(threads: Vec<JoinHandle<()>>, ended: &Semaphore) {
    let _all = ended.acquire_many(threads.len() as u32).await;
    for (index, thread) in threads.into_iter().enumerate() {
        if thread.join().is_err() {
            tracing::error!(thread = index, "a server thread panicked");
        }
    }
}

/// Adds a permit when a thread ends, also by a panic.
struct PermitAtEnd(Arc<Semaphore>);

impl Drop for PermitAtEnd {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}
