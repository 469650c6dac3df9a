//! Which user agents are bots: parsed once, and remembered by their hashes.

use super::user_agent;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many user agents are remembered: 32 KiB. One that needs the place of another is parsed again.
const SLOTS: usize = 4_096;

/// Tells bots from other clients, for each redirect: a hash of the user agent and one atomic read, no lock and no allocation.
/// A new user agent is parsed, which takes some microseconds.
pub(crate) struct AgentKinds {
    /// Of user agents. Nobody can make up two with one hash.
    hasher: rapidhash::quality::RandomState,
    /// A hash without its last bit, which is whether it is that of a bot; zero at first.
    slots: Box<[AtomicU64]>,
}

impl AgentKinds {
    pub(crate) fn new() -> AgentKinds {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        AgentKinds { hasher: rapidhash::quality::RandomState::new(), slots }
    }

    /// Whether this is the user agent of a crawler, or of a program that shows a preview of a link.
    pub(super) fn is_bot(&self, user_agent: &[u8]) -> bool {
        let hash = self.hasher.hash_one(user_agent);
        let slot = &self.slots[(hash >> 32) as usize % SLOTS];
        let known = slot.load(Relaxed);
        if known != 0 && (known ^ hash) >> 1 == 0 {
            return known & 1 == 1;
        }
        let is_bot = user_agent::is_bot(&String::from_utf8_lossy(user_agent));
        slot.store(hash & !1 | u64::from(is_bot), Relaxed);
        is_bot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_is_that_of_the_parser_at_first_and_later() {
        let kinds = AgentKinds::new();
        for n in 0..3 * SLOTS {
            let (bot, program) = (format!("Googlebot/{n}"), format!("curl/{n}"));
            for _ in 0..2 {
                assert!(kinds.is_bot(bot.as_bytes()) && !kinds.is_bot(program.as_bytes()), "{n}");
            }
        }
        assert!(!kinds.is_bot(b"") && !kinds.is_bot(b"\xff\xfe"));
    }
}
