//! `larder explain`: what the parts of a running Larder would do with a key or a URL, and why.

use super::client::AdminClient;
use super::printable;
use crate::args::ExplainFlags;
use crate::output::print;
use crate::parts::runtime;
use crate::settings::File;
use crate::up::percent_encode;
use anyhow::Result;
use serde_json::Value;

pub(crate) fn run(flags: ExplainFlags, file: File) -> Result<()> {
    let client = AdminClient::new(&file.admin_url(flags.admin.admin))?;
    let mut path = format!("/api/explain?target={}", percent_encode(&flags.target));
    if let Some(part) = &flags.part {
        path += &format!("&part={}", percent_encode(part));
    }
    let answer = runtime()?.block_on(client.get(&path))?;
    if flags.json {
        return print(&format!("{answer}\n"));
    }
    print(&page(&answer))
}

/// A paragraph for each part: its verdict, and its facts.
fn page(answer: &Value) -> String {
    let parts = answer["parts"].as_array().into_iter().flatten();
    let paragraphs: Vec<String> = parts.map(paragraph).collect();
    paragraphs.join("\n")
}

fn paragraph(part: &Value) -> String {
    let text = |name: &str| part[name].as_str().unwrap_or_default();
    let facts = part["facts"].as_object().into_iter().flatten();
    let lines = facts.map(|(name, value)| format!("  {:<14}{}\n", name.replace('_', " "), shown(value)));
    format!("{}: {}\n{}", text("part"), printable(text("verdict")), lines.collect::<String>())
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
    use serde_json::json;

    #[test]
    fn page_has_a_paragraph_for_each_part() {
        let facts = json!({ "age_seconds": 2.54, "tags": ["a", "b"], "grace_seconds": null, "bytes": 7 });
        let answer = json!({ "parts": [
            { "part": "links", "verdict": "answered from memory", "facts": facts },
            { "part": "server", "verdict": "no such key", "facts": {} },
        ] });
        let page = page(&answer);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines[0], "links: answered from memory");
        for line in ["  age seconds   2.5", "  tags          a, b", "  grace seconds –", "  bytes         7"]
        {
            assert!(lines.contains(&line), "{line:?} in {page}");
        }
        assert!(page.ends_with("\n\nserver: no such key\n"), "{page}");
    }
}
