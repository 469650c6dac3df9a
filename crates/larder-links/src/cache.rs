//! From slug to target through the cache: the one place that knows the tiers.

use crate::address::to_location;
use crate::store::{Link, Store, StoreError};
use serde::{Deserialize, Serialize};

/// What a redirect needs of a link: where to, and whose visit it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) link_id: u64,
    /// In the form of a `Location` header.
    pub(crate) location: String,
}

impl From<&Link> for Target {
    fn from(link: &Link) -> Target {
        Target { link_id: link.id, location: to_location(&link.url) }
    }
}

pub(crate) struct Targets;

impl Targets {
    pub(crate) async fn resolve(&self, slug: &str, store: &Store) -> Result<Option<Target>, StoreError> {
        Ok(store.find(slug).await?.as_ref().map(Target::from))
    }

    pub(crate) async fn replace(&self, _links: &[&Link]) {}

    pub(crate) async fn forget(&self, _slug: &str) {}
}
