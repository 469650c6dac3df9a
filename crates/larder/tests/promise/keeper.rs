//! A store of a caller: it keeps bytes that nodes share, and serves them for as long as their copies are valid.

use super::book::Value;
use larder::{
    CacheError, Committed, Reach, Removal, SharedCopy, SharedFetch, SharedReload, SharedValue, SharedView,
    Validity, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(crate) struct Keeper {
    view: SharedView,
    kept: Mutex<BTreeMap<usize, Arc<Kept>>>,
}

#[derive(Debug)]
struct Kept {
    value: Value,
    copy: SharedCopy,
}

impl Keeper {
    pub(crate) fn new(view: SharedView) -> Self {
        Keeper { view, kept: Mutex::default() }
    }

    /// The value that is kept or in Redis, or that of the loader.
    pub(crate) async fn fetch(
        &self,
        key: usize,
        tag: String,
        loading: impl Future<Output = Result<Value, &'static str>>,
    ) -> Option<Value> {
        let (lease, stale) = match self.valid(key).await {
            Some((kept, Validity::Valid)) => return Some(kept.value),
            Some((kept, _)) => match self.view.reload(&bytes_of(key)).await {
                SharedReload::Found(value) => return Some(self.keep_found(key, value)),
                SharedReload::Elsewhere => return Some(kept.value),
                SharedReload::Lease(lease) => (lease, Some(kept.value)),
            },
            None => match self.view.fetch(&bytes_of(key)).await {
                SharedFetch::Found(value) => return Some(self.keep_found(key, value)),
                SharedFetch::Lease(lease) => (lease, None),
            },
        };
        let options = WriteOptions::new().tag(tag);
        let Ok(value) = loading.await else { return stale };
        let committed = lease.commit(value.version.to_le_bytes().to_vec(), &options).await;
        if let Committed::Everywhere(copy) | Committed::Here(copy) = committed {
            self.keep(key, Kept { value, copy });
        }
        Some(value)
    }

    pub(crate) async fn read(&self, key: usize) -> Option<Value> {
        if let Some((kept, Validity::Valid)) = self.valid(key).await {
            return Some(kept.value);
        }
        Some(self.keep_found(key, self.view.read(&bytes_of(key)).await?))
    }

    pub(crate) async fn delete(&self, key: usize) -> Result<bool, CacheError> {
        let Removal { reach, .. } = self.view.delete(&bytes_of(key)).await?;
        Ok(reach == Reach::Everywhere)
    }

    /// What is kept of a key, valid or stale.
    async fn valid(&self, key: usize) -> Option<(Arc<Kept>, Validity)> {
        let kept = self.kept.lock().expect("nobody panics with it").get(&key).cloned()?;
        let validity = match self.view.validity(&kept.copy) {
            Validity::Unknown => self.view.revalidate(&bytes_of(key), &kept.copy).await,
            known => known,
        };
        matches!(validity, Validity::Valid | Validity::Stale).then_some((kept, validity))
    }

    fn keep_found(&self, key: usize, found: SharedValue) -> Value {
        let version = u64::from_le_bytes(found.bytes().try_into().expect("a version"));
        let value = Value { version, write: 0 };
        self.keep(key, Kept { value, copy: found.into_copy() });
        value
    }

    fn keep(&self, key: usize, kept: Kept) {
        self.kept.lock().expect("nobody panics with it").insert(key, Arc::new(kept));
    }
}

fn bytes_of(key: usize) -> Vec<u8> {
    key.to_string().into_bytes()
}
