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

/// By which times and tags a write or a fetch is done. The default is the subject's own: 60 s, no grace, no tags.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Time to live.
    pub ttl: Option<Duration>,
    /// Grace behind it.
    pub grace: Option<Duration>,
    /// After a failure with a stale value, how long the loader is left alone.
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
    /// The loader said so.
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
#[macro_export]
macro_rules! conformance {
    ($make:ident) => {
        $crate::behaviours! { $make;
            values: a_miss_is_nothing, what_is_written_can_be_read, a_later_write_replaces, empty_text_is_a_value,
                an_absence_is_a_value_and_no_miss, existence_is_told, deleting_tells_whether_there_was_something,
                large_values_are_kept_whole, any_text_is_a_key, keys_do_not_run_into_each_other,
                values_that_look_like_something_else, clearing_leaves_nothing_and_everything_works_after_it,
                adding_does_not_replace, adding_happens_once, taking_leaves_nothing, taking_happens_once;
            many: many_are_read_in_their_order, many_are_written, many_are_deleted_and_counted,
                only_the_missing_are_loaded_and_together, each_missing_key_is_asked_for_once,
                a_bulk_loader_may_know_less, a_bulk_loader_may_know_more, nothing_missing_loads_nothing,
                nothing_asked_is_nothing_done, a_failing_bulk_loader_is_an_error_and_stores_nothing,
                absences_are_not_missing;
            times: a_value_lives_as_long_as_it_was_given, a_call_decides_before_the_cache,
                a_write_begins_a_new_life, a_very_long_life_is_allowed, the_shortest_life_is_allowed,
                absences_expire_too, a_fetch_gives_the_life_that_it_was_told, a_loader_decides_last;
            fetching: a_miss_loads_and_stores, a_hit_does_not_load, a_failure_is_returned_and_not_stored,
                a_loaded_absence_is_stored, what_is_not_to_be_stored_is_returned,
                a_refresh_loads_although_there_is_a_value, a_failed_refresh_leaves_the_value,
                a_panic_is_a_failure_and_the_key_lives_on, a_loader_may_use_the_cache, keys_load_at_the_same_time;
            races: many_callers_load_once, many_callers_share_a_failure, a_caller_who_leaves_takes_nothing_along,
                a_delete_during_a_load_wins, a_write_during_a_load_wins, a_tag_during_a_load_wins,
                a_clear_during_a_load_wins, who_comes_after_a_delete_loads_anew, a_single_and_a_bulk_load_are_one;
            grace: a_stale_value_stands_in_for_a_failure, grace_ends, without_grace_there_is_no_stand_in,
                a_broken_origin_is_not_asked_by_everyone, a_mended_origin_is_asked_again,
                a_stale_value_is_a_miss_for_readers, a_working_loader_replaces_the_stale_value,
                what_was_deleted_does_not_stand_in, what_was_expired_stands_in_or_is_loaded_anew,
                what_was_cleared_does_not_stand_in, a_slow_loader_is_not_waited_for_if_there_is_a_stale_value,
                without_a_stale_value_a_soft_timeout_waits, a_loader_that_is_too_late_is_an_error,
                a_loader_that_is_too_late_is_no_error_in_grace, not_modified_begins_a_new_life;
            tags: a_tag_takes_its_entries_along, any_of_the_tags_is_enough, a_loader_names_tags,
                only_the_present_tags_count, what_is_written_later_lives, a_tag_without_entries_is_no_error,
                absences_have_tags_too, tags_of_one_call_are_taken_together, odd_tags_are_tags,
                what_a_tag_took_does_not_stand_in;
            counters: counters_begin_at_nothing, counters_go_both_ways, counters_are_apart,
                nobody_counts_over_the_other, a_counter_that_is_full_stays,
                a_counter_keeps_its_first_life;
        }
    };
}

/// The inside of [`conformance!`](crate::conformance!).
#[doc(hidden)]
#[macro_export]
macro_rules! behaviours {
    ($make:ident; $($group:ident: $($behaviour:ident),+;)+) => {
        $(mod $group {
            $(#[tokio::test]
            async fn $behaviour() {
                let Some(subject) = super::$make().await else { return };
                $crate::conformance::$group::$behaviour(subject).await;
            })+
        })+
    };
}
