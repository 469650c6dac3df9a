//! The slot of a key in a cluster: the CRC-16 of the key, or of its hash tag, modulo the number of slots.

/// The number of slots.
pub(super) const SLOT_COUNT: u16 = 16_384;

/// The polynomial x¹⁶ + x¹² + x⁵ + 1 of the variant that Redis uses, XMODEM: the highest bit first, and no other start or end
/// than zero.
const POLYNOMIAL: u16 = 0x1021;

/// The remainder of each byte.
static REMAINDERS: [u16; 256] = remainders();

const fn remainders() -> [u16; 256] {
    let mut remainders = [0; 256];
    let mut byte = 0;
    while byte < remainders.len() {
        let mut remainder = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let is_divided = remainder & 0x8000 != 0;
            remainder = (remainder << 1) ^ if is_divided { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        remainders[byte] = remainder;
        byte += 1;
    }
    remainders
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ REMAINDERS[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The slot of a key.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOT_COUNT
}

/// What is between the first `{` and the next `}`, so that a client can give several keys one slot. The key itself if there is
/// nothing.
fn hash_tag(key: &[u8]) -> &[u8] {
    let position = |bytes: &[u8], brace| bytes.iter().position(|byte| *byte == brace);
    let tag = position(key, b'{').and_then(|open| {
        let rest = &key[open + 1..];
        position(rest, b'}').map(|close| &rest[..close])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_of_the_digits_is_the_check_value_of_the_variant() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn slot_is_that_of_the_first_tag_that_is_not_empty() {
        for (key, hashed) in [
            (&b"user"[..], &b"user"[..]),
            (b"{user}:1", b"user"),
            (b"a{user}{other}", b"user"),
            (b"{{user}}", b"{user"),
            (b"{}user", b"{}user"),
            (b"{}{user}", b"{}{user}"),
            (b"{user", b"{user"),
            (b"}user{", b"}user{"),
            (b"}{user}", b"user"),
            (b"", b""),
        ] {
            assert_eq!(hash_tag(key), hashed, "{}", key.escape_ascii());
        }
        assert_eq!((slot_of(b"foo"), slot_of(b"{foo}bar")), (12_182, 12_182));
    }
}
