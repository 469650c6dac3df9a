//! Globs over Redis keys: what Redis removes by one, memory must remove too.

use larder_glob::Pattern;
use std::cmp::Ordering;
use std::sync::Arc;

/// A glob, compiled once. It is compared by its text.
#[derive(Clone, Debug)]
pub(crate) struct Glob {
    text: Vec<u8>,
    /// `None` if it is refused here. A node of another version announced it then, and to match all keys removes too much,
    /// but never too little.
    pattern: Option<Arc<Pattern>>,
}

impl Glob {
    pub(crate) fn new(text: Vec<u8>) -> Self {
        let pattern = Pattern::new(&text).ok().map(Arc::new);
        Glob { text, pattern }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    pub(crate) fn matches(&self, redis_key: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(redis_key))
    }
}

impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Glob {}

impl PartialOrd for Glob {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Glob {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_glob_matches_every_key() {
        let refused = Glob::new("n:v:*?".repeat(larder_glob::MAX_STARS + 1).into_bytes());
        assert!(refused.matches(b"n:v:k"));
        assert!(!Glob::new(b"n:v:a*".to_vec()).matches(b"n:v:k"));
    }
}
