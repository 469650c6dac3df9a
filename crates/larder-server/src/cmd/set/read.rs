//! `SCARD`, `SISMEMBER`, `SMISMEMBER`, `SMEMBERS`, `SSCAN`: what a set has.

use larder_resp::Args;

use super::look_up;
use crate::cmd::options::{MemberScan, cursor};
use crate::cmd::{CommandError, Context, Outcome};
use crate::values::set::Set;

pub(crate) fn scard(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let members = look_up(cx, &args[1], Set::len)?;
    cx.integer(members.unwrap_or(0) as i64)
}

pub(crate) fn sismember(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let is_member = look_up(cx, &args[1], |set| set.contains(&args[2]))?;
    cx.integer(is_member.unwrap_or(false).into())
}

pub(crate) fn smismember(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let members = args.skip(2);
    let found =
        look_up(cx, &args[1], |set| members.iter().map(|member| set.contains(member)).collect::<Vec<_>>())?;
    let found = found.unwrap_or_else(|| vec![false; members.len()]);
    let mut reply = cx.reply();
    reply.array(found.len());
    found.into_iter().for_each(|is_member| reply.integer(is_member.into()));
    Ok(())
}

pub(crate) fn smembers(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    let mut reply = cx.reply();
    let found = db.set_members(&args[1], |set| {
        reply.set(set.len());
        set.visit(|member| reply.bulk(member));
    })?;
    if found.is_none() {
        reply.set(0);
    }
    cx.count_lookup(&args[1], found.is_some());
    Ok(())
}

pub(crate) fn sscan(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cursor = cursor(&args[2])?;
    let options = MemberScan::parse(args.skip(3), false);
    let mut members: Vec<Vec<u8>> = Vec::new();
    let next = look_up(cx, &args[1], |set| {
        let MemberScan { count, pattern, .. } = options?;
        Ok::<_, CommandError>(set.scan(cursor, count, |member| {
            if pattern.as_ref().is_none_or(|pattern| pattern.matches(member)) {
                members.push(member.to_vec());
            }
        }))
    })?;
    let next = next.transpose()?.unwrap_or(0);
    let mut reply = cx.reply();
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(members.len());
    members.iter().for_each(|member| reply.bulk(member));
    Ok(())
}
