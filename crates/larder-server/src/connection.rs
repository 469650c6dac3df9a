//! One connection: read the received bytes, execute all complete requests, write once, and wait.
//!
//! Both buffers belong to the thread and not to the connection, so they stay in the processor's caches, and an idle
//! connection has none. A connection has its own buffer only for an incomplete request and for unsent replies. While
//! replies are unsent, the server does not read from the connection.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Instant;

use larder_resp::{Encoder, Limits, Progress, RequestParser};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::clients::Client;
use crate::cmd::{self, Context};
use crate::prefetch::PipelinePrefetcher;
use crate::session::Session;
use crate::state::ServerState;
use crate::stats::Counts;

/// Bytes that are read from a socket at a time.
const READ_BYTES: usize = 64 << 10;
/// Above this size, replies are written before further requests are executed.
const FLUSH_BYTES: usize = 1 << 20;
/// Bytes of the thread's reply buffer that are retained between turns; a larger buffer is freed.
const MAX_RETAINED_OUTPUT_BYTES: usize = 4 << 20;
/// Arguments that one turn may execute before it yields to other connections: about a millisecond of single-key
/// commands.
const ARGUMENTS_PER_TURN: usize = 4_096;

/// The buffers of a thread.
struct ThreadBuffers {
    input: Box<[u8]>,
    output: Vec<u8>,
    prefetcher: PipelinePrefetcher,
}

impl ThreadBuffers {
    fn new() -> Self {
        ThreadBuffers {
            input: vec![0; READ_BYTES].into_boxed_slice(),
            output: Vec::new(),
            prefetcher: PipelinePrefetcher::default(),
        }
    }
}

thread_local! {
    static BUFFERS: RefCell<ThreadBuffers> = RefCell::new(ThreadBuffers::new());
}

/// The state of a connection at the end of a turn.
enum Turn {
    /// All replies are written and no complete request is left.
    Waiting,
    /// Complete requests may be left, but the turn has used its budget.
    Yielding,
    /// Replies are unsent: the client has to read them first.
    Blocked,
    Closed,
}

/// Why a turn stops executing requests.
#[derive(PartialEq, Eq)]
enum StopReason {
    NoRequest,
    Budget,
    Close,
}

/// Serves `stream` until the client disconnects, framing is lost, or the server drains.
///
/// Cancel safety: it can be dropped only between two turns. The effects of executed commands remain; unsent replies are
/// lost.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    state: Arc<ServerState>,
    client: Arc<Client>,
) {
    let mut connection = Connection::new(stream, state, client);
    if let Err(error) = connection.run().await {
        // Clients often disconnect at any time, so this is not a warning.
        tracing::debug!(client = connection.session.client.id, %error, "connection lost");
    }
}

struct Connection<S> {
    stream: S,
    state: Arc<ServerState>,
    session: Session,
    parser: RequestParser,
    /// Received bytes that are not executed yet: an incomplete request, or the rest of a turn.
    pending: Vec<u8>,
    /// Whether `pending` may contain a complete request.
    resume: bool,
    /// Replies that the system has not accepted yet.
    unsent: Vec<u8>,
    /// The size of `pending` and `unsent` that was reported last.
    buffered_bytes: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(stream: S, state: Arc<ServerState>, client: Arc<Client>) -> Self {
        let session = Session::new(client, state.password().is_none());
        Connection {
            stream,
            state,
            session,
            parser: RequestParser::new(),
            pending: Vec::new(),
            resume: false,
            unsent: Vec::new(),
            buffered_bytes: 0,
        }
    }

    async fn run(&mut self) -> io::Result<()> {
        loop {
            let turn = poll_fn(|cx| BUFFERS.with_borrow_mut(|buffers| self.poll_turn(cx, buffers))).await?;
            match turn {
                Turn::Waiting => {}
                Turn::Yielding => tokio::task::yield_now().await,
                Turn::Blocked => self.write_unsent().await?,
                Turn::Closed if self.unsent.is_empty() => break,
                Turn::Closed => {
                    self.write_unsent().await?;
                    break;
                }
            }
            if self.state.is_draining() {
                break;
            }
        }
        poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx)).await
    }

    /// Reads once, executes all complete requests, and writes the replies.
    fn poll_turn(&mut self, cx: &mut TaskContext<'_>, buffers: &mut ThreadBuffers) -> Poll<io::Result<Turn>> {
        let mut received = 0;
        if !self.resume {
            let mut buffer = ReadBuf::new(&mut buffers.input);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            received = buffer.filled().len();
            if received == 0 {
                return Poll::Ready(Ok(Turn::Closed));
            }
        }
        let started_at = Instant::now();
        self.state.store.advance_to(started_at);
        buffers.output.clear();
        let mut counts = Counts { bytes_in: received as u64, ..Counts::default() };
        let ThreadBuffers { input, output, prefetcher } = &mut *buffers;
        let stop = self.execute(&input[..received], prefetcher, output, &mut counts);
        counts.bytes_out = buffers.output.len() as u64;
        self.session.client.record_activity(started_at, self.session.last_command);
        // Before the replies are written: a client that has read a reply sees its command in the counters.
        self.state.stats.threads[self.session.client.thread].add(&counts);
        let written = self.write(cx, &mut buffers.output);
        self.state.stats.threads[self.session.client.thread].latency.record(started_at.elapsed());
        buffers.output.shrink_to(MAX_RETAINED_OUTPUT_BYTES);
        self.report_buffered_bytes();
        written?;
        Poll::Ready(Ok(match stop {
            StopReason::Close => Turn::Closed,
            _ if !self.unsent.is_empty() => Turn::Blocked,
            StopReason::Budget => Turn::Yielding,
            StopReason::NoRequest => Turn::Waiting,
        }))
    }

    /// Executes the complete requests of the pending and the `received` bytes, and keeps the rest.
    fn execute(
        &mut self,
        received: &[u8],
        prefetcher: &mut PipelinePrefetcher,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> StopReason {
        if self.pending.is_empty() {
            let (consumed, stop) = self.execute_all(received, prefetcher, out, counts);
            self.pending.extend_from_slice(&received[consumed..]);
            self.resume = stop == StopReason::Budget;
            return stop;
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(received);
        let (consumed, stop) = self.execute_all(&pending, prefetcher, out, counts);
        self.resume = stop == StopReason::Budget;
        // Frees the buffer if nothing is left, so that an idle connection has none.
        if consumed < pending.len() {
            pending.drain(..consumed);
            self.pending = pending;
        }
        stop
    }

    /// Executes requests from `input` until none is complete or the turn stops. Returns the number of consumed bytes.
    fn execute_all(
        &mut self,
        input: &[u8],
        prefetcher: &mut PipelinePrefetcher,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> (usize, StopReason) {
        let Connection { state, session, parser, .. } = self;
        let (mut consumed, mut prefetched_to, mut arguments) = (0, 0, 0);
        let mut permit = state.gate.acquire(session.client.thread);
        let stop = loop {
            let rest = &input[consumed..];
            match parser.parse(rest, limits(state, session)) {
                Ok(Progress::Incomplete { .. }) => break StopReason::NoRequest,
                Ok(Progress::Complete { consumed: length, .. }) => consumed += length,
                Err(error) => {
                    tracing::debug!(client = session.client.id, %error, "closing a connection: invalid request");
                    counts.errors += 1;
                    Encoder::new(out, session.protocol()).error(&format!("ERR {error}"));
                    break StopReason::Close;
                }
            }
            let args = parser.args(rest);
            if args.is_empty() {
                continue;
            }
            if parser.is_inline() && cmd::is_http(args) {
                tracing::warn!(client = session.client.id, "closed a connection that speaks HTTP");
                break StopReason::Close;
            }
            if consumed < input.len() && consumed >= prefetched_to {
                let db = state.store.database(session.database());
                prefetched_to =
                    consumed + prefetcher.prefetch(&input[consumed..], limits(state, session), db);
            }
            let mut context = Context::new(state, session, counts, out);
            let command = cmd::execute(&mut context, args, &mut permit);
            let is_too_large = context.is_reply_too_large();
            session.last_command = command.or(session.last_command);
            if is_too_large {
                tracing::warn!(
                    client = session.client.id,
                    bytes = out.len(),
                    "closed a connection: its reply exceeds the limit"
                );
                out.clear();
                break StopReason::Close;
            }
            if session.closing {
                break StopReason::Close;
            }
            arguments += args.len();
            if arguments >= ARGUMENTS_PER_TURN || out.len() >= FLUSH_BYTES {
                break StopReason::Budget;
            }
        };
        (consumed, stop)
    }

    /// Writes as much of `output` as the system accepts, and keeps the rest.
    fn write(&mut self, cx: &mut TaskContext<'_>, output: &mut Vec<u8>) -> io::Result<()> {
        let mut sent = 0;
        while sent < output.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &output[sent..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(n)) => sent += n,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {
                    self.unsent = std::mem::take(output);
                    self.unsent.drain(..sent);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reports the size of this connection's buffers, if it has changed.
    fn report_buffered_bytes(&mut self) {
        let buffered_bytes = self.pending.capacity() + self.unsent.capacity();
        if buffered_bytes != self.buffered_bytes {
            self.buffered_bytes = buffered_bytes;
            self.state.clients.set_buffered_bytes(&self.session.client, buffered_bytes as u64);
        }
    }

    /// Waits until all replies are written. Does not read from the client meanwhile.
    async fn write_unsent(&mut self) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        self.session.client.blocked.store(true, Ordering::Release);
        let mut sent = 0;
        while sent < unsent.len() {
            match poll_fn(|cx| Pin::new(&mut self.stream).poll_write(cx, &unsent[sent..])).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => sent += n,
            }
        }
        self.session.client.blocked.store(false, Ordering::Release);
        drop(unsent);
        self.report_buffered_bytes();
        Ok(())
    }
}

fn limits<'a>(state: &'a ServerState, session: &Session) -> &'a Limits {
    if session.authenticated { &state.limits } else { &state.unauthenticated_limits }
}
