//! `ZRANDMEMBER`: random members of a sorted set.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use larder_resp::Args;

use super::MemberWriter;
use super::read::look_up;
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};

/// Numbers that no client can predict.
struct Random {
    state: RandomState,
    next: u64,
}

impl Random {
    fn new() -> Self {
        Random { state: RandomState::new(), next: 0 }
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.next += 1;
        ((u128::from(self.state.hash_one(self.next)) * end as u128) >> 64) as usize
    }

    /// This many different numbers below `end` (Robert Floyd, in Jon Bentley, "A Sample of Brilliance", Communications of
    /// the ACM 30(9), 1987).
    fn sample(&mut self, count: usize, end: usize) -> Vec<usize> {
        let (mut chosen, mut order) = (HashSet::with_capacity(count), Vec::with_capacity(count));
        for last in end - count..end {
            let number = self.below(last + 1);
            let number = if chosen.insert(number) { number } else { last };
            chosen.insert(number);
            order.push(number);
        }
        order
    }
}

/// Bytes of a member in a reply, at least.
const MEMBER_FRAME_BYTES: u64 = b"$0\r\n\r\n".len() as u64;

pub(crate) fn zrandmember(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(number) = args.get(2) else { return one(cx, &args[1]) };
    let number = integer(number)?;
    if number == i64::MIN {
        return Err(CommandError::Fixed(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    let with_scores = match args.get(3) {
        None => false,
        Some(word) if args.len() == 4 && word.eq_ignore_ascii_case(b"WITHSCORES") => true,
        Some(_) => return Err(CommandError::Syntax),
    };
    if with_scores && number.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::Fixed("ERR value is out of range"));
    }
    some(cx, &args[1], number, with_scores)
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

/// `number` different members; or, if it is negative, so many with repetitions.
fn some(cx: &mut Context<'_>, key: &[u8], number: i64, with_scores: bool) -> Outcome {
    let (db, most_bytes) = (cx.db(), cx.out.len() + cx.reply_bytes_left() as usize);
    let count = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    let checked = cx.check_reply(number.unsigned_abs().saturating_mul(MEMBER_FRAME_BYTES));
    let mut random = Random::new();
    let mut writer = MemberWriter::new(cx, with_scores);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_of_different_numbers_and_fair() {
        let mut random = Random::new();
        let mut times = [0; 10];
        for _ in 0..10_000 {
            let sample = random.sample(3, 10);
            assert_eq!(sample.iter().collect::<HashSet<_>>().len(), 3);
            sample.into_iter().for_each(|number| times[number] += 1);
        }
        // Each 3,000 times; ten standard deviations are 460.
        assert!(times.iter().all(|times| (2_500..3_500).contains(times)), "{times:?}");
        assert!(random.sample(0, 5).is_empty());
    }
}
