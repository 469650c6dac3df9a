//! The error of wrong usage that only a part finds.

use std::fmt;

/// Wrong usage that only a part finds: a flag or a variable has a text that it cannot parse. The exit status is 2.
#[derive(Debug)]
pub(crate) struct WrongUsage(pub(crate) String);

impl fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}
