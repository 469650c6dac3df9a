//! A cache in memory only, for values of any type.

use crate::handle::cache::Cache;
use crate::value::codec::Unencoded;
use crate::value::schema;
use crate::view::View;
use std::ops::Deref;

/// A [`Cache`] without Redis. Its values are never encoded, so they need no serde. Made by
/// [`Builder::build_local`](crate::Builder::build_local). Cheap to clone.
///
/// It has all calls of a [`Cache`], to which it derefs. A value weighs its own size, without the memory that it points to:
/// give the view a [weigher](View::with_weigher), or bound the cache by [entries](crate::Builder::memory_entries).
///
/// # Examples
/// ```
/// use larder::{Cache, View};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// /// No type of serde.
/// struct Compiled(Box<dyn Fn(u32) -> u32 + Send + Sync>);
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let cache = Cache::builder("rules").ttl(Duration::from_secs(300)).memory_entries(1_000).build_local()?;
/// let rules: View<str, Compiled> = cache.view("rule");
/// let double = rules.fetch("double").load(|_| async { Ok(Compiled(Box::new(|n| 2 * n))) }).await?;
/// assert_eq!((double.0)(21), 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LocalCache(Cache);

impl LocalCache {
    pub(crate) fn new(cache: Cache) -> Self {
        LocalCache(cache)
    }

    /// A typed window onto this cache; see [`Cache::view`].
    ///
    /// # Panics
    /// If the name is empty or contains a `:` or a `/`.
    pub fn view<K: ?Sized, V: 'static, E>(&self, name: &str) -> View<K, V, E> {
        self.0.view_of(name, Unencoded, schema::of_name::<V>())
    }

    /// A part of this cache; see [`Cache::space`].
    ///
    /// # Panics
    /// As [`Cache::space`].
    pub fn space(&self, name: &str) -> LocalCache {
        LocalCache(self.0.space(name))
    }
}

impl Deref for LocalCache {
    type Target = Cache;

    fn deref(&self) -> &Cache {
        &self.0
    }
}
