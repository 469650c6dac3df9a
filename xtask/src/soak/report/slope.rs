//! The slope of a figure over time, by least squares over one or more segments, each with a level of its own.

/// Points of one process from its start on: hours and values.
pub(super) type Segment = Vec<(f64, f64)>;

/// A slope with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slope {
    pub(super) per_hour: f64,
    pub(super) error: f64,
    /// The time that the segments cover together.
    pub(super) hours: f64,
}

impl Slope {
    /// `None` without two times in one segment.
    pub(super) fn of(segments: &[Segment]) -> Option<Self> {
        let (mut xx, mut xy, mut yy, mut points, mut levels, mut hours) =
            (0.0, 0.0, 0.0, 0_usize, 0_usize, 0.0);
        for segment in segments.iter().filter(|segment| segment.len() > 1) {
            let count = segment.len() as f64;
            let mean_x = segment.iter().map(|(x, _)| x).sum::<f64>() / count;
            let mean_y = segment.iter().map(|(_, y)| y).sum::<f64>() / count;
            for (x, y) in segment {
                let (x, y) = (x - mean_x, y - mean_y);
                xx += x * x;
                xy += x * y;
                yy += y * y;
            }
            points += segment.len();
            levels += 1;
            hours += segment[segment.len() - 1].0 - segment[0].0;
        }
        if xx == 0.0 {
            return None;
        }
        let per_hour = xy / xx;
        let freedom = points.saturating_sub(levels + 1).max(1) as f64;
        let error = ((yy - per_hour * xy).max(0.0) / freedom / xx).sqrt();
        Some(Slope { per_hour, error, hours })
    }

    /// The slope without three times its error: what it is at least, if the noise is only noise.
    pub(super) fn least(&self) -> f64 {
        self.per_hour - 3.0 * self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_its_slope_and_no_error() {
        let slope = Slope::of(&[vec![(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]]).unwrap();
        assert!((slope.per_hour - 2.0).abs() < 1e-9 && slope.error < 1e-6, "{slope:?}");
        assert_eq!(slope.hours, 3.0);
    }

    #[test]
    fn levels_of_segments_do_not_matter() {
        let slope = Slope::of(&[vec![(0.0, 100.0), (1.0, 101.0)], vec![(5.0, 3.0), (6.0, 4.0)]]).unwrap();
        assert!((slope.per_hour - 1.0).abs() < 1e-9, "{slope:?}");
        assert_eq!(slope.hours, 2.0);
    }

    #[test]
    fn noise_without_a_trend_is_within_three_errors() {
        let points = (0..100).map(|index| (f64::from(index) / 100.0, f64::from(index * 37 % 11))).collect();
        let slope = Slope::of(&[points]).unwrap();
        assert!(slope.least() < 0.0 && slope.per_hour + 3.0 * slope.error > 0.0, "{slope:?}");
    }

    #[test]
    fn single_points_have_no_slope() {
        assert_eq!(Slope::of(&[vec![(0.0, 1.0)], vec![(1.0, 2.0)]]), None);
        assert_eq!(Slope::of(&[]), None);
    }
}
