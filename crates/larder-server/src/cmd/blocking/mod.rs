//! Commands that wait for members of keys: `BLPOP`, `BRPOP`, `BLMPOP`, `BLMOVE`, `BRPOPLPUSH`, `BZPOPMIN`, `BZPOPMAX`, `BZMPOP`, and
//! `XREAD`, which takes none.
//!
//! A command takes members under the locks of its keys or, if there are none, registers its connection under the same locks. A
//! command that gives a key members serves those who wait for them before it unlocks the key, in the order of their arrival:
//! see [`serve`]. In a transaction and in a script nothing waits.

pub(crate) mod read;
pub(crate) mod serve;
mod take;

use std::sync::Arc;
use std::time::Duration;

use larder_resp::{Args, parse_float};

use super::list::end_of;
use super::options::MultiPop;
use super::rights;
use super::slices::{self, SlicedWork};
use super::{CommandError, Context, Outcome};
use crate::observers::{self, Pop, Popped, Wait, WaitingPlace};
use crate::system::Moment;
use crate::values::list::End;

/// The longest time that a connection waits: as in Redis, what milliseconds can tell.
const MAX_TIMEOUT_SECS: f64 = (i64::MAX / 1_000) as f64;

pub(crate) fn blpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop_from_keys(cx, args, Pop::Elements { end: End::Left, count: None })
}

pub(crate) fn brpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop_from_keys(cx, args, Pop::Elements { end: End::Right, count: None })
}

pub(crate) fn bzpopmin(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop_from_keys(cx, args, Pop::Members { takes_last: false, count: None })
}

pub(crate) fn bzpopmax(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop_from_keys(cx, args, Pop::Members { takes_last: true, count: None })
}

/// The timeout is the last argument.
fn pop_from_keys(cx: &mut Context<'_>, args: Args<'_>, pop: Pop) -> Outcome {
    let last = args.len() - 1;
    let timeout = timeout(&args[last])?;
    let names = args.skip(1).iter().take(last - 1).collect();
    take_or_wait(cx, names, pop, timeout)
}

pub(crate) fn blmpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let timeout = timeout(&args[1])?;
    let MultiPop { names, word, count } = MultiPop::parse(args.skip(2))?;
    take_or_wait(cx, names, Pop::Elements { end: end_of(word)?, count: Some(count) }, timeout)
}

pub(crate) fn bzmpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let timeout = timeout(&args[1])?;
    let MultiPop { names, word, count } = MultiPop::parse(args.skip(2))?;
    let takes_last = match word.to_ascii_uppercase().as_slice() {
        b"MIN" => false,
        b"MAX" => true,
        _ => return Err(CommandError::Syntax),
    };
    take_or_wait(cx, names, Pop::Members { takes_last, count: Some(count) }, timeout)
}

pub(crate) fn blmove(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (from, to) = (end_of(&args[3])?, end_of(&args[4])?);
    let pop = Pop::Move { from, to, target: args[2].into() };
    take_or_wait(cx, vec![&args[1]], pop, timeout(&args[5])?)
}

pub(crate) fn brpoplpush(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let pop = Pop::Move { from: End::Right, to: End::Left, target: args[2].into() };
    take_or_wait(cx, vec![&args[1]], pop, timeout(&args[3])?)
}

/// Seconds, with a fraction; zero is no limit.
fn timeout(text: &[u8]) -> Result<Option<Duration>, CommandError> {
    let not_a_float = CommandError::Fixed("ERR timeout is not a float or out of range");
    let seconds = parse_float(text).filter(|seconds| seconds.is_finite()).ok_or(not_a_float)?;
    if seconds < 0.0 {
        return Err(CommandError::Fixed("ERR timeout is negative"));
    }
    if seconds > MAX_TIMEOUT_SECS {
        return Err(CommandError::Fixed("ERR timeout is out of range"));
    }
    // Redis counts milliseconds, and a part of one as a whole.
    let ms = (seconds * 1_000.0).ceil() as u64;
    Ok((ms > 0).then(|| Duration::from_millis(ms)))
}

/// Takes members from the first key that has some, or waits until one has.
fn take_or_wait(cx: &mut Context<'_>, names: Vec<&[u8]>, pop: Pop, timeout: Option<Duration>) -> Outcome {
    let may_wait = cx.held.is_none();
    let mut place = may_wait.then(|| WaitingPlace::new(Arc::clone(&cx.state.store.observers)));
    let target = if let Pop::Move { target, .. } = &pop { Some(&target[..]) } else { None };
    let (db, mut locked) = cx.lock(names.iter().copied().chain(target));
    for name in &names {
        if let Some(popped) = take::members(&mut locked, db.key(name), &pop, cx.origin())? {
            drop(locked);
            return reply(cx, &pop, Some(popped));
        }
    }
    let Some(mut place) = place.take() else { return reply(cx, &pop, None) };
    cx.state.warn_of_evicted_queues();
    let names = names.into_iter().map(Box::from).collect();
    let wait = Wait::Pop(pop);
    let (client, command) = (Arc::clone(&cx.session.client), cx.session.last_command);
    place.enqueue(client, wait.clone(), command, cx.session.database(), names);
    drop(locked);
    let deadline = timeout.map_or(Moment::NEVER, |timeout| Moment::now() + timeout);
    slices::begin(cx, BlockedCommand { place, wait, deadline })
}

/// Replies with what was taken, or that the time is over.
fn reply(cx: &mut Context<'_>, pop: &Pop, popped: Option<Popped>) -> Outcome {
    let mut reply = cx.reply();
    match popped {
        None if matches!(pop, Pop::Move { .. }) => reply.null(),
        None => reply.null_array(),
        Some(Popped::WrongType) => return Err(CommandError::WrongType),
        Some(Popped::OutOfMemory) => return Err(CommandError::OutOfMemory),
        Some(Popped::Moved(element)) => reply.bulk(&element),
        Some(Popped::Elements { name, elements }) => {
            reply.array(2);
            reply.bulk(&name);
            if matches!(pop, Pop::Elements { count: Some(_), .. }) {
                reply.array(elements.len());
            }
            elements.iter().for_each(|element| reply.bulk(element));
        }
        Some(Popped::Members { name, members }) => {
            let is_single = matches!(pop, Pop::Members { count: None, .. });
            reply.array(if is_single { 3 } else { 2 });
            reply.bulk(&name);
            if !is_single {
                reply.array(members.len());
            }
            for (member, score) in members {
                if !is_single {
                    reply.array(2);
                }
                reply.bulk(&member);
                reply.double(score);
            }
        }
    }
    Ok(())
}

/// A command whose connection waits.
struct BlockedCommand {
    place: WaitingPlace,
    wait: Wait,
    deadline: Moment,
}

impl SlicedWork for BlockedCommand {
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        let Some(outcome) = self.place.outcome(Moment::now() >= self.deadline) else { return Ok(false) };
        let popped = match outcome {
            observers::Outcome::Popped(popped) => Some(popped),
            observers::Outcome::TimedOut => None,
            observers::Outcome::Read { name, entries } => {
                return read::reply(cx, &name, &entries).map(|()| true);
            }
            observers::Outcome::Denied(denied) => return Err(rights::denied_while_waiting(cx, denied)),
            observers::Outcome::TooLarge => return Err(cx.reply_too_large()),
            observers::Outcome::Unblocked => {
                return Err(CommandError::Fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK"));
            }
        };
        match (&self.wait, popped) {
            (Wait::Pop(pop), Some(popped)) => reply(cx, pop, Some(popped))?,
            // Of all commands, also of those that do not reply with arrays.
            _ => cx.reply().null_array(),
        }
        Ok(true)
    }

    fn waits_until(&self) -> Option<Moment> {
        Some(self.deadline)
    }

    fn bytes(&self) -> usize {
        self.place.bytes()
    }
}
