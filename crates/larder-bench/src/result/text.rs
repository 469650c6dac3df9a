//! Figures as text, for tables and pages.

use crate::result::Spread;

/// The median, followed by the range of the rounds if they differ.
pub(crate) fn format_spread(spread: Spread) -> String {
    if spread.low == spread.high {
        format_number(spread.median)
    } else {
        format!("{} ({})", format_number(spread.median), range(spread))
    }
}

/// The range of the rounds.
pub(crate) fn range(spread: Spread) -> String {
    format!("{}–{}", format_number(spread.low), format_number(spread.high))
}

/// A number with about three digits; "–" if it is none, such as a ratio to zero.
pub(crate) fn format_number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match value.abs() {
        0.0 => "0".to_owned(),
        // A `u64` would saturate, and nobody counts that many digits.
        1e15.. => format!("{value:.2e}"),
        // It would be shown as zero.
        0.0..0.000_05 => format!("{value:.2e}"),
        0.0..0.1 => format!("{value:.4}"),
        0.1..1.0 => format!("{value:.3}"),
        1.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ if value < 0.0 => format!("{value:.0}"),
        _ => larder_terminal::grouped(value.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_without_a_finite_value_is_a_dash_and_a_huge_one_has_an_exponent() {
        let shown =
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2e19, -2e19, 1e15, 999_999_999_999_999.0, 7.0];
        let expected = ["–", "–", "–", "2.00e19", "-2.00e19", "1.00e15", "999,999,999,999,999", "7.00"];
        assert_eq!(shown.map(format_number), expected);
    }

    #[test]
    fn number_that_is_almost_zero_has_an_exponent() {
        let shown = [0.0, 0.000_049, -0.000_049, 0.000_05, 0.01].map(format_number);
        assert_eq!(shown, ["0", "4.90e-5", "-4.90e-5", "0.0001", "0.0100"]);
    }
}
