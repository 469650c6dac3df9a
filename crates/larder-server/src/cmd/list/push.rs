//! `LPUSH`, `RPUSH`, `LPUSHX`, `RPUSHX`: elements at an end.

use larder_resp::Args;

use crate::cmd::{Context, Outcome};
use crate::spec::{Access, CommandSpec};
use crate::values::list::End;

/// The rows of `LPUSH` and `RPUSH` in the table of commands. Observers are told of every element at an end in these names.
pub(crate) static LPUSH: CommandSpec =
    CommandSpec::new("lpush", -3, "1.0.0", "Puts elements before the first one.")
        .writes_list()
        .fast()
        .one_key()
        .access(Access::INSERTED);
pub(crate) static RPUSH: CommandSpec =
    CommandSpec::new("rpush", -3, "1.0.0", "Puts elements behind the last one.")
        .writes_list()
        .fast()
        .one_key()
        .access(Access::INSERTED);

pub(crate) fn lpush(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push(cx, args, End::Left, true)
}

pub(crate) fn rpush(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push(cx, args, End::Right, true)
}

pub(crate) fn lpushx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push(cx, args, End::Left, false)
}

pub(crate) fn rpushx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push(cx, args, End::Right, false)
}

fn push(cx: &mut Context<'_>, args: Args<'_>, end: End, creates: bool) -> Outcome {
    let length = cx.db().edit_list(&args[1], creates, |list| {
        args.skip(2).iter().for_each(|element| list.push(end, element));
        list.len()
    })?;
    cx.integer(length.unwrap_or(0) as i64)
}
