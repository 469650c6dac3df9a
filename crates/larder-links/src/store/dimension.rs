//! Where the visits of a link come from, as the store keeps it.

use super::Day;
use crate::model::count::Count;
use async_graphql::SimpleObject;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The values of a dimension that a link may have on one day, with [`OTHER_VALUE`].
pub const MAX_DIMENSION_VALUES: usize = 200;

/// The most rows of one [`DimensionBatch`].
pub const MAX_DIMENSION_ROWS: usize = 1_000;

/// What is not counted by its own name.
pub const OTHER_VALUE: &str = "other";

/// The values of a dimension that are listed by their names; the others are one.
const TOP: usize = 10;

/// What is counted of a visit. The numbers are those in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// The host of the page with the link.
    Referrer = 0,
    /// The browser.
    Browser = 1,
    /// The operating system.
    System = 2,
    /// `desktop`, `phone`, `tablet` or `console`.
    Device = 3,
    /// The country, by its code of two letters.
    Country = 4,
    /// The name of a bot. Bots are counted in no other dimension.
    Bot = 5,
}

impl Dimension {
    const ALL: [Dimension; 6] = [
        Dimension::Referrer,
        Dimension::Browser,
        Dimension::System,
        Dimension::Device,
        Dimension::Country,
        Dimension::Bot,
    ];
}

/// Visits of one link on one day with the same value of a dimension. Their order is that of the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DimensionKey {
    /// The link's id.
    pub link_id: u64,
    /// The day, in UTC.
    pub day: Day,
    /// The dimension.
    pub dimension: Dimension,
    /// The value.
    pub value: String,
}

/// Counts to write together. If the outcome of a write is unknown, the same batch can be written again and counts once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimensionBatch {
    /// Other than that of every other batch of dimensions of this process.
    pub(super) number: u64,
    pub(super) rows: Vec<(DimensionKey, u64)>,
}

impl DimensionBatch {
    /// A new batch.
    ///
    /// # Panics
    /// If there are more rows than [`MAX_DIMENSION_ROWS`].
    pub fn new(rows: Vec<(DimensionKey, u64)>) -> DimensionBatch {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        assert!(rows.len() <= MAX_DIMENSION_ROWS, "{} rows of dimensions in one step", rows.len());
        DimensionBatch { number: NUMBERS.fetch_add(1, Relaxed), rows }
    }
}

/// How many visits have a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, SimpleObject)]
#[graphql(name = "Value")]
pub struct ValueCount {
    /// The value; `other` stands for the rarer ones.
    pub value: String,
    /// The visits.
    #[graphql(skip, derived(name = "visits", into = "Count", owned))]
    pub visits: u64,
}

/// The most frequent values of each dimension, the most frequent one first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, SimpleObject)]
#[graphql(name = "Dimensions")]
pub struct DimensionCounts {
    /// The hosts of the pages with the link; `direct` for none.
    pub referrers: Vec<ValueCount>,
    /// Browsers.
    pub browsers: Vec<ValueCount>,
    /// Operating systems.
    pub systems: Vec<ValueCount>,
    /// `desktop`, `phone`, `tablet` or `console`.
    pub devices: Vec<ValueCount>,
    /// Codes of countries; `unknown` for an address that the database of countries does not have.
    pub countries: Vec<ValueCount>,
    /// Bots: all visits that are not in the other lists.
    pub bots: Vec<ValueCount>,
}

impl DimensionCounts {
    /// Adds a row of the table, whose rows come with the most frequent values first. Beyond ten of a dimension they are one.
    pub(super) fn add(&mut self, dimension: i64, value: String, visits: u64) {
        let Some(dimension) = Dimension::ALL.into_iter().find(|known| *known as i64 == dimension) else {
            return;
        };
        let values = self.of(dimension);
        let named = values.iter().filter(|counted| counted.value != OTHER_VALUE).count();
        if value != OTHER_VALUE && named < TOP {
            values.push(ValueCount { value, visits });
        } else {
            match values.iter_mut().find(|counted| counted.value == OTHER_VALUE) {
                Some(other) => other.visits += visits,
                None => values.push(ValueCount { value: OTHER_VALUE.to_owned(), visits }),
            }
        }
    }

    fn of(&mut self, dimension: Dimension) -> &mut Vec<ValueCount> {
        match dimension {
            Dimension::Referrer => &mut self.referrers,
            Dimension::Browser => &mut self.browsers,
            Dimension::System => &mut self.systems,
            Dimension::Device => &mut self.devices,
            Dimension::Country => &mut self.countries,
            Dimension::Bot => &mut self.bots,
        }
    }
}
