//! One node: a real cache over any tier.

use super::book::Value;
use super::calls::{NodeCalls, Outcome, load_each};
use super::effects::{Effect, Effects};
use super::keeper::Keeper;
use super::rng::Rng;
use larder::{
    Builder, BulkLeased, BulkOutcome, Cache, CoherenceMode, FetchError, Fetched, Invalidation, Leased,
    Policy, Reach, RefreshAhead, Removal, Source, Update, View, WriteOptions,
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
    layout: Layout,
    has_jitter: bool,
    loads_ahead: bool,
    touches: bool,
    /// Whether Redis did not reply when this node was last called.
    is_lost: AtomicBool,
    effects: Arc<Effects>,
}

/// Where the keys of the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In the spaces `a` and `a/b`.
    Spaces,
    /// In a view that every language has: in no space, and of a schema with a name.
    #[allow(dead_code, reason = "the checker has no nodes in other languages")]
    OneView,
}

impl Layout {
    /// The pattern of a key, or of all, as Redis has them behind the namespace.
    pub(crate) fn pattern(self, key: Option<usize>) -> String {
        match (self, key) {
            (Layout::Spaces, Some(key)) => Node::name(key),
            (Layout::Spaces, None) => "a*".to_owned(),
            (Layout::OneView, Some(key)) => format!("{}:{key}", Node::view_name(key)),
            (Layout::OneView, None) => "[sv]:*".to_owned(),
        }
    }
}

/// Some values count as absences.
fn is_negative(value: &Value) -> bool {
    value.version.is_multiple_of(3)
}

impl Node {
    /// A node with the options of the builder. Its other options are random.
    pub(crate) fn start(
        builder: Builder,
        layout: Layout,
        keys: usize,
        rng: &Rng,
        effects: &Arc<Effects>,
    ) -> Self {
        let grace = if rng.chance(500) { Duration::from_secs(30) } else { Duration::ZERO };
        let ttl = if rng.chance(300) { Duration::from_millis(700) } else { Duration::from_secs(60) };
        let policy = Policy::new().ttl(ttl).grace(grace).retry_after(Duration::from_millis(300));
        let policy = if rng.chance(300) { policy.hard_timeout(Duration::from_secs(1)) } else { policy };
        let policy = if rng.chance(300) { policy.soft_timeout(Duration::from_millis(20)) } else { policy };
        let (has_jitter, touches) = (rng.chance(300), rng.chance(300));
        let policy = if has_jitter { policy.jitter(0.5) } else { policy };
        let loads_ahead = rng.chance(400);
        let ahead = if rng.chance(500) { RefreshAhead::After(0.0) } else { RefreshAhead::ByCost(100.0) };
        let policy = if loads_ahead { policy.refresh_ahead(ahead) } else { policy };
        let policy = if rng.chance(300) { policy.negative_ttl(Duration::from_millis(500)) } else { policy };
        let cache = builder
            .ttl(ttl)
            .policy(policy)
            .lease_wait(rng.ms(1..300))
            .build()
            .expect("the options are in range");
        let views = match layout {
            Layout::Spaces => [cache.space("a").view("v"), cache.space("a").space("b").view("v")],
            Layout::OneView => [cache.view("v"), cache.view("v")].map(|view| view.with_shared_schema("v", 1)),
        };
        let views = views.map(|view| {
            let view = view.with_negative(is_negative);
            if touches { view.touch_on_read() } else { view }
        });
        let bytes = match layout {
            Layout::Spaces => [cache.space("a").shared("s"), cache.space("a").space("b").shared("s")],
            Layout::OneView => [cache.shared("s"), cache.shared("s")],
        };
        let keepers = bytes.map(Keeper::new);
        let (is_lost, effects) = (AtomicBool::new(false), effects.clone());
        Node { views, keepers, cache, keys, layout, has_jitter, loads_ahead, touches, is_lost, effects }
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

    /// The name of a key in a space, without the namespace.
    pub(crate) fn name(key: usize) -> String {
        format!("{}/{}:{key}", ["a", "a/b"][Self::level(key)], Self::view_name(key))
    }

    fn view_name(key: usize) -> &'static str {
        if Self::is_shared(key) { "s" } else { "v" }
    }

    /// Whether the value of a key is kept outside of memory.
    pub(crate) fn is_shared(key: usize) -> bool {
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

    /// Those of so many keys that have the same tag.
    pub(crate) fn tagged(key: usize, keys: usize) -> impl Iterator<Item = usize> + use<> {
        let first = key - key % 2;
        first..(first + 2).min(keys)
    }

    /// The keys with the tag of this one that are kept in memory.
    pub(crate) fn tagged_in_memory(key: usize, keys: usize) -> Vec<u64> {
        Self::tagged(key, keys).filter(|key| !Self::is_shared(*key)).map(|key| key as u64).collect()
    }

    /// The values of those keys, and those of the shared ones: the shared key of a pair is the second one.
    async fn and_shared(
        &self,
        key: usize,
        outcomes: Vec<BulkOutcome<Value, &'static str>>,
    ) -> Vec<Option<Value>> {
        let found = outcomes.into_iter().map(|found| found.ok().flatten().map(|value| *value));
        let mut values: Vec<_> = found.collect();
        for key in Self::tagged(key, self.keys).filter(|key| Self::is_shared(*key)) {
            values.push(self.read(key).await);
        }
        values
    }
}

impl NodeCalls for Node {
    fn note_coherence(&self) {
        let is_lost = self.cache.coherence().mode == CoherenceMode::Lost;
        let was_lost = self.is_lost.swap(is_lost, Ordering::Relaxed);
        self.effects.note_if(is_lost, Effect::Lost);
        self.effects.note_if(was_lost && !is_lost, Effect::Back);
    }

    async fn fetch(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
    ) -> Option<Value> {
        if let Some(keeper) = self.keeper(key) {
            let found = keeper.fetch(key, Self::tag(key), loading).await;
            self.effects.note_if(found.is_some(), Effect::Shared);
            return found;
        }
        let has_failed = Arc::new(AtomicBool::new(false));
        let fails = has_failed.clone();
        let is_answered = Arc::new(AtomicBool::new(false));
        let (answered, effects) = (is_answered.clone(), self.effects.clone());
        let loads_ahead = self.loads_ahead;
        let fetch = self.view(key).fetch(&(key as u64));
        // Half of the tags are added by the loader.
        let fetch = if key.is_multiple_of(2) { fetch.tag(Self::tag(key)) } else { fetch };
        let loaded = fetch.load(move |cx| async move {
            effects.note_if(loads_ahead && answered.load(Ordering::Relaxed), Effect::Ahead);
            let value = loading.await;
            fails.store(value.is_err(), Ordering::Relaxed);
            cx.tag(Self::tag(key));
            value
        });
        let fetched = loaded.await;
        let is_hit = fetched.as_ref().is_ok_and(|found| found.source() == Source::Memory);
        is_answered.store(is_hit, Ordering::Relaxed);
        self.note_fetch(&fetched, has_failed.load(Ordering::Relaxed));
        fetched.ok().map(|value| *value)
    }

    async fn lease(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
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

    async fn lease_many<F: Future<Output = Outcome> + Send + 'static>(
        &self,
        key: usize,
        loader: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> Vec<Option<Value>> {
        let keys = Self::tagged_in_memory(key, self.keys);
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

    async fn refresh(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
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

    /// Those who keep copies of their own have none in memory.
    async fn hit(&self, key: usize) -> Option<Value> {
        if Self::is_shared(key) {
            return None;
        }
        self.view(key).hit(&(key as u64)).map(|value| *value)
    }

    async fn read(&self, key: usize) -> Option<Value> {
        if let Some(keeper) = self.keeper(key) {
            return keeper.read(key).await;
        }
        let found = self.view(key).read(&(key as u64)).await.map(|value| *value);
        self.effects.note_if(found.is_some() && self.touches, Effect::Touch);
        found
    }

    async fn read_many(&self) -> Vec<Option<Value>> {
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

    async fn fetch_many<F: Future<Output = Outcome> + Send + 'static>(
        &self,
        key: usize,
        loader: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> Vec<Option<Value>> {
        let (keys, loader) = (Self::tagged_in_memory(key, self.keys), Arc::new(loader));
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
    async fn write(&self, key: usize, value: Value) -> bool {
        if Self::is_shared(key) {
            return self.delete(key).await;
        }
        let options = WriteOptions::new().tag(Self::tag(key));
        matches!(self.view(key).write_with(&(key as u64), value, &options).await, Ok(Reach::Everywhere))
    }

    async fn delete(&self, key: usize) -> bool {
        if let Some(keeper) = self.keeper(key) {
            return matches!(keeper.delete(key).await, Ok(true));
        }
        matches!(self.view(key).delete(&(key as u64)).await, Ok(Removal { reach: Reach::Everywhere, .. }))
    }

    /// Nothing is added to a shared key.
    async fn add(&self, key: usize, value: Value, tagged: bool) -> Result<bool, String> {
        if Self::is_shared(key) {
            return Ok(false);
        }
        let options = WriteOptions::new();
        let options = if tagged { options.tag(Self::tag(key)) } else { options };
        self.view(key).add_with(&(key as u64), value, &options).await.map_err(|error| error.to_string())
    }

    /// A shared key is deleted, which returns nothing.
    async fn take(&self, key: usize) -> Result<Option<Value>, String> {
        if Self::is_shared(key) {
            return if self.delete(key).await { Ok(None) } else { Err("not everywhere".to_owned()) };
        }
        let taken = self.view(key).take(&(key as u64)).await.map_err(|error| error.to_string())?;
        Ok(taken.map(|value| *value))
    }

    async fn expire(&self, key: usize) {
        // A shared key has none of that name.
        let expired = self.view(key).expire(&(key as u64)).await;
        self.effects.note_if(expired.is_ok_and(|removal| removal.existed), Effect::Expire);
    }

    /// Nothing is updated under a shared key.
    async fn update(
        &self,
        key: usize,
        update: impl FnMut(Option<&Value>) -> Update<Value> + Send + 'static,
    ) -> Result<bool, String> {
        if Self::is_shared(key) {
            return Ok(false);
        }
        let updated =
            self.view(key).update(&(key as u64), update).await.map_err(|error| error.to_string())?;
        self.effects.note_if(updated.changed, Effect::Update);
        Ok(updated.changed)
    }

    async fn touch(&self, key: usize, ttl: Duration) {
        let touched = self.view(key).touch(&(key as u64), Policy::new().ttl(ttl)).await;
        self.effects.note_if(matches!(touched, Ok(true)), Effect::NewTime);
    }

    async fn soften_tag(&self, key: usize) {
        let invalidated = self.cache.invalidate_tags([Self::tag(key)], Invalidation::Soft).await;
        self.effects.note_if(matches!(invalidated, Ok(Reach::Everywhere)), Effect::SoftTag);
    }

    async fn use_raw(&self, key: usize) {
        let (bytes, ttl) = (key.to_le_bytes(), Duration::from_secs(60));
        let written = self.cache.raw("bytes").write(&key.to_string()[..], bytes, ttl).await;
        self.effects.note_if(written.is_ok(), Effect::Raw);
        let counted = self.cache.counters("visits").increment(&key.to_string()[..], 1).await;
        self.effects.note_if(counted.is_ok(), Effect::Counter);
    }

    async fn invalidate_tag(&self, key: usize) -> bool {
        let invalidated = self.cache.invalidate_tags([Self::tag(key)], Invalidation::Hard).await;
        let ok = matches!(invalidated, Ok(Reach::Everywhere));
        self.effects.note_if(ok, Effect::Tag);
        ok
    }

    async fn delete_matched(&self, key: Option<usize>) -> bool {
        let deleted = self.cache.delete_matched(&self.layout.pattern(key)).await;
        let ok = matches!(deleted, Ok(Removal { reach: Reach::Everywhere, .. }));
        self.effects.note_if(ok, Effect::Pattern);
        ok
    }

    async fn clear(&self) -> bool {
        matches!(self.cache.clear().await, Ok(Reach::Everywhere))
    }

    async fn clear_space(&self, level: usize) -> bool {
        if self.layout == Layout::OneView {
            return self.clear().await;
        }
        let above = self.cache.space("a");
        let space = if level == 0 { above } else { above.space("b") };
        let ok = matches!(space.clear().await, Ok(Reach::Everywhere));
        self.effects.note_if(ok, Effect::Space);
        ok
    }
}
