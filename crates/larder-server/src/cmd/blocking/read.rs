//! `XREAD`: entries of streams behind known ones, and a wait for them. They stay in the stream, so that all who wait get them.

use std::sync::Arc;
use std::time::Duration;

use larder_resp::{Args, Protocol, parse_integer};

use super::BlockedCommand;
use crate::cmd::options::integer;
use crate::cmd::slices;
use crate::cmd::stream::{EncodedEntries, Selection, encode, id};
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Key, LockedKeys, WrongType};
use crate::observers::{Read, Wait, WaitingPlace};
use crate::system::Moment;
use crate::values::stream::{Id, Stream};

const UNBALANCED: CommandError = CommandError::Fixed(
    "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
);

/// The arguments of `XREAD`.
struct Request<'a> {
    /// The names of the keys.
    names: Vec<&'a [u8]>,
    /// For each key the id of an entry that is known.
    known: Args<'a>,
    /// The most entries of each stream.
    most: Option<usize>,
    /// `None` without `BLOCK`; zero is no limit.
    wait_ms: Option<u64>,
}

impl<'a> Request<'a> {
    fn parse(args: Args<'a>, is_script: bool) -> Result<Self, CommandError> {
        let (mut most, mut wait_ms) = (None, None);
        let mut words = args.skip(1);
        while let (Some(word), Some(value)) = (words.get(0), words.get(1)) {
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            if is(b"STREAMS") {
                let words = words.skip(1);
                let half = words.len() / 2;
                let (names, known) = (words.iter().take(half).collect(), words.skip(half));
                return match words.len().is_multiple_of(2) {
                    true => Ok(Request { names, known, most, wait_ms }),
                    false => Err(UNBALANCED),
                };
            } else if is(b"COUNT") {
                most = Some(integer(value)?.max(0) as usize).filter(|most| *most > 0);
            } else if is(b"BLOCK") {
                if is_script {
                    let name = String::from_utf8_lossy(&args[0]);
                    let error = format!("{name} command is not allowed with BLOCK option from scripts");
                    return Err(CommandError::Other(error));
                }
                wait_ms = Some(timeout_ms(value)?);
            } else {
                break;
            }
            words = words.skip(2);
        }
        let is = |name: &[u8]| words.get(0).is_some_and(|word| word.eq_ignore_ascii_case(name));
        Err(match () {
            () if is(b"GROUP") && words.len() > 2 => CommandError::Fixed(
                "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
            ),
            () if is(b"NOACK") => CommandError::Fixed(
                "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
            ),
            () => CommandError::Syntax,
        })
    }
}

fn timeout_ms(text: &[u8]) -> Result<u64, CommandError> {
    let error = CommandError::Fixed("ERR timeout is not an integer or out of range");
    let number = parse_integer(text).ok_or(error)?;
    u64::try_from(number).map_err(|_| CommandError::Fixed("ERR timeout is negative"))
}

pub(crate) fn xread(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Request { names, known, most, wait_ms } = Request::parse(args, cx.is_script())?;
    let may_wait = wait_ms.is_some() && cx.held.is_none();
    let place = may_wait.then(|| WaitingPlace::new(Arc::clone(&cx.state.store.observers)));
    let (db, mut locked) = cx.lock(names.iter().copied());
    let mut after = Vec::with_capacity(names.len());
    for (name, known) in names.iter().zip(known.iter()) {
        let found = locked.stream(db.key(name), |stream| known_id(known, Some(stream)))?;
        after.push(found.unwrap_or_else(|| known_id(known, None))?);
    }
    let (mut streams, mut bytes_left) = (Vec::new(), cx.reply_bytes_left());
    for (name, after) in names.iter().zip(&after) {
        let found = entries(&mut locked, db.key(name), *after, most, bytes_left)?;
        cx.count_lookup(name, found.is_some());
        if let Some(found) = found {
            let found = found.ok_or_else(|| cx.reply_too_large())?;
            bytes_left = bytes_left.saturating_sub(found.bytes.len() as u64);
            streams.push((*name, found));
        }
    }
    streams.retain(|(_, entries)| entries.count > 0);
    if let Some(mut place) = place.filter(|_| streams.is_empty()) {
        let read = Read { after, most };
        let names = names.into_iter().map(Box::from).collect();
        let wait = Wait::Read(read);
        let (client, command) = (Arc::clone(&cx.session.client), cx.session.last_command);
        place.enqueue(client, wait.clone(), command, cx.session.database(), names);
        drop(locked);
        let timeout = wait_ms.filter(|ms| *ms > 0).map(Duration::from_millis);
        let deadline = timeout.map_or(Moment::NEVER, |timeout| Moment::now() + timeout);
        return slices::begin(cx, BlockedCommand { place, wait, deadline });
    }
    drop(locked);
    if streams.is_empty() {
        cx.reply().null_array();
        return Ok(());
    }
    begin_streams(cx, streams.len());
    for (name, entries) in streams {
        begin_stream(cx, name);
        entries.reply(cx);
    }
    Ok(())
}

/// The id that an argument says is known: `$` is that of the last entry that was added, `+` the one before the last entry.
fn known_id(text: &[u8], stream: Option<&Stream>) -> Result<Id, CommandError> {
    let last_id = stream.map_or(Id::MIN, |stream| stream.head().last_id);
    match text {
        b"$" => Ok(last_id),
        b"+" => Ok(stream.and_then(Stream::last_entry_id).and_then(Id::previous).unwrap_or(last_id)),
        b">" => Err(CommandError::Fixed(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        )),
        text => id(text, 0),
    }
}

/// The entries of a locked stream behind a known one, if it exists. `None` inside if they are longer than `most_bytes`.
pub(super) fn entries(
    locked: &mut LockedKeys<'_>,
    key: Key<'_>,
    after: Id,
    most: Option<usize>,
    most_bytes: u64,
) -> Result<Option<Option<EncodedEntries>>, WrongType> {
    locked.stream(key, |stream| match after.next() {
        Some(first) => encode(stream, Selection { ids: first..=Id::MAX, reversed: false, most }, most_bytes),
        None => Some(EncodedEntries { count: 0, bytes: Vec::new() }),
    })
}

/// Begins a reply with the entries of so many streams.
fn begin_streams(cx: &mut Context<'_>, streams: usize) {
    match cx.session.protocol() {
        Protocol::Resp2 => cx.reply().array(streams),
        Protocol::Resp3 => cx.reply().map(streams),
    }
}

/// Begins the entries of one stream.
fn begin_stream(cx: &mut Context<'_>, name: &[u8]) {
    if cx.session.protocol() == Protocol::Resp2 {
        cx.reply().array(2);
    }
    cx.reply().bulk(name);
}

/// Replies with the entries that a connection was given: an array, encoded.
pub(super) fn reply(cx: &mut Context<'_>, name: &[u8], entries: &[u8]) -> Outcome {
    cx.check_reply(entries.len() as u64)?;
    begin_streams(cx, 1);
    begin_stream(cx, name);
    cx.out.extend_from_slice(entries);
    Ok(())
}
