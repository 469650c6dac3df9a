//! `ZRANGE` in all its forms, the older commands that are special cases of it, and `ZRANGESTORE`; and `ZREM` of ranges.

use std::ops::Range;

use larder_resp::Args;

use super::{MemberRange, MemberWriter};
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Expiry, collections};
use crate::values::sorted_set::SortedSet;

/// What the ends of a range are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Name,
}

/// What a command fixes of a range; its options say the rest.
#[derive(Clone, Copy)]
struct Form {
    by: Option<By>,
    reversed: Option<bool>,
    /// Whether the members are stored, without scores in the reply.
    stores: bool,
}

pub(crate) fn zrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Form { by: None, reversed: None, stores: false })
}

pub(crate) fn zrevrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Form { by: Some(By::Rank), reversed: Some(true), stores: false })
}

pub(crate) fn zrangebyscore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Form { by: Some(By::Score), reversed: Some(false), stores: false })
}

pub(crate) fn zrevrangebyscore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Form { by: Some(By::Score), reversed: Some(true), stores: false })
}

pub(crate) fn zrangebylex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Form { by: Some(By::Name), reversed: Some(false), stores: false })
}

pub(crate) fn zrevrangebylex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Form { by: Some(By::Name), reversed: Some(true), stores: false })
}

fn reply(cx: &mut Context<'_>, args: Args<'_>, form: Form) -> Outcome {
    let query = Query::parse(args.skip(2), form)?;
    let db = cx.db();
    let mut writer = MemberWriter::new(cx, query.with_scores);
    let found = db.sorted_set(&args[1], |set| writer.write_range(set, query.find(set), query.reversed))?;
    if found.is_none() {
        writer.start(0);
    }
    cx.count_lookup(&args[1], found.is_some());
    Ok(())
}

pub(crate) fn zrangestore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let query = Query::parse(args.skip(3), Form { by: None, reversed: None, stores: true })?;
    let (db, mut locked) = cx.lock([&args[1], &args[2]]);
    let (to, from) = (db.key(&args[1]), db.key(&args[2]));
    let copy = locked.sorted_set(from, |set| copy_range(set, query.find(set), query.reversed))?;
    let members = copy.as_ref().map_or(0, SortedSet::len);
    match copy.filter(|copy| !copy.is_empty()) {
        Some(copy) => locked.put(collections::record(to, copy), Expiry::Never)?,
        None => _ = locked.remove(to),
    }
    drop(locked);
    cx.integer(members as i64)
}

fn copy_range(set: &SortedSet, ranks: Range<usize>, reversed: bool) -> SortedSet {
    let mut copy = SortedSet::new();
    set.visit(ranks, reversed, |name, score| {
        copy.insert(name, score);
        true
    });
    copy
}

/// A range with its options.
struct Query<'a> {
    range: MemberRange<'a>,
    reversed: bool,
    with_scores: bool,
    offset: i64,
    /// The most members; all, if it is negative.
    count: i64,
}

impl<'a> Query<'a> {
    /// Parses the two ends of a range and its options.
    fn parse(args: Args<'a>, form: Form) -> Result<Query<'a>, CommandError> {
        let Form { mut by, mut reversed, stores } = form;
        let (mut with_scores, mut offset, mut count) = (false, 0, -1);
        let mut options = args.skip(2).iter();
        while let Some(option) = options.next() {
            let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
            if is(b"WITHSCORES") && !stores {
                with_scores = true;
            } else if is(b"LIMIT") {
                let (first, second) = (options.next(), options.next());
                let (first, second) = first.zip(second).ok_or(CommandError::Syntax)?;
                (offset, count) = (integer(first)?, integer(second)?);
            } else if is(b"REV") && reversed.is_none() {
                reversed = Some(true);
            } else if is(b"BYSCORE") && by.is_none() {
                by = Some(By::Score);
            } else if is(b"BYLEX") && by.is_none() {
                by = Some(By::Name);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        let (by, reversed) = (by.unwrap_or(By::Rank), reversed.unwrap_or(false));
        if count != -1 && by == By::Rank {
            return Err(CommandError::Fixed(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Name {
            return Err(CommandError::Fixed(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (first, second) = args.get(0).zip(args.get(1)).ok_or(CommandError::Syntax)?;
        // The range of a reversed query begins with its end.
        let (min, max) = if reversed { (second, first) } else { (first, second) };
        let range = match by {
            By::Rank => MemberRange::ranks(first, second)?,
            By::Score => MemberRange::scores(min, max)?,
            By::Name => MemberRange::names(min, max)?,
        };
        Ok(Query { range, reversed, with_scores, offset, count })
    }

    /// The ranks that the query selects.
    fn find(&self, set: &SortedSet) -> Range<usize> {
        let Range { start, end } = self.range.find(set, self.reversed);
        if matches!(self.range, MemberRange::Ranks(..)) {
            return start..end;
        }
        // A negative offset skips everything.
        let skipped = usize::try_from(self.offset).unwrap_or(usize::MAX).min(end - start);
        let taken = usize::try_from(self.count).unwrap_or(usize::MAX).min(end - start - skipped);
        if self.reversed {
            end - skipped - taken..end - skipped
        } else {
            start + skipped..start + skipped + taken
        }
    }
}

pub(crate) fn zremrangebyrank(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(cx, &args[1], MemberRange::ranks(&args[2], &args[3])?)
}

pub(crate) fn zremrangebyscore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(cx, &args[1], MemberRange::scores(&args[2], &args[3])?)
}

pub(crate) fn zremrangebylex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(cx, &args[1], MemberRange::names(&args[2], &args[3])?)
}

fn remove(cx: &mut Context<'_>, key: &[u8], range: MemberRange<'_>) -> Outcome {
    let removed = cx.db().edit_sorted_set(key, false, |set| {
        let ranks = range.find(set, false);
        set.remove_range(ranks.clone());
        ranks.len()
    })?;
    cx.integer(removed.unwrap_or(0) as i64)
}
