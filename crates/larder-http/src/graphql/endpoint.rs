//! An endpoint: which of its requests have a key, and what it remembers of them.

use bytes::Bytes;
use http::{Method, Request, Uri};

use super::alias::Aliases;
use super::persisted::PersistedQueries;
use super::request::{self, Format};
use crate::status::Reason;

/// What one GraphQL endpoint remembers of its requests.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(super) aliases: Aliases,
    persisted: PersistedQueries,
}

impl Endpoint {
    /// `table_bytes`: the budget of the aliases, and that of the persisted queries.
    pub(crate) fn new(table_bytes: u64) -> Endpoint {
        Endpoint { aliases: Aliases::new(table_bytes), persisted: PersistedQueries::new(table_bytes) }
    }

    /// Checks the URI of a GET, which is its own key.
    ///
    /// # Errors
    /// Why the request is forwarded.
    pub(crate) fn check_uri(&self, uri: &Uri) -> Result<(), Reason> {
        self.key(Format::UriQuery, uri.query().unwrap_or_default().as_bytes()).map(drop)
    }

    /// How a request with a body is written. A URI with a query is refused: some servers prefer its parameters to those of
    /// the body.
    ///
    /// # Errors
    /// Why the request is forwarded.
    pub(crate) fn format<B>(request: &Request<B>) -> Result<Format, Reason> {
        if request.uri().query().is_some_and(|query| !query.is_empty()) {
            return Err(Reason::GraphqlRequest);
        }
        Format::of(request.method(), request.headers())
    }

    /// The key of a request with this content: its body, or the query of its URI.
    ///
    /// # Errors
    /// Why the request is forwarded.
    pub(crate) fn key(&self, format: Format, content: &[u8]) -> Result<Bytes, Reason> {
        if let Some(key) = self.aliases.key(format, content) {
            return Ok(key);
        }
        let parsed = request::parse(format, content, &self.persisted)?;
        let key = Bytes::from(parsed.key);
        // The next request with this content must register its hash again, if that was evicted.
        if !parsed.registers_hash {
            self.aliases.insert(format, content, key.clone());
        }
        Ok(key)
    }
}

/// Whether the method is one that a GraphQL endpoint answers from the cache.
pub(crate) fn is_query_method(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::POST) || method.as_str() == "QUERY"
}
