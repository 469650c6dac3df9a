//! The open connections of a server, for `CLIENT LIST`, memory limits and shutdown.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering,
};
use std::time::Duration;

use larder_engine::stats::Counter;
use larder_resp::{Encoder, Protocol};
use parking_lot::Mutex;

use super::inbox::Inbox;
use super::mailbox::{Mailbox, OutputLimits, Posted};
use crate::spec::CommandSpec;
use crate::system::Moment;
use crate::users::User;

/// What a thread is told. Connections that it is to serve have an inbox of their own.
pub(crate) enum Message {
    /// One of its clients has something to do besides its socket: see [`Client::close`].
    Wake,
    /// The mailbox of this connection is not empty any more.
    Mail(Arc<Client>),
    /// What this connection has waited for is there.
    Served(Arc<Client>),
    /// The pause of commands has ended, or a timer has to be set.
    Resume,
    /// Drain and end.
    Stop,
    /// Fail as by a bug outside of all turns.
    #[cfg(test)]
    Panic,
}

/// The public state of a connection. The connection updates it, at most once per wake-up.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    clients: Arc<Clients>,
    /// Index of the thread that serves it.
    thread: AtomicUsize,
    /// Its position among the connections of that thread, which alone reads and changes it.
    position: AtomicUsize,
    address: String,
    local_address: String,
    connected_at: Moment,
    /// Time of its last request, or when its client last received replies, in milliseconds after `connected_at`.
    active_ms: AtomicU64,
    database: AtomicU8,
    protocol: AtomicU8,
    last_command: AtomicU16,
    /// The number of commands that wait for `EXEC`; -1 without a transaction.
    queued_commands: AtomicI32,
    names: Mutex<Names>,
    user: Mutex<Arc<User>>,
    /// The number of channels, patterns, and channels of shards that it subscribes to.
    subscriptions: [AtomicUsize; 3],
    /// The id of the connection that gets its invalidations; 0 for itself, -1 without tracking.
    redirect: AtomicI64,
    /// Whether it tracks prefixes and not the keys that it reads.
    tracks_prefixes: AtomicBool,
    /// Bytes of requests and replies that the connection buffers.
    buffered_bytes: AtomicU64,
    mailbox: Mailbox,
    /// Whether it waits for members of keys.
    is_waiting: AtomicBool,
    /// Whether it monitors the server.
    is_monitor: AtomicBool,
    /// Whether the connection has to be closed.
    closing: AtomicBool,
    /// Whether it was closed, and executes nothing more.
    closed: AtomicBool,
}

/// The names that a client sets by `CLIENT SETNAME` and `CLIENT SETINFO`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    pub(crate) name: Vec<u8>,
    pub(crate) library: Vec<u8>,
    pub(crate) library_version: Vec<u8>,
}

impl Names {
    /// The memory that they need, in bytes.
    fn bytes_allocated(&self) -> usize {
        self.name.capacity() + self.library.capacity() + self.library_version.capacity()
    }
}

/// The connection has not executed a command.
const NO_COMMAND: u16 = u16::MAX;

impl Client {
    /// The client sends a request or receives replies.
    pub(crate) fn set_active(&self, now: Moment) {
        self.active_ms.store(now.ms_since(self.connected_at), Ordering::Relaxed);
    }

    /// The connection has had a turn: its last command so far, and the number of commands that wait for `EXEC`.
    pub(crate) fn record_activity(&self, now: Moment, command: Option<&CommandSpec>, queued: Option<usize>) {
        self.set_active(now);
        self.queued_commands.store(queued.map_or(-1, |count| count as i32), Ordering::Relaxed);
        if let Some(spec) = command {
            self.last_command.store(spec.index.into(), Ordering::Relaxed);
        }
    }

    /// The time since its last request, or since its client last received replies.
    pub(crate) fn idle(&self, now: Moment) -> Duration {
        let active = Duration::from_millis(self.active_ms.load(Ordering::Relaxed));
        now.since(self.connected_at).saturating_sub(active)
    }

    /// The time since it was opened.
    pub(crate) fn age(&self) -> Duration {
        self.connected_at.elapsed()
    }

    /// The address of the client.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The address of the server that it has connected to.
    pub(crate) fn local_address(&self) -> &str {
        &self.local_address
    }

    /// Index of the thread that serves it.
    pub(crate) fn thread(&self) -> usize {
        self.thread.load(Ordering::SeqCst)
    }

    /// Changes the thread, before that gets the connection.
    pub(crate) fn assign(&self, thread: usize) {
        self.thread.store(thread, Ordering::SeqCst);
    }

    /// Whether the connection has to be closed. Its thread asks when it gets the connection, when it is woken, and before it
    /// executes what was received.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Asks the thread of this connection to close it, from any thread.
    ///
    /// The mark is set before the thread is read, and a connection that moves changes its thread before the new one
    /// reads the mark: so either the new thread finds the mark, or it is the one that is woken.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.clients.inboxes[self.thread()].send(Message::Wake);
    }

    /// Its position among the connections of its thread, for that thread.
    pub(crate) fn position(&self) -> usize {
        self.position.load(Ordering::Relaxed)
    }

    pub(crate) fn set_position(&self, position: usize) {
        self.position.store(position, Ordering::Relaxed);
    }

    /// Puts a message of about `message_bytes` into the mailbox, from any thread. If the mailbox is full, the connection
    /// is closed: no message is dropped while it is open.
    ///
    /// The message is there before the thread is read, and a connection that moves changes its thread before the new one
    /// looks into the mailbox: so either the new thread finds the message, or it is the one that is woken.
    pub(crate) fn post(self: &Arc<Self>, message_bytes: usize, encode: impl FnOnce(&mut Encoder<'_>)) {
        self.finish_post(self.mailbox.post(message_bytes, &self.clients.output_limits, encode));
    }

    /// As [`post`](Self::post), with a message that a key with a prefix has changed.
    pub(crate) fn post_invalidation(self: &Arc<Self>, prefix: &[u8], name: &[u8], is_for_channel: bool) {
        let limits = &self.clients.output_limits;
        self.finish_post(self.mailbox.post_invalidation(prefix, name, is_for_channel, limits));
    }

    /// Sets whether it waits for members of keys.
    pub(crate) fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    /// Sets whether it monitors the server.
    pub(super) fn set_monitor(&self, is_monitor: bool) {
        self.is_monitor.store(is_monitor, Ordering::Relaxed);
    }

    /// What the connection has waited for is there: it gets a turn.
    pub(crate) fn wake(self: &Arc<Self>) {
        self.clients.inboxes[self.thread()].send(Message::Served(Arc::clone(self)));
    }

    fn finish_post(self: &Arc<Self>, posted: Posted) {
        match posted {
            Posted::Appended { bytes, before, is_first } => {
                if is_first {
                    self.clients.inboxes[self.thread()].send(Message::Mail(Arc::clone(self)));
                }
                self.clients.replace(before, bytes);
            }
            Posted::Overflow => self.close_full(),
            Posted::Closed => {}
        }
    }

    /// Closes the connection, whose mailbox is full.
    fn close_full(&self) {
        tracing::warn!(client = self.id, "closed a connection: its client does not read its messages");
        self.clients.closed_for_output.add(1);
        self.close();
    }

    /// Whether the connection was closed: it executes nothing more. A mailbox that is full closes before its connection.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Whether the connection gets further messages.
    pub(crate) fn is_open(&self) -> bool {
        !self.mailbox.is_closed()
    }

    /// Whether there are messages in the mailbox.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.mailbox.has_mail()
    }

    /// Moves the messages of the mailbox into `out` at the offset `at`. Only its own thread may do that.
    #[cold]
    pub(crate) fn take_mail(&self, out: &mut Vec<u8>, at: usize) {
        let counted = self.mailbox.take(out, at);
        self.clients.replace(counted, 0);
    }

    /// So many bytes of messages and replies are not written yet. Only its own thread may say that.
    #[inline]
    pub(crate) fn record_unsent(&self, unsent_bytes: u64) {
        self.mailbox.record_unsent(unsent_bytes, &self.clients.output_limits);
    }

    pub(crate) fn set_database(&self, database: u8) {
        self.database.store(database, Ordering::Relaxed);
    }

    /// Sets the protocol version of later messages.
    pub(crate) fn set_protocol(&self, protocol: Protocol) {
        self.protocol.store(protocol.version() as u8, Ordering::Relaxed);
        self.mailbox.set_protocol(protocol);
    }

    /// Sets the connection that gets its invalidations, 0 for itself, and whether it tracks prefixes; `None` without
    /// tracking.
    pub(crate) fn set_tracking(&self, tracking: Option<(u64, bool)>) {
        self.redirect.store(tracking.map_or(-1, |(redirect, _)| redirect as i64), Ordering::Relaxed);
        let tracks_prefixes = tracking.is_some_and(|(_, tracks_prefixes)| tracks_prefixes);
        self.tracks_prefixes.store(tracks_prefixes, Ordering::Relaxed);
    }

    pub(crate) fn set_subscriptions(&self, counts: [usize; 3]) {
        for (subscriptions, count) in self.subscriptions.iter().zip(counts) {
            subscriptions.store(count, Ordering::Relaxed);
        }
    }

    /// The number of channels, patterns, and channels of shards that it subscribes to.
    fn subscriptions(&self) -> [usize; 3] {
        self.subscriptions.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Whether it subscribes to anything.
    pub(crate) fn is_subscriber(&self) -> bool {
        self.subscriptions() != [0; 3]
    }

    /// Whether it waits for messages: a subscriber, or a monitor.
    pub(crate) fn waits_for_messages(&self) -> bool {
        self.is_subscriber() || self.is_monitor.load(Ordering::Relaxed)
    }

    pub(crate) fn names(&self) -> Names {
        self.names.lock().clone()
    }

    /// Changes the names. Returns the memory that they need then, in bytes.
    pub(crate) fn update_names(&self, update: impl FnOnce(&mut Names)) -> usize {
        let mut names = self.names.lock();
        update(&mut names);
        names.bytes_allocated()
    }

    /// The user that it has logged in as.
    pub(crate) fn user(&self) -> Arc<User> {
        self.user.lock().clone()
    }

    pub(crate) fn set_user(&self, user: Arc<User>) {
        *self.user.lock() = user;
    }

    /// The letters of Redis for what the connection is.
    fn flags(&self) -> String {
        let flags = [
            (self.is_monitor.load(Ordering::Relaxed), 'O'),
            (self.is_subscriber(), 'P'),
            (self.queued_commands.load(Ordering::Relaxed) >= 0, 'x'),
            (self.is_waiting.load(Ordering::Relaxed), 'b'),
            (self.redirect.load(Ordering::Relaxed) >= 0, 't'),
            (self.tracks_prefixes.load(Ordering::Relaxed), 'B'),
            (self.address.starts_with('/'), 'U'),
        ];
        let set: String = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect();
        if set.is_empty() { "N".to_owned() } else { set }
    }

    /// The last command among these, which are all.
    fn last_command<'c>(&self, commands: &'c [CommandSpec]) -> Option<&'c CommandSpec> {
        commands.get(usize::from(self.last_command.load(Ordering::Relaxed)))
    }

    /// Appends the connection's line of `CLIENT LIST`, with the fields of Redis. Those that say nothing here are constant.
    /// `commands` are all commands.
    pub(crate) fn write_line(&self, line: &mut String, commands: &[CommandSpec]) {
        let (age, idle) = (self.age(), self.idle(Moment::now()));
        let names = self.names();
        let command = self.last_command(commands).map_or("NULL", |spec| spec.name);
        let redirect = self.redirect.load(Ordering::Relaxed);
        let [channels, patterns, shard_channels] = self.subscriptions();
        let unread_bytes = self.mailbox.unread_bytes();
        // Writing to a String cannot fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} watch=0 \
             qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem={} tot-mem={} events=r cmd={} \
             user={} redir={} resp={} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.local_address,
            String::from_utf8_lossy(&names.name),
            age.as_secs(),
            idle.as_secs(),
            self.flags(),
            self.database.load(Ordering::Relaxed),
            channels,
            patterns,
            shard_channels,
            self.queued_commands.load(Ordering::Relaxed),
            unread_bytes,
            self.buffered_bytes.load(Ordering::Relaxed) + self.mailbox.counted_bytes(),
            command,
            self.user().name_text(),
            redirect,
            self.protocol.load(Ordering::Relaxed),
            String::from_utf8_lossy(&names.library),
            String::from_utf8_lossy(&names.library_version),
        );
        line.push('\n');
    }
}

/// All open connections. Locked when a connection opens or closes, when the memory limit is exceeded, and by `CLIENT
/// LIST`, but not for each command.
#[derive(Debug)]
pub(crate) struct Clients {
    next_id: AtomicU64,
    /// One for each thread.
    inboxes: Arc<[Inbox<Message>]>,
    /// Bytes that all connections together buffer, messages included. Below zero for a moment if messages are taken on
    /// one thread before they are added here by another.
    buffered_bytes: AtomicI64,
    max_buffered_bytes: AtomicU64,
    pub(crate) output_limits: OutputLimits,
    /// Connections that were closed because their mailbox was full.
    pub(crate) closed_for_output: Counter,
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    pub(crate) fn new(max_buffered_bytes: u64, inboxes: Arc<[Inbox<Message>]>) -> Self {
        Clients {
            next_id: AtomicU64::new(0),
            inboxes,
            buffered_bytes: AtomicI64::new(0),
            max_buffered_bytes: AtomicU64::new(max_buffered_bytes),
            output_limits: OutputLimits::default(),
            closed_for_output: Counter::new(),
            by_id: Mutex::default(),
        }
    }

    pub(crate) fn register(
        self: &Arc<Self>,
        thread: usize,
        address: String,
        local_address: String,
        user: Arc<User>,
    ) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.next_id.fetch_add(1, Ordering::Relaxed) + 1,
            clients: Arc::clone(self),
            thread: AtomicUsize::new(thread),
            position: AtomicUsize::new(usize::MAX),
            address,
            local_address,
            connected_at: Moment::now(),
            active_ms: AtomicU64::new(0),
            database: AtomicU8::new(0),
            protocol: AtomicU8::new(2),
            last_command: AtomicU16::new(NO_COMMAND),
            queued_commands: AtomicI32::new(-1),
            names: Mutex::default(),
            user: Mutex::new(user),
            subscriptions: Default::default(),
            redirect: AtomicI64::new(-1),
            tracks_prefixes: AtomicBool::new(false),
            buffered_bytes: AtomicU64::new(0),
            mailbox: Mailbox::new(),
            is_waiting: AtomicBool::new(false),
            is_monitor: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        self.by_id.lock().insert(client.id, Arc::clone(&client));
        client
    }

    /// Forgets a connection. Later messages for it are dropped.
    pub(crate) fn deregister(&self, client: &Client) {
        self.by_id.lock().remove(&client.id);
        client.mailbox.close();
        // Others may know it for long, for example by the keys that it tracks.
        client.update_names(|names| *names = Names::default());
        self.release(client);
        client.closed.store(true, Ordering::SeqCst);
    }

    /// Bytes that all connections together buffer.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.buffered_bytes.load(Ordering::Relaxed).max(0) as u64
    }

    /// Changes how many bytes all connections together may buffer. It is applied when the buffers of one grow.
    pub(crate) fn set_max_buffered_bytes(&self, bytes: u64) {
        self.max_buffered_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets the size of a connection's buffers. Closes the connection with the largest buffers if the total exceeds the
    /// limit.
    pub(crate) fn set_buffered_bytes(&self, client: &Client, bytes: u64) {
        let before = client.buffered_bytes.swap(bytes, Ordering::Relaxed);
        self.replace(before, bytes);
    }

    /// Replaces `before` bytes by `bytes` in the total.
    fn replace(&self, before: u64, bytes: u64) {
        let more = bytes as i64 - before as i64;
        let total = self.buffered_bytes.fetch_add(more, Ordering::Relaxed) + more;
        if more > 0 && total > 0 && total as u64 > self.max_buffered_bytes.load(Ordering::Relaxed) {
            self.close_largest();
        }
    }

    fn close_largest(&self) {
        let by_id = self.by_id.lock();
        let size =
            |client: &Client| client.buffered_bytes.load(Ordering::Relaxed) + client.mailbox.counted_bytes();
        let Some(largest) = by_id.values().max_by_key(|client| size(client)) else { return };
        tracing::warn!(
            client = largest.id,
            "closed the connection with the largest buffers: max_client_memory is exceeded"
        );
        // Its thread frees the memory later. It is subtracted now, or further connections would be closed.
        self.release(largest);
        largest.close();
    }

    /// Closes the connections whose clients have not read their messages for too long, also if no further message comes.
    /// Cost: one load, unless the messages of any exceed the soft limit.
    pub(crate) fn close_slow_readers(&self) {
        if !self.output_limits.take_due_check() {
            return;
        }
        let is_full = |client: &Arc<Client>| client.mailbox.close_if_full(&self.output_limits);
        self.all().iter().filter(|client| is_full(client)).for_each(|client| client.close_full());
    }

    fn release(&self, client: &Client) {
        let bytes = client.buffered_bytes.swap(0, Ordering::Relaxed);
        let mail_bytes = client.mailbox.stop_counting();
        self.buffered_bytes.fetch_sub((bytes + mail_bytes) as i64, Ordering::Relaxed);
    }

    /// The open connection with this id.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// All open connections, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.by_id.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Users;

    #[test]
    fn message_that_is_taken_before_it_is_counted_leaves_nothing_counted() {
        let clients = Clients::new(1_000, std::iter::once(Inbox::default()).collect());
        // Taken on the thread of the connection, before the thread of the sender has added it.
        clients.replace(8, 0);
        assert_eq!(clients.buffered_bytes(), 0);
        clients.replace(0, 8);
        assert_eq!((clients.buffered_bytes(), clients.buffered_bytes.load(Ordering::Relaxed)), (0, 0));
    }

    /// Whoever waits for its end must not take it for closed: its thread may be executing commands.
    #[test]
    fn connection_whose_mailbox_is_full_is_not_closed_yet() {
        let clients = Arc::new(Clients::new(1_000, std::iter::once(Inbox::default()).collect()));
        let user = Arc::clone(Users::new(&[], None, None).default_user());
        let client = clients.register(0, String::new(), String::new(), user);
        client.post(1 << 30, |_| {});
        assert!(client.is_closing() && !client.is_open() && !client.is_closed());
        clients.deregister(&client);
        assert!(client.is_closed());
    }
}
