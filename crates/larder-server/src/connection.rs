//! One connection: read what is there, execute all of it, write once, and wait.
//!
//! Both buffers belong to the thread, not to the connection, so they stay in its cache and an idle connection holds
//! none. A connection keeps bytes of its own only in two cases: the start of a request whose rest has not arrived, and
//! replies that the client does not read. In the second case nothing more is read from it.

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
use crate::shared::Shared;
use crate::stats::Tally;

/// Bytes read from a socket at a time.
const READ_BYTES: usize = 64 << 10;
/// Replies above this are written before more is executed.
const FLUSH_BYTES: usize = 1 << 20;
/// A reply buffer of the thread that has grown beyond this is given back.
const KEPT_OUTPUT_BYTES: usize = 4 << 20;
/// Arguments that one connection may have executed before others get their turn: about a millisecond of single-key
/// commands.
const ARGUMENTS_PER_TURN: usize = 4_096;

/// The buffers of a thread.
struct Scratch {
    input: Box<[u8]>,
    output: Vec<u8>,
    prefetcher: PipelinePrefetcher,
}

impl Scratch {
    fn new() -> Self {
        Scratch {
            input: vec![0; READ_BYTES].into_boxed_slice(),
            output: Vec::new(),
            prefetcher: PipelinePrefetcher::default(),
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// How a turn ended.
enum Turn {
    /// All replies are written and no complete request is left.
    Waiting,
    /// Complete requests may be left, but others are to get their turn first.
    Yielding,
    /// The client has to read before anything else happens.
    Blocked,
    Closed,
}

/// Why no more requests are executed for now.
#[derive(PartialEq, Eq)]
enum Stop {
    NoRequest,
    Budget,
    Close,
}

/// Serves `stream` until the client leaves, an error makes the position in the stream unknown, or the server drains.
///
/// Cancel safety: dropped between two turns, it loses nothing that was executed; replies that a client has not taken
/// are lost with it.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    shared: Arc<Shared>,
    client: Arc<Client>,
) {
    let mut connection = Connection::new(stream, shared, client);
    if let Err(error) = connection.run().await {
        // A client that leaves in the middle is everyday life, so this is no warning.
        tracing::debug!(client = connection.session.client.id, %error, "connection lost");
    }
}

struct Connection<S> {
    stream: S,
    shared: Arc<Shared>,
    session: Session,
    parser: RequestParser,
    /// Bytes read and not executed: the start of a request, or what a turn has left.
    pending: Vec<u8>,
    /// Whether `pending` may hold a complete request.
    resume: bool,
    /// Replies that the client has not taken yet.
    unsent: Vec<u8>,
    /// What `pending` and `unsent` are known to take.
    buffered_bytes: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(stream: S, shared: Arc<Shared>, client: Arc<Client>) -> Self {
        let session = Session::new(client, shared.password().is_none());
        Connection {
            stream,
            shared,
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
            let turn = poll_fn(|cx| SCRATCH.with_borrow_mut(|scratch| self.poll_turn(cx, scratch))).await?;
            match turn {
                Turn::Waiting => {}
                Turn::Yielding => tokio::task::yield_now().await,
                Turn::Blocked => self.wait_for_reader().await?,
                Turn::Closed if self.unsent.is_empty() => break,
                Turn::Closed => {
                    self.wait_for_reader().await?;
                    break;
                }
            }
            if self.shared.is_draining() {
                break;
            }
        }
        poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx)).await
    }

    /// Reads once, executes what is complete, and writes the replies.
    fn poll_turn(&mut self, cx: &mut TaskContext<'_>, scratch: &mut Scratch) -> Poll<io::Result<Turn>> {
        let mut received = 0;
        if !self.resume {
            let mut buffer = ReadBuf::new(&mut scratch.input);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            received = buffer.filled().len();
            if received == 0 {
                return Poll::Ready(Ok(Turn::Closed));
            }
        }
        let began = Instant::now();
        self.shared.store.advance_to(began);
        scratch.output.clear();
        let mut tally = Tally { bytes_in: received as u64, ..Tally::default() };
        let Scratch { input, output, prefetcher } = &mut *scratch;
        let stop = self.execute(&input[..received], prefetcher, output, &mut tally);
        tally.bytes_out = scratch.output.len() as u64;
        self.session.client.active(began, self.session.last_command);
        // Before the replies leave: who has read a reply finds it counted.
        self.shared.stats.threads[self.session.client.thread].add(&tally);
        let written = self.write(cx, &mut scratch.output);
        self.shared.stats.threads[self.session.client.thread].latency.record(began.elapsed());
        scratch.output.shrink_to(KEPT_OUTPUT_BYTES);
        self.account();
        written?;
        Poll::Ready(Ok(match stop {
            Stop::Close => Turn::Closed,
            _ if !self.unsent.is_empty() => Turn::Blocked,
            Stop::Budget => Turn::Yielding,
            Stop::NoRequest => Turn::Waiting,
        }))
    }

    /// Executes the requests in what is pending and `received`, and keeps what is left.
    fn execute(
        &mut self,
        received: &[u8],
        prefetcher: &mut PipelinePrefetcher,
        out: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Stop {
        if self.pending.is_empty() {
            let (consumed, stop) = self.execute_all(received, prefetcher, out, tally);
            self.pending.extend_from_slice(&received[consumed..]);
            self.resume = stop == Stop::Budget;
            return stop;
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(received);
        let (consumed, stop) = self.execute_all(&pending, prefetcher, out, tally);
        self.resume = stop == Stop::Budget;
        // Whoever has nothing left gives the buffer back: an idle connection holds none.
        if consumed < pending.len() {
            pending.drain(..consumed);
            self.pending = pending;
        }
        stop
    }

    /// Executes requests from `input` until none is complete; returns the bytes they took.
    fn execute_all(
        &mut self,
        input: &[u8],
        prefetcher: &mut PipelinePrefetcher,
        out: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> (usize, Stop) {
        let Connection { shared, session, parser, .. } = self;
        let (mut consumed, mut looked_at, mut arguments) = (0, 0, 0);
        let mut lane = shared.gate.enter(session.client.thread);
        let stop = loop {
            let rest = &input[consumed..];
            match parser.parse(rest, limits(shared, session)) {
                Ok(Progress::Incomplete { .. }) => break Stop::NoRequest,
                Ok(Progress::Complete { consumed: length, .. }) => consumed += length,
                Err(error) => {
                    tracing::debug!(client = session.client.id, %error, "closing");
                    tally.errors += 1;
                    Encoder::new(out, session.protocol()).error(&format!("ERR {error}"));
                    break Stop::Close;
                }
            }
            let args = parser.args(rest);
            if args.is_empty() {
                continue;
            }
            if parser.is_inline() && cmd::is_http(args) {
                tracing::warn!(client = session.client.id, "closed a connection that speaks HTTP");
                break Stop::Close;
            }
            if consumed < input.len() && consumed >= looked_at {
                let db = shared.store.database(session.database());
                looked_at = consumed + prefetcher.prefetch(&input[consumed..], limits(shared, session), db);
            }
            let mut context = Context::new(shared, session, tally, out);
            let command = cmd::execute(&mut context, args, &mut lane);
            let is_too_large = context.is_reply_too_large();
            session.last_command = command.or(session.last_command);
            if is_too_large {
                tracing::warn!(
                    client = session.client.id,
                    bytes = out.len(),
                    "closed: reply above the limit"
                );
                out.clear();
                break Stop::Close;
            }
            if session.closing {
                break Stop::Close;
            }
            arguments += args.len();
            if arguments >= ARGUMENTS_PER_TURN || out.len() >= FLUSH_BYTES {
                break Stop::Budget;
            }
        };
        (consumed, stop)
    }

    /// Writes as much of `output` as the system takes and keeps the rest.
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

    /// Tells what this connection holds, if that has changed.
    fn account(&mut self) {
        let buffered_bytes = self.pending.capacity() + self.unsent.capacity();
        if buffered_bytes != self.buffered_bytes {
            self.buffered_bytes = buffered_bytes;
            self.shared.clients.hold(&self.session.client, buffered_bytes as u64);
        }
    }

    /// Waits until the client has taken all replies; nothing is read from it meanwhile.
    async fn wait_for_reader(&mut self) -> io::Result<()> {
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
        self.account();
        Ok(())
    }
}

fn limits<'a>(shared: &'a Shared, session: &Session) -> &'a Limits {
    if session.authenticated { &shared.limits } else { &shared.unauthenticated_limits }
}
