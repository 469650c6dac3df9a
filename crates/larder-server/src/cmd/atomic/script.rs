//! `EVAL`, `EVALSHA`, their read-only forms, and `SCRIPT`: scripts in Lua, each of which is one atomic step.
//!
//! ```text
//! lock the declared keys ──► run ──► tell observers, take messages ──► unlock, reply
//!            ▲                │ uses a key that is not locked
//!   lock all keys ◄── undo ◄──┘
//! ```
//!
//! A script runs on the locks of the keys that it declares. If it uses another key, its writes are undone and it starts
//! again with all keys locked, and so does every later run of it. A script that takes too long is ended and undone, too.
//! Observers, which are told at the end, know nothing of writes that were undone.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use larder_resp::{Args, Encoder, Protocol};

use crate::client::{Executor, Monitors};
use crate::cmd::blocking::serve::serve_ready;
use crate::cmd::dispatch::{answer, call};
use crate::cmd::error::reason_left_out;
use crate::cmd::help::help;
use crate::cmd::options::integer;
use crate::cmd::rights;
use crate::cmd::slices;
use crate::cmd::table;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{HeldLocks, Key, KeyLocks, UndoableLocks};
use crate::script::{
    self, CallError, Ended, Host, MAX_MEMORY_BYTES, Script, Stack, Writer, format_digest, parse_digest,
};
use crate::spec::{CommandSpec, Flags};

/// The arguments before the keys: the command, the script, and the number of keys.
const FIRST_KEY: usize = 3;
/// After this time `SCRIPT KILL` may end a script.
const SLOW: Duration = Duration::from_millis(100);
/// Memory that a script may use to record its changes.
const MAX_CHANGES_BYTES: usize = MAX_MEMORY_BYTES;

const NO_SCRIPT: CommandError = CommandError::Fixed("NOSCRIPT No matching script. Please use EVAL.");

/// How a request names its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Body,
    Digest,
}

pub(crate) fn eval(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    evaluate(cx, args, Source::Body, false)
}

pub(crate) fn evalsha(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    evaluate(cx, args, Source::Digest, false)
}

pub(crate) fn eval_ro(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    evaluate(cx, args, Source::Body, true)
}

pub(crate) fn evalsha_ro(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    evaluate(cx, args, Source::Digest, true)
}

fn evaluate(cx: &mut Context<'_>, args: Args<'_>, source: Source, is_read_only: bool) -> Outcome {
    let start = cx.out.len();
    if let Err(error) = find_and_run(cx, args, source, is_read_only) {
        count_failed(cx);
        cx.reply_error(start, &error);
        cx.drop_muted_reply(start);
    }
    Ok(())
}

fn find_and_run(cx: &mut Context<'_>, args: Args<'_>, source: Source, is_read_only: bool) -> Outcome {
    let (script, keys) = find_script(cx, args, source)?;
    check_options(cx, &script, is_read_only)?;
    let is_read_only = is_read_only || script.is_read_only();
    Request { script: &script, keys, args, is_read_only }.run(cx)
}

/// Counts the command as failed, which has written its error itself.
fn count_failed(cx: &Context<'_>) {
    cx.session.last_command.into_iter().for_each(|spec| cx.counters(spec).errors.add(1));
}

/// The script of a request, and the number of its keys.
fn find_script(
    cx: &Context<'_>,
    args: Args<'_>,
    source: Source,
) -> Result<(Arc<Script>, usize), CommandError> {
    let keys = match integer(&args[2])? {
        ..0 => return Err(CommandError::Fixed("ERR Number of keys can't be negative")),
        count => usize::try_from(count)
            .ok()
            .filter(|count| *count <= args.len() - FIRST_KEY)
            .ok_or(CommandError::Fixed("ERR Number of keys can't be greater than number of args"))?,
    };
    let (scripts, now_ms) = (&cx.state.scripts, cx.now_ms());
    let script = match source {
        Source::Body => script::find_or_add(scripts, &args[1], now_ms).map_err(script_error)?,
        Source::Digest => {
            let script = parse_digest(&args[1]).and_then(|digest| script::find(scripts, &digest));
            script.ok_or(NO_SCRIPT)?
        }
    };
    script.mark_used(now_ms);
    Ok((script, keys))
}

/// Whether a script may run, by the options of its first line, if it has any. The texts are those of Redis.
fn check_options(cx: &Context<'_>, script: &Script, is_read_only: bool) -> Outcome {
    if cx.session.is_full && script.needs_memory() {
        return Err(match cx.held {
            None => CommandError::OutOfMemory,
            Some(_) => CommandError::Fixed(
                "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
            ),
        });
    }
    match is_read_only && script.has_options() && !script.is_read_only() {
        true => Err(CommandError::Fixed("ERR Can not execute a script with write flag using *_ro command.")),
        false => Ok(()),
    }
}

fn script_error(text: String) -> CommandError {
    CommandError::Other(text.strip_prefix("ERR ").unwrap_or(&text).to_owned())
}

/// A script with its arguments.
struct Request<'a> {
    script: &'a Arc<Script>,
    /// The number of keys.
    keys: usize,
    args: Args<'a>,
    is_read_only: bool,
}

/// Why a script was ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Abort {
    /// It has used a key that is not locked.
    OtherKeys,
    TimedOut,
    Killed,
    /// The server ends.
    Stopped,
    TooManyChanges,
}

impl<'a> Request<'a> {
    fn keys(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        self.args.skip(FIRST_KEY).iter().take(self.keys)
    }

    /// Runs the script until it has not used a key without its lock, and replies.
    fn run(&self, cx: &mut Context<'_>) -> Outcome {
        let (start, counts) = (cx.out.len(), *cx.counts);
        loop {
            let locks_all = cx.held.is_some() || self.script.uses_other_keys();
            let own_locks;
            let locks: &dyn HeldLocks = match cx.held {
                Some(locks) => locks,
                None => {
                    own_locks = self.lock(cx, locks_all)?;
                    &own_locks
                }
            };
            let held = locks;
            let locks = UndoableLocks::new(locks);
            let Finished { ended, abort, reads, error, mut shown } = self.run_once(cx, &locks, locks_all);
            if abort == Some(Abort::OtherKeys) {
                locks.undo();
                cx.out.truncate(start);
                *cx.counts = counts;
                self.script.set_uses_other_keys();
                continue;
            }
            shown.post(&cx.state.monitors);
            let failure = self.error(cx, ended, abort, &locks);
            if let Some(text) = &failure {
                cx.out.truncate(start);
                cx.reply().error_bytes(text);
            }
            if let Some(text) = failure.as_ref().or(error.text.as_ref()) {
                count_failed(cx);
                if !error.is_counted {
                    cx.count_error(prefix_of(text));
                }
            }
            locks.commit(&cx.state.store.observers);
            if cx.held.is_none() {
                serve_ready(&mut cx.with_locks(held));
            }
            // `EXEC` takes messages after its last command.
            if cx.held.is_none() {
                cx.drop_muted_reply(start);
                cx.take_mail(start);
                // Messages about keys that the full table has forgotten meanwhile precede the reply.
                cx.track_reads(&reads);
            }
            return Ok(());
        }
    }

    /// The text of the error that the script has ended with. If it was ended, its writes are undone.
    fn error(
        &self,
        cx: &Context<'_>,
        ended: Ended,
        abort: Option<Abort>,
        locks: &UndoableLocks<'_>,
    ) -> Option<Vec<u8>> {
        let reason = match (abort, ended) {
            // Its writes stay, as with every other error of a script itself.
            (None, Ended::Returned) => {
                return cx.check_reply(0).err().map(|error| error.to_string().into_bytes());
            }
            (None, Ended::Failed(text)) => return Some(text),
            (None, Ended::OutOfMemory) => {
                format!("it needs more than {MAX_MEMORY_BYTES} bytes of memory")
            }
            (Some(Abort::Killed), _) => "SCRIPT KILL".to_owned(),
            (Some(Abort::Stopped), _) => "the server ends".to_owned(),
            (Some(Abort::TooManyChanges), _) => {
                format!("its changes need more than {MAX_CHANGES_BYTES} bytes until its end")
            }
            (Some(Abort::TimedOut | Abort::OtherKeys), _) => {
                format!("it takes longer than busy-reply-threshold, {} ms", cx.state.script_limit_ms())
            }
        };
        locks.undo();
        let digest = format_digest(self.script.digest());
        Some(
            format!("ERR The script was ended and its writes were undone: {reason} script: {digest}")
                .into_bytes(),
        )
    }

    /// Locks the declared keys, or all.
    fn lock<'s>(&self, cx: &Context<'s>, locks_all: bool) -> Result<KeyLocks<'s>, CommandError> {
        let store = &cx.state.store;
        if locks_all {
            return cx.lock_everything();
        }
        let space = cx.session.database();
        Ok(store.lock(self.keys().map(|name| Key { space, name })))
    }

    /// Runs the script once, and restores what it has changed of the connection.
    fn run_once(&self, cx: &mut Context<'_>, locks: &UndoableLocks<'_>, has_all_keys: bool) -> Finished {
        let (database, command) = (cx.session.database(), cx.session.last_command);
        let client_protocol = cx.session.replace_reply_protocol(Protocol::Resp2);
        let limit_ms = cx.state.script_limit_ms();
        let must_not_grow = cx.session.is_full && !self.script.ignores_memory_limit();
        let mut run = Run {
            cx: cx.with_locks(locks),
            locks,
            has_all_keys,
            is_read_only: self.is_read_only,
            must_not_grow,
            client_protocol,
            started: Instant::now(),
            limit: Some(Duration::from_millis(limit_ms)).filter(|limit| !limit.is_zero()),
            kills_before: None,
            abort: None,
            reads: Vec::new(),
            error: ScriptError::default(),
            shown: Shown::default(),
        };
        let arguments = self.args.skip(FIRST_KEY + self.keys).iter();
        let ended = script::run(&mut run, self.script, self.keys(), arguments);
        let (abort, reads) = (run.abort.take(), std::mem::take(&mut run.reads));
        let error = std::mem::take(&mut run.error);
        let shown = std::mem::take(&mut run.shown);
        drop(run);
        cx.session.replace_reply_protocol(client_protocol);
        cx.session.last_command = command;
        if cx.session.database() != database {
            cx.session.select(database);
        }
        Finished { ended, abort, reads, error, shown }
    }
}

/// How a run of a script has ended.
struct Finished {
    ended: Ended,
    abort: Option<Abort>,
    /// The names of the keys that it has read, if the connection tracks keys.
    reads: Vec<Box<[u8]>>,
    error: ScriptError,
    shown: Shown,
}

/// The error that a script replies with, if it does.
#[derive(Default)]
struct ScriptError {
    /// If the script has returned it.
    text: Option<Vec<u8>>,
    /// Whether it was counted as that of a command.
    is_counted: bool,
}

/// The commands of a run that monitors are told of at its end: one that starts again is not shown twice, unless it has more
/// lines than are kept.
#[derive(Default)]
struct Shown {
    lines: Vec<String>,
    bytes: usize,
}

/// The lines that are kept for monitors.
const MAX_SHOWN_BYTES: usize = 256 << 10;

impl Shown {
    fn push(&mut self, cx: &Context<'_>, spec: &CommandSpec, args: Args<'_>) {
        if cx.state.monitors.are_there() && spec.is_shown(args) {
            let line = cx.monitor_line(Executor::Script, spec, args);
            self.bytes += line.len();
            self.lines.push(line);
            if self.bytes > MAX_SHOWN_BYTES {
                self.post(&cx.state.monitors);
            }
        }
    }

    fn post(&mut self, monitors: &Monitors) {
        self.bytes = 0;
        self.lines.drain(..).for_each(|line| monitors.post(line.len(), || line.clone()));
    }
}

/// The first word of an error, as Redis finds it.
fn prefix_of(text: &[u8]) -> &str {
    const MAX_PREFIX_BYTES: usize = 31;
    let end = text.iter().take(MAX_PREFIX_BYTES).position(|byte| *byte == b' ');
    let prefix = end.and_then(|end| std::str::from_utf8(&text[..end]).ok());
    prefix.filter(|prefix| prefix.bytes().all(|byte| byte.is_ascii_graphic())).unwrap_or("ERR")
}

/// The name is that of the script, so that its author finds the command that is missing.
fn unknown_command(name: &[u8]) -> String {
    const MAX_NAME_BYTES: usize = 128;
    let name = String::from_utf8_lossy(&name[..name.len().min(MAX_NAME_BYTES)]);
    let reason = reason_left_out(name.as_bytes()).map_or(String::new(), |reason| format!(": {reason}"));
    format!("ERR Unknown Redis command '{name}' called from script{reason}")
}

/// One run of a script.
struct Run<'a> {
    cx: Context<'a>,
    locks: &'a UndoableLocks<'a>,
    has_all_keys: bool,
    is_read_only: bool,
    /// Whether commands that may need memory are refused: until the first write, because a script does not end halfway.
    must_not_grow: bool,
    client_protocol: Protocol,
    started: Instant,
    limit: Option<Duration>,
    /// If it is slow: how often slow scripts were asked to end before.
    kills_before: Option<u64>,
    abort: Option<Abort>,
    /// The names of the keys that were read, if the connection tracks keys.
    reads: Vec<Box<[u8]>>,
    error: ScriptError,
    shown: Shown,
}

impl Run<'_> {
    /// Counts a command that is refused with this error. There is none if the script names none.
    fn refuse(&mut self, spec: Option<&CommandSpec>, error: impl Into<Cow<'static, str>>) -> CallError {
        let error = error.into();
        if let Some(counters) = spec.map(|spec| self.cx.counters(spec)) {
            counters.rejected.add(1);
            counters.errors.add(1);
        }
        self.cx.count_error(prefix_of(error.as_bytes()));
        CallError::Refused(error)
    }

    /// Why a command may not be executed.
    fn refusal(&self, spec: &'static CommandSpec, args: Args<'_>) -> Option<&'static str> {
        if !spec.accepts(args.len()) {
            Some("ERR Wrong number of args calling Redis command from script")
        } else if spec.is(Flags::NO_SCRIPT) {
            Some("ERR This Redis command is not allowed from script")
        } else if let Err(denied) = rights::check_in_script(spec, &self.cx, args) {
            Some(denied)
        } else if self.is_read_only && spec.may_write() {
            Some("ERR Write commands are not allowed from read-only scripts.")
        } else if spec.is(Flags::WRITE) && self.cx.state.store.is_copying() {
            Some("READONLY the server copies a Redis: it takes writes after REPLICAOF NO ONE")
        } else if self.must_not_grow && spec.is(Flags::DENYOOM) {
            Some("OOM command not allowed when used memory > 'maxmemory'.")
        } else {
            None
        }
    }

    /// Whether a command uses a key whose lock is not held.
    fn uses_other_keys(&self, spec: &CommandSpec, args: Args<'_>) -> bool {
        if self.has_all_keys {
            return false;
        }
        let db = self.cx.db();
        // What is not in memory yet cannot be loaded while locks are held.
        let store = &self.cx.state.store;
        let is_locked = |name: &[u8]| self.locks.is_locked(db.key(name)) && store.has_loaded(db.key(name));
        spec.has_other_keys(args) || spec.uses_keys() && !spec.all_keys(args, is_locked)
    }

    fn record_reads(&mut self, spec: &CommandSpec, args: Args<'_>) {
        if self.cx.session.tracking().is_some() {
            self.cx.track(spec, args);
            if spec.is(Flags::READONLY) {
                self.reads.extend(spec.keys_of(args).unwrap_or_default().into_iter().map(Box::from));
            }
        }
    }
}

impl Host for Run<'_> {
    fn call(&mut self, args: Args<'_>, read: &mut dyn FnMut(&[u8])) -> Result<(), CallError> {
        if self.abort.is_some() {
            return Err(CallError::MustEnd);
        }
        let Some(command) = table::find(&args[0]) else {
            return Err(self.refuse(None, unknown_command(&args[0])));
        };
        let spec = command.0;
        if let Some(error) = self.refusal(spec, args) {
            return Err(self.refuse(Some(spec), error));
        }
        if self.uses_other_keys(spec, args) {
            self.abort = Some(Abort::OtherKeys);
            return Err(CallError::MustEnd);
        }
        self.must_not_grow &= !spec.is(Flags::WRITE);
        let start = self.cx.out.len();
        self.cx.session.last_command = Some(spec);
        self.cx.counts.commands += 1;
        answer(&mut self.cx, Some(spec), |cx| {
            call(command, cx, args)?;
            slices::finish(cx);
            Ok(())
        });
        self.shown.push(&self.cx, spec, args);
        self.record_reads(spec, args);
        read(&self.cx.out[start..]);
        self.cx.out.truncate(start);
        if self.locks.bytes() > MAX_CHANGES_BYTES {
            self.abort = Some(Abort::TooManyChanges);
            return Err(CallError::MustEnd);
        }
        Ok(())
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.cx.session.replace_reply_protocol(protocol);
    }

    fn may_call(&self, args: Args<'_>) -> Option<bool> {
        table::find(&args[0]).map(|(spec, _)| rights::allow(spec, &self.cx, args))
    }

    fn must_end(&mut self) -> bool {
        let (elapsed, scripts) = (self.started.elapsed(), &self.cx.state.scripts);
        if self.cx.state.drain_is_over.load(Ordering::Acquire) {
            self.abort.get_or_insert(Abort::Stopped);
        }
        if self.abort.is_some() || elapsed < SLOW && self.limit.is_none_or(|limit| elapsed < limit) {
            return self.abort.is_some();
        }
        if self.kills_before.is_none() {
            scripts.count_slow(true);
        }
        let kills_before = *self.kills_before.get_or_insert_with(|| scripts.kills());
        if scripts.kills() != kills_before {
            self.abort = Some(Abort::Killed);
        } else if self.limit.is_some_and(|limit| elapsed >= limit) {
            self.abort = Some(Abort::TimedOut);
        }
        self.abort.is_some()
    }

    fn write_result(&mut self, stack: &mut Stack<'_>) {
        let script_protocol = self.cx.session.protocol();
        let max_bytes = self.cx.state.max_reply_bytes();
        let out = Encoder::new(self.cx.out, self.client_protocol);
        if let Some((text, is_counted)) = Writer::new(out, script_protocol, max_bytes).write_result(stack) {
            self.error = ScriptError { text: Some(text), is_counted };
        }
    }

    fn fail_with_counted_error(&mut self) {
        self.error.is_counted = true;
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if self.kills_before.is_some() {
            self.cx.state.scripts.count_slow(false);
        }
    }
}

pub(crate) fn script(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let scripts = &cx.state.scripts;
    match (args[1].to_ascii_lowercase().as_slice(), args.len()) {
        (b"load", 3) => {
            let script = script::check(&args[2]).map_err(script_error)?;
            let digest = format_digest(script.digest());
            scripts.load(script).map_err(CommandError::Fixed)?;
            cx.reply().bulk(digest.as_bytes());
            Ok(())
        }
        (b"exists", 3..) => {
            let mut reply = Encoder::new(cx.out, cx.session.protocol());
            reply.array(args.len() - 2);
            for text in args.skip(2).iter() {
                let is_known = parse_digest(text).is_some_and(|digest| scripts.contains(&digest));
                reply.integer(i64::from(is_known));
            }
            Ok(())
        }
        (b"flush", 2) => flush(cx),
        (b"flush", 3) if [&b"ASYNC"[..], b"SYNC"].iter().any(|mode| args[2].eq_ignore_ascii_case(mode)) => {
            flush(cx)
        }
        (b"flush", _) => Err(CommandError::Fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
        (b"kill", 2) if scripts.kill() => cx.ok(),
        (b"kill", 2) => Err(CommandError::Fixed("NOTBUSY No scripts in execution right now.")),
        (b"debug", 3) if args[2].eq_ignore_ascii_case(b"no") => cx.ok(),
        (b"debug", 3) => Err(CommandError::Fixed("ERR this server has no debugger for scripts")),
        (b"help", 2) => help(
            cx,
            "SCRIPT",
            &[
                ("EXISTS <sha1> [<sha1> ...]", "Whether the server knows each of these scripts."),
                ("FLUSH [ASYNC|SYNC]", "Removes all scripts."),
                ("KILL", "Ends the scripts that take long, and undoes their writes."),
                ("LOAD <script>", "Keeps a script without running it; returns its SHA-1."),
            ],
        ),
        (b"load", _) => Err(CommandError::Arity("script|load")),
        (b"exists", _) => Err(CommandError::Arity("script|exists")),
        (b"kill", _) => Err(CommandError::Arity("script|kill")),
        (b"debug", _) => Err(CommandError::Arity("script|debug")),
        (b"help", _) => Err(CommandError::Arity("script|help")),
        _ => Err(CommandError::unknown_subcommand(&args[1], "SCRIPT")),
    }
}

fn flush(cx: &mut Context<'_>) -> Outcome {
    cx.state.scripts.clear();
    cx.ok()
}
