//! One connection: read the received bytes, execute all complete requests, write once, and wait.
//!
//! Both buffers belong to the thread and not to the connection, so they stay in the processor's caches, and an idle
//! connection has none. A connection has its own buffer only for an incomplete request and for unsent replies. While
//! replies are unsent, the server does not read from the connection.
//!
//! Messages of the mailbox are sent ahead of the replies to later commands, and at once if the connection waits.

mod requests;

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use larder_resp::{Limits, RequestParser};
use mio::event::Source;
use mio::{Interest, Registry, Token};

use super::batch::{MAX_DEFERRED_BYTES, Slot};
use super::listener::Socket;
use super::lookahead::Lookahead;
use super::unsent::{Sent, Unsent};
use crate::client::Client;
use crate::client::Paused;
use crate::cmd::Session;
use crate::state::ServerState;
use crate::stats::Counts;
use crate::system::Moment;
use crate::values::large::{self, PartialValue};
use requests::StopReason;

/// Bytes that are read from a socket at a time.
const READ_BYTES: usize = 64 << 10;
/// Bytes of the thread's reply buffer that are retained between turns; a larger buffer is freed.
const MAX_RETAINED_OUTPUT_BYTES: usize = 4 << 20;

/// The buffers of a thread.
pub(crate) struct ThreadBuffers {
    pub(crate) input: Box<[u8]>,
    pub(crate) output: Vec<u8>,
    lookahead: Lookahead,
    /// The limits of requests, as they are in this turn.
    limits: Limits,
}

impl ThreadBuffers {
    pub(crate) fn new() -> Self {
        ThreadBuffers {
            input: vec![0; READ_BYTES].into_boxed_slice(),
            output: Vec::new(),
            lookahead: Lookahead::default(),
            limits: Limits::default(),
        }
    }
}

/// The state of a connection at the end of a turn.
pub(crate) enum Turn {
    /// All replies are written and no complete request is left.
    Waiting,
    /// Complete requests may be left, but the turn has used its budget.
    Yielding,
    /// The next command waits for the end of a pause.
    Paused,
    /// The command waits for others until then.
    Sleeping(Moment),
    /// Replies are unsent: the client has to read them first.
    Blocked,
    Closed,
}

/// What a read has found.
enum Received {
    Bytes(usize),
    Nothing,
    End,
}

/// A connection of a client. It is on one thread at a time, and may move between turns.
pub(crate) struct Connection {
    socket: Socket,
    state: Arc<ServerState>,
    session: Session,
    parser: RequestParser,
    /// Received bytes that are not executed yet: an incomplete request, or the rest of a turn.
    pending: Vec<u8>,
    /// A large argument of the incomplete request, as far as it has arrived. `pending` has what surrounds it.
    large: Option<PartialValue>,
    /// Whether `pending` may contain a complete request.
    resume: bool,
    /// Bytes that the incomplete request lacks, at least.
    missing: usize,
    /// Whether the socket may have more to read although it does not become ready again.
    has_more: bool,
    /// What waits during this turn.
    paused: Option<Paused>,
    /// Whether the client has ended the connection, which is reported once.
    ended: bool,
    /// Replies that the system has not accepted yet.
    unsent: Unsent,
    /// Set after the last reply: the connection closes when it is sent.
    ending: bool,
    /// What the thread waits for; `None` if the socket is not registered.
    interest: Option<Interest>,
    /// Whether it is in the thread's queue of connections that have more to do.
    pub(crate) queued: bool,
    /// Whether it is in the thread's list of connections that wait for the end of a pause.
    is_paused: bool,
    /// Until when it waits in the thread's list of connections that sleep.
    pub(crate) sleeps_until: Option<Moment>,
    /// The turns since the thread asked last.
    turns: u32,
    /// The size of the own buffers that was reported last.
    buffered_bytes: usize,
}

impl Connection {
    /// A connection that `thread` will serve. It is in the list of clients from now on.
    pub(crate) fn open(socket: Socket, state: &Arc<ServerState>, thread: usize) -> Box<Self> {
        let (address, local_address) = socket.addresses();
        let user = Arc::clone(state.users.default_user());
        let client = state.clients.register(thread, address, local_address, user);
        state.stats.threads[thread].connected();
        let session = Session::new(client, state.users.is_open(), &state.users);
        Box::new(Connection {
            socket,
            state: Arc::clone(state),
            session,
            parser: RequestParser::new(),
            pending: Vec::new(),
            large: None,
            resume: false,
            missing: 0,
            has_more: false,
            paused: None,
            ended: false,
            unsent: Unsent::default(),
            ending: false,
            interest: None,
            queued: false,
            is_paused: false,
            sleeps_until: None,
            turns: 0,
            buffered_bytes: 0,
        })
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.session.client
    }

    /// Sets whether it waits for the end of a pause. Returns whether that is new.
    pub(crate) fn set_paused(&mut self, is_paused: bool) -> bool {
        let is_new = self.is_paused != is_paused;
        self.is_paused = is_paused;
        match is_paused {
            _ if !is_new => {}
            true => _ = self.state.stats.paused.fetch_add(1, Ordering::Relaxed),
            false => _ = self.state.stats.paused.fetch_sub(1, Ordering::Relaxed),
        }
        is_new
    }

    /// Whether it waits for its client, and not for its own turn or the end of a pause.
    pub(crate) fn waits_for_client(&self) -> bool {
        !self.queued && !self.is_paused && self.sleeps_until.is_none()
    }

    /// Whether it waits for a part of a TLS handshake.
    #[inline]
    pub(crate) fn is_handshaking(&self) -> bool {
        self.socket.is_handshaking()
    }

    /// Whether replies are unsent because the client does not read.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.socket.has_pending()
    }

    /// Bytes of unsent replies that are in their buffer.
    #[cfg(test)]
    pub(crate) fn unsent_copied_bytes(&self) -> usize {
        self.unsent.copied_bytes()
    }

    /// Whether a command is not at its end.
    #[cfg(test)]
    pub(crate) fn has_long_command(&self) -> bool {
        self.session.long_command.is_some()
    }

    /// Where the large argument is that arrives.
    #[cfg(test)]
    pub(crate) fn large_address(&mut self) -> *const u8 {
        self.large.as_mut().map_or(std::ptr::null(), |large| large.get_mut().written_mut().as_ptr())
    }

    /// The turns since the last call.
    pub(crate) fn take_turns(&mut self) -> u32 {
        std::mem::take(&mut self.turns)
    }

    /// Moves the connection to another thread, which has to be told.
    pub(crate) fn assign(&mut self, thread: usize) {
        self.state.stats.threads[self.client().thread()].disconnected();
        self.state.stats.threads[thread].connected();
        self.client().assign(thread);
    }

    /// The socket has become ready, which is reported once: the next turns read until it is empty, or if the client has
    /// `ended` the connection, until they find the end.
    pub(crate) fn set_ready(&mut self, ended: bool) {
        self.has_more = true;
        self.ended |= ended;
    }

    /// Registers the socket for `interest`. What is ready already is reported, too.
    pub(crate) fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        match self.interest {
            Some(current) if current == interest => return Ok(()),
            Some(_) => self.socket.reregister(registry, token, interest)?,
            None => self.socket.register(registry, token, interest)?,
        }
        self.interest = Some(interest);
        Ok(())
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) {
        if self.interest.take().is_some() {
            // It fails only if the socket is not registered.
            let _ = self.socket.deregister(registry);
        }
    }

    /// Closes the connection; what the client has not read yet stays readable for it.
    pub(crate) fn close(mut self: Box<Self>) {
        // The client may have closed it already.
        let _ = self.socket.shutdown();
    }

    /// Begins a turn: sends what is unsent, and reads once into `input`. Returns the number of bytes, or how the turn ends if
    /// there is nothing to execute.
    pub(crate) fn begin_turn(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> Result<usize, Turn> {
        self.turns += 1;
        self.try_begin(input, output).unwrap_or_else(|error| Err(self.lost(&error)))
    }

    /// Runs the requests that were received and writes the replies, which ends the turn.
    pub(crate) fn run_turn(
        &mut self,
        buffers: &mut ThreadBuffers,
        received: Range<usize>,
        now: Moment,
    ) -> Turn {
        let mut output = std::mem::take(&mut buffers.output);
        let stop = self.process(buffers, received, None, &mut output, now);
        let turn = self.end_turn(&mut output, stop);
        if output.capacity() > MAX_RETAINED_OUTPUT_BYTES {
            output.shrink_to(MAX_RETAINED_OUTPUT_BYTES);
        }
        buffers.output = output;
        turn
    }

    /// Runs a short request that was received and parsed. Its replies wait for [`write_deferred`](Self::write_deferred),
    /// unless they are long or something unusual has happened, which ends the turn.
    pub(crate) fn run_short_turn(
        &mut self,
        buffers: &mut ThreadBuffers,
        slot: &mut Slot,
        now: Moment,
    ) -> Option<Turn> {
        let Slot { received, request, replies, .. } = slot;
        let stop = self.process(buffers, received.clone(), Some(request), replies, now);
        let may_wait = stop == StopReason::NoRequest
            && self.session.large_replies.is_empty()
            && replies.len() <= MAX_DEFERRED_BYTES;
        (!may_wait).then(|| self.end_turn(replies, stop))
    }

    /// Writes the replies of a short request, which ends the turn.
    pub(crate) fn write_deferred(&mut self, replies: &mut Vec<u8>) -> Turn {
        self.end_turn(replies, StopReason::NoRequest)
    }

    /// Whether what is received next begins a request, and nothing has to be done before that.
    pub(crate) fn is_between_requests(&self) -> bool {
        self.pending.is_empty() && self.large.is_none() && self.session.long_command.is_none()
    }

    /// The index of the database that the next request uses.
    pub(crate) fn database(&self) -> u8 {
        self.session.database()
    }

    /// Sends the messages of the mailbox, unless replies are unsent: the messages follow them.
    pub(crate) fn mail_turn(&mut self, buffers: &mut ThreadBuffers) -> Turn {
        if self.has_unsent() {
            return Turn::Blocked;
        }
        match self.send_mail(&mut buffers.output) {
            // Its command waits on.
            Ok(Turn::Waiting) => self.session.waits_until().map_or(Turn::Waiting, Turn::Sleeping),
            Ok(turn) => turn,
            Err(error) => self.lost(&error),
        }
    }

    fn lost(&self, error: &io::Error) -> Turn {
        // Clients often disconnect at any time, so this is not a warning.
        tracing::debug!(client = self.session.client.id, %error, "connection lost");
        Turn::Closed
    }

    fn send_mail(&mut self, output: &mut Vec<u8>) -> io::Result<Turn> {
        if !self.session.client.has_mail() || self.session.holds_messages_back() {
            return Ok(Turn::Waiting);
        }
        output.clear();
        self.session.client.take_mail(output, 0);
        let counts = Counts { bytes_out: output.len() as u64, ..Counts::default() };
        self.state.stats.threads[self.session.client.thread()].add(&counts);
        let written = self.write(output);
        output.shrink_to(MAX_RETAINED_OUTPUT_BYTES);
        self.report_buffered_bytes();
        Ok(match written? {
            Sent::All => Turn::Waiting,
            Sent::Budget => Turn::Yielding,
            Sent::Blocked => Turn::Blocked,
        })
    }

    fn try_begin(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> io::Result<Result<usize, Turn>> {
        if self.has_unsent() {
            let (sent, bytes) = self.unsent.send(&mut self.socket)?;
            if bytes > 0 {
                self.session.client.set_active(Moment::now());
            }
            match sent {
                Sent::All if !self.socket.flush()? => return Ok(Err(Turn::Blocked)),
                Sent::All => self.report_buffered_bytes(),
                Sent::Budget => return Ok(Err(Turn::Yielding)),
                Sent::Blocked => return Ok(Err(Turn::Blocked)),
            }
            // The drain has begun after the turn that wrote them.
            self.ending |= self.state.is_draining();
        }
        if self.ending || self.ended && self.session.waits_until().is_some() {
            return Ok(Err(Turn::Closed));
        }
        if self.resume {
            return Ok(Ok(0));
        }
        Ok(match self.receive(input)? {
            Received::Bytes(received) => Ok(received),
            Received::Nothing if self.has_more => Err(Turn::Yielding),
            Received::Nothing if self.socket.has_pending() => Err(Turn::Blocked),
            Received::Nothing => Err(self.send_mail(output)?),
            Received::End => Err(Turn::Closed),
        })
    }

    /// Runs the complete requests of what was received, of which the `first` one may be parsed. Replaces `output` by the
    /// replies.
    fn process(
        &mut self,
        buffers: &mut ThreadBuffers,
        received: Range<usize>,
        first: Option<&RequestParser>,
        output: &mut Vec<u8>,
        now: Moment,
    ) -> StopReason {
        output.clear();
        if self.session.client.is_closing() {
            return StopReason::Close;
        }
        self.state.store.advance_to(now);
        let mut counts = Counts { bytes_in: received.len() as u64, ..Counts::default() };
        // `CONFIG SET` takes effect with the next turn.
        buffers.limits.max_bulk_bytes = self.state.max_bulk_bytes();
        buffers.limits.max_request_bytes = self.state.max_request_bytes();
        self.session.set_limited(self.state.store.may_refuse_writes());
        self.session.set_monitored(self.state.monitors.are_there());
        self.session.follow_users(&self.state.users);
        let ThreadBuffers { input, lookahead, limits, .. } = &mut *buffers;
        self.paused = self.state.pause.current(now);
        let stop = self.run_input(&input[received], first, limits, lookahead, output, &mut counts);
        if self.session.client.has_mail() && !self.session.holds_messages_back() {
            // The replies of a connection that expects messages are in order already.
            let at = if self.session.receives_messages() { output.len() } else { 0 };
            let before = output.len();
            self.session.client.take_mail(output, at);
            self.session.large_replies.shift(at, output.len() - before);
        }
        counts.bytes_out = output.len() as u64 + self.session.large_replies.bytes();
        let queued = self.session.queued_commands();
        self.session.client.record_activity(now, self.session.last_command, queued);
        // Before the replies are written: a client that has read a reply sees its command in the counters.
        self.state.stats.threads[self.session.client.thread()].add(&counts);
        stop
    }

    /// Writes the replies of a turn that has stopped executing.
    fn end_turn(&mut self, output: &mut Vec<u8>, stop: StopReason) -> Turn {
        let written = self.write(output);
        self.parser.release();
        self.report_buffered_bytes();
        let sent = match written {
            Ok(sent) => sent,
            Err(error) => return self.lost(&error),
        };
        self.ending = stop == StopReason::Close || self.state.is_draining();
        match stop {
            _ if sent == Sent::Blocked => Turn::Blocked,
            _ if sent == Sent::Budget => Turn::Yielding,
            _ if self.ending => Turn::Closed,
            StopReason::Budget => Turn::Yielding,
            StopReason::Pause => Turn::Paused,
            // Its end arrived with the command, and is not reported again.
            StopReason::Wait(_) if self.ended => Turn::Closed,
            StopReason::Wait(until) => Turn::Sleeping(until),
            _ if self.has_more => Turn::Yielding,
            _ => Turn::Waiting,
        }
    }

    /// Reads once. If the buffer was not filled, the socket is empty, and becomes ready when more arrives.
    fn receive(&mut self, input: &mut [u8]) -> io::Result<Received> {
        loop {
            match self.socket.receive(input) {
                Ok(0) => return Ok(Received::End),
                Ok(length) => {
                    self.has_more = self.ended || length == input.len() || self.socket.has_more();
                    return Ok(Received::Bytes(length));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.has_more = self.socket.has_more();
                    return Ok(Received::Nothing);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes as much of `output` as the system accepts in this turn, and keeps the rest.
    fn write(&mut self, output: &mut Vec<u8>) -> io::Result<Sent> {
        let sent = self.unsent.send_new(&mut self.socket, output, &mut self.session.large_replies)?;
        Ok(if sent == Sent::All && self.socket.has_pending() { Sent::Blocked } else { sent })
    }

    /// Reports what is not written yet, and the size of this connection's buffers, if it has changed.
    fn report_buffered_bytes(&mut self) {
        self.session.client.record_unsent(self.unsent.len() as u64);
        let buffered_bytes = self.pending.capacity()
            + self.large.as_ref().map_or(0, PartialValue::len)
            + self.unsent.held_bytes()
            + self.parser.bytes_allocated()
            + self.session.bytes();
        if buffered_bytes != self.buffered_bytes {
            self.buffered_bytes = buffered_bytes;
            self.state.set_buffered_bytes(&self.session.client, buffered_bytes as u64);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Those of a request that will not be complete.
        self.parser.take_long_arguments().into_iter().for_each(large::release);
        // Once it is deregistered, others must see nothing of it.
        drop(self.session.set_subscriptions(None));
        self.session.set_monitoring(None);
        self.state.clients.deregister(&self.session.client);
        self.state.stats.threads[self.session.client.thread()].disconnected();
    }
}
