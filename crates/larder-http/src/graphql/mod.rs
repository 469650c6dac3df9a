//! GraphQL requests: which of them are queries, what their key is, and which responses to them may be stored.
//!
//! ```text
//! content ──► alias? ── yes ──► key
//!               └ no ─► JSON ─► document, or the one of its hash ─► tokens ─► operations ─┬ only queries ──► key
//!                                                                                         └ anything else ─► forward
//! ```
//!
//! A document that is not understood is never taken for a query: its request is forwarded, uncached.

#[cfg(feature = "graphql")]
mod alias;
#[cfg(feature = "graphql")]
mod document;
#[cfg(feature = "graphql")]
mod endpoint;
#[cfg(feature = "graphql")]
mod json;
#[cfg(feature = "graphql")]
mod lexer;
#[cfg(feature = "graphql")]
mod parser;
#[cfg(feature = "graphql")]
mod persisted;
#[cfg(feature = "graphql")]
mod request;
mod response;
#[cfg(test)]
mod tests;

#[cfg(feature = "graphql")]
pub(crate) use endpoint::{Endpoint, is_query_method};
#[cfg(feature = "graphql")]
pub(crate) use request::Format;
pub(crate) use response::ResponseScan;

/// Marks a request, in its extensions, whose response must be one of GraphQL without errors to be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphqlQuery;
