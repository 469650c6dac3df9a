//! `LPOP`, `RPOP`, `LMPOP`: commands that take elements from an end.

use std::ops::Range;

use larder_resp::{Args, Encoder};

use super::end_of;
use crate::cmd::options::{MultiPop, count};
use crate::cmd::{CommandError, Context, Outcome};
use crate::observers::Origin;
use crate::spec::{Access, CommandSpec};
use crate::values::list::{End, List};

/// The rows of `LPOP` and `RPOP` in the table of commands. Observers are told of every element that is taken in these names.
pub(crate) static LPOP: CommandSpec = CommandSpec::new("lpop", -2, "1.0.0", "Takes the first elements.")
    .updates_list()
    .fast()
    .one_key()
    .access(Access::TAKEN);
pub(crate) static RPOP: CommandSpec = CommandSpec::new("rpop", -2, "1.0.0", "Takes the last elements.")
    .updates_list()
    .fast()
    .one_key()
    .access(Access::TAKEN);

impl End {
    /// The command that takes elements from this end.
    pub(in crate::cmd) fn pop_spec(self) -> &'static CommandSpec {
        match self {
            End::Left => &LPOP,
            End::Right => &RPOP,
        }
    }

    /// The indices of so many elements at this end.
    pub(in crate::cmd) fn indices(self, list: &List, count: usize) -> Range<usize> {
        let (len, count) = (list.len(), count.min(list.len()));
        match self {
            End::Left => 0..count,
            End::Right => len - count..len,
        }
    }

    /// Takes so many elements, and replies with them in the order in which they leave.
    fn pop(self, list: &mut List, count: usize, reply: &mut Encoder<'_>) {
        let indices = self.indices(list, count);
        list.visit(indices.clone(), self == End::Right, |element| {
            reply.bulk(element);
            true
        });
        list.remove(indices);
    }
}

pub(crate) fn lpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(cx, args, End::Left)
}

pub(crate) fn rpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(cx, args, End::Right)
}

fn pop(cx: &mut Context<'_>, args: Args<'_>, end: End) -> Outcome {
    if args.len() > 3 {
        return Err(CommandError::Arity(end.pop_spec().name));
    }
    let most = args.get(2).map(count).transpose()?;
    let db = cx.db();
    let mut reply = cx.reply();
    let popped = db.edit_list(&args[1], false, |list| {
        if let Some(most) = most {
            reply.array(most.min(list.len()));
        }
        end.pop(list, most.unwrap_or(1), &mut reply);
    })?;
    match (popped, most) {
        (Some(()), _) => {}
        (None, Some(_)) => reply.null_array(),
        (None, None) => reply.null(),
    }
    Ok(())
}

pub(crate) fn lmpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let MultiPop { names, word, count } = MultiPop::parse(args.skip(1))?;
    let end = end_of(word)?;
    let (db, mut locked) = cx.lock(names.iter().copied());
    locked.tell_as(Origin { command: Some(end.pop_spec()), ..cx.origin() });
    let mut reply = cx.reply();
    for name in names {
        let popped = locked.edit_list(db.key(name), false, |list| {
            reply.array(2);
            reply.bulk(name);
            reply.array(count.min(list.len()));
            end.pop(list, count, &mut reply);
        })?;
        if popped.is_some() {
            return Ok(());
        }
    }
    reply.null_array();
    Ok(())
}
