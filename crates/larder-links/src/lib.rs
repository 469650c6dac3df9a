//! A URL shortener whose redirects come out of the cache.
