//! `CLIENT KILL`: closes connections. Its reply is a fence: what they have sent is not executed after it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use larder_resp::{Args, parse_integer};

use crate::client::Client;
use crate::cmd::session::TurnEnd;
use crate::cmd::slices::{self, SlicedWork};
use crate::cmd::{CommandError, Context, Outcome};
use crate::users::User;

/// A class of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientType {
    Normal,
    Subscriber,
    /// There are none.
    Replica,
}

impl ClientType {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, CommandError> {
        match text.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(ClientType::Normal),
            b"pubsub" => Ok(ClientType::Subscriber),
            b"master" | b"replica" | b"slave" => Ok(ClientType::Replica),
            _ => {
                let kind = String::from_utf8_lossy(text);
                Err(CommandError::Other(format!("Unknown client type '{kind}'")))
            }
        }
    }

    pub(crate) fn includes(self, client: &Client) -> bool {
        match self {
            ClientType::Normal => !client.is_subscriber(),
            ClientType::Subscriber => client.is_subscriber(),
            ClientType::Replica => false,
        }
    }
}

/// Which connections to close.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    kind: Option<ClientType>,
    user: Option<Arc<User>>,
    /// The least time since it was opened.
    min_age: Duration,
    spares_own: bool,
}

impl Filter<'_> {
    fn matches(&self, client: &Client, own: u64) -> bool {
        self.id.is_none_or(|id| client.id == id)
            && self.kind.is_none_or(|kind| kind.includes(client))
            && client.age() >= self.min_age
            && self.address.is_none_or(|address| client.address().as_bytes() == address)
            && self.local_address.is_none_or(|address| client.local_address().as_bytes() == address)
            && self.user.as_ref().is_none_or(|user| Arc::ptr_eq(user, &client.user()))
            && !(self.spares_own && client.id == own)
    }
}

/// How long a slice waits for the threads that close connections: they come to the end of a turn first.
const WAIT: Duration = Duration::from_micros(50);

/// Connections that are being closed.
struct Closing {
    /// Those that their threads have not closed yet.
    open: Vec<Arc<Client>>,
    reply: Reply,
    /// Whether the own connection is one of them. It is closed after the reply.
    closes_own: bool,
}

enum Reply {
    Ok,
    Count(i64),
}

impl Closing {
    /// Marks the connections that match.
    fn begin(cx: &Context<'_>, filter: &Filter<'_>) -> Self {
        let own = cx.session.client.id;
        let mut open = cx.state.clients.all();
        open.retain(|client| filter.matches(client, own));
        let reply = Reply::Count(open.len() as i64);
        let closes_own = open.extract_if(.., |client| client.id == own).count() > 0;
        open.iter().for_each(|client| client.close());
        Closing { open, reply, closes_own }
    }

    /// Replies once all are closed. In a transaction at once: it holds locks, which a connection that is to be closed may wait
    /// for.
    fn finish(self, cx: &mut Context<'_>) -> Outcome {
        if self.open.is_empty() || cx.held.is_some() {
            self.end(cx);
            return Ok(());
        }
        slices::begin(cx, self)
    }

    /// Waits for a moment. Returns whether all are closed.
    fn wait(&mut self) -> bool {
        self.open.retain(|client| !client.is_closed());
        if !self.open.is_empty() {
            thread::sleep(WAIT);
        }
        self.open.is_empty()
    }

    fn end(&self, cx: &mut Context<'_>) {
        match self.reply {
            Reply::Ok => cx.reply().simple("OK"),
            Reply::Count(count) => cx.reply().integer(count),
        }
        if self.closes_own {
            cx.session.turn_end = Some(TurnEnd::Close);
        }
    }
}

impl SlicedWork for Closing {
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        let is_closed = self.wait();
        if is_closed {
            self.end(cx);
        }
        Ok(is_closed)
    }
}

/// `args` are those after `CLIENT KILL`.
pub(crate) fn kill(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 1 {
        let closing = Closing::begin(cx, &Filter { address: Some(&args[0]), ..Filter::default() });
        return match closing.reply {
            Reply::Count(0) => Err(CommandError::Fixed("ERR No such client")),
            _ => Closing { reply: Reply::Ok, ..closing }.finish(cx),
        };
    }
    let filter = parse(cx, args)?;
    Closing::begin(cx, &filter).finish(cx)
}

fn parse<'a>(cx: &Context<'_>, args: Args<'a>) -> Result<Filter<'a>, CommandError> {
    let mut filter = Filter { spares_own: true, ..Filter::default() };
    let mut words = args.iter();
    while let Some(option) = words.next() {
        let value = words.next().ok_or(CommandError::Syntax)?;
        match option.to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = parse_integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
                filter.id = Some(id.ok_or(CommandError::Fixed("ERR client-id should be greater than 0"))?);
            }
            b"addr" => filter.address = Some(value),
            b"laddr" => filter.local_address = Some(value),
            b"type" => filter.kind = Some(ClientType::parse(value)?),
            b"maxage" => {
                let seconds = parse_integer(value)
                    .ok_or(CommandError::Fixed("ERR maxage is not an integer or out of range"))?;
                let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
                let seconds = seconds.ok_or(CommandError::Fixed("ERR maxage should be greater than 0"))?;
                filter.min_age = Duration::from_secs(seconds);
            }
            b"user" => {
                let no_user = || format!("No such user '{}'", String::from_utf8_lossy(value));
                let user = cx.state.users.find(value);
                filter.user = Some(user.ok_or_else(|| CommandError::Other(no_user()))?);
            }
            b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.spares_own = true,
            b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.spares_own = false,
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok(filter)
}
