//! The state of a connection between commands.
//!
//! Only the thread of the connection uses it. What others need to know (the list of clients, those who send messages) is in
//! the [`Client`], behind atomics and locks; what is in both is written to both by the setters here, and read here.
//!
//! A server may have ten thousand connections that do nothing. So what few of them need is boxed: a transaction,
//! subscriptions, tracked keys.

use std::sync::Arc;

use larder_resp::Protocol;

use super::queue::Transaction;
use super::slices::LongCommand;
use super::tracking::Tracking;
use crate::client::{Client, Monitoring, Names};
use crate::observers::{Subscriptions, Watches};
use crate::spec::CommandSpec;
use crate::system::Moment;
use crate::users::{Rights, User, Users};
use crate::values::large::LargeReplies;

/// How a command ends the turn of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// The connection closes.
    Close,
    /// The next commands may have to wait.
    Yield,
}

/// Which commands get replies: see `CLIENT REPLY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// All but the next one.
    SkipNext,
}

/// The state of one connection that commands read and change.
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    /// The memory of the names of the client. They are behind a lock, and each turn asks for [`bytes`](Self::bytes).
    name_bytes: usize,
    database: u8,
    protocol: Protocol,
    pub(crate) authenticated: bool,
    /// Set by a command: the turn of the connection ends after its reply. The command cannot end it itself, because its reply
    /// is not written yet.
    pub(crate) turn_end: Option<TurnEnd>,
    /// A command that takes long and is not at its end: it goes on before the next request.
    pub(crate) long_command: Option<Box<LongCommand>>,
    /// The large values of the replies of this turn. The buffer of replies has what surrounds them, and they refer to offsets
    /// in it: whoever inserts into the buffer or truncates it has to tell them.
    pub(crate) large_replies: LargeReplies,
    /// Where the reply to the present request begins in the buffer of replies. The limit of a reply counts from here: that of a
    /// transaction has the replies of all its commands.
    pub(crate) reply_start: usize,
    /// The last executed command, as `CLIENT LIST` and the observers of its changes are told. In a transaction and a script it
    /// is the one that runs within.
    pub(crate) last_command: Option<&'static CommandSpec>,
    /// Commands that wait for `EXEC`. Set by [`set_transaction`](Self::set_transaction).
    transaction: Option<Box<Transaction>>,
    /// The keys that the next transaction depends on.
    pub(crate) watches: Option<Box<Watches>>,
    /// What the connection subscribes to; `None` without subscriptions.
    subscriptions: Option<Box<Subscriptions>>,
    /// How the connection tracks keys, if it does.
    tracking: Option<Box<Tracking>>,
    /// Set while it monitors the server.
    monitoring: Option<Monitoring>,
    /// Whether others monitor the server, so that they are told of each command.
    is_monitored: bool,
    replies: Replies,
    /// Whether the present command gets no reply. It writes one all the same, which is cut off: a command must not do anything
    /// else because nobody listens.
    pub(crate) is_muted: bool,
    /// Whether commands that write may be refused: because memory is used up, or because a Redis is being copied.
    is_limited: bool,
    /// Whether it was used up when the present command began. Scripts ask: their commands are
    /// refused for what was stored before them, and not for what they have stored, because a script does not end halfway.
    pub(crate) is_full: bool,
    /// What the user may do; `None` if that is everything. Each command asks for it if there is something.
    rights: Option<Arc<Rights>>,
    /// The version of the users that the rights are of.
    users_version: u32,
    /// Whether any command may have to be treated in a special way, because of the fields above. It is kept beside them, so that
    /// each command asks one question instead of five; so all of them are private and have setters.
    is_special: bool,
}

impl Session {
    pub(crate) fn new(client: Arc<Client>, authenticated: bool, users: &Users) -> Self {
        let mut session = Session {
            client,
            name_bytes: 0,
            database: 0,
            protocol: Protocol::Resp2,
            authenticated,
            turn_end: None,
            long_command: None,
            large_replies: LargeReplies::default(),
            reply_start: 0,
            last_command: None,
            transaction: None,
            watches: None,
            subscriptions: None,
            tracking: None,
            monitoring: None,
            is_monitored: false,
            replies: Replies::On,
            is_muted: false,
            is_limited: false,
            is_full: false,
            rights: None,
            users_version: 0,
            is_special: false,
        };
        session.update_rights(users);
        session
    }

    /// Whether a command is not simply executed: for example, it waits for `EXEC`.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.is_special
    }

    fn update_special(&mut self) {
        self.is_special = self.transaction.is_some()
            || self.receives_messages()
            || self.replies != Replies::On
            || self.is_limited
            || self.is_monitored
            || self.rights.is_some();
    }

    /// What the user may do; `None` if that is everything.
    pub(crate) fn rights(&self) -> Option<&Arc<Rights>> {
        self.rights.as_ref()
    }

    /// Takes the rights of the user again, if users have changed.
    #[inline]
    pub(crate) fn follow_users(&mut self, users: &Users) {
        if self.users_version != users.version() {
            self.update_rights(users);
        }
    }

    /// Takes the rights of the user. The version is read first: a change meanwhile is followed later.
    pub(crate) fn update_rights(&mut self, users: &Users) {
        self.users_version = users.version();
        self.rights = self.client.user().limits();
        self.update_special();
    }

    /// The connection is this user from now on.
    pub(crate) fn set_user(&mut self, user: Arc<User>, users: &Users) {
        self.client.set_user(user);
        self.update_rights(users);
    }

    /// Whether commands that may need memory are refused if it is used up.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited
    }

    pub(crate) fn set_limited(&mut self, is_limited: bool) {
        if self.is_limited != is_limited {
            self.is_limited = is_limited;
            self.is_full = false;
            self.update_special();
        }
    }

    pub(crate) fn set_monitored(&mut self, is_monitored: bool) {
        if self.is_monitored != is_monitored {
            self.is_monitored = is_monitored;
            self.update_special();
        }
    }

    /// Whether it monitors the server.
    pub(crate) fn is_monitor(&self) -> bool {
        self.monitoring.is_some()
    }

    pub(crate) fn set_monitoring(&mut self, monitoring: Option<Monitoring>) {
        self.monitoring = monitoring;
        self.update_special();
    }

    /// Which commands get replies.
    pub(crate) fn replies(&self) -> Replies {
        self.replies
    }

    pub(crate) fn set_replies(&mut self, replies: Replies) {
        self.replies = replies;
        self.update_special();
    }

    /// Whether messages of other connections must be in order with the replies.
    pub(crate) fn receives_messages(&self) -> bool {
        self.subscriptions.is_some() || self.tracking.is_some() || self.monitoring.is_some()
    }

    /// Until when the present command waits for others, if it does.
    pub(crate) fn waits_until(&self) -> Option<Moment> {
        self.long_command.as_deref().and_then(LongCommand::waits_until)
    }

    /// Whether messages must wait for a reply that is not complete.
    pub(crate) fn holds_messages_back(&self) -> bool {
        self.long_command.as_deref().is_some_and(LongCommand::is_about_start)
    }

    pub(crate) fn tracking(&self) -> Option<&Tracking> {
        self.tracking.as_deref()
    }

    pub(crate) fn tracking_mut(&mut self) -> Option<&mut Tracking> {
        self.tracking.as_deref_mut()
    }

    /// Takes the state out, to put it back changed.
    pub(crate) fn take_tracking(&mut self) -> Option<Box<Tracking>> {
        self.tracking.take()
    }

    pub(crate) fn set_tracking(&mut self, tracking: Option<Box<Tracking>>) {
        self.tracking = tracking;
        self.client.set_tracking(
            self.tracking
                .as_deref()
                .map(|tracking| (tracking.redirect().unwrap_or(0), tracking.is_broadcast())),
        );
        self.update_special();
    }

    pub(crate) fn subscriptions(&self) -> Option<&Subscriptions> {
        self.subscriptions.as_deref()
    }

    pub(crate) fn set_subscriptions(
        &mut self,
        subscriptions: Option<Box<Subscriptions>>,
    ) -> Option<Box<Subscriptions>> {
        let before = std::mem::replace(&mut self.subscriptions, subscriptions);
        self.update_special();
        before
    }

    /// The number of commands that wait for `EXEC`; `None` without a transaction.
    pub(crate) fn queued_commands(&self) -> Option<usize> {
        self.transaction.as_deref().map(Transaction::len)
    }

    pub(crate) fn transaction(&mut self) -> Option<&mut Transaction> {
        self.transaction.as_deref_mut()
    }

    pub(crate) fn set_transaction(
        &mut self,
        transaction: Option<Box<Transaction>>,
    ) -> Option<Box<Transaction>> {
        let before = std::mem::replace(&mut self.transaction, transaction);
        self.update_special();
        before
    }

    /// The memory that the state of the connection needs beside its buffers, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.transaction.as_deref().map_or(0, Transaction::bytes)
            + self.watches.as_deref().map_or(0, Watches::bytes)
            + self.subscriptions.as_deref().map_or(0, Subscriptions::bytes)
            + self.tracking.as_deref().map_or(0, Tracking::bytes)
            + self.long_command.as_deref().map_or(0, LongCommand::bytes)
            + self.name_bytes
    }

    /// Changes the names of the client.
    pub(crate) fn update_names(&mut self, update: impl FnOnce(&mut Names)) {
        self.name_bytes = self.client.update_names(update);
    }

    pub(crate) fn database(&self) -> u8 {
        self.database
    }

    pub(crate) fn select(&mut self, database: u8) {
        self.database = database;
        self.client.set_database(database);
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Chooses the version of replies to a script, until it ends. Returns that of the client.
    #[cfg_attr(not(feature = "scripts"), allow(dead_code))]
    pub(crate) fn replace_reply_protocol(&mut self, protocol: Protocol) -> Protocol {
        std::mem::replace(&mut self.protocol, protocol)
    }

    pub(crate) fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.client.set_protocol(protocol);
    }
}
