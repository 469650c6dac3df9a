//! Whole numbers of flags, with an error that names the range.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A parser for a flag that is a whole number.
///
/// ```
/// let parse = larder_terminal::whole_number(1..=16);
/// assert_eq!(parse("7"), Ok(7));
/// assert_eq!(parse("x"), Err("expected a whole number from 1 to 16".to_owned()));
/// assert!(parse("17").is_err());
/// ```
pub fn whole_number<T: FromStr + PartialOrd + Display>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone
where
    RangeInclusive<T>: Clone,
{
    move |text| text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| expected(&range))
}

/// The message about a text that is no whole number of this range.
pub fn expected<T: Display>(range: &RangeInclusive<T>) -> String {
    format!("expected a whole number from {} to {}", range.start(), range.end())
}
