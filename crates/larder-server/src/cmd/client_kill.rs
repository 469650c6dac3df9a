//! `CLIENT KILL`: closes connections.

use larder_resp::{Args, parse_integer};

use super::client::ClientType;
use super::{CommandError, Context, Outcome};
use crate::clients::Client;
use crate::session::TurnEnd;

/// Which connections to close.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    kind: Option<ClientType>,
    spares_own: bool,
}

impl Filter<'_> {
    fn matches(&self, client: &Client, own: u64) -> bool {
        self.id.is_none_or(|id| client.id == id)
            && self.kind.is_none_or(|kind| kind.includes(client))
            && self.address.is_none_or(|address| client.address().as_bytes() == address)
            && self.local_address.is_none_or(|address| client.local_address().as_bytes() == address)
            && !(self.spares_own && client.id == own)
    }
}

/// `args` are those after `CLIENT KILL`.
pub(super) fn kill(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 1 {
        let closed = close(cx, &Filter { address: Some(&args[0]), ..Filter::default() });
        return if closed > 0 { cx.ok() } else { Err(CommandError::Fixed("ERR No such client")) };
    }
    let filter = parse(args)?;
    let closed = close(cx, &filter);
    cx.integer(closed)
}

fn parse<'a>(args: Args<'a>) -> Result<Filter<'a>, CommandError> {
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
            b"user" if value == b"default" => {}
            b"user" => {
                let name = String::from_utf8_lossy(value);
                return Err(CommandError::Other(format!("No such user '{name}'")));
            }
            b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.spares_own = true,
            b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.spares_own = false,
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok(filter)
}

/// Closes the connections that match; returns their number. The own one gets its reply first.
fn close(cx: &mut Context<'_>, filter: &Filter<'_>) -> i64 {
    let own = cx.session.client.id;
    let mut closed = 0;
    for client in cx.state.clients.all().iter().filter(|client| filter.matches(client, own)) {
        if client.id == own {
            cx.session.turn_end = Some(TurnEnd::Close);
        } else {
            client.close();
        }
        closed += 1;
    }
    closed
}
