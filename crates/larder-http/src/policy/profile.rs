//! Who decides what is stored.

/// Who decides whether a response is stored and for how long; see [`Builder::profile`](crate::Builder::profile).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// The handler: a response is stored only if its handler or nested code opts in, with [`Cached`](crate::Cached) or
    /// [`CacheCtx`](crate::CacheCtx). For an application of one's own.
    #[default]
    App,
    /// The header fields of the origin, as RFC 9111 says of a shared cache: what `Cache-Control`, `CDN-Cache-Control` and
    /// `Expires` allow is stored, stale responses are validated by `ETag` and `Last-Modified`, and request directives are
    /// obeyed. For a proxy in front of services that know nothing of this cache.
    ///
    /// Cookies do not make a request personal here: an origin whose response depends on them says so by `Vary` or
    /// `Cache-Control`. A response that sets a cookie is stored only if it is explicitly public, and without the cookie.
    Rfc,
}
