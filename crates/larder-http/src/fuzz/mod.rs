//! Fuzz tests of the code that reads input of clients: random inputs, and a straightforward model of the same rule. Those
//! of GraphQL are with its parser, in `graphql/tests.rs`, and those of shared entries and of files with their codecs.
//!
//! They run with the other tests. A failure prints the input and the seed that repeats it, for the variable
//! `BOLERO_RANDOM_SEED`; `BOLERO_RANDOM_ITERATIONS` sets the number of inputs.

mod directives;
mod keys;
mod ranges;
mod structured;
mod validators;

/// Random inputs for each target: about half a second.
pub(crate) const ITERATIONS: usize = 60_000;

/// The element of a table that a random byte selects.
pub(crate) fn pick<T: Copy>(table: &[T], choice: u8) -> T {
    table[usize::from(choice) % table.len()]
}

/// A text of tokens, one for each byte: random bytes alone would seldom be well-formed.
pub(crate) fn text(tokens: &[&str], choices: &[u8]) -> String {
    choices.iter().map(|choice| pick(tokens, *choice)).collect()
}
