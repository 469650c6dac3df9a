//! The calls that the clients make of a node, whatever it is: a cache of this process, or one in another language.

use super::book::Value;
use larder::{Source, Update};
use std::time::Duration;

/// What a loader comes back with.
pub(crate) type Outcome = Result<Value, &'static str>;

pub(crate) trait NodeCalls: Send + Sync + 'static {
    /// Notes whether Redis was lost, or is back.
    fn note_coherence(&self) {}

    fn fetch(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
    ) -> impl Future<Output = Option<Value>> + Send;

    /// A fetch whose caller loads itself, or leaves before it has begun.
    fn lease(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
        leaves: bool,
    ) -> impl Future<Output = Option<Value>> + Send;

    /// All keys that have the tag of this one, by one bulk loader; those that are shared are only read.
    fn fetch_many<F: Future<Output = Outcome> + Send + 'static>(
        &self,
        key: usize,
        loader: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> impl Future<Output = Vec<Option<Value>>> + Send;

    /// The same with a load by the caller.
    fn lease_many<F: Future<Output = Outcome> + Send + 'static>(
        &self,
        key: usize,
        loader: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> impl Future<Output = Vec<Option<Value>>> + Send;

    /// The value and its source.
    fn refresh(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
    ) -> impl Future<Output = Option<(Value, Source)>> + Send;

    /// What memory has.
    fn hit(&self, key: usize) -> impl Future<Output = Option<Value>> + Send;

    fn read(&self, key: usize) -> impl Future<Output = Option<Value>> + Send;

    /// The values of all keys.
    fn read_many(&self) -> impl Future<Output = Vec<Option<Value>>> + Send;

    /// Whether all nodes know. This and the calls below return false too if the node cannot do it to this key.
    fn write(&self, key: usize, value: Value) -> impl Future<Output = bool> + Send;

    fn delete(&self, key: usize) -> impl Future<Output = bool> + Send;

    /// Whether it was stored, or why that is unknown.
    fn add(
        &self,
        key: usize,
        value: Value,
        tagged: bool,
    ) -> impl Future<Output = Result<bool, String>> + Send;

    /// What it has removed, or why that is unknown.
    fn take(&self, key: usize) -> impl Future<Output = Result<Option<Value>, String>> + Send;

    /// Soft: it promises nothing, and must not break anything.
    fn expire(&self, key: usize) -> impl Future<Output = ()> + Send;

    /// Whether it stored a value, or why that is unknown.
    fn update(
        &self,
        key: usize,
        update: impl FnMut(Option<&Value>) -> Update<Value> + Send + 'static,
    ) -> impl Future<Output = Result<bool, String>> + Send;

    /// Gives a value another time to live. As `expire`, it promises nothing that the reads could show.
    fn touch(&self, key: usize, ttl: Duration) -> impl Future<Output = ()> + Send;

    /// As `expire`, by the tag.
    fn soften_tag(&self, key: usize) -> impl Future<Output = ()> + Send;

    /// Bytes and counters, which no promise covers and which no invalidation may break.
    fn use_raw(&self, key: usize) -> impl Future<Output = ()> + Send;

    fn invalidate_tag(&self, key: usize) -> impl Future<Output = bool> + Send;

    /// Deletes what a pattern matches: one key, or all.
    fn delete_matched(&self, key: Option<usize>) -> impl Future<Output = bool> + Send;

    fn clear(&self) -> impl Future<Output = bool> + Send;

    /// Clears the space of this level, and those below it.
    fn clear_space(&self, level: usize) -> impl Future<Output = bool> + Send;
}

/// Loads one key after the other, until one fails.
pub(crate) async fn load_each<F: Future<Output = Outcome> + Send>(
    keys: &[u64],
    loader: &(impl Fn(usize) -> F + Sync),
) -> Result<Vec<(u64, Value)>, &'static str> {
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        values.push((*key, loader(*key as usize).await?));
    }
    Ok(values)
}
