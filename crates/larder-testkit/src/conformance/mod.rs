//! What a cache does, whatever is behind it: one behaviour, one function, run for every composition of tiers.
//!
//! The behaviours are those that users of caches in other languages rely on: what ActiveSupport and Django promise of
//! reads, writes and counters, and what FusionCache promises of fetches, timeouts and stale values.
//!
//! A test implements [`Subject`] for its cache and names a function that makes one in [`conformance!`](crate::conformance!).

pub mod counters;
pub mod fetching;
pub mod grace;
pub mod many;
pub mod races;
pub mod tags;
pub mod times;
pub mod values;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// What is cached: text, or the knowledge that there is none.
pub type Value = Option<String>;

/// What a loader comes back with.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The value.
    pub value: Value,
    /// Its time to live, if the loader decides it.
    pub ttl: Option<Duration>,
    /// Its tags.
    pub tags: Vec<&'static str>,
    /// Whether it is stored.
    pub no_store: bool,
    /// Instead of all that: the old value is still right.
    pub not_modified: bool,
}

/// A loader that returns this text.
pub fn loads(text: &str) -> Loading {
    let value = Some(text.to_owned());
    Box::pin(async move { Ok(Loaded { value, ..Loaded::default() }) })
}

/// A loader that fails.
pub fn fails() -> Loading {
    Box::pin(async { Err("the origin is down".to_owned()) })
}

/// A loader that must not run.
pub fn never() -> Loading {
    Box::pin(async { panic!("the loader ran although there was a value") })
}

/// A loader under way.
pub type Loading = Pin<Box<dyn Future<Output = Result<Loaded, String>> + Send>>;

/// A bulk loader: is given the missing keys, and returns pairs.
pub type BulkLoader = Box<
    dyn FnOnce(Vec<String>) -> Pin<Box<dyn Future<Output = Result<Vec<(String, Value)>, String>> + Send>>
        + Send,
>;

/// The times and tags of a write or a fetch. The default is that of the subject: 60 s, no grace period, no tags.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Time to live.
    pub ttl: Option<Duration>,
    /// The grace period after it.
    pub grace: Option<Duration>,
    /// How long no load starts after a failed load that had a stale value.
    pub retry_after: Option<Duration>,
    /// How long a caller waits if there is a stale value.
    pub soft_timeout: Option<Duration>,
    /// How long a loader may run.
    pub hard_timeout: Option<Duration>,
    /// Tags.
    pub tags: Vec<&'static str>,
}

/// `How` with a time to live of so many seconds.
pub fn seconds(ttl: u64) -> How {
    How { ttl: Some(Duration::from_secs(ttl)), ..How::default() }
}

/// Why a fetch has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The loader failed.
    Loader(String),
    /// The loader panicked.
    Panicked,
    /// It took too long.
    Timeout,
}

/// A cache under test, of text under text. Cheap to clone: clones are handles to the same cache.
pub trait Subject: Clone + Send + Sync + 'static {
    /// Looks up; `None` is a miss, `Some(None)` a remembered absence.
    fn read(&self, key: &str) -> impl Future<Output = Option<Value>> + Send;
    /// Looks up many, in order.
    fn read_multi(&self, keys: &[&str]) -> impl Future<Output = Vec<Option<Value>>> + Send;
    /// Stores.
    fn write(&self, key: &str, value: Value, how: How) -> impl Future<Output = ()> + Send;
    /// Stores many.
    fn write_multi(&self, pairs: &[(&str, Value)]) -> impl Future<Output = ()> + Send;
    /// Stores if nothing is there; whether it did.
    fn write_if_absent(&self, key: &str, value: Value) -> impl Future<Output = bool> + Send;
    /// Looks up, or loads and stores.
    fn fetch(
        &self,
        key: &str,
        how: How,
        loader: Loading,
    ) -> impl Future<Output = Result<Value, Failure>> + Send;
    /// Looks up many, loads what is missing in one go, and stores it.
    fn fetch_multi(
        &self,
        keys: &[&str],
        loader: BulkLoader,
    ) -> impl Future<Output = Result<Vec<Option<Value>>, Failure>> + Send;
    /// Loads and stores although there may be a value.
    fn refresh(&self, key: &str, loader: Loading) -> impl Future<Output = Result<Value, Failure>> + Send;
    /// Whether something is stored.
    fn exist(&self, key: &str) -> impl Future<Output = bool> + Send;
    /// Removes; whether something was there.
    fn delete(&self, key: &str) -> impl Future<Output = bool> + Send;
    /// Removes many; how many were there.
    fn delete_multi(&self, keys: &[&str]) -> impl Future<Output = usize> + Send;
    /// Removes and returns.
    fn take(&self, key: &str) -> impl Future<Output = Option<Value>> + Send;
    /// Marks stale.
    fn expire(&self, key: &str) -> impl Future<Output = ()> + Send;
    /// Removes everything with one of these tags.
    fn invalidate_tags(&self, tags: &[&str]) -> impl Future<Output = ()> + Send;
    /// Removes everything.
    fn clear(&self) -> impl Future<Output = ()> + Send;
    /// Adds to a counter; `None` if the sum cannot be held, or there is nothing that counts.
    fn increment(&self, key: &str, by: i64) -> impl Future<Output = Option<i64>> + Send;
    /// Lets time pass, for every tier.
    fn pass(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// Text as a value.
pub fn text(text: &str) -> Value {
    Some(text.to_owned())
}

/// Declares one test for each behaviour. Takes the name of an async function beside it that makes a subject, or `None` to skip.
///
/// `make of kinds` is for subjects of several kinds, which `kinds` beside it returns and `make` takes: each test runs for all of them,
/// one after the other. Attributes of the tests follow, and a macro that [`left_out!`](crate::left_out!) declares: there are no
/// tests of what these subjects cannot have.
#[macro_export]
macro_rules! conformance {
    ($make:ident) => {
        $crate::conformance!({ $make }, {}, {});
    };
    ($make:ident of $kinds:ident, $attributes:tt, $filter:ident) => {
        $crate::conformance!({ $make $kinds }, $attributes, { $filter });
    };
    ($make:tt, $attributes:tt, $filter:tt) => {
        $crate::behaviours! { $make $attributes $filter;
            values: miss_returns_nothing, written_value_is_read, later_write_replaces_value, empty_text_is_a_value,
                absence_is_a_value, exist_reports_presence, delete_reports_whether_key_was_present,
                large_value_is_unchanged, any_text_is_a_key, similar_keys_are_separate,
                value_with_special_bytes_is_unchanged, clear_removes_everything_and_cache_works_after_it,
                add_does_not_replace, concurrent_adds_store_once, take_removes_value, concurrent_takes_return_once;
            many: read_multi_keeps_order, write_multi_stores_all, delete_multi_counts_removed_keys,
                fetch_multi_loads_missing_keys_together, fetch_multi_asks_for_each_key_once,
                bulk_loader_may_return_fewer_keys, bulk_loader_may_return_more_keys, fetch_multi_without_missing_keys_does_not_load,
                fetch_multi_without_keys_does_nothing, failing_bulk_loader_stores_nothing,
                absence_is_not_loaded_again;
            times: value_lives_for_its_ttl, ttl_of_call_overrides_cache,
                write_restarts_ttl, very_long_ttl_is_allowed, shortest_ttl_is_allowed,
                absence_expires, fetch_sets_ttl, ttl_of_loader_overrides_call;
            fetching: miss_loads_and_stores, hit_does_not_load, failure_is_returned_and_not_stored,
                loaded_absence_is_stored, no_store_value_is_returned,
                refresh_loads_over_value, failed_refresh_keeps_value,
                panicking_loader_fails_and_key_stays_usable, loader_may_use_cache, different_keys_load_concurrently;
            races: many_callers_load_once, many_callers_share_a_failure, leaving_caller_does_not_cancel_load,
                delete_during_load_wins, write_during_load_wins, tag_invalidation_during_load_wins,
                clear_during_load_wins, fetch_after_delete_loads_again, fetch_and_fetch_multi_share_a_load;
            grace: failed_load_serves_stale, grace_period_ends, failed_load_without_grace_is_an_error,
                failed_load_pauses_loads, loads_resume_after_pause,
                read_ignores_stale_value, successful_load_replaces_stale_value,
                deleted_value_is_not_served_stale, expired_value_is_served_stale_or_loaded_again,
                cleared_value_is_not_served_stale, soft_timeout_serves_stale,
                soft_timeout_without_stale_value_waits, hard_timeout_is_an_error,
                hard_timeout_serves_stale, not_modified_restarts_ttl;
            tags: tag_invalidation_removes_tagged_entries, any_tag_of_entry_invalidates_it, tag_of_loader_is_honoured,
                only_current_tags_of_entry_count, write_after_tag_invalidation_stays, tag_without_entries_is_no_error,
                absence_can_have_tags, invalidate_tags_takes_several_tags, unusual_text_is_a_tag,
                tag_invalidated_value_is_not_served_stale;
            counters: counter_starts_at_zero, counter_goes_up_and_down, counters_are_separate,
                concurrent_increments_add_up, counter_at_its_limit_stays,
                increment_keeps_ttl;
        }
    };
}

/// The inside of [`conformance!`](crate::conformance!).
#[doc(hidden)]
#[macro_export]
macro_rules! behaviours {
    ($make:tt $attributes:tt $filter:tt; $($group:ident: $($behaviour:ident),+;)+) => {
        $(mod $group {
            $($crate::behaviour! { $make $attributes $filter $group $behaviour })+
        })+
    };
}

/// One test of [`conformance!`](crate::conformance!).
#[doc(hidden)]
#[macro_export]
macro_rules! behaviour {
    ({ $make:ident } { $($attribute:tt)* } {} $group:ident $behaviour:ident) => {
        #[tokio::test]
        $($attribute)*
        async fn $behaviour() {
            let _deadline = $crate::Deadline::start();
            let Some(subject) = super::$make().await else { return };
            $crate::conformance::$group::$behaviour(subject).await;
        }
    };
    ({ $make:ident $kinds:ident } { $($attribute:tt)* } {} $group:ident $behaviour:ident) => {
        #[tokio::test]
        $($attribute)*
        async fn $behaviour() {
            for kind in super::$kinds() {
                let _deadline = $crate::Deadline::start();
                let Some(subject) = super::$make(&kind).await else { return };
                $crate::conformance::$group::$behaviour(subject).await;
            }
        }
    };
    ($make:tt $attributes:tt { $filter:ident } $group:ident $behaviour:ident) => {
        $filter! { $group $behaviour $crate::behaviour! { $make $attributes {} $group $behaviour } }
    };
}

/// Declares a macro for [`conformance!`](crate::conformance!) that leaves out behaviours of some groups. What it leaves is left to
/// `also`, another such macro, if that is given. The first token is a `$`. A behaviour that does not exist does not compile.
#[macro_export]
macro_rules! left_out {
    (($d:tt) $name:ident $(also $also:ident)?; $($group:ident: $($behaviour:ident),+;)+) => {
        $($(const _: () = {
            #[expect(unused_imports, reason = "it shows that there is such a behaviour")]
            use $crate::conformance::$group::$behaviour;
        };)+)+

        macro_rules! $name {
            $($(($group $behaviour $d($d test:tt)*) => {};)+)+
            ($d other:ident $d behaviour:ident $d($d test:tt)*) => {
                $crate::unless_left_out! { { $($also)? } $d other $d behaviour $d($d test)* }
            };
        }
    };
}

/// The inside of [`left_out!`](crate::left_out!).
#[doc(hidden)]
#[macro_export]
macro_rules! unless_left_out {
    ({} $group:ident $behaviour:ident $($test:tt)*) => { $($test)* };
    ({ $also:ident } $($test:tt)*) => { $also! { $($test)* } };
}
