//! The native part of the Elixir package `larder_cache`: it translates calls and values, and leaves the rest to `larder-host`.
//!
//! ```text
//!  hit ──────────► memory: a term that is copied, or bytes that become one
//!   │ missed
//!  lease ────────► a value, or a load, which the process ends with what it has loaded
//! ```
//!
//! Functions return within a millisecond: they poll a call once, and if it goes on, threads of larder send the answer to the
//! process ([`call`]). Where a value of more than 32 KiB must be encoded, decoded or copied, the function is called again on a
//! thread of the emulator for long work ([`erl::nif`]). No code of Elixir runs on a thread of larder.

mod cache;
mod call;
mod erl;
mod hit;
mod key;
mod lease;
mod log;
mod object;
mod options;
mod raised;
mod update;
mod view;

use erl::nif::{On, nif};
use erl::resource::open;
use erl::{Env, Nif};

static FUNCTIONS: &[Nif] = &[
    nif!(c"hit", 2, On::Scheduler, crate::hit::hit),
    nif!(c"key_bytes", 1, On::Scheduler, crate::key::key_bytes),
    nif!(c"take_logs", 0, On::Scheduler, crate::log::take),
    nif!(c"open_cache", 2, On::DirtyIo, crate::cache::open),
    nif!(c"close_cache", 2, On::DirtyIo, crate::cache::close),
    nif!(c"invalidate_tags", 4, On::Scheduler, crate::cache::invalidate_tags),
    nif!(c"clear", 2, On::Scheduler, crate::cache::clear),
    nif!(c"delete_matched", 3, On::Scheduler, crate::cache::delete_matched),
    nif!(c"drain", 3, On::Scheduler, crate::cache::drain),
    nif!(c"set_enabled", 2, On::Scheduler, crate::cache::set_enabled),
    nif!(c"coherence", 1, On::Scheduler, crate::cache::coherence),
    nif!(c"stats", 1, On::Scheduler, crate::cache::stats),
    nif!(c"open_view", 7, On::DirtyIo, crate::view::open),
    nif!(c"read", 3, On::Scheduler, crate::view::read),
    nif!(c"read_multi", 3, On::Scheduler, crate::view::read_multi),
    nif!(c"exists", 3, On::Scheduler, crate::view::exists),
    nif!(c"write", 5, On::Scheduler, crate::view::write),
    nif!(c"write_multi", 4, On::Scheduler, crate::view::write_multi),
    nif!(c"add", 5, On::Scheduler, crate::view::add),
    nif!(c"delete", 3, On::Scheduler, crate::view::delete),
    nif!(c"delete_multi", 3, On::Scheduler, crate::view::delete_multi),
    nif!(c"expire", 3, On::Scheduler, crate::view::expire),
    nif!(c"take", 3, On::Scheduler, crate::view::take),
    nif!(c"touch", 4, On::Scheduler, crate::view::touch),
    nif!(c"ttl", 3, On::Scheduler, crate::view::ttl),
    nif!(c"increment", 6, On::Scheduler, crate::view::increment),
    nif!(c"update", 4, On::Scheduler, crate::update::begin),
    nif!(c"put", 3, On::Scheduler, crate::update::put),
    nif!(c"keep_value", 2, On::Scheduler, crate::update::keep),
    nif!(c"remove", 2, On::Scheduler, crate::update::remove),
    nif!(c"leave", 1, On::Scheduler, crate::update::leave),
    nif!(c"lease", 4, On::Scheduler, crate::lease::lease),
    nif!(c"stale", 1, On::Scheduler, crate::lease::stale),
    nif!(c"complete", 4, On::Scheduler, crate::lease::complete),
    nif!(c"keep", 2, On::Scheduler, crate::lease::keep),
    nif!(c"fail", 4, On::Scheduler, crate::lease::fail),
    nif!(c"lease_multi", 4, On::Scheduler, crate::lease::lease_multi),
    nif!(c"complete_multi", 4, On::Scheduler, crate::lease::complete_multi),
    nif!(c"fail_multi", 4, On::Scheduler, crate::lease::fail_multi),
];

/// Opens the types of resources, while the library is loaded.
fn open_resources(env: Env<'_>) -> bool {
    open::<cache::CacheResource>(env)
        && open::<view::ViewResource>(env)
        && open::<lease::Load>(env)
        && open::<lease::BulkLoad>(env)
        && open::<update::Update>(env)
        && call::open_resource(env)
}
