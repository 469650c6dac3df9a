//! `ZREM`, `ZPOPMIN`, `ZPOPMAX`, `ZMPOP`: commands that remove members.

use std::ops::Range;

use larder_resp::Args;

use super::MemberWriter;
use crate::cmd::options::{MultiPop, count};
use crate::cmd::{CommandError, Context, Outcome};
use crate::spec::{Access, CommandSpec};
use crate::values::sorted_set::SortedSet;

pub(crate) fn zrem(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let removed = cx.db().edit_sorted_set(&args[1], false, |set| {
        args.skip(2).iter().filter(|name| set.remove(name).is_some()).count()
    })?;
    cx.integer(removed.unwrap_or(0) as i64)
}

/// The rows of `ZPOPMIN` and `ZPOPMAX` in the table of commands. Observers are told of the members that blocking commands take in
/// these names.
pub(crate) static ZPOPMIN: CommandSpec =
    CommandSpec::new("zpopmin", -2, "5.0.0", "Takes the members with the lowest scores.")
        .updates_zset()
        .fast()
        .one_key()
        .access(Access::TAKEN);
pub(crate) static ZPOPMAX: CommandSpec =
    CommandSpec::new("zpopmax", -2, "5.0.0", "Takes the members with the highest scores.")
        .updates_zset()
        .fast()
        .one_key()
        .access(Access::TAKEN);

pub(crate) fn zpopmin(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(cx, args, End::Min)
}

pub(crate) fn zpopmax(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(cx, args, End::Max)
}

/// From which end members are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

impl End {
    /// The ranks of so many members at this end.
    fn ranks(self, set: &SortedSet, count: usize) -> Range<usize> {
        let (len, count) = (set.len(), count.min(set.len()));
        match self {
            End::Min => 0..count,
            End::Max => len - count..len,
        }
    }

    /// Removes so many members, and writes them in the order in which they leave.
    fn pop(self, set: &mut SortedSet, count: usize, writer: &mut MemberWriter<'_>) {
        let ranks = self.ranks(set, count);
        writer.write_range(set, ranks.clone(), self == End::Max);
        set.remove_range(ranks);
    }
}

fn pop(cx: &mut Context<'_>, args: Args<'_>, end: End) -> Outcome {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let most = args.get(2).map(count).transpose()?;
    let db = cx.db();
    let mut writer = MemberWriter::new(cx, true);
    if most.is_none() {
        // A single member and its score are one flat array.
        writer.is_nested = false;
    }
    let popped = db.edit_sorted_set(&args[1], false, |set| end.pop(set, most.unwrap_or(1), &mut writer))?;
    if popped.is_none() {
        writer.start(0);
    }
    Ok(())
}

pub(crate) fn zmpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let MultiPop { names, word, count: most } = MultiPop::parse(args.skip(1))?;
    let end = match word.to_ascii_uppercase().as_slice() {
        b"MIN" => End::Min,
        b"MAX" => End::Max,
        _ => return Err(CommandError::Syntax),
    };
    let (db, mut locked) = cx.lock(names.iter().copied());
    for name in names {
        let mut writer = MemberWriter::new(cx, true);
        let popped = locked.edit_sorted_set(db.key(name), |set| {
            writer.reply.array(2);
            writer.reply.bulk(name);
            // Nested in both versions of the protocol.
            writer.is_nested = true;
            end.pop(set, most, &mut writer);
        })?;
        if popped.is_some() {
            return Ok(());
        }
    }
    cx.reply().null_array();
    Ok(())
}
