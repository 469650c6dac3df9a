//! The promises of the cache, one file each. Add a new test to the file of the promise that it checks. The tests call
//! services directly and advance a manual clock.
//!
//! - `attacks`: what an attacker sends harms nobody else.
//! - `bodies`: only complete responses are stored; every other response reaches its client unchanged.
//! - `bounds`: memory is bounded, whatever clients request.
//! - `coalescing`: one handler call per key.
//! - `disk`: what is on disk outlives the process, and what was purged, invalidated or replaced never returns.
//! - `encodings`: a stored body is encoded once per coding.
//! - `head_updates`: the response to a HEAD renews what is stored, or makes it stale.
//! - `inspect`: an inspection says what a request would get, and changes nothing.
//! - `keys`: one key, one response.
//! - `labels`: labels are kept with their entry.
//! - `opt_in`: nothing is cached unless the handler opts in.
//! - `origin_fields`: where the fields of the origin decide, they do as RFC 9111 says.
//! - `pairs`: features that meet on one response do what each does alone.
//! - `private`: nothing personal is shared.
//! - `purge`: a purge is final.
//! - `reasons`: every reason is reached and documented.
//! - `replay`: a stored response is replayed unchanged.
//! - `reporting`: every request is counted once, with its reason.
//! - `request_bodies`: a request body is a part of the key where a rule says so.
//! - `secrecy`: no body is logged.
//! - `soft_purges`: a softly purged response is stale from that moment on.
//! - `stale`: a stale response is served within the grace period.
//! - `streaming`: a body that is being filled has many readers, and is held once.
//! - `validation`: a 304 about another response than the stored one validates nothing.
//! - `values`: a response is fresh no longer than what it is made from.
//! - `vary`: a variant is served only to requests that select it.
//! - `views`: several caches share one store.
//! - `waiting`: what changes while a request waits is in effect when it is answered.
//! - `zero`: zero, false and empty are values.

mod attacks;
mod bodies;
mod bounds;
mod coalescing;
#[cfg(feature = "disk")]
mod disk;
#[cfg(feature = "compression")]
mod encodings;
mod head_updates;
mod inspect;
mod keys;
mod labels;
mod opt_in;
mod origin_fields;
mod pairs;
mod private;
mod purge;
mod reasons;
mod replay;
mod reporting;
mod request_bodies;
mod scopes;
mod secrecy;
mod soft_purges;
mod stale;
mod streaming;
mod support;
mod validation;
mod values;
mod vary;
mod views;
mod waiting;
mod zero;
