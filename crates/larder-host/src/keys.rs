//! Keys of several parts, with the bytes that a tuple of the same parts has in Rust.

/// Separates the parts. In a part it is escaped.
const SEPARATOR: u8 = b':';
const ESCAPE: u8 = b'\\';

/// A key of several parts, to which a binding adds them one by one.
///
/// # Examples
/// ```
/// use larder_host::KeyParts;
///
/// let mut inner = KeyParts::new();
/// inner.add(b"a:b");
/// inner.add(b"17");
/// let mut outer = KeyParts::new();
/// outer.add(b"eu");
/// outer.add(&inner.into_bytes());
/// assert_eq!(outer.into_bytes(), br"eu:a\\\:b\:17");
/// ```
#[derive(Debug, Default)]
pub struct KeyParts {
    bytes: Vec<u8>,
    has_part: bool,
}

impl KeyParts {
    /// A key without parts.
    pub fn new() -> Self {
        KeyParts::default()
    }

    /// Adds a part. It may be empty.
    pub fn add(&mut self, part: &[u8]) {
        if self.has_part {
            self.bytes.push(SEPARATOR);
        }
        self.has_part = true;
        for byte in part {
            if matches!(*byte, SEPARATOR | ESCAPE) {
                self.bytes.push(ESCAPE);
            }
            self.bytes.push(*byte);
        }
    }

    /// The bytes of the key.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
