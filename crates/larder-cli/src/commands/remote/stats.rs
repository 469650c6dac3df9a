//! `larder stats`: the figures of a running Larder, as a table or as JSON.

use super::client::AdminClient;
use super::shown::{bytes, duration, percent, printable, span};
use crate::flags::StatsFlags;
use crate::options::settings::File;
use crate::output::print;
use crate::parts::runtime;
use anyhow::Result;
use larder_terminal::Table;
use serde_json::Value;

pub(crate) fn run(flags: StatsFlags, file: File) -> Result<()> {
    let client = AdminClient::new(file.admin_authority(flags.admin.admin));
    let stats = runtime()?.block_on(client.get("/api/stats"))?;
    if flags.json {
        return print(&format!("{stats}\n"));
    }
    print(&page(&serde_json::from_str(&stats)?))
}

/// A table with a row for each tier, a line for each tier that tells why it missed, and lines for what parts say of
/// themselves and for parts that do not run.
fn page(stats: &Value) -> String {
    let mut table =
        Table::new(&["part, tier", "hit ratio", "lookups", "operations", "p99", "entries", "memory"]);
    let (mut misses, mut tops, mut notes) = (String::new(), String::new(), String::new());
    for part in items(&stats["parts"]) {
        let name = part["part"].as_str().unwrap_or_default();
        for tier in items(&part["tiers"]) {
            table.row(row(name, tier));
            misses += &misses_by_cause(name, tier);
        }
        tops += &top_lists(name, &part["top"]);
        for (note, sentence) in part["notes"].as_object().into_iter().flatten() {
            notes += &format!("{note} of {name}: {}\n", sentence.as_str().unwrap_or_default());
        }
        for lacking in items(&part["degradations"]) {
            let text = |field: &str| lacking[field].as_str().map(printable).unwrap_or_default();
            let lasting = span(lacking["seconds"].as_f64().unwrap_or_default());
            notes += &format!("{name}: degraded by {} for {lasting}: {}\n", text("name"), text("meaning"));
        }
        let (state, restarts) = (part["state"].as_str().unwrap_or_default(), &part["restarts"]);
        if !matches!(state, "running" | "degraded") || restarts.as_u64() > Some(0) {
            let failure = part["last_failure"].as_str();
            let failure = failure.map_or(String::new(), |text| format!(": {}", printable(text)));
            let unit = if restarts == 1 { "restart" } else { "restarts" };
            notes += &format!("{name}: {state}, {restarts} {unit}{failure}\n");
        }
    }
    let server = &stats["server"];
    let uptime = server["uptime_seconds"].as_f64().unwrap_or_default();
    let version = server["version"].as_str().unwrap_or_default();
    format!("larder {version}, up for {}; totals since then\n\n{table}{misses}{tops}{notes}", span(uptime))
}

/// The shares of the causes, the largest first, in one line.
fn misses_by_cause(part: &str, tier: &Value) -> String {
    let causes = tier["miss_causes"].as_object().into_iter().flatten();
    let mut causes: Vec<(&str, f64)> =
        causes.filter_map(|(name, count)| Some((name.as_str(), count.as_f64()?))).collect();
    let sum: f64 = causes.iter().map(|(_, count)| count).sum();
    if sum == 0.0 {
        return String::new();
    }
    causes.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let shares: Vec<String> = causes
        .iter()
        .map(|(name, count)| format!("{} {:.0} %", name.replace('_', " "), count / sum * 100.0))
        .collect();
    format!("misses of {part}, {}: {}\n", tier["tier"].as_str().unwrap_or_default(), shares.join(", "))
}

/// A line for each list of what was used most.
fn top_lists(part: &str, lists: &Value) -> String {
    let entry = |entry: &Value| {
        let name = match entry["name"].as_str() {
            None | Some("") => "(empty)".to_owned(),
            Some(name) => printable(name),
        };
        format!("{name} {} ± {}", entry["count"], entry["error"])
    };
    let line = |(title, entries): (&String, &Value)| {
        let entries: Vec<String> = items(entries).map(entry).collect();
        format!("top {title} of {part}: {}\n", entries.join(", "))
    };
    lists.as_object().into_iter().flatten().map(line).collect()
}

fn row(part: &str, tier: &Value) -> [String; 7] {
    let sum =
        |counts: &Value| counts.as_object().map(|all| all.values().filter_map(Value::as_u64).sum::<u64>());
    let count = |value: Option<u64>| {
        value.filter(|count| *count > 0).map_or("–".to_owned(), |count| count.to_string())
    };
    [
        format!("{part}, {}", tier["tier"].as_str().unwrap_or_default()),
        tier["hit_ratio"].as_f64().map_or("–".to_owned(), percent),
        count(sum(&tier["lookups"])),
        count(sum(&tier["operations"])),
        match tier["latency"]["count"].as_u64() {
            None | Some(0) => "–".to_owned(),
            Some(_) => duration(tier["latency"]["p99_seconds"].as_f64().unwrap_or_default()),
        },
        count(tier["entries"].as_u64()),
        tier["bytes"].as_u64().map_or("–".to_owned(), bytes),
    ]
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn page_has_a_row_for_each_tier_and_says_what_does_not_run() {
        let stats = json!({
            "server": { "version": "1.2.3", "uptime_seconds": 3_725.5 },
            "parts": [ {
                "part": "links", "state": "running", "restarts": 0, "notes": { "coherence": "full: …" },
                "top": { "slugs": [
                    { "name": "a", "count": 160, "error": 98 }, { "name": "", "count": 16, "error": 31 },
                ] },
                "tiers": [
                    {
                        "tier": "memory", "lookups": { "hit": 90, "miss": 10 }, "operations": {}, "hit_ratio": 0.9,
                        "latency": { "count": 3, "p99_seconds": 0.0025 }, "entries": 7, "bytes": 2_048,
                        "miss_causes": { "first": 32, "not_stored": 16, "evicted": 112 },
                    },
                    { "tier": "redis", "lookups": {}, "operations": {}, "latency": { "count": 0 } },
                ],
            }, {
                "part": "server", "state": "restarting", "restarts": 2, "last_failure": "address in use", "tiers": [],
            }, {
                "part": "proxy", "state": "running", "restarts": 1, "last_failure": "one\ntwo", "tiers": [],
            } ],
        });
        let page = page(&stats);
        let lines: Vec<Vec<&str>> = page.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(page.lines().next(), Some("larder 1.2.3, up for 1 h 2 min; totals since then"));
        assert_eq!(lines[3], ["links,", "memory", "90.0", "%", "100", "–", "2.50", "ms", "7", "2.0", "KiB"]);
        assert_eq!(lines[4], ["links,", "redis", "–", "–", "–", "–", "–", "–"]);
        let misses = "misses of links, memory: evicted 70 %, first 20 %, not stored 10 %";
        assert!(page.lines().any(|line| line == misses), "{page}");
        assert!(page.contains("\ntop slugs of links: a 160 ± 98, (empty) 16 ± 31\n"), "{page}");
        assert!(page.contains("\ncoherence of links: full: …\n"), "{page}");
        let last = "server: restarting, 2 restarts: address in use\nproxy: running, 1 restart: one\\ntwo\n";
        assert!(page.ends_with(last), "{page}");
    }
}
