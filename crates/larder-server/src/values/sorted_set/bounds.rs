//! The order of members, and the ends of ranges of scores and names.

/// The name of a member and its score.
pub(crate) type Member<'a> = (&'a [u8], f64);

/// Whether a member comes before another one: by score, then by name.
#[inline]
pub(super) fn precedes(member: Member<'_>, other: Member<'_>) -> bool {
    member.1 < other.1 || member.1 == other.1 && member.0 < other.0
}

/// An end of a range of scores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoreBound {
    pub(crate) score: f64,
    /// Whether the score itself lies outside.
    pub(crate) is_exclusive: bool,
}

impl ScoreBound {
    /// Whether a score lies below the range that starts here.
    pub(super) fn is_above(self, score: f64) -> bool {
        score < self.score || self.is_exclusive && score == self.score
    }

    /// Whether a score lies above the range that ends here.
    pub(super) fn is_below(self, score: f64) -> bool {
        score > self.score || self.is_exclusive && score == self.score
    }
}

/// An end of a range of names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NameBound<'a> {
    /// Before every name.
    First,
    /// After every name.
    Last,
    Inclusive(&'a [u8]),
    Exclusive(&'a [u8]),
}

impl NameBound<'_> {
    /// Whether a name lies below the range that starts here.
    pub(super) fn is_above(self, name: &[u8]) -> bool {
        match self {
            NameBound::First => false,
            NameBound::Last => true,
            NameBound::Inclusive(bound) => name < bound,
            NameBound::Exclusive(bound) => name <= bound,
        }
    }

    /// Whether a name lies above the range that ends here.
    pub(super) fn is_below(self, name: &[u8]) -> bool {
        match self {
            NameBound::First => true,
            NameBound::Last => false,
            NameBound::Inclusive(bound) => name > bound,
            NameBound::Exclusive(bound) => name >= bound,
        }
    }
}
