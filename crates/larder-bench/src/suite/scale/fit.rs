//! The straight line through some points: what something costs itself, and what each node adds.

/// `at_zero + slope · x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) at_zero: f64,
    pub(super) slope: f64,
}

impl Line {
    /// The line with the least squares of the *relative* distances, because a cost that is a hundred times as high has a hundred
    /// times the noise. Needs points with two different `x`, and no `y` of zero.
    pub(super) fn through(points: &[(f64, f64)]) -> Line {
        let (mut weights, mut xs, mut ys, mut squares, mut products) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (x, y) in points {
            let weight = 1.0 / (y * y);
            weights += weight;
            xs += weight * x;
            ys += weight * y;
            squares += weight * x * x;
            products += weight * x * y;
        }
        let slope = (weights * products - xs * ys) / (weights * squares - xs * xs);
        Line { at_zero: (ys - slope * xs) / weights, slope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_goes_through_points_that_are_on_one() {
        let Line { at_zero, slope } = Line::through(&[(1.0, 12.0), (5.0, 20.0), (200.0, 410.0)]);
        assert!((at_zero - 10.0).abs() < 1e-6 && (slope - 2.0).abs() < 1e-6, "{at_zero} {slope}");
    }

    #[test]
    fn line_is_not_moved_by_the_noise_of_a_high_point() {
        let Line { at_zero, slope } =
            Line::through(&[(1.0, 12.0), (2.0, 14.0), (10.0, 30.0), (1_000.0, 2_210.0)]);
        assert!((9.0..11.0).contains(&at_zero) && (1.9..2.3).contains(&slope), "{at_zero} {slope}");
    }
}
