//! Tests of the binary: each starts its own processes on free ports and ends them.
//!
//! | tests of | are in |
//! |---|---|
//! | starting and stopping `larder up` | `lifecycle` |
//! | data after a crash | `crash` |
//! | the folder of a proxy after a kill | `proxy_disk` |
//! | flags, files, environment, exit codes | `usage` |
//! | a full disk or a closed pipe as the output | `output` |
//! | users and TLS of `larder server` | `access` |
//! | `larder server --check` | `check` |
//! | `larder server --from` | `copying` |
//! | Debian's Redis tools with `larder server` | `redis_tools` |
//! | requests of foreign web pages | `browsers` |
//! | real load tools with `larder links` | `load` |
//! | `larder links import` | `import` |
//! | tokens of the shortener | `tokens` |
//! | a client from another address | `stranger` |
//! | a low limit on open files | `descriptors` |
//! | what systemd hears, and its sockets | `service_manager` |
//! | the tiers between processes | `tiers` |
//! | the pages in a real browser | `pages` |
//! | `--admin` of one part | `admin_port` |
//! | `larder stats` and `larder purge` | `remote` |
//! | `larder top` in tmux | `top` |
//! | `larder doctor` | `doctor` |
//! | the same and `larder warm` with `larder proxy` | `proxy` |
//! | the alerting rules and the Grafana dashboard, with Debian's Prometheus | `prometheus` |
//! | what a collector of OpenTelemetry gets | `telemetry` |
//!
//! `process`, `http`, `resp`, `shortener`, `dashboard` and `certificate` are helpers.

mod access;
mod admin_port;
mod browsers;
mod certificate;
mod check;
mod copying;
mod crash;
mod dashboard;
mod descriptors;
mod doctor;
mod http;
mod import;
mod lifecycle;
mod load;
mod memory;
mod output;
mod pages;
mod process;
mod prometheus;
mod proxy;
mod proxy_disk;
mod redis_tools;
mod remote;
mod resp;
mod service_manager;
mod shortener;
mod stranger;
mod telemetry;
mod tiers;
mod tokens;
mod top;
mod usage;
