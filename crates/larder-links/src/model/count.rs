//! Counts in the GraphQL API.

use async_graphql::parser::types::Field;
use async_graphql::registry::Registry;
use async_graphql::{ContextSelectionSet, OutputType, Positioned, ServerResult, Value};
use serde::Serialize;
use std::borrow::Cow;

/// A count, which GraphQL calls a `Float`: an `Int` has 32 bits, beyond which a client fails the field or the whole response.
/// A `Float` is exact up to 2⁵³, and every client knows it. It is written without a fraction, as the JSON API writes it.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Count(u64);

impl From<u64> for Count {
    fn from(count: u64) -> Count {
        Count(count)
    }
}

impl OutputType for Count {
    fn type_name() -> Cow<'static, str> {
        <f64 as OutputType>::type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        <f64 as OutputType>::create_type_info(registry)
    }

    async fn resolve(&self, _: &ContextSelectionSet<'_>, _: &Positioned<Field>) -> ServerResult<Value> {
        Ok(self.0.into())
    }
}
