//! Requests to the caches, generated from a seed, and values: the same for every cache.

mod keys;
mod pairs;
mod synthetic;
mod values;

pub(crate) use keys::{Population, unused_key};
pub(crate) use pairs::Pairs;
pub(crate) use synthetic::{HELP as SYNTHETIC_HELP, Synthetic};
pub(crate) use values::{Catalogue, catalogue, map_of_26};
