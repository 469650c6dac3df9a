//! What `ZRANDMEMBER` and `HRANDFIELD` share: how many members a request asks for, and random numbers.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use larder_resp::Args;

use super::CommandError;
use super::options::integer;

/// Bytes of a member in a reply, at least.
pub(super) const MEMBER_FRAME_BYTES: u64 = b"$0\r\n\r\n".len() as u64;

/// How many members a request asks for.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    /// Different ones; or, if it is negative, so many with repetitions.
    pub(super) number: i64,
    /// Whether the reply has their scores or values, too.
    pub(super) with_values: bool,
}

impl Sample {
    /// Parses what follows the key. `None`: one member, not in an array. `option` asks for scores or values.
    pub(super) fn parse(args: Args<'_>, option: &[u8]) -> Result<Option<Sample>, CommandError> {
        let Some(number) = args.get(2) else { return Ok(None) };
        let number = integer(number)?;
        if number == i64::MIN {
            return Err(CommandError::Fixed(
                "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ));
        }
        let with_values = match args.get(3) {
            None => false,
            Some(word) if args.len() == 4 && word.eq_ignore_ascii_case(option) => true,
            Some(_) => return Err(CommandError::Syntax),
        };
        if with_values && number.unsigned_abs() > i64::MAX as u64 / 2 {
            return Err(CommandError::Fixed("ERR value is out of range"));
        }
        Ok(Some(Sample { number, with_values }))
    }

    /// The number of members, with repetitions.
    pub(super) fn count(self) -> usize {
        usize::try_from(self.number.unsigned_abs()).unwrap_or(usize::MAX)
    }
}

/// Numbers that no client can predict.
pub(super) struct Random {
    state: RandomState,
    next: u64,
}

impl Random {
    pub(super) fn new() -> Self {
        Random { state: RandomState::new(), next: 0 }
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.next += 1;
        ((u128::from(self.state.hash_one(self.next)) * end as u128) >> 64) as usize
    }

    /// This many different numbers below `end` (Robert Floyd, in Jon Bentley, "A Sample of Brilliance", Communications of
    /// the ACM 30(9), 1987).
    pub(super) fn sample(&mut self, count: usize, end: usize) -> Vec<usize> {
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
