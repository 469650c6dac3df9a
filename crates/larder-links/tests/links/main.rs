//! The promises of the shortener, one file each. A new test goes to the promise that it proves:
//!
//! | file | promise |
//! |---|---|
//! | `api` | links are created, listed, shown, updated and deleted; invalid input is reported with field and value |
//! | `graphql` | the GraphQL API shows what the JSON API shows, to the same clients, and changes nothing |
//! | `redirect` | a slug redirects to its target from the cache, from its creation until its deletion |
//! | `options` | a link ends at its date and its limit of visits, forwards the query if it should, and has tags |
//! | `undo` | a deleted link answers 410 and can be restored with its slug and its visits for 30 days |
//! | `export` | all links leave as CSV and JSON, and come back with an import |
//! | `backup` | a backup is a whole database, and neither it nor an export replaces the database that it copies |
//! | `qr` | a QR code shows the short link |
//! | `search` | a text finds the links that contain it, newest first, page by page |
//! | `sort` | the list by visits has most visits first, page by page, also while visits are counted |
//! | `guard` | foreign web pages cannot change anything |
//! | `access` | beyond loopback nothing is listed or changed without a token, and a removed token ends its sessions |
//! | `limits` | a client that asks too often waits, and redirects never do |
//! | `addresses` | an address means to a browser what it means to the shortener |
//! | `visits` | every counted visit is written, also when the service stops |
//! | `analytics` | visits are shown by day in the zone of the reader, kept as long as the options say, and forgotten on request |
//! | `dimensions` | it is counted where visits come from, unless they refuse, and nothing of a visitor is stored |
//! | `events` | pages that are open learn of visits and changes at once |
//! | `failure` | a full, locked or closed database is a clear error, and no acknowledged write is lost |
//! | `import` | a CSV file is imported once, and invalid rows are reported |
//! | `second_tier` | the options of Redis: a password that rotates, certificates |
//! | `sqlite` | what is so because the database is a file |
//! | `postgres` | instances share a PostgreSQL that is killed, whose connections break and whose users lack rights; a file moves into it |
//! | `postgres_tls` | connections to PostgreSQL are encrypted, and servers verified, as the URL says |
//! | `on_postgres` | the tests of all others but `addresses`, `backup` and `second_tier`, which know no other database, on PostgreSQL |
//! | `serving` | over real sockets: draining, limits, and a restart |
//! | `page` | the page works offline under a strict policy |

mod access;
mod addresses;
mod analytics;
mod api;
mod backup;
mod dimensions;
mod events;
mod export;
mod failure;
mod graphql;
mod guard;
mod import;
mod limits;
mod on_postgres;
mod options;
mod page;
mod postgres;
mod postgres_tls;
mod qr;
mod redirect;
mod search;
mod second_tier;
mod serving;
mod sort;
mod sqlite;
mod support;
mod undo;
mod visits;
