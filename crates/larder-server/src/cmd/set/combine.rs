//! `SUNION`, `SINTER`, `SDIFF`, their forms that store the result, and `SINTERCARD`.

use larder_resp::Args;

use crate::cmd::options::{count, positive};
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Database, Expiry, LockedKeys, collections};
use crate::values::set::Set;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

pub(crate) fn sunion(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Operation::Union)
}

pub(crate) fn sinter(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Operation::Intersection)
}

pub(crate) fn sdiff(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Operation::Difference)
}

pub(crate) fn sunionstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    store(cx, args, Operation::Union)
}

pub(crate) fn sinterstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    store(cx, args, Operation::Intersection)
}

pub(crate) fn sdiffstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    store(cx, args, Operation::Difference)
}

pub(crate) fn sintercard(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key_count = positive(&args[1], "ERR numkeys should be greater than 0")?;
    if key_count > args.len() - 2 {
        return Err(CommandError::Fixed("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = usize::MAX;
    let mut options = args.skip(2 + key_count).iter();
    while let Some(word) = options.next() {
        let number = options.next().filter(|_| word.eq_ignore_ascii_case(b"LIMIT"));
        let number = number.ok_or(CommandError::Syntax)?;
        limit = count(number).map_err(|_| CommandError::Fixed("ERR LIMIT can't be negative"))?;
    }
    let names = || args.skip(2).iter().take(key_count);
    let (db, mut locked) = cx.lock(names());
    let result = combine(db, &mut locked, names().collect(), Operation::Intersection)?;
    drop(locked);
    let members = if limit == 0 { result.len() } else { result.len().min(limit) };
    cx.integer(members as i64)
}

fn reply(cx: &mut Context<'_>, args: Args<'_>, operation: Operation) -> Outcome {
    let names = || args.skip(1).iter();
    let (db, mut locked) = cx.lock(names());
    let result = combine(db, &mut locked, names().collect(), operation)?;
    drop(locked);
    let mut reply = cx.reply();
    reply.set(result.len());
    result.visit(|member| reply.bulk(member));
    Ok(())
}

fn store(cx: &mut Context<'_>, args: Args<'_>, operation: Operation) -> Outcome {
    let (db, mut locked) = cx.lock(args.skip(1).iter());
    let to = db.key(&args[1]);
    let result = combine(db, &mut locked, args.skip(2).iter().collect(), operation)?;
    let members = result.len();
    match result.is_empty() {
        true => _ = locked.remove(to),
        false => locked.put(collections::record(to, result), Expiry::Never)?,
    }
    drop(locked);
    cx.integer(members as i64)
}

/// The result. Cost: all members of a union; else the members of one set, and a lookup in the others for each.
fn combine(
    db: Database<'_>,
    locked: &mut LockedKeys<'_>,
    names: Vec<&[u8]>,
    operation: Operation,
) -> Result<Set, CommandError> {
    let mut sizes = Vec::with_capacity(names.len());
    for name in &names {
        sizes.push(locked.set_members(db.key(name), Set::len)?.unwrap_or(0));
    }
    let mut order: Vec<usize> = (0..names.len()).collect();
    if operation == Operation::Intersection {
        order.sort_by_key(|index| sizes[*index]);
    }
    let mut result = Set::new();
    for (position, index) in order.into_iter().enumerate() {
        let combined = locked.set_members(db.key(names[index]), |set| match operation {
            Operation::Intersection if position > 0 => retain(&mut result, |member| set.contains(member)),
            Operation::Difference if position > 0 => subtract(&mut result, set),
            _ => set.visit(|member| _ = result.insert(member)),
        })?;
        if combined.is_none() && operation == Operation::Intersection {
            return Ok(Set::new());
        }
    }
    Ok(result)
}

fn retain(result: &mut Set, is_kept: impl Fn(&[u8]) -> bool) {
    let mut kept = Set::new();
    result.visit(|member| {
        if is_kept(member) {
            kept.insert(member);
        }
    });
    *result = kept;
}

fn subtract(result: &mut Set, set: &Set) {
    if set.len() < result.len() {
        set.visit(|member| _ = result.remove(member));
    } else {
        retain(result, |member| !set.contains(member));
    }
}
