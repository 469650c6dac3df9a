//! The place of a value within the value that is encoded or decoded, for refusals.

use super::Reason;
use std::fmt;

/// A refusal: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {place}: {reason}")]
pub struct Refused {
    /// The place, such as `$.items[3]["a key"]`; `$` is the whole value.
    pub place: String,
    /// What is wrong there.
    pub reason: Reason,
}

/// What encloses a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'k> {
    /// A list, in which it has this index.
    Index(usize),
    /// A map, in which it has this key. `None` for a key itself.
    Key(Option<&'k str>),
}

/// A refusal of the value that these enclose, outermost first.
pub(super) fn refused<'k>(steps: impl Iterator<Item = Step<'k>>, reason: Reason) -> Refused {
    let mut place = String::from("$");
    for step in steps {
        _ = write_step(&mut place, step);
    }
    Refused { place, reason }
}

/// The longest part of a key that is shown.
const SHOWN_CHARACTERS: usize = 40;

fn write_step(place: &mut impl fmt::Write, step: Step<'_>) -> fmt::Result {
    let is_word = |key: &str| {
        !key.is_empty()
            && key.chars().count() <= SHOWN_CHARACTERS
            && key.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    match step {
        Step::Index(index) => write!(place, "[{index}]"),
        Step::Key(None) => place.write_str("[a key]"),
        Step::Key(Some(key)) if is_word(key) => write!(place, ".{key}"),
        Step::Key(Some(key)) => {
            let shown: String = key.chars().take(SHOWN_CHARACTERS).collect();
            let rest = if shown.len() < key.len() { "…" } else { "" };
            write!(place, "[{shown:?}{rest}]")
        }
    }
}
