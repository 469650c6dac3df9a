//! `ZSCAN`: iterates over the members of a sorted set in batches.

use larder_resp::Args;

use super::read::look_up;
use crate::cmd::options::{MemberScan, cursor};
use crate::cmd::{CommandError, Context, Outcome};

pub(crate) fn zscan(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cursor = cursor(&args[2])?;
    let options = MemberScan::parse(args.skip(3), false);
    let mut members: Vec<(Vec<u8>, f64)> = Vec::new();
    let next = look_up(cx, &args[1], |set| {
        let MemberScan { count, pattern, .. } = options?;
        // A small set is returned whole.
        let count = if set.is_packed() { set.len() } else { count };
        Ok::<_, CommandError>(set.scan(cursor, count, |name, score| {
            if pattern.as_ref().is_none_or(|pattern| pattern.matches(name)) {
                members.push((name.to_vec(), score));
            }
        }))
    })?;
    let next = next.transpose()?.unwrap_or(0);
    let mut reply = cx.reply();
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(2 * members.len());
    for (name, score) in members {
        reply.bulk(&name);
        reply.bulk_double(score);
    }
    Ok(())
}
