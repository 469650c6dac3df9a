//! `ZREM`, `ZPOPMIN`, `ZPOPMAX`, `ZMPOP`: commands that remove members.

use std::ops::Range;

use larder_resp::Args;

use super::{MemberWriter, count, positive};
use crate::cmd::{CommandError, Context, Outcome};
use crate::values::sorted_set::SortedSet;

pub(crate) fn zrem(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let removed = cx.db().edit_sorted_set(&args[1], false, |set| {
        args.skip(2).iter().filter(|name| set.remove(name).is_some()).count()
    })?;
    cx.integer(removed.unwrap_or(0) as i64)
}

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
    let key_count = positive(&args[1], "ERR numkeys should be greater than 0")?;
    let options = args.skip(2usize.saturating_add(key_count).min(args.len()));
    let end = match options.get(0).map(|word| word.to_ascii_uppercase()).as_deref() {
        Some(b"MIN") => End::Min,
        Some(b"MAX") => End::Max,
        _ => return Err(CommandError::Syntax),
    };
    let most = match (options.get(1), options.get(2)) {
        (None, _) => 1,
        (Some(word), Some(number)) if word.eq_ignore_ascii_case(b"COUNT") => {
            positive(number, "ERR count should be greater than 0")?
        }
        _ => return Err(CommandError::Syntax),
    };
    if options.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let names = || args.skip(2).iter().take(key_count);
    let (db, mut locked) = cx.lock(names());
    for name in names() {
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
