//! Numbers with a unit.

/// Further digits of a fraction are less than the smallest unit.
const MAX_DIGITS: usize = 18;

/// A number and its unit, `1.5` and `GiB`, as they are written.
pub(crate) struct Decimal<'t> {
    whole: &'t str,
    /// The digits behind the point, if there is one.
    fraction: Option<&'t str>,
    pub(crate) unit: &'t str,
}

impl<'t> Decimal<'t> {
    /// `None` if the text does not begin with a number. There may be spaces before the unit.
    pub(crate) const fn parse(text: &'t str) -> Option<Self> {
        let (whole, rest) = split_digits(text);
        let (fraction, unit) = match rest.as_bytes() {
            [b'.', ..] => {
                let (digits, unit) = split_digits(rest.split_at(1).1);
                (Some(digits), unit)
            }
            _ => (None, rest),
        };
        let is_fraction = match fraction {
            Some(digits) => !digits.is_empty() && !matches!(unit.as_bytes(), [b'.', ..]),
            None => true,
        };
        if whole.is_empty() || !is_fraction {
            return None;
        }
        Some(Decimal { whole, fraction, unit: unit.trim_ascii_start() })
    }

    pub(crate) const fn has_fraction(&self) -> bool {
        self.fraction.is_some()
    }

    /// The number times a factor; the fraction of the product does not count. `None` if the number exceeds 2^64 − 1.
    pub(crate) const fn times(&self, factor: u64) -> Option<u128> {
        let mut parts = 0;
        if let Some(digits) = self.fraction {
            let counted = if digits.len() < MAX_DIGITS { digits.len() } else { MAX_DIGITS };
            let Ok(fraction) = u128::from_str_radix(digits.split_at(counted).0, 10) else { return None };
            parts = fraction * factor as u128 / 10_u128.pow(counted as u32);
        }
        match u64::from_str_radix(self.whole, 10) {
            Ok(whole) => Some(whole as u128 * factor as u128 + parts),
            Err(_) => None,
        }
    }
}

/// The digits at the beginning of a text, and the rest.
const fn split_digits(text: &str) -> (&str, &str) {
    let mut digits = 0;
    while digits < text.len() && text.as_bytes()[digits].is_ascii_digit() {
        digits += 1;
    }
    text.split_at(digits)
}
