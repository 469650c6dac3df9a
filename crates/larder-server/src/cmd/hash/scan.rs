//! `HSCAN`: iterates over the fields of a hash in batches.

use larder_resp::Args;

use super::look_up;
use crate::cmd::options::{MemberScan, cursor};
use crate::cmd::{CommandError, Context, Outcome};

pub(crate) fn hscan(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cursor = cursor(&args[2])?;
    let options = MemberScan::parse(args.skip(3), true);
    let now = cx.now_ms();
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let next = look_up(cx, &args[1], |hash| {
        let MemberScan { count, pattern, with_values } = options?;
        Ok::<_, CommandError>(hash.scan(cursor, count, now, |field| {
            if pattern.as_ref().is_none_or(|pattern| pattern.matches(field.name)) {
                texts.push(field.name.to_vec());
                if with_values {
                    texts.push(field.value.to_vec());
                }
            }
        }))
    })?;
    let next = next.transpose()?.unwrap_or(0);
    let mut reply = cx.reply();
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(texts.len());
    texts.iter().for_each(|text| reply.bulk(text));
    Ok(())
}
