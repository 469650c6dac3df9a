//! The lengths of arrays that grow.

/// The shortest of them that is not below `len`: 4 to 7 times a power of two. Allocators have blocks of such sizes, so that
/// no part of a block is left over, and each length is a seventh to a fourth above the one before.
pub(crate) fn at_least(len: usize) -> usize {
    let step = if len < 8 { 1 } else { 1 << (len.ilog2() - 2) };
    len.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_four_to_seven_times_a_power_of_two() {
        let sizes: Vec<usize> =
            std::iter::successors(Some(1), |size| Some(at_least(size + 1))).take(20).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]);
        assert!(sizes.iter().all(|size| at_least(*size) == *size));
    }
}
