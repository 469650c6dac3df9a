//! The bodies of the workloads: maps from numbers to bytes, and a nested catalogue, all encoded as JSON.

use crate::workload::{Catalogue, catalogue};
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// What a server answers with, named by the size of its JSON.
#[derive(Clone)]
pub(super) struct Body {
    pub(super) name: &'static str,
    pub(super) content: Content,
    /// The size of the JSON in bytes.
    pub(super) size: usize,
}

#[derive(Clone)]
pub(super) enum Content {
    /// A value that a handler encodes.
    Value(Value),
    /// The answer to a GraphQL request with this body.
    Graphql(&'static str),
}

#[derive(Clone)]
pub(super) enum Value {
    /// The numbers from 1 up to this, each with one of 26 bytes.
    Numbers(u32),
    Catalogues(Arc<Vec<Catalogue>>),
}

impl Value {
    fn catalogues(count: usize) -> Value {
        Value::Catalogues(Arc::new(vec![catalogue(); count]))
    }

    /// Encodes the value, as a handler without a cache does for each request.
    pub(super) fn encode(&self) -> Vec<u8> {
        let json = match self {
            Value::Numbers(last) => serde_json::to_vec(&Numbers(*last)),
            Value::Catalogues(all) if all.len() == 1 => serde_json::to_vec(&all[0]),
            Value::Catalogues(all) => serde_json::to_vec(&**all),
        };
        json.expect("the value is plain data")
    }
}

struct Numbers(u32);

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map((1..=self.0).map(|n| (n, b'a' + (n % 26) as u8)))
    }
}

type MakeValue = fn() -> Value;

/// The names of the bodies, and their values.
const BODIES: [(&str, MakeValue); 8] = [
    ("0.2kb", || Value::Numbers(25)),
    ("1kb", || Value::Numbers(112)),
    ("18kb", || Value::Numbers(1_750)),
    ("167kb", || Value::Numbers(15_000)),
    ("0.6mb", || Value::catalogues(1)),
    ("20mb", || Value::Numbers(1_500_000)),
    ("61mb", || Value::catalogues(100)),
    ("212mb", || Value::Numbers(15_000_000)),
];

/// The bodies up to `limit` bytes, smallest first.
pub(super) fn all(limit: usize) -> impl Iterator<Item = Body> {
    BODIES.into_iter().map_while(move |(name, value)| {
        let value = value();
        let size = value.encode().len();
        (size <= limit).then_some(Body { name, content: Content::Value(value), size })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_sizes_in_their_names() {
        for body in all(1_000_000) {
            let (number, unit) = body.name.split_at(body.name.len() - 2);
            let named = number.parse::<f64>().unwrap() * if unit == "kb" { 1e3 } else { 1e6 };
            assert!((0.85..1.15).contains(&(body.size as f64 / named)), "{}: {}", body.name, body.size);
        }
        assert_eq!(all(1_000_000).count(), 5);
        assert_eq!(String::from_utf8(Value::Numbers(2).encode()).unwrap(), r#"{"1":98,"2":99}"#);
    }
}
