//! What a group knows of its strays: the entries that belong into it and found it full.
//!
//! ```text
//! ┌────────────────────┬──────────┬───────┐
//! │ 6 tags, 8 bits     │ unlisted │ reach │
//! └────────────────────┴──────────┴───────┘
//! ```
//!
//! A lookup that finds nothing in the home group ends there unless the tag is listed, or some strays are not. It then searches
//! as many of the next groups as the farthest stray was ever away. That is forgotten with the last stray.

/// How many tags are listed.
const LISTED: usize = 6;
/// No tag.
const NONE: u8 = 0;
/// A number of strays that is no longer counted down, or a distance that is not known: too many for a byte.
const SATURATED: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Strays {
    tags: [u8; LISTED],
    /// How many strays have no place in the list.
    unlisted: u8,
    /// No stray is more groups away from home than this.
    reach: u8,
}

impl Strays {
    pub(super) const NONE: Strays = Strays { tags: [NONE; LISTED], unlisted: 0, reach: 0 };

    /// Whether one of them may have this tag.
    #[inline]
    pub(super) fn may_have(&self, tag: u8) -> bool {
        self.unlisted != 0 || self.tags.contains(&tag)
    }

    /// How many groups away from home they are at most; `None` if that is not known.
    pub(super) fn reach(&self) -> Option<usize> {
        (self.reach != SATURATED).then_some(self.reach.into())
    }

    /// Notes an entry that went into a group at this distance.
    pub(super) fn add(&mut self, tag: u8, distance: usize) {
        match self.place_of(NONE) {
            Some(place) => self.tags[place] = tag,
            None => self.unlisted = self.unlisted.saturating_add(1),
        }
        self.reach = self.reach.max(u8::try_from(distance).unwrap_or(SATURATED));
    }

    /// Forgets one of them with this tag.
    pub(super) fn remove(&mut self, tag: u8) {
        match self.place_of(tag) {
            // If another one with this tag is not listed, it is still counted.
            Some(place) => self.tags[place] = NONE,
            None if self.unlisted == SATURATED => {}
            None => self.unlisted -= 1,
        }
        if self.unlisted == 0 && self.tags == [NONE; LISTED] {
            self.reach = 0;
        }
    }

    fn place_of(&self, tag: u8) -> Option<usize> {
        self.tags.iter().position(|listed| *listed == tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn strays_that_are_not_listed_are_found_and_forgotten() {
        let mut strays = Strays::NONE;
        let tags: Vec<u8> = (1..=10).collect();
        tags.iter().for_each(|tag| strays.add(*tag, usize::from(*tag)));
        assert_eq!((strays.unlisted, strays.reach()), (4, Some(10)));
        assert!((1..=255).all(|tag| strays.may_have(tag)));
        // The listed ones go, and the others are still counted.
        tags[..6].iter().for_each(|tag| strays.remove(*tag));
        assert!(strays.may_have(7) && strays.reach() == Some(10));
        tags[6..].iter().for_each(|tag| strays.remove(*tag));
        assert!(!(1..=255).any(|tag| strays.may_have(tag)));
        assert_eq!(strays.reach(), Some(0));
    }

    #[test]
    fn equal_tags_are_forgotten_one_by_one() {
        let mut strays = Strays::NONE;
        (0..8).for_each(|_| strays.add(9, 1));
        (0..8).for_each(|_| {
            assert!(strays.may_have(9));
            strays.remove(9);
        });
        assert!(!strays.may_have(9));
    }

    #[test]
    fn more_than_a_byte_counts_is_searched_for_ever() {
        let mut strays = Strays::NONE;
        (0..1_000).for_each(|distance| strays.add(9, distance));
        assert_eq!(strays.reach(), None);
        (0..1_000).for_each(|_| strays.remove(9));
        let found: HashSet<bool> = (1..=255).map(|tag| strays.may_have(tag)).collect();
        assert_eq!(found, HashSet::from([true]));
    }
}
