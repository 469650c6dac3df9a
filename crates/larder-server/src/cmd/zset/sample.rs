//! `ZRANDMEMBER`: random members of a sorted set.

use larder_resp::Args;

use super::MemberWriter;
use super::read::look_up;
use crate::cmd::sample::{MEMBER_FRAME_BYTES, Random, Sample};
use crate::cmd::{CommandError, Context, Outcome};

pub(crate) fn zrandmember(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match Sample::parse(args, b"WITHSCORES")? {
        None => one(cx, &args[1]),
        Some(sample) => some(cx, &args[1], sample),
    }
}

fn one(cx: &mut Context<'_>, key: &[u8]) -> Outcome {
    let name = look_up(cx, key, |set| set.at(Random::new().below(set.len())).0.to_vec())?;
    let mut reply = cx.reply();
    match name {
        Some(name) => reply.bulk(&name),
        None => reply.null(),
    }
    Ok(())
}

fn some(cx: &mut Context<'_>, key: &[u8], sample: Sample) -> Outcome {
    let Sample { number, with_values } = sample;
    let (db, most_bytes) = (cx.db(), cx.out.len() + cx.reply_bytes_left() as usize);
    let count = sample.count();
    let checked = cx.check_reply(number.unsigned_abs().saturating_mul(MEMBER_FRAME_BYTES));
    let mut random = Random::new();
    let mut writer = MemberWriter::new(cx, with_values);
    let found = db.sorted_set(key, |set| {
        if number >= 0 && count >= set.len() {
            writer.write_range(set, 0..set.len(), false);
            return Ok::<(), CommandError>(());
        }
        // With repetitions the set does not bound the reply.
        if number < 0 {
            checked?;
        }
        writer.start(count);
        let mut write = |rank| {
            let (name, score) = set.at(rank);
            writer.write(name, score);
            // Larger replies are refused.
            writer.reply.buffer_len() <= most_bytes
        };
        if number >= 0 {
            random.sample(count, set.len()).into_iter().all(write);
        } else {
            (0..count).all(|_| write(random.below(set.len())));
        }
        Ok(())
    })?;
    let found = found.transpose()?;
    if found.is_none() {
        writer.start(0);
    }
    cx.count_lookup(key, found.is_some());
    Ok(())
}
