//! Scripts in Lua: what they can use, how they are kept, and how their values become replies and back.
//!
//! ```text
//! cache: all scripts, by SHA-1, shared ──► interpreter: one state of Lua per thread, and its compiled scripts
//!                                               │ redis.call                      lua: the state, its memory and sandbox
//! commands (`cmd::script`) ◄── host ◄────── redis_library, libraries of Redis: bit, cjson, cmsgpack, struct
//! ```
//!
//! This module knows no commands, keys and locks: a [`Host`] executes the commands of a script and says when it has to
//! end.

mod cache;
mod host;
mod interpreter;
mod library;
mod lua;
mod redis_library;
mod reply;

pub(crate) use cache::{Script, ScriptCache, format_digest, parse_digest};
pub(crate) use host::{CallError, Host};
pub(crate) use interpreter::{Ended, MAX_MEMORY_BYTES, check, find, find_or_add, run};
pub(crate) use lua::Stack;
pub(crate) use reply::Writer;
