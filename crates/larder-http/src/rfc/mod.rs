//! What the header fields of an origin allow a shared cache to do with its responses (RFC 9111), as functions of fields and
//! times: nothing here knows a store, a clock or a connection.

pub(crate) mod dates;
pub(crate) mod directives;
pub(crate) mod freshness;
pub(crate) mod groups;
pub(crate) mod no_vary_search;
pub(crate) mod requesting;
pub(crate) mod storing;
pub(crate) mod structured;
pub(crate) mod targeted;
pub(crate) mod validation;

#[cfg(test)]
mod peer;
