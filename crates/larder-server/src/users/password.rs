//! Passwords of users, of which only SHA-256 is kept.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// The SHA-256 of a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PasswordHash([u8; 32]);

impl PasswordHash {
    pub(super) fn of(password: &[u8]) -> Self {
        PasswordHash(Sha256::digest(password).into())
    }

    /// From 64 hexadecimal digits in lower case.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; 32];
        if text.len() != 2 * hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(text.chunks(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(PasswordHash(hash))
    }

    /// Whether this is one of several hashes, in a time that only their number decides.
    pub(super) fn is_among(&self, hashes: &[PasswordHash]) -> bool {
        let is_found = |found: Choice, hash: &PasswordHash| found | hash.0.ct_eq(&self.0);
        hashes.iter().fold(Choice::from(0), is_found).into()
    }

    /// 64 hexadecimal digits.
    pub(super) fn to_text(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}
