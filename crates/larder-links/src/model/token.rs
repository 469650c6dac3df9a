//! API tokens: their text, their hash, their scope and their name.

use crate::model::random;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// What every token begins with, so that scanners of repositories and people recognise one.
pub const TOKEN_PREFIX: &str = "larder_";

/// Characters behind the prefix. 43 letters of base 62 contain 256 bits.
const SECRET_CHARS: usize = 43;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The longest name of a token, in characters.
const MAX_NAME_CHARS: usize = 64;

/// What a token allows. `Write` includes `Read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// List and read links.
    Read,
    /// Change links as well.
    Write,
}

impl Scope {
    /// `read` or `write`.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Scope, String> {
        match text {
            "read" => Ok(Scope::Read),
            "write" => Ok(Scope::Write),
            other => Err(format!("the scope is {other:?}, expected read or write")),
        }
    }
}

/// A token as the database lists it: everything but the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The row's id, with which the token is removed.
    pub id: u64,
    /// What the owner calls it; may be empty.
    pub name: String,
    /// What it allows.
    pub scope: Scope,
    /// The day in UTC of its creation, as `2026-11-21`.
    pub created_on: String,
}

/// The name of a token: at most 64 characters, no control characters, no white space around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenName(String);

impl TokenName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenName {
    type Err = String;

    fn from_str(text: &str) -> Result<TokenName, String> {
        let name = text.trim();
        let chars = name.chars().count();
        if chars > MAX_NAME_CHARS {
            return Err(format!("the name has {chars} characters, expected at most {MAX_NAME_CHARS}"));
        }
        if let Some(control) = name.chars().find(|c| c.is_control()) {
            return Err(format!("the name contains the control character {control:?}"));
        }
        Ok(TokenName(name.to_owned()))
    }
}

/// A random secret of 256 bits: an API token or the value of a session cookie. Its debug form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// SHA-256 of a secret. A fast hash suffices: 256 random bits cannot be found by trying.
pub(crate) type SecretHash = [u8; 32];

impl Secret {
    /// A new API token.
    pub(crate) fn new_token() -> Secret {
        Secret(format!("{TOKEN_PREFIX}{}", random_text()))
    }

    /// A new value for a session cookie.
    pub(crate) fn new_session() -> Secret {
        Secret(random_text())
    }

    /// The text as it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn hash(&self) -> SecretHash {
        hash(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The hash of an offered token, or `None` for a text that cannot be one.
pub(crate) fn hash_of_token(text: &str) -> Option<SecretHash> {
    let secret = text.strip_prefix(TOKEN_PREFIX)?;
    is_random_text(secret).then(|| hash(text))
}

/// The hash of an offered session cookie, or `None` for a text that cannot be one.
pub(crate) fn hash_of_session(text: &str) -> Option<SecretHash> {
    is_random_text(text).then(|| hash(text))
}

fn hash(text: &str) -> SecretHash {
    Sha256::digest(text.as_bytes()).into()
}

fn random_text() -> String {
    let mut text = String::with_capacity(SECRET_CHARS);
    while text.len() < SECRET_CHARS {
        // A byte from 248 on would make some letters more frequent.
        let letters = random::bytes::<64>().into_iter().filter(|byte| *byte < 248);
        let letters = letters.map(|byte| char::from(ALPHABET[usize::from(byte % 62)]));
        text.extend(letters.take(SECRET_CHARS - text.len()));
    }
    text
}

fn is_random_text(text: &str) -> bool {
    text.len() == SECRET_CHARS && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_has_prefix_and_256_random_bits() {
        let (one, two) = (Secret::new_token(), Secret::new_token());
        assert_ne!(one, two);
        assert_eq!(one.as_str().len(), TOKEN_PREFIX.len() + SECRET_CHARS);
        assert!((ALPHABET.len() as f64).log2() * SECRET_CHARS as f64 >= 256.0);
        assert_eq!(hash_of_token(one.as_str()), Some(one.hash()));
        assert_eq!(format!("{one:?}"), "Secret(…)");
    }

    #[test]
    fn malformed_token_has_no_hash() {
        let session = Secret::new_session();
        assert_eq!(hash_of_session(session.as_str()), Some(session.hash()));
        for text in ["", "larder_", session.as_str(), "larder_abc", &format!("larder_{}é", "a".repeat(41))] {
            assert_eq!(hash_of_token(text), None, "{text}");
        }
        assert_eq!(hash_of_session(Secret::new_token().as_str()), None);
    }

    #[test]
    fn name_is_checked() {
        assert_eq!(" deploy ".parse::<TokenName>().unwrap().as_str(), "deploy");
        assert!("a\u{1b}[2J".parse::<TokenName>().is_err());
        assert!("x".repeat(65).parse::<TokenName>().is_err());
        assert!(Scope::Read < Scope::Write);
        assert_eq!("admin".parse::<Scope>(), Err("the scope is \"admin\", expected read or write".into()));
    }
}
