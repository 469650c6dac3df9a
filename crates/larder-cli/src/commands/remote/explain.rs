//! `larder explain`: what the parts of a running Larder would do with a key or a URL, and why.

use super::client::AdminClient;
use super::shown::printable;
use crate::commands::up::percent_encode;
use crate::flags::ExplainFlags;
use crate::options::settings::File;
use crate::output::print;
use crate::parts::runtime;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

pub(crate) fn run(flags: ExplainFlags, file: File) -> Result<()> {
    let client = AdminClient::new(file.admin_authority(flags.admin.admin));
    let mut path = format!("/api/explain?target={}", percent_encode(&flags.target));
    if let Some(part) = &flags.part {
        path += &format!("&part={}", percent_encode(part));
    }
    let answer = runtime()?.block_on(client.get(&path))?;
    if flags.json {
        return print(&format!("{answer}\n"));
    }
    let answer = serde_json::from_str(&answer).context("the answer is not an explanation")?;
    print(&page(&answer))
}

#[derive(Deserialize)]
struct Answer {
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    part: String,
    verdict: String,
    facts: Facts,
}

/// The facts in the order of the part, which a map of `serde_json` would not keep.
struct Facts(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Facts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Facts, D::Error> {
        deserializer.deserialize_map(FactsVisitor)
    }
}

struct FactsVisitor;

impl<'de> Visitor<'de> for FactsVisitor {
    type Value = Facts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of facts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Facts, A::Error> {
        let mut facts = Vec::new();
        while let Some(fact) = map.next_entry()? {
            facts.push(fact);
        }
        Ok(Facts(facts))
    }
}

/// A paragraph for each part: its verdict, and its facts.
fn page(answer: &Answer) -> String {
    let paragraphs: Vec<String> = answer.parts.iter().map(paragraph).collect();
    paragraphs.join("\n")
}

fn paragraph(part: &Part) -> String {
    let fact =
        |(name, value): &(String, Value)| format!("  {:<14}{}\n", name.replace('_', " "), shown(value));
    let facts: String = part.facts.0.iter().map(fact).collect();
    format!("{}: {}\n{facts}", part.part, printable(&part.verdict))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => printable(text),
        Value::Array(items) if items.is_empty() => "–".to_owned(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Number(number) if number.is_f64() => format!("{:.1}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_a_paragraph_for_each_part_with_the_facts_in_their_order() {
        let answer = r#"{ "version": 1, "target": "a", "parts": [
            { "part": "links", "verdict": "answered from memory", "facts": {
                "tier": "memory", "age_seconds": 2.54, "tags": ["a", "b"], "grace_seconds": null, "bytes": 7
            } },
            { "part": "server", "verdict": "no such key", "facts": {} }
        ] }"#;
        let page = page(&serde_json::from_str(answer).unwrap());
        let expected = "links: answered from memory\n  tier          memory\n  age seconds   2.5\n  \
                        tags          a, b\n  grace seconds –\n  bytes         7\n\nserver: no such key\n";
        assert_eq!(page, expected);
    }
}
