//! The schema that programs in all languages compute alike: from a name and a number, and not from a type.
//!
//! It is XXH3 with 64 bits, of the seed 0, over the ASCII bytes of `name/number`, the number in decimal digits without leading
//! zeros: `product/3`. XXH3 is also the checksum of an envelope, so a program that reads envelopes has it. Two pairs never have
//! the same text, because a name has no `/`.

use twox_hash::XxHash3_64;

/// The most characters of a name.
const MAX_NAME_LEN: usize = 64;

/// The schema of a name and a number.
///
/// # Panics
/// If the name is empty or longer than 64 characters, or has others than ASCII letters, digits and `_`, `-` and `.`.
pub(crate) fn shared(name: &str, number: u32) -> u64 {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let is_name = (1..=MAX_NAME_LEN).contains(&name.len()) && name.bytes().all(is_allowed);
    assert!(
        is_name,
        "the name of a shared schema is {name:?}; it must have 1 to {MAX_NAME_LEN} of the ASCII letters, digits and _-."
    );
    XxHash3_64::oneshot(format!("{name}/{number}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by another implementation of XXH3, that of Python.
    const GOLDEN: [(&str, u32, u64); 6] = [
        ("product", 3, 0x2878_5928_fa40_9469),
        ("product", 0, 0x0c12_7004_a013_5c8b),
        ("p", 1, 0xd972_43b7_7b5f_f00b),
        ("shop.Product_v-2", 42, 0xe897_5585_4f96_23ae),
        ("product", u32::MAX, 0x9d5a_2d4c_f5fc_97bd),
        ("a23456789.123456789.123456789.123456789.123456789.123456789.1234", 7, 0x7000_ca3c_4a56_7956),
    ];

    #[test]
    fn schema_of_name_and_number_never_changes() {
        for (name, number, schema) in GOLDEN {
            assert_eq!(shared(name, number), schema, "{name}/{number}: 0x{:016x}", shared(name, number));
        }
    }

    /// Programs in other languages take them from there.
    #[test]
    fn page_shows_the_same_schemas() {
        let page = include_str!("../../../../../docs/serialization.md");
        for (name, number, schema) in GOLDEN {
            let row = format!("| `{name}` | {number} | `0x{schema:016x}` |");
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn name_is_bounded() {
        for name in ["", &"x".repeat(65), "a/b", "a:b", "a b", "größe", "a\n", "a\0"] {
            assert!(std::panic::catch_unwind(|| shared(name, 1)).is_err(), "{name:?}");
        }
        assert_ne!(shared(&"x".repeat(64), 1), shared("x", 1));
    }
}
