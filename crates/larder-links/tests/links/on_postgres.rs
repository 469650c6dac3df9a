//! The tests of the shortener once more, on PostgreSQL: each has a database of its own on the server of this test binary.
//! `support` sees by the name of a test that it is one of these.

#![expect(clippy::duplicate_mod, reason = "the tests of both databases are the same")]

#[path = "access.rs"]
mod access;
#[path = "analytics.rs"]
mod analytics;
#[path = "api.rs"]
mod api;
#[path = "dimensions.rs"]
mod dimensions;
#[path = "events.rs"]
mod events;
#[path = "export.rs"]
mod export;
#[path = "failure.rs"]
mod failure;
#[path = "graphql.rs"]
mod graphql;
#[path = "guard.rs"]
mod guard;
#[path = "import.rs"]
mod import;
#[path = "limits.rs"]
mod limits;
#[path = "options.rs"]
mod options;
#[path = "page.rs"]
mod page;
#[path = "qr.rs"]
mod qr;
#[path = "redirect.rs"]
mod redirect;
#[path = "search.rs"]
mod search;
#[path = "serving.rs"]
mod serving;
#[path = "sort.rs"]
mod sort;
#[path = "undo.rs"]
mod undo;
#[path = "visits.rs"]
mod visits;
