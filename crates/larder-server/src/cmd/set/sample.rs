//! `SRANDMEMBER` and `SPOP`: random members of a set.

use larder_resp::Args;

use super::look_up;
use crate::cmd::options::count;
use crate::cmd::sample::{MEMBER_FRAME_BYTES, Random, Sample};
use crate::cmd::{CommandError, Context, Outcome};
use crate::values::set::Set;

pub(crate) fn srandmember(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    match Sample::parse(args, b"")? {
        None => one(cx, &args[1]),
        Some(sample) => some(cx, &args[1], sample),
    }
}

fn one(cx: &mut Context<'_>, key: &[u8]) -> Outcome {
    let member = look_up(cx, key, |set| member_at(set, Random::new().below(set.len())))?;
    let mut reply = cx.reply();
    match member {
        Some(member) => reply.bulk(&member),
        None => reply.null(),
    }
    Ok(())
}

fn member_at(set: &Set, rank: usize) -> Box<[u8]> {
    let mut found = Box::default();
    set.visit_ranks([rank], |member| {
        found = member.into();
        true
    });
    found
}

fn some(cx: &mut Context<'_>, key: &[u8], sample: Sample) -> Outcome {
    let (db, most_bytes) = (cx.db(), cx.out.len() as u64 + cx.reply_bytes_left());
    let count = sample.count();
    let checked = cx.check_reply(sample.number.unsigned_abs().saturating_mul(MEMBER_FRAME_BYTES));
    let mut reply = cx.reply();
    let found = db.set_members(key, |set| {
        if sample.number >= 0 && count >= set.len() {
            reply.array(set.len());
            set.visit(|member| reply.bulk(member));
            return Ok::<(), CommandError>(());
        }
        // With repetitions the set does not bound the reply.
        if sample.number < 0 {
            checked?;
        }
        reply.array(count);
        let mut random = Random::new();
        let write = |member: &[u8]| {
            reply.bulk(member);
            // Larger replies are refused.
            reply.buffer_len() as u64 <= most_bytes
        };
        if sample.number >= 0 {
            set.visit_ranks(random.sample(count, set.len()), write);
        } else {
            set.visit_ranks((0..count).map(|_| random.below(set.len())), write);
        }
        Ok(())
    })?;
    let found = found.transpose()?;
    if found.is_none() {
        reply.array(0);
    }
    cx.count_lookup(key, found.is_some());
    Ok(())
}

pub(crate) fn spop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let most = args.get(2).map(count).transpose()?;
    let taken = cx.db().edit_set(&args[1], false, |set| take(set, most.unwrap_or(1)))?;
    let mut reply = cx.reply();
    match (most, taken) {
        (Some(_), taken) => {
            let taken = taken.unwrap_or_default();
            reply.set(taken.len());
            taken.iter().for_each(|member| reply.bulk(member));
        }
        (None, Some(taken)) => taken.iter().for_each(|member| reply.bulk(member)),
        (None, None) => reply.null(),
    }
    Ok(())
}

/// Removes so many random members, and returns them.
fn take(set: &mut Set, count: usize) -> Vec<Box<[u8]>> {
    let mut taken: Vec<Box<[u8]>> = Vec::new();
    if count >= set.len() {
        set.visit(|member| taken.push(member.into()));
    } else {
        set.visit_ranks(Random::new().sample(count, set.len()), |member| {
            taken.push(member.into());
            true
        });
    }
    taken.iter().for_each(|member| _ = set.remove(member));
    taken
}
