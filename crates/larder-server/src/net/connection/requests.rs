//! The requests of a connection: complete ones are executed where they were received, the rest is kept, and a large argument
//! gets memory of its own.

use larder_resp::{Encoder, Limits, Progress, RequestParser};

use super::Connection;
use crate::cmd::{self, Context, Session, TurnEnd};
use crate::net::lookahead::Lookahead;
use crate::state::ServerState;
use crate::stats::Counts;
use crate::system::Moment;
use crate::values::large::{self, LARGE_BYTES, PartialValue};

/// Above this size, replies are written before further requests are executed.
const FLUSH_BYTES: usize = 1 << 20;
/// Bytes of a large argument that have to arrive before it gets memory for all of them: until they are written, they are
/// addresses only, but a system may limit those, too.
const FIRST_BYTES: usize = 256 << 10;
/// Arguments that one turn may execute before it yields to other connections: less than a millisecond even if each
/// command stores a new key, for which the system has to provide pages.
const ARGUMENTS_PER_TURN: usize = 512;

/// Why a turn stops executing requests.
#[derive(PartialEq, Eq)]
pub(super) enum StopReason {
    NoRequest,
    Budget,
    Pause,
    /// The command waits for others until then.
    Wait(Moment),
    Close,
}

impl StopReason {
    /// Whether complete requests may be left.
    fn leaves_requests(&self) -> bool {
        matches!(self, StopReason::Budget | StopReason::Pause | StopReason::Wait(_))
    }
}

impl Connection {
    /// Runs the complete requests of the pending and the `received` bytes, and keeps the rest. The `first` request may be
    /// parsed if nothing is pending.
    pub(super) fn run_input(
        &mut self,
        received: &[u8],
        first: Option<&RequestParser>,
        limits: &Limits,
        lookahead: &mut Lookahead,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> StopReason {
        let received = match self.large.is_some() {
            true => self.receive_large(received),
            false => received,
        };
        if self.large.is_some() {
            return StopReason::NoRequest;
        }
        if self.pending.is_empty() {
            let (consumed, stop) = self.run_requests(received, first, limits, lookahead, out, counts);
            self.pending.extend_from_slice(&received[consumed..]);
            self.resume = stop.leaves_requests();
            return stop;
        }
        let mut pending = std::mem::take(&mut self.pending);
        reserve(&mut pending, received.len(), self.missing);
        pending.extend_from_slice(received);
        let (consumed, stop) = self.run_requests(&pending, None, limits, lookahead, out, counts);
        self.resume = stop.leaves_requests();
        // Frees the buffer if nothing is left, so that an idle connection has none.
        if consumed < pending.len() {
            pending.drain(..consumed);
            self.pending = pending;
        }
        if stop == StopReason::NoRequest && self.missing > FIRST_BYTES {
            self.begin_large();
        }
        stop
    }

    /// Gives a large argument, whose first bytes are pending, memory of its own. It becomes the value without a copy.
    #[cold]
    fn begin_large(&mut self) {
        let Some((start, length)) = self.parser.long_argument(&self.pending, LARGE_BYTES) else { return };
        if (FIRST_BYTES..length).contains(&(self.pending.len() - start)) {
            let mut large = PartialValue::new(length);
            large.get_mut().push(&self.pending[start..]);
            self.pending.truncate(start);
            self.pending.shrink_to_fit();
            self.large = Some(large);
        }
    }

    /// Appends what was received to the large argument. Returns what comes after it.
    fn receive_large<'b>(&mut self, received: &'b [u8]) -> &'b [u8] {
        let Some(large) = &mut self.large else { return received };
        let (piece, rest) = received.split_at(received.len().min(large.missing()));
        large.get_mut().push(piece);
        if large.missing() == 0
            && let Some(large) = self.large.take()
        {
            self.parser.supply(self.pending.len(), large.finish());
        }
        rest
    }

    /// Runs the requests of `input`, one after the other, until none is complete or the turn stops. Returns the number of consumed bytes.
    fn run_requests(
        &mut self,
        input: &[u8],
        first: Option<&RequestParser>,
        limits: &Limits,
        lookahead: &mut Lookahead,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> (usize, StopReason) {
        let Connection { state, session, parser, paused, missing, .. } = self;
        let (mut consumed, mut arguments) = (0, 0);
        lookahead.clear();
        let stop = loop {
            if paused.is_some_and(|paused| cmd::slice_waits(session, paused)) {
                break StopReason::Pause;
            }
            if let Some(command) = session.long_command.take() {
                let mut context = Context::new(state, session, counts, out);
                if !cmd::run_slice(&mut context, command) {
                    break session.waits_until().map_or(StopReason::Budget, StopReason::Wait);
                }
                if session.turn_end == Some(TurnEnd::Close) {
                    break StopReason::Close;
                }
            }
            let rest = &input[consumed..];
            let is_first = consumed == 0;
            if rest.is_empty() && !is_first {
                *missing = 1;
                break StopReason::NoRequest;
            }
            let limits = limits_of(state, session, limits);
            // What stands first may be the end of a request, which the parser of the connection has begun.
            let ahead = match is_first {
                true => first.map(|request| (request, input.len())),
                false => lookahead.take(rest, limits, || state.store.database(session.database())),
            };
            let (request, length) = match ahead {
                Some(ahead) => ahead,
                None => match parser.parse(rest, limits) {
                    Ok(Progress::Incomplete { missing: bytes }) => {
                        *missing = bytes;
                        break StopReason::NoRequest;
                    }
                    Ok(Progress::Complete { consumed, .. }) => (&*parser, consumed),
                    Err(error) => {
                        tracing::debug!(client = session.client.id, %error, "closing a connection: invalid request");
                        counts.errors += 1;
                        Encoder::new(out, session.protocol()).error(&format!("ERR {error}"));
                        break StopReason::Close;
                    }
                },
            };
            let start = consumed;
            consumed += length;
            let args = request.args(rest);
            if args.is_empty() {
                continue;
            }
            if paused.is_some_and(|paused| cmd::waits(session, args, paused)) {
                // The arguments that were supplied are not in the input.
                if request.has_long_arguments() {
                    parser.repeat(length);
                }
                consumed = start;
                break StopReason::Pause;
            }
            if request.is_inline() && cmd::is_http(args) {
                tracing::warn!(client = session.client.id, "closed a connection that speaks HTTP");
                break StopReason::Close;
            }
            let mut context = Context::new(state, session, counts, out);
            cmd::dispatch(&mut context, args);
            arguments += args.len();
            if request.has_long_arguments() {
                parser.take_long_arguments().into_iter().for_each(large::release);
            }
            match session.turn_end {
                None => {}
                Some(TurnEnd::Close) => break StopReason::Close,
                Some(TurnEnd::Yield) => {
                    session.turn_end = None;
                    break StopReason::Budget;
                }
            }
            if arguments >= ARGUMENTS_PER_TURN
                || out.len() >= FLUSH_BYTES
                || !session.large_replies.is_empty()
            {
                break StopReason::Budget;
            }
        };
        (consumed, stop)
    }
}

/// Makes room for the `received` bytes. A buffer doubles, but does not outgrow a long argument: a connection is charged for
/// its buffer.
fn reserve(pending: &mut Vec<u8>, received: usize, missing: usize) {
    if missing > received && pending.capacity() - pending.len() < received {
        pending.reserve_exact(pending.len().clamp(received, missing));
    } else {
        pending.reserve(received);
    }
}

/// The limits of the next request, which depend on whether the connection is authenticated.
fn limits_of<'a>(state: &'a ServerState, session: &Session, limits: &'a Limits) -> &'a Limits {
    if session.authenticated { limits } else { &state.unauthenticated_limits }
}
