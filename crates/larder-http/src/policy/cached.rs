//! The settings of one response that its handler returns with it.

use std::time::Duration;

use http::StatusCode;

use crate::policy::scope::Scope;
use crate::policy::settings::Settings;

/// A handler's settings for caching its response, returned with the response.
///
/// With the feature `axum`, return it as a response part: `(Cached::ttl(..), body)`. Otherwise insert it into the
/// response's extensions.
///
/// ```
/// use larder_http::Cached;
/// use std::time::Duration;
///
/// let settings = Cached::ttl(Duration::from_secs(60)).swr(Duration::from_secs(30)).tag("products");
/// let mut response = http::Response::new("[]");
/// response.extensions_mut().insert(settings);
/// ```
#[derive(Clone, Debug)]
#[must_use = "settings have no effect unless they are returned with the response"]
pub struct Cached(pub(super) Settings);

impl Cached {
    /// Caches the response and serves it as fresh for `ttl`, from a millisecond to a year; longer values are reduced
    /// to a year. Zero means: do not store. An `s-maxage` of the response limits it; a `max-age` is for browsers, and
    /// does not.
    pub fn ttl(ttl: Duration) -> Cached {
        Cached(Settings { ttl: Some(ttl), ..Settings::default() })
    }

    /// The grace period: for this long after its TTL the response is served stale while it is refreshed in the
    /// background (stale-while-revalidate, RFC 5861). A response with `must-revalidate`, `proxy-revalidate` or
    /// `s-maxage` has none, and neither has one whose scope is gated or private. Default: none.
    pub fn swr(mut self, grace: Duration) -> Cached {
        self.0.lower_swr(grace);
        self
    }

    /// Limits the TTL to the remaining freshness of a value in the response. The lowest of several limits counts. Zero
    /// means that the value is stale: the response is not stored. The grace period is not limited.
    ///
    /// ```
    /// use larder_http::Cached;
    /// use std::time::Duration;
    ///
    /// let fresh_for = Duration::from_secs(7); // what is left of a value from another cache
    /// let cached = Cached::ttl(Duration::from_secs(60)).limit_ttl(fresh_for);
    /// ```
    pub fn limit_ttl(mut self, fresh_for: Duration) -> Cached {
        self.0.limit_ttl(fresh_for);
        self
    }

    /// Lets the response be fresh for longer than the values that its handler gets from caches of `larder`, or although they are
    /// stale. Without this, no response is: see
    /// [`Builder::responses_may_outlive_values`](crate::Builder::responses_may_outlive_values).
    /// [`Cached::limit_ttl`] and `Cached::uses` limit the response all the same.
    pub fn may_outlive_values(mut self) -> Cached {
        self.0.outlives_values = true;
        self
    }

    /// Declares that the response is made from a value of a [`larder::Cache`]: it has the tags of the value, by which both
    /// are invalidated together in a cache that shares its responses. It is also fresh no longer than the value, and not
    /// stored if the value is stale. Values that the handler gets itself limit it without this call; values that a task
    /// gets for it do not. To have the tags only, add [them](Cached::tag).
    ///
    /// ```
    /// use larder::{Cache, View};
    /// use larder_http::Cached;
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let values = Cache::builder("shop").ttl(Duration::from_secs(10)).build()?;
    /// let prices: View<str, u32> = values.view("price");
    /// let price = prices.fetch("jam").load(|_| async { Ok(299) }).await?;
    /// let cached = Cached::ttl(Duration::from_secs(60)).uses(&price);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "shared")]
    pub fn uses<V>(mut self, value: &larder::Fetched<V>) -> Cached {
        self.0.add_value(value);
        self
    }

    /// Adds a tag, by which [`HttpCache::purge_tag`](crate::HttpCache::purge_tag) purges the response. A response
    /// with more than 128 tags is not stored.
    pub fn tag(mut self, tag: impl AsRef<str>) -> Cached {
        self.0.add_tag(tag.as_ref());
        self
    }

    /// Allows this response to be stored with one of these statuses, in addition to 200. It is replayed with its status.
    /// Statuses below 300, 304, and 400, 413, 414 and 431, which a client can provoke for any path, are never stored.
    pub fn cached_errors(mut self, statuses: impl IntoIterator<Item = StatusCode>) -> Cached {
        self.0.errors.extend(statuses);
        self
    }

    /// Sets a label, which a layer outside of the cache reads from [`Labels`](crate::Labels), also on a hit. `value` must not
    /// identify a user: a shared response has it for everyone. It replaces a value from nested code.
    pub fn label(mut self, name: &'static str, value: impl AsRef<str>) -> Cached {
        self.0.labels.set(name, value.as_ref());
        self
    }

    /// Declares who may get the response. Without a scope it is for requests without credentials; other requests bypass.
    /// The narrowest of several scopes counts.
    pub fn scope(mut self, scope: Scope) -> Cached {
        self.0.scope = self.0.scope.max(Some(scope));
        self
    }
}
