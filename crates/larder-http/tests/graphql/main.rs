//! The promises for GraphQL, one file each, with axum and async-graphql behind the cache. Add a new test to the file of
//! the promise that it checks.
//!
//! - `attacks`: no request makes the cache see a query where a server sees something else.
//! - `clients`: Apollo Client and urql work unchanged.
//! - `forwarded`: what is not a query is forwarded with its body intact.
//! - `hints`: the cache hints of a schema decide.
//! - `mutations`: a mutation purges what its resolvers name, and nothing else.
//! - `persisted`: a hash stands for the document that came with it.
//! - `queries`: equal queries share a response, and different ones do not.
//! - `responses`: responses with errors are never stored.
//! - `scopes`: who may have the response to a query.

mod api;
mod attacks;
mod clients;
mod forwarded;
mod hints;
mod mutations;
mod persisted;
mod queries;
mod responses;
mod scopes;
