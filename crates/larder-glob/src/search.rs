//! The elements of a pattern between two stars, and the search for them.

use memchr::memmem::Finder;

/// Elements per word of the search with bits.
const WORD: usize = u64::BITS as usize;
/// Words for the longest segment.
const WORDS: usize = crate::MAX_SEARCHED_ELEMENTS / WORD;
/// Literal bytes from which on the search for substrings is prepared. Less are compared at each position.
const MIN_SUBSTRING: usize = 8;
/// Comparisons per byte of text, and beside that, before bits are used: preparing them costs about as much as the second.
const COMPARISONS_PER_BYTE: usize = 4;
const FREE_COMPARISONS: usize = 4_096;

/// What one byte of text is compared with: a byte, any byte, or the index of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element(u16);

impl Element {
    pub(super) const ANY: Element = Element(256);

    pub(super) fn literal(byte: u8) -> Self {
        Element(u16::from(byte))
    }

    pub(super) fn class(index: usize) -> Self {
        Element(257 + index as u16)
    }

    fn as_literal(self) -> Option<u8> {
        u8::try_from(self.0).ok()
    }

    fn matches(self, byte: u8, classes: &[Class]) -> bool {
        match self.0 {
            0..256 => self.0 == u16::from(byte),
            256 => true,
            index => classes[usize::from(index) - 257].contains(byte),
        }
    }
}

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Class([u64; 4]);

impl Class {
    pub(super) fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte) / WORD] |= 1 << (usize::from(byte) % WORD);
    }

    pub(super) fn negate(&mut self) {
        self.0 = self.0.map(|word| !word);
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte) / WORD] >> (usize::from(byte) % WORD) & 1 != 0
    }
}

/// Elements that match a text of their number.
#[derive(Debug)]
pub(super) struct Segment {
    elements: Box<[Element]>,
    /// For a segment of many literal bytes that is searched for.
    substring: Option<Box<Finder<'static>>>,
}

impl Segment {
    /// Elements at a known position.
    pub(super) fn anchored(elements: Vec<Element>) -> Self {
        Segment { elements: elements.into(), substring: None }
    }

    /// Elements at an unknown position; `None` if there are more than `max` and not all are literal bytes.
    pub(super) fn searched(elements: Vec<Element>, max: usize) -> Option<Self> {
        let literal: Option<Vec<u8>> = elements.iter().map(|element| element.as_literal()).collect();
        let substring = literal.filter(|bytes| bytes.len() >= MIN_SUBSTRING);
        if substring.is_none() && elements.len() > max {
            return None;
        }
        let substring = substring.map(|bytes| Box::new(Finder::new(&bytes).into_owned()));
        Some(Segment { elements: elements.into(), substring })
    }

    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    /// The memory that it needs beside itself, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let substring =
            self.substring.as_ref().map_or(0, |finder| size_of_val(&**finder) + finder.needle().len());
        size_of_val(&self.elements[..]) + substring
    }

    /// Whether a text that is long enough starts with it.
    pub(super) fn starts(&self, text: &[u8], classes: &[Class], steps: &mut u64) -> bool {
        let compared = self.matching_elements(text, classes);
        *steps += compared as u64 + 1;
        compared == self.len()
    }

    fn matching_elements(&self, text: &[u8], classes: &[Class]) -> usize {
        let pairs = self.elements.iter().zip(text);
        pairs.take_while(|(element, byte)| element.matches(**byte, classes)).count()
    }

    /// The first position at which the text matches.
    pub(super) fn find(&self, text: &[u8], classes: &[Class], steps: &mut u64) -> Option<usize> {
        if let Some(substring) = &self.substring {
            let found = substring.find(text);
            *steps += (found.unwrap_or(text.len()) + self.len()) as u64;
            return found;
        }
        let first = self.elements.first().and_then(|element| element.as_literal());
        let (mut start, mut comparisons) = (0, 0);
        while start + self.len() <= text.len() {
            if let Some(first) = first {
                start += memchr::memchr(first, &text[start..=text.len() - self.len()])?;
            }
            let matching = self.matching_elements(&text[start..], classes);
            *steps += matching as u64 + 1;
            if matching == self.len() {
                return Some(start);
            }
            comparisons += matching + 1;
            start += 1;
            if comparisons > FREE_COMPARISONS + COMPARISONS_PER_BYTE * start {
                return self.find_with_bits(&text[start..], classes, steps).map(|found| start + found);
            }
        }
        None
    }

    /// The same search. Bit `i` of a state says whether the last `i + 1` bytes match the first `i + 1` elements.
    fn find_with_bits(&self, text: &[u8], classes: &[Class], steps: &mut u64) -> Option<usize> {
        let words = self.len().div_ceil(WORD);
        let (mut any, mut masks) = ([0_u64; WORDS], vec![[0_u64; WORDS]; 256]);
        *steps += 256 * WORDS as u64;
        for (index, element) in self.elements.iter().enumerate() {
            let (word, bit) = (index / WORD, 1 << (index % WORD));
            match (element.as_literal(), *element) {
                (Some(byte), _) => masks[usize::from(byte)][word] |= bit,
                (None, Element::ANY) => any[word] |= bit,
                (None, class) => {
                    *steps += 256;
                    let members = (0..=u8::MAX).filter(|byte| class.matches(*byte, classes));
                    members.for_each(|byte| masks[usize::from(byte)][word] |= bit);
                }
            }
        }
        let mut state = [0_u64; WORDS];
        for (index, byte) in text.iter().enumerate() {
            let mut carried = 1;
            let masks = masks[usize::from(*byte)].iter().zip(&any);
            for (word, (mask, any)) in state[..words].iter_mut().zip(masks) {
                let next = (*word << 1 | carried) & (mask | any);
                carried = *word >> (WORD - 1);
                *word = next;
            }
            *steps += words as u64;
            if state[words - 1] >> ((self.len() - 1) % WORD) & 1 != 0 {
                return Some(index + 1 - self.len());
            }
        }
        None
    }
}
