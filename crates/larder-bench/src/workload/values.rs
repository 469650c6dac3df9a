//! Two values: a map of 26 pairs, and a nested catalogue of 600 KiB as JSON.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A value of 1 KiB under each letter.
pub(crate) type Map = BTreeMap<String, String>;

pub(crate) fn map_of_26() -> Map {
    ('a'..='z').map(|letter| (letter.to_string(), letter.to_string().repeat(1 << 10))).collect()
}

/// A shop's catalogue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Catalogue {
    name: String,
    products: Vec<Product>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Product {
    id: u64,
    title: String,
    description: String,
    cents: u64,
    rating: Option<f64>,
    available: bool,
    labels: Vec<String>,
    variants: Vec<Variant>,
    reviews: Vec<Review>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Variant {
    sku: String,
    colour: String,
    stock: BTreeMap<String, u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Review {
    stars: u8,
    by: String,
    text: String,
}

const WORDS: [&str; 16] = [
    "oak", "shelf", "jar", "of", "pickled", "lemons", "with", "a", "lid", "that", "keeps", "what", "was",
    "put", "into", "it",
];

/// The same catalogue in each call, 600 KiB as JSON.
pub(crate) fn catalogue() -> Catalogue {
    let mut state = 7_u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut words = |many: u64| -> String {
        (0..many).map(|_| WORDS[next(WORDS.len() as u64) as usize]).collect::<Vec<_>>().join(" ")
    };
    let products = (0..643)
        .map(|id| Product {
            id: 1_000_000 + id,
            title: words(4),
            description: words(40),
            cents: 99 + 137 * id,
            rating: (id % 3 != 0).then(|| 1.0 + (id % 40) as f64 / 10.0),
            available: id % 7 != 0,
            labels: (0..id % 5).map(|_| words(1)).collect(),
            variants: (0..1 + id % 4)
                .map(|n| Variant {
                    sku: format!("{id:08x}-{n}"),
                    colour: words(1),
                    stock: [("north", id as u32), ("south", 3 * n as u32)]
                        .map(|(at, n)| (at.to_owned(), n))
                        .into(),
                })
                .collect(),
            reviews: (0..id % 6)
                .map(|n| Review { stars: 1 + (n % 5) as u8, by: words(2), text: words(30) })
                .collect(),
        })
        .collect();
    Catalogue { name: "the larder".to_owned(), products }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_sizes_in_their_names() {
        let kib = |json: Vec<u8>| json.len() as f64 / 1024.0;
        assert!((590.0..=610.0).contains(&kib(serde_json::to_vec(&catalogue()).unwrap())));
        assert!((26.0..=27.0).contains(&kib(serde_json::to_vec(&map_of_26()).unwrap())));
    }
}
