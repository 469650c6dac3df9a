//! From the bytes of a pattern to its segments.

use crate::search::{Class, Element, Segment};
use crate::{MAX_CLASSES, MAX_SEARCHED_ELEMENTS, MAX_STARS, Pattern, PatternError, Rest};

/// Whether the case of letters matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Exact,
    Ignored,
}

/// What is compiled so far.
pub(super) struct Compiler {
    case: Case,
    ascii_classes: bool,
    /// The segments before each star.
    segments: Vec<Segment>,
    /// The elements since the last star.
    elements: Vec<Element>,
    classes: Vec<Class>,
}

impl Compiler {
    pub(super) fn new(case: Case) -> Self {
        let (segments, elements, classes) = Default::default();
        Compiler { case, ascii_classes: false, segments, elements, classes }
    }

    /// Refuses classes with a byte beyond ASCII.
    pub(super) fn with_ascii_classes(self) -> Self {
        Compiler { ascii_classes: true, ..self }
    }

    pub(super) fn compile(mut self, mut pattern: &[u8]) -> Result<Pattern, PatternError> {
        while let [first, rest @ ..] = pattern {
            pattern = match (first, rest) {
                (b'*', _) => {
                    self.end_segment()?;
                    skip_stars(rest)
                }
                (b'?', _) => {
                    self.elements.push(Element::ANY);
                    rest
                }
                (b'[', _) => self.class(rest)?,
                (b'\\', [literal, rest @ ..]) => {
                    self.literal(*literal)?;
                    rest
                }
                (literal, _) => {
                    self.literal(*literal)?;
                    rest
                }
            };
        }
        let last = Segment::anchored(self.elements);
        let min_bytes = self.segments.iter().map(Segment::len).sum::<usize>() + last.len();
        let mut segments = self.segments.into_iter();
        let (head, rest) = match segments.next() {
            None => (last, None),
            Some(head) => (head, Some(Rest { searched: segments.collect(), tail: last })),
        };
        Ok(Pattern { head, rest, min_bytes, classes: self.classes })
    }

    /// A group of stars follows.
    fn end_segment(&mut self) -> Result<(), PatternError> {
        if self.segments.len() == MAX_STARS {
            return Err(PatternError::TooManyStars);
        }
        let elements = std::mem::take(&mut self.elements);
        // The first one is compared with the start of the text.
        self.segments.push(if self.segments.is_empty() {
            Segment::anchored(elements)
        } else {
            Segment::searched(elements, MAX_SEARCHED_ELEMENTS).ok_or(PatternError::TooLongBetweenStars)?
        });
        Ok(())
    }

    fn literal(&mut self, byte: u8) -> Result<(), PatternError> {
        if self.case == Case::Exact || !byte.is_ascii_alphabetic() {
            self.elements.push(Element::literal(byte));
            return Ok(());
        }
        let mut class = Class::default();
        class.insert(byte.to_ascii_lowercase());
        class.insert(byte.to_ascii_uppercase());
        self.push_class(class)
    }

    /// Compiles a class, which starts after its `[`. Returns the rest of the pattern.
    fn class<'a>(&mut self, mut pattern: &'a [u8]) -> Result<&'a [u8], PatternError> {
        let is_negated = matches!(pattern, [b'^', ..]);
        pattern = &pattern[usize::from(is_negated)..];
        let mut class = Class::default();
        loop {
            let (from, to, is_escaped);
            (from, to, is_escaped, pattern) = match pattern {
                [] => break,
                [b']', rest @ ..] => {
                    pattern = rest;
                    break;
                }
                [b'\\', literal, rest @ ..] => (*literal, *literal, true, rest),
                [from, b'-', to, rest @ ..] => (*from, *to, false, rest),
                [literal, rest @ ..] => (*literal, *literal, false, rest),
            };
            if self.ascii_classes && !(from.is_ascii() && to.is_ascii()) {
                return Err(PatternError::ClassBeyondAscii);
            }
            self.insert_range(&mut class, from, to, is_escaped);
        }
        if is_negated {
            class.negate();
        }
        self.push_class(class)?;
        Ok(pattern)
    }

    /// Redis orders the ends of a range before it ignores their case, and ignores the case of no escaped byte.
    fn insert_range(&self, class: &mut Class, from: u8, to: u8, is_escaped: bool) {
        let (from, to) = (from as i8, to as i8);
        let (low, high) = (from.min(to), from.max(to));
        let fold = |byte: i8| match self.case {
            Case::Ignored if !is_escaped => (byte as u8).to_ascii_lowercase() as i8,
            _ => byte,
        };
        let members = (i8::MIN..=i8::MAX).filter(|byte| (fold(low)..=fold(high)).contains(&fold(*byte)));
        members.for_each(|byte| class.insert(byte as u8));
    }

    fn push_class(&mut self, class: Class) -> Result<(), PatternError> {
        if self.classes.len() == MAX_CLASSES {
            return Err(PatternError::TooManyClasses);
        }
        self.elements.push(Element::class(self.classes.len()));
        self.classes.push(class);
        Ok(())
    }
}

/// Stars in a row match what one matches.
fn skip_stars(pattern: &[u8]) -> &[u8] {
    let stars = pattern.iter().take_while(|byte| **byte == b'*').count();
    &pattern[stars..]
}
