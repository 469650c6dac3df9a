//! What the shortener promises, one file per promise. A new test goes to the promise it proves:
//!
//! | file | promise |
//! |---|---|
//! | `api` | links are made, listed, shown, changed and deleted; wrong input is named with its field and value |
//! | `redirect` | a slug leads to its target out of the cache, the moment it is made and until it is deleted |
//! | `guard` | foreign web pages cannot change anything |
//! | `access` | beyond loopback nothing is listed or changed without a token, and a removed token ends its sessions |
//! | `limits` | a client that asks too often waits, and redirects never do |
//! | `addresses` | an address means to a browser what it means to the shortener |
//! | `visits` | a visit that was counted is written, also when the service stops |
//! | `failure` | a full, locked or closed database is a clear error, and nothing acknowledged is lost |
//! | `import` | a CSV file becomes links, once, and wrong rows are named |
//! | `serving` | over real sockets: draining, limits, and a second start |
//! | `page` | the page works offline under a strict policy |

mod access;
mod addresses;
mod api;
mod failure;
mod guard;
mod import;
mod limits;
mod page;
mod redirect;
mod serving;
mod support;
mod visits;
