//! The numbers of the dashboard, as its JSON has them.

use crate::http::get;
use serde_json::Value;
use std::net::SocketAddr;

/// All of them.
#[track_caller]
pub(crate) fn stats(admin: SocketAddr) -> Value {
    get(admin, "/api/stats").json()
}

/// One part of all.
#[track_caller]
pub(crate) fn part<'a>(stats: &'a Value, name: &str) -> &'a Value {
    named(&stats["parts"], "part", name)
}

/// One tier of a part.
#[track_caller]
pub(crate) fn tier<'a>(part: &'a Value, name: &str) -> &'a Value {
    named(&part["tiers"], "tier", name)
}

#[track_caller]
fn named<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    let found = list.as_array().and_then(|list| list.iter().find(|one| one[key] == name));
    found.unwrap_or_else(|| panic!("no {key} {name} in {list}"))
}
