//! The schema of a value type: a number that is stored with each value, so that another type's bytes are a miss.

use xxhash_rust::xxh3::xxh3_64;

/// The schema of a type that is known by its name and by the number that its owner gave it.
pub(crate) fn of_type_name<V>(number: u32) -> u64 {
    xxh3_64(std::any::type_name::<V>().as_bytes()) ^ u64::from(number).rotate_left(32)
}
