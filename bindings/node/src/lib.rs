//! The native part of the Node.js package `larder-cache`: it translates calls and values, and leaves the rest to `larder-host`.
//!
//! ```text
//!  view.hit ─────────► memory: an object, or bytes that become one
//!     │ missed
//!  lease(view, key) ─► promise ─► a value, or a load, which the caller ends with what it has loaded
//! ```
//!
//! Node-API alone, without classes: the modules in JavaScript hold [externals](js::external::External) and pass them to these
//! functions. No code of JavaScript runs on a thread of larder. Worker threads share the caches of the process: each environment
//! has [its own](environment::Environment) promises and objects over the same entries.

mod cache;
mod environment;
mod hit;
mod js;
mod key;
mod lease;
mod object;
mod options;
mod raised;
mod update;
mod view;

use environment::Environment;
use js::function::{Arguments, Function};
use js::{Env, Value};
use napi_sys::{napi_env, napi_value};
use raised::Result;

static FUNCTIONS: &[Function] = &[
    Function { name: "begin", call: begin },
    Function { name: "keyBytes", call: key::key_bytes },
    Function { name: "timeOptions", call: cache::time_options },
    Function { name: "openCache", call: cache::open },
    Function { name: "cacheId", call: cache::id },
    Function { name: "releaseCache", call: cache::release },
    Function { name: "invalidateTags", call: cache::invalidate_tags },
    Function { name: "clear", call: cache::clear },
    Function { name: "deleteMatched", call: cache::delete_matched },
    Function { name: "drain", call: cache::drain },
    Function { name: "drainAll", call: cache::drain_all },
    Function { name: "setEnabled", call: cache::set_enabled },
    Function { name: "coherence", call: cache::coherence },
    Function { name: "stats", call: cache::stats },
    Function { name: "openView", call: view::open },
    Function { name: "hitFunction", call: hit::hit_function },
    Function { name: "read", call: view::read },
    Function { name: "readMany", call: view::read_many },
    Function { name: "write", call: view::write },
    Function { name: "writeMany", call: view::write_many },
    Function { name: "add", call: view::add },
    Function { name: "remove", call: view::remove },
    Function { name: "removeMany", call: view::remove_many },
    Function { name: "expire", call: view::expire },
    Function { name: "take", call: view::take },
    Function { name: "touch", call: view::touch },
    Function { name: "ttl", call: view::ttl },
    Function { name: "increment", call: view::increment },
    Function { name: "update", call: update::begin },
    Function { name: "updated", call: update::value },
    Function { name: "decide", call: update::decide },
    Function { name: "leave", call: update::leave },
    Function { name: "lease", call: lease::lease },
    Function { name: "beginWait", call: lease::begin_wait },
    Function { name: "endWait", call: lease::end_wait },
    Function { name: "hitAhead", call: lease::hit_ahead },
    Function { name: "dueValue", call: lease::due_value },
    Function { name: "leadDue", call: lease::lead_due },
    Function { name: "leaseMany", call: lease::lease_many },
    Function { name: "complete", call: lease::complete },
    Function { name: "completeMany", call: lease::complete_many },
    Function { name: "keep", call: lease::keep },
    Function { name: "fail", call: lease::fail },
    Function { name: "failMany", call: lease::fail_many },
    Function { name: "abandon", call: lease::abandon },
    Function { name: "wanted", call: lease::wanted },
    Function { name: "stale", call: lease::stale },
    Function { name: "setTtl", call: lease::set_ttl },
    Function { name: "setGrace", call: lease::set_grace },
    Function { name: "addTag", call: lease::add_tag },
    Function { name: "noStore", call: lease::no_store },
];

/// `begin(makeError, log)`: once in each environment, before every other function.
fn begin<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    Environment::begin(env, given[0], given[1])?;
    env.undefined()
}

/// The version of Node-API that this library needs: Node calls it before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn node_api_module_get_api_version_v1() -> i32 {
    8
}

/// Gives the module of an environment its functions: Node calls it in each environment that loads the library.
///
/// # Safety
/// Node calls it, with that environment and an object of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napi_register_module_v1(env: napi_env, exports: napi_value) -> napi_value {
    // SAFETY: the caller says so, and the scope ends with this function.
    let (env, module) = unsafe { (Env::new(env), Value::new(exports)) };
    // Where it fails, Node has an exception, or the module lacks a function.
    _ = env.add_functions(module, FUNCTIONS);
    exports
}
