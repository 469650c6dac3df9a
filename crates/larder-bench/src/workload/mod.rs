//! What is asked of the caches, made from a seed: the same requests for every one of them.

mod keys;
mod pairs;

pub(crate) use keys::{Population, fresh_key};
pub(crate) use pairs::Pairs;
