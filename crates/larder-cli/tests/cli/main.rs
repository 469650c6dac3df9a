//! The one binary, from outside: every test starts its own processes on free ports and ends them.
//!
//! | a test about | goes into |
//! |---|---|
//! | starting and stopping `larder up` | `lifecycle` |
//! | what survives a crash | `crash` |
//! | flags, files, environment, exit codes | `usage` |
//! | Debian's Redis tools against `larder server` | `redis_tools` |
//! | requests of foreign web pages | `browsers` |
//! | `larder links import` | `import` |
//! | tokens of the shortener, and strangers | `tokens` |
//! | a low limit on open files | `descriptors` |
//! | the tiers between processes | `tiers` |
//! | the pages in a real browser | `pages` |
//!
//! `process`, `http`, `resp`, `shortener` and `dashboard` are what the tests share.

mod browsers;
mod crash;
mod dashboard;
mod descriptors;
mod http;
mod import;
mod lifecycle;
mod pages;
mod process;
mod redis_tools;
mod resp;
mod shortener;
mod tiers;
mod tokens;
mod usage;
