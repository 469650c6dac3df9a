//! Slots: every key belongs to one of 16,384, by a checksum of the key or of its hash tag.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// The number of slots of a cluster.
pub(super) const SLOTS: usize = 16_384;

/// The slot of a key: of the part between the first `{` and the next `}` if that is not empty, otherwise of all of it.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    checksum(hash_tag(key).unwrap_or(key)) % SLOTS as u16
}

/// The hash tag of a key. Keys with the same one have the same slot.
pub(super) fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let start = key.iter().position(|byte| *byte == b'{')? + 1;
    let length = key[start..].iter().position(|byte| *byte == b'}')?;
    (length > 0).then(|| &key[start..start + length])
}

/// A hash tag of a slot: the lowest hexadecimal number that has it.
pub(super) fn tag_of(slot: u16) -> String {
    static NUMBERS: LazyLock<Box<[u32]>> = LazyLock::new(|| {
        let mut numbers = vec![None; SLOTS];
        let mut missing = SLOTS;
        for number in 0.. {
            let known = &mut numbers[usize::from(slot_of(format!("{number:x}").as_bytes()))];
            if known.replace(known.unwrap_or(number)).is_none() {
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        numbers.into_iter().flatten().collect()
    });
    format!("{:x}", NUMBERS[usize::from(slot)])
}

/// CRC-16/XMODEM, as the specification of Redis Cluster has it.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| (sum << 8) ^ TABLE[usize::from((sum >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    const POLYNOMIAL: u16 = 0x1021;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ POLYNOMIAL };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

/// A set of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotSet(Box<[u64; SLOTS / 64]>);

impl SlotSet {
    pub(super) fn new() -> Self {
        SlotSet(Box::new([0; SLOTS / 64]))
    }

    pub(super) fn all() -> Self {
        SlotSet(Box::new([!0; SLOTS / 64]))
    }

    pub(super) fn insert(&mut self, slot: u16) {
        self.0[usize::from(slot) / 64] |= 1 << (slot % 64);
    }

    /// Adds a run of slots.
    pub(super) fn insert_all(&mut self, slots: RangeInclusive<u16>) {
        let (first, last) = (usize::from(*slots.start()), usize::from(*slots.end()));
        for word in first / 64..=last / 64 {
            let start = if word == first / 64 { first % 64 } else { 0 };
            let end = if word == last / 64 { last % 64 } else { 63 };
            self.0[word] |= !0 << start & !0 >> (63 - end);
        }
    }

    pub(super) fn contains(&self, slot: u16) -> bool {
        self.0[usize::from(slot) / 64] & (1 << (slot % 64)) != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The longest runs of slots that it has, in their order.
    pub(super) fn runs(&self) -> impl Iterator<Item = RangeInclusive<u16>> {
        let mut end = 0;
        std::iter::from_fn(move || {
            let start = self.next(end, true);
            end = self.next(start, false);
            (start < end).then(|| start as u16..=(end - 1) as u16)
        })
    }

    /// The first slot from there on that it has, or has not; the number of slots if there is none.
    fn next(&self, mut from: usize, is_in: bool) -> usize {
        while from < SLOTS {
            let word = if is_in { self.0[from / 64] } else { !self.0[from / 64] };
            match word >> (from % 64) {
                0 => from = (from / 64 + 1) * 64,
                rest => return from + rest.trailing_zeros() as usize,
            }
        }
        SLOTS
    }

    /// Adds what the other one has.
    pub(super) fn add(&mut self, other: &SlotSet) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(word, other)| *word |= other);
    }

    /// Removes what the other one has not.
    pub(super) fn keep(&mut self, other: &SlotSet) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(word, other)| *word &= other);
    }

    /// Removes what the other one has.
    pub(super) fn remove(&mut self, other: &SlotSet) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(word, other)| *word &= !other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum of the specification, and slots as `CLUSTER KEYSLOT` answers.
    #[test]
    fn slot_is_that_of_the_specification() {
        assert_eq!(checksum(b"123456789"), 0x31c3);
        for (key, slot) in [("", 0), ("foo", 12_182), ("somekey", 11_058), ("foo{hash_tag}", 2_515)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn hash_tag_is_first_part_in_braces_that_is_not_empty() {
        for (key, tag) in [
            ("{user1000}.following", Some("user1000")),
            ("foo{}{bar}", None),
            ("foo{{bar}}zap", Some("{bar")),
            ("foo{bar}{zap}", Some("bar")),
            ("foo{bar", None),
            ("foo}bar{", None),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.map(str::as_bytes), "{key}");
        }
    }

    #[test]
    fn every_slot_has_a_tag() {
        for slot in 0..SLOTS as u16 {
            assert_eq!(slot_of(tag_of(slot).as_bytes()), slot);
        }
    }

    #[test]
    fn set_of_slots_unites_and_intersects() {
        let set = |slots: &[u16]| {
            let mut set = SlotSet::new();
            slots.iter().for_each(|slot| set.insert(*slot));
            set
        };
        let mut both = set(&[0, 63, 64, 16_383]);
        both.keep(&set(&[63, 100, 16_383]));
        assert_eq!(both, set(&[63, 16_383]));
        assert!(both.contains(63) && !both.contains(64));
        both.add(&set(&[5]));
        assert_eq!(both, set(&[5, 63, 16_383]));
        both.keep(&set(&[]));
        assert!(both.is_empty());
    }

    #[test]
    fn set_of_slots_has_the_runs_that_were_inserted() {
        for runs in [
            vec![],
            vec![0..=16_383],
            vec![0..=0, 2..=2, 63..=63, 65..=127, 129..=16_383],
            vec![1..=62, 64..=64, 100..=300, 16_320..=16_382],
        ] {
            let mut set = SlotSet::new();
            runs.iter().for_each(|run| set.insert_all(run.clone()));
            assert_eq!(set.runs().collect::<Vec<_>>(), runs);
            let slots: Vec<u16> = runs.into_iter().flatten().collect();
            assert_eq!(set.len(), slots.len());
            assert!((0..SLOTS as u16).all(|slot| set.contains(slot) == slots.contains(&slot)));
            let mut others = SlotSet::all();
            others.remove(&set);
            assert_eq!(others.len(), SLOTS - slots.len());
            others.keep(&set);
            assert!(others.is_empty());
        }
    }
}
