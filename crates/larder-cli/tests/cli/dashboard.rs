//! The statistics of the dashboard, as JSON.

use crate::http::get;
use serde_json::Value;
use std::net::SocketAddr;

/// The statistics of all parts.
#[track_caller]
pub(crate) fn stats(admin: SocketAddr) -> Value {
    get(admin, "/api/stats").json()
}

/// The statistics of one part.
#[track_caller]
pub(crate) fn part<'a>(stats: &'a Value, name: &str) -> &'a Value {
    find_by_name(&stats["parts"], "part", name)
}

/// The statistics of one tier of a part.
#[track_caller]
pub(crate) fn tier<'a>(part: &'a Value, name: &str) -> &'a Value {
    find_by_name(&part["tiers"], "tier", name)
}

#[track_caller]
fn find_by_name<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    let found = list.as_array().and_then(|list| list.iter().find(|one| one[key] == name));
    found.unwrap_or_else(|| panic!("no {key} {name} in {list}"))
}
