//! An atomic read-modify-write of a value.

use super::rewrite::{Becomes, Present, Rewritten};
use super::{View, WriteOptions};
use crate::coherence::mutation::spawn_mutation;
use crate::fetch::view_state::ViewState;
use crate::key::{CacheKey, KeyBuf};
use crate::node::entry::MemoryEntry;
use crate::node::fetched::{Fetched, Source};
use crate::node::sealing::{NewEntry, Sealing};
use crate::report::error::CacheError;
use crate::tier::Expiry;
use crate::value::envelope;
use std::sync::Arc;
use std::time::Duration;

/// What becomes of a value: the return value of the function of [`View::update`].
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is returned from the function of an update"]
pub enum Update<V> {
    /// It stays as it is.
    Keep,
    /// This value takes its place and keeps its deadline, its grace period and its tags. Where there is none, it is stored with
    /// the options of the view.
    Put(V),
    /// This value takes its place with options of its own, as [`View::write_with`] stores it.
    PutWith(V, WriteOptions),
    /// It is removed.
    Remove,
}

/// The outcome of [`View::update`].
#[non_exhaustive]
pub struct Updated<V> {
    /// The value that is there now.
    pub value: Option<Fetched<V>>,
    /// Whether the update has stored or removed a value.
    pub changed: bool,
}

impl<V: std::fmt::Debug + Send + Sync + 'static> std::fmt::Debug for Updated<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Updated { value, changed } = self;
        f.debug_struct("Updated").field("value", value).field("changed", changed).finish()
    }
}

impl<K, V, E> View<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Replaces or removes a value by what a function makes of it, in one step. Of concurrent updates on all nodes each gets
    /// what the one before it has stored: none is lost.
    ///
    /// `update` gets the valid value, never a stale one. It is called again if another writer comes first, so it must have no
    /// effects of its own. No lock is held meanwhile, but other updates of the key on this node wait: it must be short and must
    /// not wait for one. Other calls on the key do not wait.
    ///
    /// As by a [`write`](View::write), running loads of the key can no longer store their values, on any node, unless `update`
    /// returns [`Update::Keep`]. While the cache is off, `update` is not called and the key is removed: an older value must not be
    /// served once the cache is turned on again.
    ///
    /// The update continues if the caller is dropped. Cost: two round trips to Redis, and one more if the value has tags.
    /// [`Counters`](crate::Counters) count in one, but are no values of a view.
    ///
    /// # Examples
    /// ```
    /// use larder::{Cache, Update, View};
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let cache = Cache::builder("shop").ttl(Duration::from_secs(300)).build()?;
    /// let stock: View<str, u32> = cache.view("stock");
    /// let sell = |apples: Option<&u32>| match apples {
    ///     Some(apples @ 1..) => Update::Put(apples - 1),
    ///     _ => Update::Keep,
    /// };
    /// assert!(!stock.update("apple", sell).await?.changed);
    /// assert!(stock.write("apple", 7).await?.is_everywhere());
    /// let sold = stock.update("apple", sell).await?;
    /// assert_eq!((sold.value.as_deref(), sold.changed), (Some(&6), true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If Redis could not be read, or the new value cannot be encoded, nothing has changed: a value is never made from one that
    /// may be old. [`CacheError::Contended`] if other nodes came first each time: nothing has changed either. If Redis was asked to
    /// store and did not confirm, the key is removed on this node, and its deletion is queued. Until Redis confirms that, other
    /// nodes may read the new value.
    ///
    /// # Panics
    /// Outside a tokio runtime. If `update` panics: nothing has changed.
    pub async fn update<F>(&self, key: &K, update: F) -> Result<Updated<V>, CacheError>
    where
        F: FnMut(Option<&V>) -> Update<V> + Send + 'static,
    {
        if !self.state.node().is_enabled() {
            _ = self.delete(key).await?;
            return Ok(Updated { value: None, changed: false });
        }
        let (state, key) = (self.state.clone(), KeyBuf::of(key));
        let updating = async move { state.update(&key, update).await };
        let updated = spawn_mutation(self.state.node(), updating).await?;
        updated.value.iter().for_each(Fetched::note_freshness);
        Ok(updated)
    }
}

impl<V: Send + Sync + 'static> ViewState<V> {
    async fn update(
        self: Arc<Self>,
        key: &KeyBuf,
        mut update: impl FnMut(Option<&V>) -> Update<V> + Send,
    ) -> Result<Updated<V>, CacheError> {
        let decide = |present: &Present| {
            let value = present.valid.as_ref().and_then(MemoryEntry::value::<V>);
            match (update(value.map(|value| &**value)), &present.valid) {
                (Update::Keep, _) => Ok(Becomes::Same),
                (Update::Remove, _) => Ok(Becomes::Nothing),
                (Update::Put(value), Some(former)) => self.successor(present, former, value),
                (Update::Put(value), None) => self.newcomer(present, value, &WriteOptions::new()),
                (Update::PutWith(value, options), _) => self.newcomer(present, value, &options),
            }
        };
        let Rewritten { entry, changed } = self.clone().rewrite(key, decide).await?;
        let node = self.node();
        let source = if node.redis.is_some() { Source::Redis } else { Source::Memory };
        Ok(Updated { value: entry.and_then(|entry| node.fetched(entry, source, false)), changed })
    }

    /// A value that keeps the times and the tags of the former one.
    fn successor(&self, present: &Present, former: &MemoryEntry, value: V) -> Result<Becomes, CacheError> {
        let (node, state, id) = (self.node(), former.state(), self.node().random.id());
        let (clock, lifetime, tags) = (present.start.clock, state.lifetime(), state.tags.to_vec());
        let sealing = Sealing { id, clock, lifetime, cost: Duration::ZERO, tags };
        let sealed = node.seal(&self.config, &value, sealing).map_err(CacheError::Encode)?;
        let stored = (id, sealed.encoded_bytes);
        let entry = node.successor(&self.config, Arc::new(value), state, stored, &present.start);
        let envelope = sealed.envelope.zip(present.envelope.as_ref());
        let envelope = envelope.map(|(mut bytes, (_, deadline_ms))| {
            envelope::set_deadline(&mut bytes, *deadline_ms);
            (bytes, Expiry::At(*deadline_ms))
        });
        Ok(Becomes::Put { entry, envelope })
    }

    /// A value with times and tags of its own.
    fn newcomer(&self, present: &Present, value: V, options: &WriteOptions) -> Result<Becomes, CacheError> {
        let node = self.node();
        let id = node.id_in_place_of(present.dead);
        let lifetime = self.lifetime(&value, options.policy);
        let tags = self.config.tags(&options.tags);
        let sealing =
            Sealing { id, clock: present.start.clock, lifetime, cost: Duration::ZERO, tags: tags.clone() };
        let sealed = node.seal(&self.config, &value, sealing).map_err(CacheError::Encode)?;
        let new = NewEntry::written(sealed.encoded_bytes, lifetime, tags, Some(id));
        let entry = node.new_entry(&self.config, Arc::new(value), new, &present.start);
        let envelope = match sealed.envelope {
            Some(bytes) => Some(node.with_deadline(bytes, lifetime.kept_for()).ok_or(CacheError::NotAsked)?),
            None => None,
        };
        Ok(Becomes::Put { entry, envelope })
    }
}
