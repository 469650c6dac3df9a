//! What becomes of entries on disk when those in memory are replaced, removed or restored.

use crate::disk::DiskWrite;
use crate::key::Key;
use crate::status::Reason;
use crate::store::entries::Store;
use crate::store::location::StoreLocation;
use crate::stored::entry::StoreValue;

impl Store {
    /// Does `put`, which makes this value of a resource visible under its key in memory. What the disk has of the key is removed
    /// before, and the value is written if it may be.
    ///
    /// # Errors
    /// Those of `put`.
    pub(crate) fn replace(
        &self,
        resource: &Key,
        key: &Key,
        value: &StoreValue,
        put: impl FnOnce() -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        match &self.disk {
            Some(disk) => disk.replace(key, self.disk_write(resource, key, value), put),
            None => put(),
        }
    }

    /// Writes a value of memory, unless the disk has one of its key.
    pub(crate) fn add_missing_to_disk(&self, resource: &Key, value: &StoreValue) {
        if let Some(disk) = &self.disk {
            disk.add_missing(resource, || self.disk_write(resource, resource, value));
        }
    }

    /// Removes what the disk has of a key: it was replaced or forbidden.
    pub(crate) fn forget_on_disk(&self, key: &Key) {
        if let Some(disk) = &self.disk {
            disk.forget(key);
        }
    }

    /// Whether a response that is missing in memory may be on disk or in Redis.
    pub(crate) fn may_have_elsewhere(&self, location: &StoreLocation) -> bool {
        let on_disk = || self.disk.as_ref().is_some_and(|disk| disk.may_have(location.key().as_bytes()));
        self.shared.is_some() || on_disk()
    }

    /// Whether there may be an entry on disk that a purge of this URI concerns.
    pub(crate) fn may_be_on_disk(&self, uri: &[u8]) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.may_have(uri) || disk.has_other_keys())
    }

    #[cfg(not(feature = "disk"))]
    fn disk_write(&self, _: &Key, _: &Key, _: &StoreValue) -> Option<DiskWrite> {
        None
    }

    /// The value as the disk gets it; `None` if it may not be there. What is for some clients only stays in memory.
    #[cfg(feature = "disk")]
    fn disk_write(&self, resource: &Key, key: &Key, value: &StoreValue) -> Option<DiskWrite> {
        use crate::disk::queue::Content;
        use crate::key::{is_of_uri_alone, ruled_path, uri_of};
        use crate::policy::scope::Scope;
        use http::header::LAST_MODIFIED;

        /// A response that is of use for less time is not written.
        const MIN_USEFUL_MS: u64 = 10_000;

        // The rules for queries are learnt anew after a restart, and until then a purge of a URI does not reach what they name.
        if ruled_path(uri_of(resource.as_bytes())).is_some() {
            return None;
        }
        let now_ms = self.entries.now_ms();
        let mut tags = Vec::new();
        let (content, replied_ms_ago) = match value {
            StoreValue::Varies(record) if record.scope() > Some(Scope::Public) || self.shared.is_some() => {
                return None;
            }
            StoreValue::Varies(record) => (Content::Record(record.clone()), 0),
            StoreValue::Response(stored) => {
                // Other replicas may change it, so it is only good for a validation.
                let may_be_validated = || {
                    let has_validator =
                        stored.own_etag().is_some() || stored.headers().contains_key(LAST_MODIFIED);
                    stored.is_of_origin() && has_validator && key == resource
                };
                let is_written = stored.scope <= Some(Scope::Public)
                    && stored.complete_body().is_some()
                    && stored.useful_ms(now_ms) >= MIN_USEFUL_MS
                    && (self.shared.is_none() || may_be_validated());
                if !is_written {
                    return None;
                }
                tags.extend(stored.tag_names(|tag| self.is_kept_tag(tag)).map(Into::into));
                (Content::Response(stored.clone()), now_ms.saturating_sub(stored.created_at_ms()))
            }
        };
        let is_other_key = !is_of_uri_alone(resource.as_bytes());
        Some(DiskWrite { is_other_key, replied_ms_ago, tags, content })
    }
}
