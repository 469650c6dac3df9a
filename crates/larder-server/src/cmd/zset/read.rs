//! `ZCARD`, `ZCOUNT`, `ZLEXCOUNT`, `ZSCORE`, `ZMSCORE`, `ZRANK`, `ZREVRANK`: numbers that a sorted set answers with.

use larder_resp::Args;

use super::MemberRange;
use crate::cmd::{CommandError, Context, Outcome};
use crate::values::sorted_set::SortedSet;

/// The result of `f` for the sorted set of a key, if it exists. Counts the lookup.
pub(super) fn look_up<R>(
    cx: &mut Context<'_>,
    key: &[u8],
    f: impl FnOnce(&SortedSet) -> R,
) -> Result<Option<R>, CommandError> {
    let found = cx.db().sorted_set(key, f)?;
    cx.count_lookup(key, found.is_some());
    Ok(found)
}

pub(crate) fn zcard(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let members = look_up(cx, &args[1], SortedSet::len)?;
    cx.integer(members.unwrap_or(0) as i64)
}

pub(crate) fn zcount(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    count(cx, &args[1], MemberRange::scores(&args[2], &args[3])?)
}

pub(crate) fn zlexcount(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    count(cx, &args[1], MemberRange::names(&args[2], &args[3])?)
}

fn count(cx: &mut Context<'_>, key: &[u8], range: MemberRange<'_>) -> Outcome {
    let members = look_up(cx, key, |set| range.find(set, false).len())?;
    cx.integer(members.unwrap_or(0) as i64)
}

pub(crate) fn zscore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let score = look_up(cx, &args[1], |set| set.score(&args[2]))?.flatten();
    let mut reply = cx.reply();
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
    Ok(())
}

pub(crate) fn zmscore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let names = args.skip(2);
    let scores = look_up(cx, &args[1], |set| names.iter().map(|name| set.score(name)).collect::<Vec<_>>())?;
    let scores = scores.unwrap_or_else(|| vec![None; names.len()]);
    let mut reply = cx.reply();
    reply.array(scores.len());
    for score in scores {
        match score {
            Some(score) => reply.double(score),
            None => reply.null(),
        }
    }
    Ok(())
}

pub(crate) fn zrank(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    rank(cx, args, |rank, _| rank)
}

pub(crate) fn zrevrank(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    rank(cx, args, |rank, members| members - 1 - rank)
}

/// Replies with the rank of a member, which `from` makes of its rank from the start and the number of members.
fn rank(cx: &mut Context<'_>, args: Args<'_>, from: impl FnOnce(usize, usize) -> usize) -> Outcome {
    let with_score = match args.get(3) {
        None => false,
        Some(word) if args.len() == 4 && word.eq_ignore_ascii_case(b"WITHSCORE") => true,
        Some(_) => return Err(CommandError::Syntax),
    };
    let found = look_up(cx, &args[1], |set| set.rank(&args[2]).map(|found| (found, set.len())))?.flatten();
    let mut reply = cx.reply();
    match found {
        None if with_score => reply.null_array(),
        None => reply.null(),
        Some(((rank, score), members)) => {
            if with_score {
                reply.array(2);
            }
            reply.integer(from(rank, members) as i64);
            if with_score {
                reply.double(score);
            }
        }
    }
    Ok(())
}
