//! The native part of the Ruby package `larder_cache`: it translates calls and values, and leaves the rest to `larder-host`.
//!
//! ```text
//!  View#hit ─────────► memory: an object, or bytes that become one
//!     │ missed
//!  View#_lease ──► call::run ──┬─ ended at once, as everything that memory answers
//!                              ├─ a thread waits, without the lock of the interpreter
//!                              └─ a fiber of a scheduler waits for the pump, which is another thread of Ruby
//!                    │
//!                    └─ a value, or a Load, which the caller ends with what its block has returned
//! ```
//!
//! No code of Ruby runs on a thread of larder, and no loader is called from here: the modules in Ruby do that. What Ruby raises
//! goes through no frame of Rust that has something to drop (`ruby`).

mod cache;
mod call;
mod fibers;
mod hit;
mod key;
mod lease;
mod log;
mod object;
mod options;
mod raised;
mod ruby;
mod update;
mod view;
mod waiting;

use raised::Result;
use ruby::Ruby;
use ruby::method::{load, methods};

/// Defines the classes: Ruby calls it when it loads `larder/core`, on the thread that does so.
#[unsafe(no_mangle)]
pub extern "C" fn Init_core() {
    // SAFETY: Ruby calls this function, and nothing else here before it.
    unsafe { load(define) }
}

fn define(ruby: Ruby<'_>) -> Result<()> {
    ruby.add_functions(
        ruby.larder(),
        methods![
            c"key_bytes" => key::key_bytes, 1..=1;
            c"_time_options" => options::time_options, 0..=0;
            c"_ended_calls" => fibers::ended_calls, 0..=0;
        ],
    )?;
    cache::define(ruby)?;
    view::define(ruby)?;
    lease::define(ruby)?;
    update::define(ruby)?;
    waiting::define(ruby)?;
    fibers::define(ruby)
}
