//! What the expansion of [`macro@crate::cached`] calls: the view of a function, which is made once for each handle of a cache, its
//! key, the arguments of its loader, and its times, which are checked at compile time.

use crate::handle::cache::Cache;
pub use crate::handle::fn_views::CachedFn;
use crate::handle::local::LocalCache;
use crate::key::{CacheKey, KeyBuf};
use crate::policy::{MAX_GRACE, RefreshAhead};
use crate::view::View;
use larder_engine::MAX_TTL;
use larder_text::parse_time;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A cache of this library.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no cache for a function",
    label = "this is neither a `larder::Cache` nor a `larder::LocalCache`"
)]
pub trait AnyCache {}

impl AnyCache for Cache {}

impl AnyCache for LocalCache {}

/// The cache of a function, where the compiler says that it is none.
pub fn cache<C: AnyCache>(cache: &C) -> &C {
    cache
}

/// A cache that can hold values of this type.
pub trait FnCache<V>: AnyCache {
    /// The view of a function: of this name, with options.
    fn view_of_fn<E: 'static>(
        &self,
        function: &CachedFn,
        name: &str,
        with_options: impl FnOnce(View<KeyBuf, V, E>) -> View<KeyBuf, V, E>,
    ) -> &View<KeyBuf, V, E>;
}

impl<V: Serialize + DeserializeOwned + Send + Sync + 'static> FnCache<V> for Cache {
    fn view_of_fn<E: 'static>(
        &self,
        function: &CachedFn,
        name: &str,
        with_options: impl FnOnce(View<KeyBuf, V, E>) -> View<KeyBuf, V, E>,
    ) -> &View<KeyBuf, V, E> {
        self.fn_views().get_or_make(function, || with_options(self.view(name)))
    }
}

impl<V: Send + Sync + 'static> FnCache<V> for LocalCache {
    fn view_of_fn<E: 'static>(
        &self,
        function: &CachedFn,
        name: &str,
        with_options: impl FnOnce(View<KeyBuf, V, E>) -> View<KeyBuf, V, E>,
    ) -> &View<KeyBuf, V, E> {
        self.fn_views().get_or_make(function, || with_options(self.view(name)))
    }
}

/// The types in the `Result` that a function returns.
#[diagnostic::on_unimplemented(
    message = "a cached function returns a `Result`, not `{Self}`",
    label = "this is no `Result`"
)]
pub trait FnResult {
    /// The type of the value.
    type Value;
    /// The type of the error.
    type Error;
}

impl<V, E> FnResult for Result<V, E> {
    type Value = V;
    type Error = E;
}

/// The key of a call.
pub fn key(key: &(impl CacheKey + ?Sized)) -> KeyBuf {
    KeyBuf::of(key)
}

/// A part of a key, where the compiler says that it can be none.
pub fn key_part<K: CacheKey + ?Sized>(part: &K) -> &K {
    part
}

/// A clone of what the caller lends, for a loader that runs in a task of its own.
pub fn cloned_for_loader<T>(argument: &T) -> T::Owned
where
    T: ToOwned<Owned: Send + Sync + 'static> + ?Sized,
{
    argument.to_owned()
}

/// What the caller passes by value, for a loader that runs in a task of its own.
pub fn moved_to_loader<T: Send + 'static>(argument: T) -> T {
    argument
}

/// A function that reads an option from a text, and panics if it is none. In a constant that is an error of the compiler.
macro_rules! time_options {
    ($($name:ident: $least:expr, $most:expr, $expected:literal;)*) => {$(
        #[doc = concat!("The `", stringify!($name), "` of a function as a text.")]
        ///
        /// # Panics
        /// If it is no time, or out of range.
        #[track_caller]
        pub const fn $name(text: &str) -> Duration {
            match parse_time(text) {
                Some(time) if at_most($least, time) && at_most(time, $most) => time,
                _ => panic!(concat!("`", stringify!($name), "` must be a time such as 250ms, 30s or 5m", $expected)),
            }
        }
    )*};
}

time_options! {
    ttl: Duration::from_millis(1), MAX_TTL, ", from 1 ms to 8,900 years";
    negative_ttl: Duration::from_millis(1), MAX_TTL, ", from 1 ms to 8,900 years";
    grace: Duration::ZERO, MAX_GRACE, ", from 0 to 4,450 years";
    retry_after: Duration::ZERO, Duration::MAX, "";
    soft_timeout: Duration::ZERO, Duration::MAX, "";
    hard_timeout: Duration::ZERO, Duration::MAX, "";
}

/// The `jitter` of a function.
///
/// # Panics
/// If it is out of range.
#[track_caller]
pub const fn jitter(part: f32) -> f32 {
    assert!(part >= 0.0 && part <= 1.0, "`jitter` must be a number, from 0 to 1");
    part
}

/// The `refresh_ahead` of a function: a part of the time to live.
///
/// # Panics
/// If it is out of range.
#[track_caller]
pub const fn refresh_ahead(part: f32) -> RefreshAhead {
    assert!(part >= 0.0 && part <= 1.0, "`refresh_ahead` must be a number, from 0 to 1");
    RefreshAhead::After(part)
}

const fn at_most(one: Duration, other: Duration) -> bool {
    one.as_nanos() <= other.as_nanos()
}
