//! The interpreter of a thread: a state of Lua and the scripts that were compiled in it.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::panic::resume_unwind;
use std::sync::Arc;

use rapidhash::fast::RandomState;

use super::cache::{Digest, MAX_UNLOADED, Script, ScriptCache, digest};
use super::host::{Host, must_end, running_digest, with_host, with_running};
use super::lua::{Called, Compiled, Kind, Library, Lua, Stack, Thrown, take_panic};
use super::{library, redis_library, reply};

/// Memory that the state of a thread may have, for the values of the script that runs and for all that are compiled.
pub(crate) const MAX_MEMORY_BYTES: usize = 64 << 20;
/// Scripts that a thread keeps compiled.
const MAX_COMPILED: usize = 2 * MAX_UNLOADED;

/// Longer scripts are hashed again by each `EVAL`.
const MAX_REMEMBERED_BYTES: usize = 16 << 10;

/// How a run has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The host has its result.
    Returned,
    /// With this error, which has a prefix.
    Failed(Vec<u8>),
    /// It needs more than [`MAX_MEMORY_BYTES`].
    OutOfMemory,
}

/// The interpreter of one thread.
struct Interpreter {
    lua: Lua,
    compiled: HashMap<Digest, (Arc<Script>, Compiled), RandomState>,
    /// The compiled scripts, the oldest one first.
    order: VecDeque<Digest>,
    /// The SHA-1 of scripts that `EVAL` has run: to compute it takes longer than to compare the text.
    digests: HashMap<Box<[u8]>, Digest, RandomState>,
}

thread_local! {
    /// Taken while a script runs: after a panic, the next one gets a new state.
    static INTERPRETER: Cell<Option<Box<Interpreter>>> = const { Cell::new(None) };
}

/// The script with this SHA-1.
pub(crate) fn find(cache: &ScriptCache, digest: &Digest) -> Option<Arc<Script>> {
    let interpreter = INTERPRETER.take();
    let compiled = interpreter.as_deref().and_then(|interpreter| interpreter.compiled.get(digest));
    let script = compiled.map(|(script, _)| Arc::clone(script)).filter(|script| !script.is_removed());
    INTERPRETER.set(interpreter);
    script.or_else(|| cache.get(digest))
}

/// The script with this text, which is kept from now on. The error has a prefix.
pub(crate) fn find_or_add(cache: &ScriptCache, body: &[u8], now_ms: i64) -> Result<Arc<Script>, String> {
    match find(cache, &digest_of(body)) {
        Some(script) => Ok(script),
        None => Ok(cache.add(check(body)?, now_ms)),
    }
}

/// The SHA-1 of a text, which this thread remembers.
fn digest_of(body: &[u8]) -> Digest {
    let mut interpreter = take_interpreter();
    let digests = &mut interpreter.digests;
    let digest = digests.get(body).copied().unwrap_or_else(|| {
        let digest = digest(body);
        if digests.len() >= MAX_COMPILED {
            digests.clear();
        }
        if body.len() <= MAX_REMEMBERED_BYTES {
            digests.insert(body.into(), digest);
        }
        digest
    });
    INTERPRETER.set(Some(interpreter));
    digest
}

/// Parses and compiles a script, which is not kept. The error has a prefix.
pub(crate) fn check(body: &[u8]) -> Result<Script, String> {
    let script = Script::parse(body)?;
    let mut interpreter = take_interpreter();
    let compiled = interpreter.lua.compile(&script.code);
    let message = compiled.map(|function| interpreter.lua.release(function)).err();
    INTERPRETER.set(Some(interpreter));
    message.map_or(Ok(script), |message| Err(compile_error(&message)))
}

fn compile_error(message: &[u8]) -> String {
    format!("ERR Error compiling script (new function): {}", String::from_utf8_lossy(message))
}

/// Runs a script with these keys and arguments.
pub(crate) fn run<'a>(
    host: &mut dyn Host,
    script: &Arc<Script>,
    keys: impl ExactSizeIterator<Item = &'a [u8]>,
    arguments: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Ended {
    let mut interpreter = take_interpreter();
    if let Err(message) = interpreter.compile(script) {
        INTERPRETER.set(Some(interpreter));
        return Ended::Failed(compile_error(&message).into_bytes());
    }
    library::reset();
    interpreter.set_global("KEYS", keys);
    interpreter.set_global("ARGV", arguments);
    let Interpreter { lua, compiled, .. } = &mut *interpreter;
    let function = &compiled[&script.digest].1;
    let called = with_running(host, script.digest, || {
        lua.call(function, |stack| _ = with_host(|host| host.write_result(stack)))
    });
    if let Some(payload) = take_panic() {
        resume_unwind(payload);
    }
    let ended = match called {
        Called::Returned(()) => Ended::Returned,
        Called::Failed(text) => Ended::Failed(text),
        Called::OutOfMemory => Ended::OutOfMemory,
    };
    // What fills the memory is dropped with the state.
    if !matches!(ended, Ended::OutOfMemory) && !interpreter.lua.is_nearly_full() {
        INTERPRETER.set(Some(interpreter));
    }
    ended
}

fn take_interpreter() -> Box<Interpreter> {
    INTERPRETER.take().unwrap_or_else(|| {
        let libraries: Vec<Library> = library::ALL.into_iter().chain([redis_library::LIBRARY]).collect();
        let mut lua = Lua::new(MAX_MEMORY_BYTES, &libraries, describe);
        lua.set_check(must_end);
        Box::new(Interpreter {
            lua,
            compiled: HashMap::default(),
            order: VecDeque::new(),
            digests: HashMap::default(),
        })
    })
}

impl Interpreter {
    /// Compiles a script, unless it is compiled.
    fn compile(&mut self, script: &Arc<Script>) -> Result<(), Vec<u8>> {
        if self.compiled.contains_key(&script.digest) {
            return Ok(());
        }
        let function = self.lua.compile(&script.code)?;
        if self.order.len() >= MAX_COMPILED
            && let Some(oldest) = self.order.pop_front()
            && let Some((_, function)) = self.compiled.remove(&oldest)
        {
            self.lua.release(function);
        }
        self.order.push_back(script.digest);
        self.compiled.insert(script.digest, (Arc::clone(script), function));
        Ok(())
    }

    fn set_global<'a>(&mut self, name: &str, texts: impl ExactSizeIterator<Item = &'a [u8]>) {
        let mut stack = self.lua.stack();
        stack.push_table(texts.len(), 0);
        for (index, text) in texts.enumerate() {
            stack.push_bytes(text);
            stack.set_item(-2, index as i32 + 1);
        }
        self.lua.set_global(name);
    }
}

/// Replaces the value of an error by the text of the reply, with the script and the line, as Redis does.
fn describe(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    if stack.kind(1) == Kind::Table && reply::is_counted(stack, 1) {
        with_host(|host| host.fail_with_counted_error());
    }
    let mut text = match stack.kind(1) {
        Kind::Table => match stack.push_field(1, "err") {
            Kind::String | Kind::Number => stack.text(-1).unwrap_or_default().to_vec(),
            _ => b"ERR unknown error".to_vec(),
        },
        kind => [b"ERR ", describe_value(stack, kind).as_slice()].concat(),
    };
    // Below this function is `error`, `redis.call` or the script itself.
    let position =
        stack.position(1).and_then(|position| if position.is_c { stack.position(2) } else { Some(position) });
    if let Some(position) = position {
        let digest = running_digest();
        text.extend_from_slice(
            format!(" script: {digest}, on {}:{}.", position.source, position.line).as_bytes(),
        );
    }
    stack.push_bytes(&text);
    Ok(1)
}

fn describe_value(stack: &mut Stack<'_>, kind: Kind) -> Vec<u8> {
    match kind {
        Kind::String | Kind::Number => stack.text(1).unwrap_or_default().to_vec(),
        Kind::Boolean => stack.boolean(1).to_string().into_bytes(),
        Kind::None | Kind::Nil => b"nil".to_vec(),
        _ => format!("{}: {:p}", kind.name(), stack.address(1)).into_bytes(),
    }
}
