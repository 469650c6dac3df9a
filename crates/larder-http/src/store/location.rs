//! Where a response is stored.

use std::sync::Arc;

use crate::key::Key;
use crate::policy::scope::Scope;
use crate::stored::entry::StoredResponse;
use crate::stored::record::VaryRecord;

/// Where the response to a request is stored, or will be.
#[derive(Clone, Debug)]
pub(crate) struct StoreLocation {
    pub(crate) resource: Key,
    /// For a resource that varies or is guarded: its record, and the key of the variant that this request selects.
    pub(crate) variant: Option<(Arc<VaryRecord>, Key)>,
    /// What is stored there and may not be served as it is: the fill may validate it.
    pub(crate) expired: Option<Arc<StoredResponse>>,
}

impl StoreLocation {
    pub(crate) fn key(&self) -> &Key {
        self.variant.as_ref().map_or(&self.resource, |(_, key)| key)
    }

    /// The scope of the resource, if its record tells.
    pub(crate) fn scope(&self) -> Option<Scope> {
        self.variant.as_ref().and_then(|(record, _)| record.scope())
    }

    /// Whether the gate must be asked before a response from here is served.
    pub(crate) fn is_guarded(&self) -> bool {
        self.scope() >= Some(Scope::Gated)
    }
}
