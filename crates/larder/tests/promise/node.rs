//! One node: a real cache over any tier.

use super::book::Value;
use super::effects::{Effect, Effects};
use super::keeper::Keeper;
use super::rng::Rng;
use larder::{
    Builder, BulkLeased, BulkOutcome, Cache, CacheError, CoherenceMode, FetchError, Fetched, Invalidation,
    Leased, Policy, Reach, Removal, Source, Update, View, WriteOptions,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) cache: Cache,
    /// The views of the spaces `a` and `a/b`.
    views: [View<u64, Value, &'static str>; 2],
    /// The shared bytes of the same spaces.
    keepers: [Keeper; 2],
    keys: usize,
    has_jitter: bool,
    touches: bool,
    /// Whether Redis did not reply when this node was last called.
    is_lost: AtomicBool,
    effects: Arc<Effects>,
}

/// Loads one key after the other, until one fails.
async fn load_each<F>(
    keys: &[u64],
    loader: &(impl Fn(usize) -> F + Sync),
) -> Result<Vec<(u64, Value)>, &'static str>
where
    F: Future<Output = Result<Value, &'static str>> + Send,
{
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        values.push((*key, loader(*key as usize).await?));
    }
    Ok(values)
}

/// Some values count as absences.
fn is_negative(value: &Value) -> bool {
    value.version.is_multiple_of(3)
}

impl Node {
    /// A node with the options of the builder. Its other options are random.
    pub(crate) fn start(builder: Builder, keys: usize, rng: &Rng, effects: &Arc<Effects>) -> Self {
        let grace = if rng.chance(500) { Duration::from_secs(30) } else { Duration::ZERO };
        let ttl = if rng.chance(300) { Duration::from_millis(700) } else { Duration::from_secs(60) };
        let policy = Policy::new().ttl(ttl).grace(grace).retry_after(Duration::from_millis(300));
        let policy = if rng.chance(300) { policy.hard_timeout(Duration::from_secs(1)) } else { policy };
        let policy = if rng.chance(300) { policy.soft_timeout(Duration::from_millis(20)) } else { policy };
        let (has_jitter, touches) = (rng.chance(300), rng.chance(300));
        let policy = if has_jitter { policy.jitter(0.5) } else { policy };
        let policy = if rng.chance(300) { policy.negative_ttl(Duration::from_millis(500)) } else { policy };
        let cache = builder
            .ttl(ttl)
            .policy(policy)
            .lease_wait(rng.ms(1..300))
            .build()
            .expect("the options are in range");
        let above = cache.space("a");
        let views = [&above, &above.space("b")].map(|space| {
            let view = space.view("v").with_negative(is_negative);
            if touches { view.touch_on_read() } else { view }
        });
        let keepers = [&above, &above.space("b")].map(|space| Keeper::new(space.shared("s")));
        let (is_lost, effects) = (AtomicBool::new(false), effects.clone());
        Node { views, keepers, cache, keys, has_jitter, touches, is_lost, effects }
    }

    /// Notes whether Redis was lost, or is back.
    pub(crate) fn note_coherence(&self) {
        let is_lost = self.cache.coherence().mode == CoherenceMode::Lost;
        let was_lost = self.is_lost.swap(is_lost, Ordering::Relaxed);
        self.effects.note_if(is_lost, Effect::Lost);
        self.effects.note_if(was_lost && !is_lost, Effect::Back);
    }

    /// Notes what a fetch shows, whose loader has failed or not.
    fn note_fetch(&self, fetched: &Result<Fetched<Value>, FetchError<&'static str>>, has_failed: bool) {
        let effects = &self.effects;
        match fetched {
            Ok(found) => match found.source() {
                Source::Stale => effects.note(if has_failed { Effect::Grace } else { Effect::SoftTimeout }),
                Source::Loader => effects.note_if(self.has_jitter, Effect::Jitter),
                Source::Memory => effects.note_if(is_negative(found), Effect::Negative),
                _ => {}
            },
            Err(error) => effects.note_if(matches!(error, FetchError::Timeout), Effect::HardTimeout),
        }
    }

    /// The name of a key without the namespace.
    pub(crate) fn name(key: usize) -> String {
        let view = if Self::is_shared(key) { "s" } else { "v" };
        format!("{}/{view}:{key}", ["a", "a/b"][Self::level(key)])
    }

    /// Whether the value of a key is kept outside of memory.
    fn is_shared(key: usize) -> bool {
        key % 4 == 3
    }

    fn keeper(&self, key: usize) -> Option<&Keeper> {
        Self::is_shared(key).then(|| &self.keepers[Self::level(key)])
    }

    /// How far below the space `a` the space of a key is: keys with the same tag are in the same one.
    pub(crate) fn level(key: usize) -> usize {
        key / 2 % 2
    }

    fn view(&self, key: usize) -> &View<u64, Value, &'static str> {
        &self.views[Self::level(key)]
    }

    /// The tag of a key: two keys share one.
    pub(crate) fn tag(key: usize) -> String {
        format!("t{}", key / 2)
    }

    /// The keys that have the same tag.
    pub(crate) fn tagged(&self, key: usize) -> impl Iterator<Item = usize> + use<> {
        let first = key - key % 2;
        first..(first + 2).min(self.keys)
    }

    pub(crate) async fn fetch(
        &self,
        key: usize,
        loading: impl Future<Output = Result<Value, &'static str>> + Send + 'static,
    ) -> Option<Value> {
        if let Some(keeper) = self.keeper(key) {
            let found = keeper.fetch(key, Self::tag(key), loading).await;
            self.effects.note_if(found.is_some(), Effect::Shared);
            return found;
        }
        let has_failed = Arc::new(AtomicBool::new(false));
        let fails = has_failed.clone();
        let fetch = self.view(key).fetch(&(key as u64));
        // Half of the tags are added by the loader.
        let fetch = if key.is_multiple_of(2) { fetch.tag(Self::tag(key)) } else { fetch };
        let loaded = fetch.load(move |cx| async move {
            let value = loading.await;
            fails.store(value.is_err(), Ordering::Relaxed);
            cx.tag(Self::tag(key));
            value
        });
        let fetched = loaded.await;
        self.note_fetch(&fetched, has_failed.load(Ordering::Relaxed));
        fetched.ok().map(|value| *value)
    }

    /// A fetch whose caller loads itself, or leaves before it has begun.
    pub(crate) async fn lease(
        &self,
        key: usize,
        loading: impl Future<Output = Result<Value, &'static str>> + Send + 'static,
        leaves: bool,
    ) -> Option<Value> {
        if Self::is_shared(key) {
            return self.fetch(key, loading).await;
        }
        let fetch = self.view(key).fetch(&(key as u64));
        let fetch = if key.is_multiple_of(2) { fetch.tag(Self::tag(key)) } else { fetch };
        let found = match fetch.lease().await {
            Ok(Leased::Hit(value)) => Ok(value),
            Ok(Leased::Lead(_)) if leaves => return None,
            Ok(Leased::Lead(lease)) => {
                let loaded = loading.await;
                lease.cx().tag(Self::tag(key));
                match loaded {
                    Ok(value) => lease.complete(value).await,
                    Err(error) => lease.fail(error).await,
                }
            }
            Err(error) => Err(error),
        };
        let is_loaded = found.as_ref().is_ok_and(|value| value.source() == Source::Loader);
        self.effects.note_if(is_loaded, Effect::Lease);
        found.ok().map(|value| *value)
    }

    /// As [`Node::fetch_many`], with a load by the caller.
    pub(crate) async fn lease_many<F>(
        &self,
        key: usize,
        loader: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> Vec<Option<Value>>
    where
        F: Future<Output = Result<Value, &'static str>> + Send + 'static,
    {
        let keys = self.tagged_in_memory(key);
        let mut leased = self.view(key).fetch_multi(&keys).tag(Self::tag(key)).lease().await;
        let outcomes = loop {
            let lease = match leased {
                BulkLeased::Done(outcomes) => break outcomes,
                BulkLeased::Lead(lease) => lease,
            };
            leased = match load_each(lease.keys(), &loader).await {
                Ok(values) => lease.complete(values).await,
                Err(error) => lease.fail(error).await,
            };
        };
        self.and_shared(key, outcomes).await
    }

    /// The keys with the tag of this one that are kept in memory.
    fn tagged_in_memory(&self, key: usize) -> Vec<u64> {
        self.tagged(key).filter(|key| !Self::is_shared(*key)).map(|key| key as u64).collect()
    }

    /// The values of those keys, and those of the shared ones: the shared key of a pair is the second one.
    async fn and_shared(
        &self,
        key: usize,
        outcomes: Vec<BulkOutcome<Value, &'static str>>,
    ) -> Vec<Option<Value>> {
        let found = outcomes.into_iter().map(|found| found.ok().flatten().map(|value| *value));
        let mut values: Vec<_> = found.collect();
        for key in self.tagged(key).filter(|key| Self::is_shared(*key)) {
            values.push(self.read(key).await);
        }
        values
    }

    /// The value and its source.
    pub(crate) async fn refresh(
        &self,
        key: usize,
        loading: impl Future<Output = Result<Value, &'static str>> + Send + 'static,
    ) -> Option<(Value, Source)> {
        if let Some(keeper) = self.keeper(key) {
            // It may be a value from before the call.
            return Some((keeper.fetch(key, Self::tag(key), loading).await?, Source::Stale));
        }
        let fetch = self.view(key).fetch(&(key as u64)).refresh().tag(Self::tag(key));
        let refreshed = fetch.load(move |_| loading).await.ok().map(|value| (*value, value.source()));
        let is_loaded = refreshed.is_some_and(|(_, source)| source == Source::Loader);
        self.effects.note_if(is_loaded, Effect::Refresh);
        refreshed
    }

    /// What memory has. Those who keep copies of their own have none there.
    pub(crate) fn hit(&self, key: usize) -> Option<Value> {
        if Self::is_shared(key) {
            return None;
        }
        self.view(key).hit(&(key as u64)).map(|value| *value)
    }

    pub(crate) async fn read(&self, key: usize) -> Option<Value> {
        if let Some(keeper) = self.keeper(key) {
            return keeper.read(key).await;
        }
        let found = self.view(key).read(&(key as u64)).await.map(|value| *value);
        self.effects.note_if(found.is_some() && self.touches, Effect::Touch);
        found
    }

    pub(crate) async fn read_many(&self) -> Vec<Option<Value>> {
        let mut values = vec![None; self.keys];
        for (level, view) in self.views.iter().enumerate() {
            let keys: Vec<u64> = (0..self.keys)
                .filter(|key| Self::level(*key) == level && !Self::is_shared(*key))
                .map(|key| key as u64)
                .collect();
            for (key, found) in keys.iter().zip(view.read_multi(&keys).await) {
                values[*key as usize] = found.as_deref().copied();
            }
        }
        for key in (0..self.keys).filter(|key| Self::is_shared(*key)) {
            values[key] = self.read(key).await;
        }
        values
    }

    /// All keys that have the tag of this one, by one bulk loader; those that are shared are only read.
    pub(crate) async fn fetch_many<F>(
        &self,
        key: usize,
        loader: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> Vec<Option<Value>>
    where
        F: Future<Output = Result<Value, &'static str>> + Send + 'static,
    {
        let (keys, loader) = (self.tagged_in_memory(key), Arc::new(loader));
        let fetch = self.view(key).fetch_multi(&keys).tag(Self::tag(key));
        let found = fetch.load(move |keys: Vec<u64>, _| {
            let loader = loader.clone();
            async move { load_each(&keys, &*loader).await }
        });
        let outcomes = found.await;
        let has_values = outcomes.iter().any(|found| matches!(found, Ok(Some(_))));
        self.effects.note_if(has_values, Effect::Bulk);
        self.and_shared(key, outcomes).await
    }

    /// A shared key is deleted.
    pub(crate) async fn write(&self, key: usize, value: Value) -> bool {
        if Self::is_shared(key) {
            return self.delete(key).await;
        }
        let options = WriteOptions::new().tag(Self::tag(key));
        matches!(self.view(key).write_with(&(key as u64), value, &options).await, Ok(Reach::Everywhere))
    }

    pub(crate) async fn delete(&self, key: usize) -> bool {
        if let Some(keeper) = self.keeper(key) {
            return matches!(keeper.delete(key).await, Ok(true));
        }
        matches!(self.view(key).delete(&(key as u64)).await, Ok(Removal { reach: Reach::Everywhere, .. }))
    }

    /// Whether it was stored, or why that is unknown. Nothing is added to a shared key.
    pub(crate) async fn add(&self, key: usize, value: Value, tagged: bool) -> Result<bool, CacheError> {
        if Self::is_shared(key) {
            return Ok(false);
        }
        let options = WriteOptions::new();
        let options = if tagged { options.tag(Self::tag(key)) } else { options };
        self.view(key).add_with(&(key as u64), value, &options).await
    }

    /// A shared key is deleted, which returns nothing.
    pub(crate) async fn take(&self, key: usize) -> Result<Option<Value>, CacheError> {
        if Self::is_shared(key) {
            return if self.delete(key).await { Ok(None) } else { Err(CacheError::NotAsked) };
        }
        Ok(self.view(key).take(&(key as u64)).await?.map(|value| *value))
    }

    pub(crate) async fn expire(&self, key: usize) {
        // Soft: it promises nothing, and must not break anything. A shared key has none of that name.
        let expired = self.view(key).expire(&(key as u64)).await;
        self.effects.note_if(expired.is_ok_and(|removal| removal.existed), Effect::Expire);
    }

    /// Whether it stored a value, or why that is unknown. Nothing is updated under a shared key.
    pub(crate) async fn update(
        &self,
        key: usize,
        update: impl FnMut(Option<&Value>) -> Update<Value> + Send + 'static,
    ) -> Result<bool, CacheError> {
        if Self::is_shared(key) {
            return Ok(false);
        }
        let updated = self.view(key).update(&(key as u64), update).await?;
        self.effects.note_if(updated.changed, Effect::Update);
        Ok(updated.changed)
    }

    /// Gives a value another time to live. As `expire`, it promises nothing that the reads could show.
    pub(crate) async fn touch(&self, key: usize, ttl: Duration) {
        let touched = self.view(key).touch(&(key as u64), Policy::new().ttl(ttl)).await;
        self.effects.note_if(matches!(touched, Ok(true)), Effect::NewTime);
    }

    /// As `expire`, by the tag.
    pub(crate) async fn soften_tag(&self, key: usize) {
        let invalidated = self.cache.invalidate_tags([Self::tag(key)], Invalidation::Soft).await;
        self.effects.note_if(matches!(invalidated, Ok(Reach::Everywhere)), Effect::SoftTag);
    }

    /// Bytes and counters, which no promise covers and which no invalidation may break.
    pub(crate) async fn use_raw(&self, key: usize) {
        let (bytes, ttl) = (key.to_le_bytes(), Duration::from_secs(60));
        let written = self.cache.raw("bytes").write(&key.to_string()[..], bytes, ttl).await;
        self.effects.note_if(written.is_ok(), Effect::Raw);
        let counted = self.cache.counters("visits").increment(&key.to_string()[..], 1).await;
        self.effects.note_if(counted.is_ok(), Effect::Counter);
    }

    pub(crate) async fn invalidate_tag(&self, key: usize) -> bool {
        let invalidated = self.cache.invalidate_tags([Self::tag(key)], Invalidation::Hard).await;
        let ok = matches!(invalidated, Ok(Reach::Everywhere));
        self.effects.note_if(ok, Effect::Tag);
        ok
    }

    /// Deletes what a pattern matches: one key, or all.
    pub(crate) async fn delete_matched(&self, key: Option<usize>) -> bool {
        let pattern = key.map_or("a*".to_owned(), Self::name);
        let deleted = self.cache.delete_matched(&pattern).await;
        let ok = matches!(deleted, Ok(Removal { reach: Reach::Everywhere, .. }));
        self.effects.note_if(ok, Effect::Pattern);
        ok
    }

    pub(crate) async fn clear(&self) -> bool {
        matches!(self.cache.clear().await, Ok(Reach::Everywhere))
    }

    /// Clears the space of this level, and those below it.
    pub(crate) async fn clear_space(&self, level: usize) -> bool {
        let above = self.cache.space("a");
        let space = if level == 0 { above } else { above.space("b") };
        let ok = matches!(space.clear().await, Ok(Reach::Everywhere));
        self.effects.note_if(ok, Effect::Space);
        ok
    }
}
