//! The promises of the proxy, one file each, over real sockets. A new test goes to the promise that it proves:
//!
//! | file | promise |
//! |---|---|
//! | `attacks` | what an attacker sends, or an origin that dies, harms nobody else |
//! | `messages` | requests and responses arrive whole: bodies, trailers, `100 Continue`, and with bounded memory |
//! | `fields` | the origin learns of the client, the client of the proxy, and neither of the other's connection |
//! | `smuggling` | a request that two servers could understand in two ways reaches no origin as two |
//! | `failures` | an origin that fails is a clear error, and works again when it does |
//! | `failover` | origins that do not answer are left out, and probed |
//! | `retries` | a request is repeated only if it is safe to |
//! | `upgrades` | WebSocket is tunnelled, HTTP/2 in HTTP/1.1 is not |
//! | `websocket_http2` | so is WebSocket over HTTP/2, as a stream of its connection |
//! | `tls` | both sides encrypt, verify, and take new certificates |
//! | `clients` | slow, idle and many clients are bounded, and running requests end before the proxy |
//! | `caching` | the cache is between both |
//! | `conformance` | it does what http-cache-tests asks of a shared cache, but for what is listed with a reason |
//! | `behind` | Django, Express, Rails and an Elixir app work behind it as without it |
//! | `replicas` | replicas share responses and purges through Redis, and go on without it |
//! | `rules` | the operator's rules apply, and the gate decides who may have what |

mod attacks;
mod behind;
mod caching;
mod clients;
mod conformance;
mod failover;
mod failures;
mod fields;
mod messages;
mod replicas;
mod retries;
mod rules;
mod smuggling;
mod support;
mod tls;
mod upgrades;
mod websocket_http2;
