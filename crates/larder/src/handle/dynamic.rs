//! The dynamic operations of [`Cache`]: keys are text, and each call names the type of its value.
//!
//! They are the operations of a [`View`] with the name `any`, which each call makes: one allocation. To save it, make a
//! view once.

use crate::fetch::{Fetch, FetchMulti};
use crate::handle::cache::Cache;
use crate::node::fetched::Fetched;
use crate::policy::Policy;
use crate::report::error::CacheError;
use crate::report::reach::{Reach, Removal};
use crate::view::{Update, Updated, View, WriteOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The name of the view.
const ANY: &str = "any";

impl Cache {
    fn any<V, E>(&self) -> View<str, V, E>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.view(ANY)
    }

    /// See [`View::fetch`].
    pub fn fetch<V, E>(&self, key: &str) -> Fetch<'static, V, E>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
        E: Send + Sync + 'static,
    {
        self.any().fetch(key).into_owned()
    }

    /// See [`View::fetch_multi`].
    pub fn fetch_multi<'k, V, E>(&self, keys: impl IntoIterator<Item = &'k str>) -> FetchMulti<str, V, E>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
        E: Send + Sync + 'static,
    {
        self.any().fetch_multi(keys)
    }

    /// See [`View::read`].
    pub async fn read<V>(&self, key: &str) -> Option<Fetched<V>>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().read(key).await
    }

    /// See [`View::read_multi`].
    pub async fn read_multi<'k, V>(&self, keys: impl IntoIterator<Item = &'k str>) -> Vec<Option<Fetched<V>>>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().read_multi(keys).await
    }

    /// Whether there is a valid value of this type; see [`View::exist`].
    pub async fn exist<V>(&self, key: &str) -> bool
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().exist(key).await
    }

    /// How long a value of this type is still fresh; see [`View::ttl`].
    pub async fn ttl<V>(&self, key: &str) -> Option<Duration>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().ttl(key).await
    }

    /// See [`View::write`].
    ///
    /// # Errors
    /// As [`View::write`].
    pub async fn write<V>(&self, key: &str, value: V) -> Result<Reach, CacheError>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().write(key, value).await
    }

    /// See [`View::write_with`].
    ///
    /// # Errors
    /// As [`View::write`].
    pub async fn write_with<V>(
        &self,
        key: &str,
        value: V,
        options: &WriteOptions,
    ) -> Result<Reach, CacheError>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().write_with(key, value, options).await
    }

    /// See [`View::write_multi`].
    ///
    /// # Errors
    /// As [`View::write`].
    pub async fn write_multi<'k, V>(
        &self,
        values: impl IntoIterator<Item = (&'k str, V)>,
    ) -> Result<Reach, CacheError>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().write_multi(values).await
    }

    /// See [`View::write_multi_with`].
    ///
    /// # Errors
    /// As [`View::write`].
    pub async fn write_multi_with<'k, V>(
        &self,
        values: impl IntoIterator<Item = (&'k str, V, WriteOptions)>,
    ) -> Result<Reach, CacheError>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().write_multi_with(values).await
    }

    /// See [`View::add`].
    ///
    /// # Errors
    /// As [`View::add`].
    pub async fn add<V>(&self, key: &str, value: V) -> Result<bool, CacheError>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().add(key, value).await
    }

    /// See [`View::add_with`].
    ///
    /// # Errors
    /// As [`View::add`].
    pub async fn add_with<V>(&self, key: &str, value: V, options: &WriteOptions) -> Result<bool, CacheError>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().add_with(key, value, options).await
    }

    /// See [`View::take`].
    ///
    /// # Errors
    /// As [`View::take`].
    pub async fn take<V>(&self, key: &str) -> Result<Option<Fetched<V>>, CacheError>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().take(key).await
    }

    /// See [`View::update`].
    ///
    /// # Errors
    /// As [`View::update`].
    pub async fn update<V, F>(&self, key: &str, update: F) -> Result<Updated<V>, CacheError>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
        F: FnMut(Option<&V>) -> Update<V> + Send + 'static,
    {
        self.any::<V, ()>().update(key, update).await
    }

    /// Gives a value of this type another time to live; see [`View::touch`].
    ///
    /// # Errors
    /// As [`View::touch`].
    pub async fn touch<V>(&self, key: &str, policy: Policy) -> Result<bool, CacheError>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.any::<V, ()>().touch(key, policy).await
    }

    /// See [`View::delete`].
    ///
    /// # Errors
    /// As [`View::delete`].
    pub async fn delete(&self, key: &str) -> Result<Removal, CacheError> {
        self.any::<(), ()>().delete(key).await
    }

    /// See [`View::delete_multi`].
    ///
    /// # Errors
    /// As [`View::delete`].
    pub async fn delete_multi<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k str>,
    ) -> Result<Removal<Vec<bool>>, CacheError> {
        self.any::<(), ()>().delete_multi(keys).await
    }

    /// See [`View::expire`].
    ///
    /// # Errors
    /// As [`View::expire`].
    pub async fn expire(&self, key: &str) -> Result<Removal, CacheError> {
        self.any::<(), ()>().expire(key).await
    }

    /// Adds to a counter; see [`crate::Counters::increment`]. A counter and a value may have the same key.
    ///
    /// # Errors
    /// As [`crate::Counters::increment`].
    pub async fn increment(&self, key: &str, by: i64) -> Result<i64, CacheError> {
        self.counters(COUNTERS).increment(key, by).await
    }

    /// Subtracts from a counter; see [`crate::Counters::decrement`].
    ///
    /// # Errors
    /// As [`crate::Counters::increment`].
    pub async fn decrement(&self, key: &str, by: i64) -> Result<i64, CacheError> {
        self.counters(COUNTERS).decrement(key, by).await
    }
}

/// The name of the counters.
const COUNTERS: &str = "count";
