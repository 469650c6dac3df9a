//! The options of a cache. `build` checks them.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, StatusCode};
use larder_engine::Clock;
use larder_engine::fork::Process;

#[cfg(feature = "disk")]
use crate::disk::Disk;
#[cfg(feature = "disk")]
use crate::disk::folder::DiskError;
use crate::key::KeySpace;
use crate::policy::gate::{Access, Gate};
use crate::policy::handler_fields::HandlerFields;
use crate::policy::profile::Profile;
use crate::policy::rules::Rules;
use crate::request::empty_body::EmptyBody;
use crate::request::traits::PersonalExtension;
use crate::status::stats::Counters;
use crate::store::HttpCache;
use crate::store::core::CacheCore;
use crate::store::entries::Store;
use crate::store::limits::Limits;
#[cfg(feature = "compression")]
use crate::stored::encoding::{Coding, Codings};

const MIN_BYTES: u64 = 4096;
/// A deadline in a year can be computed on every clock.
const MAX_FILL_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Options of an [`HttpCache`]. Made by [`HttpCache::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    /// For a view: the state of its store.
    store_of_view: Option<Store>,
    max_bytes: u64,
    max_fill_bytes: u64,
    limits: Limits,
    rules: Rules,
    gate: Option<Gate>,
    gate_timeout: Duration,
    #[cfg(feature = "compression")]
    codings: Vec<Coding>,
    key_space: KeySpace,
    clock: Clock,
    /// The folder of the disk tier, and the room of its entries in bytes.
    #[cfg(feature = "disk")]
    disk: Option<(std::path::PathBuf, u64)>,
}

impl HttpCache {
    /// Options of a new cache.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Options of a view: another cache over the store of this one, with its own policy, body limits, layer and request
    /// counters. `name` is a part of its keys, so that equal URIs of two views are two entries; views of the same name
    /// share them, and `builder()` makes the view with the empty name.
    ///
    /// The views share the budgets and the clock, so [`Builder::max_bytes`], [`Builder::max_fill_bytes`],
    /// [`Builder::clock`] and `disk` have no effect here. A purge by URI or prefix concerns its view, one by tag or of all
    /// concerns every view.
    ///
    /// ```
    /// use larder_http::HttpCache;
    /// use std::time::Duration;
    ///
    /// let pages = HttpCache::builder().max_bytes(256 << 20).build()?;
    /// let api = pages.view("api").max_body_bytes(64 << 10).wait_timeout(Duration::from_secs(1)).build()?;
    /// # Ok::<(), larder_http::BuildError>(())
    /// ```
    pub fn view(&self, name: impl Into<String>) -> Builder {
        let mut builder = Builder { store_of_view: Some(self.core().store.clone()), ..Builder::new() };
        builder.key_space.view = name.into();
        builder
    }
}

impl Builder {
    fn new() -> Builder {
        Builder {
            store_of_view: None,
            max_bytes: 64 << 20,
            max_fill_bytes: 32 << 20,
            limits: Limits {
                max_body_bytes: 4 << 20,
                max_waiters: 16_384,
                max_fills: 4_096,
                wait_timeout: Duration::from_secs(5),
                fill_timeout: Duration::from_secs(60),
            },
            rules: Rules::default(),
            gate: None,
            gate_timeout: Duration::from_secs(5),
            #[cfg(feature = "compression")]
            codings: Vec::new(),
            key_space: KeySpace { scheme: "http".to_owned(), ..KeySpace::default() },
            clock: Clock::coarse(),
            #[cfg(feature = "disk")]
            disk: None,
        }
    }

    /// Who decides whether a response is stored. Default: [`Profile::App`], its handler.
    ///
    /// ```
    /// use larder_http::{HttpCache, Profile};
    ///
    /// let cache = HttpCache::builder().profile(Profile::Rfc).build()?;
    /// # Ok::<(), larder_http::BuildError>(())
    /// ```
    pub fn profile(mut self, profile: Profile) -> Builder {
        self.rules.profile = profile;
        self.rules.personal.ignores_all_cookies = profile == Profile::Rfc;
        self
    }

    /// Capacity in bytes, for keys, headers and bodies together. At least 4 KiB. Default: 64 MiB.
    pub fn max_bytes(mut self, bytes: u64) -> Builder {
        self.max_bytes = bytes;
        self
    }

    /// The longest body that is stored, in bytes. A longer body is streamed to its client, and requests that followed
    /// the fill end with an error. Any value. Default: 4 MiB.
    pub fn max_body_bytes(mut self, bytes: usize) -> Builder {
        self.limits.max_body_bytes = bytes;
        self
    }

    /// Bytes of bodies beside those in the store: in running fills, and in replies whose entry was evicted or purged
    /// while clients were still reading. All bodies together take at most [`Builder::max_bytes`] and this. A body that
    /// finds no room is streamed to its client, at the client's speed, and not stored. Any value. Default: 32 MiB.
    pub fn max_fill_bytes(mut self, bytes: u64) -> Builder {
        self.max_fill_bytes = bytes;
        self
    }

    /// The maximum number of requests that wait for the head of a response from the fill of another request. Further
    /// requests call the handler. Default: 16,384.
    pub fn max_waiters(mut self, waiters: usize) -> Builder {
        self.limits.max_waiters = waiters;
        self
    }

    /// The maximum number of handlers that run in fills, which continue after their clients have left. Beyond it a miss
    /// calls its handler without a fill: its response is not stored, and the call ends with its client. Stale responses are
    /// not refreshed. All views count together. Default: 4,096.
    pub fn max_fills(mut self, fills: usize) -> Builder {
        self.limits.max_fills = fills;
        self
    }

    /// Statuses other than 200 with which a response of any handler may be stored; see
    /// [`Cached::cached_errors`](crate::Cached::cached_errors). Default: none.
    pub fn cached_errors(mut self, statuses: impl IntoIterator<Item = StatusCode>) -> Builder {
        self.rules.cached_errors.extend(statuses);
        self
    }

    /// Lets responses be fresh for longer than the values that their handlers get from caches of `larder`, or although they are
    /// stale. Without this a response is fresh no longer than each value that its handler got by a fetch, a read or a take, also
    /// while its body is made; and it is not stored if one of them is stale, or if its cache is off. A miss and a count limit
    /// nothing, nor does a value that a task gets which the handler spawns: see [`Cached::limit_ttl`](crate::Cached::limit_ttl).
    /// For single responses there is [`Cached::may_outlive_values`](crate::Cached::may_outlive_values). Default: they may not.
    pub fn responses_may_outlive_values(mut self) -> Builder {
        self.rules.outlives_values = true;
        self
    }

    /// Further request fields that identify a user, such as `x-api-key`. They count as credentials, like
    /// `Authorization`: without a [`Scope`](crate::Scope) of the response the request bypasses the cache. Default: none.
    pub fn credential_fields(mut self, names: impl IntoIterator<Item = HeaderName>) -> Builder {
        self.rules.personal.credential_fields.extend(names);
        self
    }

    /// Cookies that no response depends on, such as those of an analytics script; names are case-sensitive. A request with
    /// only such cookies is treated as one without cookies: it is answered from the cache, and concurrent requests call the
    /// handler once. If a response may be stored, its handler does not see these cookies. Default: none.
    pub fn ignored_cookies<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Builder {
        self.rules.personal.ignored_cookies.extend(names.into_iter().map(Into::into));
        self
    }

    /// The only request fields that a handler sees if its response may be stored. If a handler depended on another field,
    /// such as `X-Forwarded-Host` for the links of a page, one client could choose the response of all; without the field
    /// it cannot.
    ///
    /// Always visible are `Host`, the fields of a body, if there is one, and of conditions, and credentials. A response
    /// that depends on a listed field needs `Vary`. This concerns GET, and the
    /// methods with a body rule, on all routes: the layer does not know before the handler runs whether its response
    /// will be stored. Requests that bypass are complete, but for a HEAD that updates a stored response. Default: all fields.
    ///
    /// ```
    /// use http::header::{ACCEPT, ACCEPT_LANGUAGE, HeaderName};
    /// use larder_http::HttpCache;
    ///
    /// let traceparent = HeaderName::from_static("traceparent");
    /// let cache = HttpCache::builder().handler_fields([ACCEPT, ACCEPT_LANGUAGE, traceparent]).build()?;
    /// # Ok::<(), larder_http::BuildError>(())
    /// ```
    pub fn handler_fields(mut self, names: impl IntoIterator<Item = HeaderName>) -> Builder {
        self.rules.handler_fields = HandlerFields::only(names);
        self
    }

    /// How the layer makes the empty body of a GET that it sends a second time. With [`Profile::Rfc`] it does so if a service
    /// validates another response than the stored one, by a 304 with another `ETag`: such a request is repeated once, without
    /// conditions. Default: none, and such a client gets a 502.
    ///
    /// ```
    /// use larder_http::{HttpCache, Profile};
    ///
    /// let cache = HttpCache::builder().profile(Profile::Rfc).empty_body(axum::body::Body::empty).build()?;
    /// # Ok::<(), larder_http::BuildError>(())
    /// ```
    pub fn empty_body<B: 'static>(mut self, make: fn() -> B) -> Builder {
        self.rules.empty_body = EmptyBody::of(make);
        self
    }

    /// A type of request extensions that identifies a user, such as the principal that an outer layer has
    /// authenticated. It counts as credentials, like `Authorization`, and a background refresh has none. All other
    /// extensions of the first request reach the handler of a fill that many requests share. Default: none.
    pub fn personal_extension<T: Clone + Send + Sync + 'static>(mut self) -> Builder {
        self.rules.personal.extensions.push(PersonalExtension::of::<T>());
        self
    }

    /// The gate judges which requests may have responses whose [`Scope`](crate::Scope) is gated or private. Without a gate
    /// such responses are not stored.
    ///
    /// `gate` gets the head of the request and returns a future, which must own the parts of the head that it needs. It is
    /// asked on each request for such a response before the entry is looked up, again if the request has waited for another
    /// one, and before each handler call whose response may be stored. A gate that takes longer than
    /// [`Builder::gate_timeout`] denies the request. A panic in it is a panic of the request. Default: none.
    ///
    /// ```
    /// use larder_http::{Access, HttpCache};
    ///
    /// async fn user_of_session(token: &str) -> Option<String> {
    ///     (token == "Bearer 7f3a").then(|| "user-1".to_owned())
    /// }
    ///
    /// let cache = HttpCache::builder()
    ///     .gate(|head| {
    ///         let token = head.headers.get("authorization").cloned();
    ///         async move {
    ///             let Some(token) = token.as_ref().and_then(|token| token.to_str().ok()) else { return Access::Denied };
    ///             user_of_session(token).await.map_or(Access::Denied, Access::AllowedAs)
    ///         }
    ///     })
    ///     .build()?;
    /// # Ok::<(), larder_http::BuildError>(())
    /// ```
    pub fn gate<F, A>(mut self, gate: F) -> Builder
    where
        F: Fn(&Parts) -> A + Send + Sync + 'static,
        A: Future<Output = Access> + Send + 'static,
    {
        self.gate = Some(Gate::new(gate));
        self
    }

    /// The maximum time of the [`gate`](Builder::gate). After that the request is denied: the handler answers it, and the
    /// response is not stored. Any value. Default: 5 s.
    pub fn gate_timeout(mut self, timeout: Duration) -> Builder {
        self.gate_timeout = timeout;
        self
    }

    /// The codings in which stored bodies are sent to clients that accept them, the preferred one first. Each is made
    /// once per entry, in the background, after the first hit that accepts it, and charged to the entry. This concerns
    /// text, JSON, XML and the like of 1 KiB to 4 MiB, unless the handler has encoded the body, varies by
    /// `Accept-Encoding`, or says `no-transform`; the response gets `Vary: Accept-Encoding`. Do not use it for pages
    /// that contain both a secret and input of the client (BREACH). Needs the feature `compression`. Default: none.
    #[cfg(feature = "compression")]
    pub fn codings(mut self, codings: impl IntoIterator<Item = Coding>) -> Builder {
        self.codings = codings.into_iter().collect();
        self
    }

    /// The scheme of requests whose target has none, as is usual in HTTP/1.1: `http` or `https`. The scheme is
    /// part of the key, and thus of the URIs to purge. Default: `http`.
    pub fn scheme(mut self, scheme: impl Into<String>) -> Builder {
        self.key_space.scheme = scheme.into();
        self
    }

    /// The maximum time for which a request waits for the fill of another request before it calls the handler itself; zero
    /// for not at all. After a request has reached it, further requests for its key do not wait for ten seconds. If a body
    /// has not grown for this time, and for at least a second, further requests do not read it: they call the handler.
    /// Default: 5 s.
    pub fn wait_timeout(mut self, timeout: Duration) -> Builder {
        self.limits.wait_timeout = timeout;
        self
    }

    /// The maximum time of a fill to the end of the body. After that its response is not stored, its followers call the
    /// handler, and the next request starts a new fill. Its own client still gets the response. At most a year; longer
    /// values are reduced to that. If a handler takes longer and its client has left, it is dropped. Default: 60 s.
    pub fn fill_timeout(mut self, timeout: Duration) -> Builder {
        self.limits.fill_timeout = timeout.min(MAX_FILL_TIMEOUT);
        self
    }

    /// The clock for TTL and age. Default: [`Clock::coarse`], since each hit reads it twice.
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = clock;
        self
    }

    /// Keeps responses below a folder too: those that memory has no room for, and all of them over a restart. `max_bytes` is for
    /// their files, in whole blocks: 1 MiB to 256 TiB. Beside them are up to 16 MiB of purges, and one file that is being
    /// written. Needs the feature `disk`, and Unix. Default: memory alone.
    ///
    /// A miss looks there before it calls the handler; what it finds is a hit with `detail=disk`. Times count by the clock of the
    /// system. Files are readable for their owner only. Gated and private responses, those that are of use for less than ten
    /// seconds, and those whose path has a rule for its queries (No-Vary-Search) stay in memory.
    ///
    /// What was purged, invalidated or replaced never returns, whatever ends the process: a purge is in a file before it
    /// returns. After a sudden stop of the machine the folder begins empty, because nothing is synchronised with the disk while the
    /// cache runs; that is done when the last handle is dropped, which may take 5 s. Elsewhere than on Linux each start begins empty.
    /// A folder that was restored from a copy lacks the purges since: delete it.
    ///
    /// A full disk costs nothing but the responses that are not written; [`Stats::disk`](crate::Stats::disk) counts them. If a purge
    /// cannot be written, all that the folder has is given up.
    ///
    /// With [`Builder::shared`] other replicas may have changed or purged what the folder has. So a response from there is only
    /// offered to its origin for a validation, and only those with a validator, under [`Profile::Rfc`], are written.
    ///
    /// ```
    /// use larder_http::HttpCache;
    ///
    /// # let parent = tempfile::tempdir()?;
    /// # let folder = parent.path().join("responses");
    /// let cache = HttpCache::builder().max_bytes(64 << 20).disk(&folder, 10 << 30).build()?;
    /// assert_eq!(cache.stats().disk.map(|disk| disk.entries), Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "disk")]
    pub fn disk(mut self, folder: impl Into<std::path::PathBuf>, max_bytes: u64) -> Builder {
        self.disk = Some((folder.into(), max_bytes));
        self
    }

    /// Builds the cache.
    ///
    /// # Errors
    /// A [`BuildError`] that names the option, its value and its range.
    pub fn build(self) -> Result<HttpCache, BuildError> {
        let store = self.store()?;
        self.build_over(store)
    }

    /// The state of the store: that of the cache that this is a view of, or a new one.
    pub(crate) fn store(&self) -> Result<Store, BuildError> {
        if self.max_bytes < MIN_BYTES {
            return Err(BuildError::MaxBytes(self.max_bytes));
        }
        match &self.store_of_view {
            Some(store) => Ok(store.clone()),
            None => {
                #[cfg_attr(not(feature = "disk"), expect(unused_mut, reason = "memory alone"))]
                let mut store = Store::new(self.max_bytes, self.max_fill_bytes, self.clock.clone())?;
                #[cfg(feature = "disk")]
                if let Some((folder, max_bytes)) = &self.disk {
                    let (disk, purges) = Disk::open(folder, *max_bytes)?;
                    (store.disk, store.purges) = (Some(disk), purges);
                }
                Ok(store)
            }
        }
    }

    pub(crate) fn build_over(self, store: Store) -> Result<HttpCache, BuildError> {
        let scheme = &self.key_space.scheme;
        if scheme != "http" && scheme != "https" {
            return Err(BuildError::Scheme(scheme.clone()));
        }
        let mut key_space = self.key_space;
        if self.rules.profile == Profile::Rfc {
            key_space.query_rules = Some(Arc::default());
        }
        Ok(HttpCache::from_core(CacheCore {
            store,
            limits: self.limits,
            rules: self.rules,
            gate: self.gate.map(|gate| gate.with_timeout(self.gate_timeout)),
            key_space,
            #[cfg(feature = "compression")]
            codings: Codings::new(self.codings),
            counters: Counters::new(),
            has_seen_rewritten: AtomicBool::new(false),
            process: Process::current(),
        }))
    }
}

/// The reason why a cache could not be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The capacity is too small for one entry.
    #[error("max_bytes is {0}; it must be 4096 or more")]
    MaxBytes(u64),
    /// The scheme is not `http` or `https`.
    #[error("scheme is {0:?}; it must be \"http\" or \"https\"")]
    Scheme(String),
    /// The folder of the disk tier cannot be used.
    #[cfg(feature = "disk")]
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The engine rejected an option.
    #[error(transparent)]
    Engine(#[from] larder_engine::BuildError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_range_options_are_errors_with_value_and_range() {
        let error = Builder::new().max_bytes(4095).build().unwrap_err();
        assert_eq!(error.to_string(), "max_bytes is 4095; it must be 4096 or more");
        let error = Builder::new().scheme("ftp").build().unwrap_err();
        assert_eq!(error.to_string(), "scheme is \"ftp\"; it must be \"http\" or \"https\"");
        let error = Builder::new().max_bytes(u64::MAX).build().unwrap_err();
        assert!(matches!(error, BuildError::Engine(_)), "{error}");
    }

    #[test]
    fn smallest_options_build() {
        assert!(
            Builder::new().max_bytes(4096).max_body_bytes(0).wait_timeout(Duration::ZERO).build().is_ok()
        );
    }
}
