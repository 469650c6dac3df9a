//! Loops over the bits of many bytes, a word at a time. The compiler makes vectors of them.

/// Words whose counts fit into bytes: at most eight bits of each.
const WORDS_PER_SUM: usize = 31;
const WORD: usize = size_of::<u64>();
/// Bytes that are compared at a time.
const BLOCK: usize = 64;

/// How many bits are set.
pub(crate) fn count_ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<WORD>();
    let in_words: u64 = words.chunks(WORDS_PER_SUM).map(count_some).sum();
    in_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// Counts in each byte of a word, adds the words, and then the bytes of the sum.
fn count_some(words: &[[u8; WORD]]) -> u64 {
    let mut sum = 0_u64;
    for word in words {
        let word = u64::from_ne_bytes(*word);
        let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
        let nibbles = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
        sum += (nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    }
    const LOW_BYTES: u64 = 0x00ff_00ff_00ff_00ff;
    let pairs = (sum & LOW_BYTES) + (sum >> 8 & LOW_BYTES);
    pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48
}

/// The index of the first byte that is not this one.
pub(crate) fn find_other(bytes: &[u8], byte: u8) -> Option<usize> {
    let is_same = |block: &[u8; BLOCK]| block.iter().fold(0, |others, other| others | (other ^ byte)) == 0;
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let skipped = BLOCK * blocks.iter().take_while(|block| is_same(block)).count();
    bytes[skipped..].iter().position(|other| *other != byte).map(|index| skipped + index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_and_found_at_every_length() {
        for length in (0..600).chain([10_000]) {
            for (byte, ones) in [(0, 0), (0xff, 8), (0x51, 3)] {
                let mut bytes = vec![byte; length];
                assert_eq!(count_ones(&bytes), ones * length as u64, "{length} times {byte}");
                assert_eq!(find_other(&bytes, byte), None);
                for index in
                    [0, length / 2, length.saturating_sub(1)].into_iter().filter(|index| *index < length)
                {
                    bytes[index] ^= 0x10;
                    assert_eq!(find_other(&bytes, byte), Some(index), "{index} of {length}");
                    bytes[index] ^= 0x10;
                }
            }
        }
    }
}
