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
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        let unit_start = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_start);
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (number, None),
        };
        let is_number =
            !whole.is_empty() && fraction.is_none_or(|digits| !digits.is_empty() && !digits.contains('.'));
        is_number.then(|| Decimal { whole, fraction, unit: unit.trim_start() })
    }

    pub(crate) fn has_fraction(&self) -> bool {
        self.fraction.is_some()
    }

    /// The number times a factor; the fraction of the product does not count. `None` if the number exceeds 2^64 − 1.
    pub(crate) fn times(&self, factor: u64) -> Option<u128> {
        let fraction = self.fraction.unwrap_or("0");
        let fraction = &fraction[..fraction.len().min(MAX_DIGITS)];
        let parts = fraction.parse::<u128>().ok()? * u128::from(factor) / 10_u128.pow(fraction.len() as u32);
        let whole: u64 = self.whole.parse().ok()?;
        Some(u128::from(whole) * u128::from(factor) + parts)
    }
}
