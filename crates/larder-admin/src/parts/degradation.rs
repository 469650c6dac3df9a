//! What a part needs and lacks while it goes on: for how long, and what that means for its requests.

use std::time::Duration;

/// Something that a part needs and does not have now, while the part goes on with less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degradation {
    /// What is lacking: `redis`, `database`, `disk`, `connections`.
    pub name: &'static str,
    /// What that means for requests now, in words.
    pub meaning: String,
    /// For how long, as far as the source knows. Otherwise since a sample had it first.
    pub lasting: Duration,
    /// Whether requests are answered all the same, if more slowly. If not, `/readyz` answers 503.
    pub is_ready: bool,
}

impl Degradation {
    /// A part that is still ready lacks this from now on.
    pub fn new(name: &'static str, meaning: impl Into<String>) -> Degradation {
        Degradation { name, meaning: meaning.into(), lasting: Duration::ZERO, is_ready: true }
    }

    /// Sets for how long the part has lacked it.
    pub fn lasting(mut self, time: Duration) -> Degradation {
        self.lasting = time;
        self
    }

    /// The part does not answer its requests as it should: send it none.
    pub fn not_ready(mut self) -> Degradation {
        self.is_ready = false;
        self
    }
}
