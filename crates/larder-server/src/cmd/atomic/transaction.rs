//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`: queued commands that are executed in one atomic step.
//!
//! `EXEC` locks the keys of all its commands, and the watched ones. Then it executes each command as if it were alone,
//! but on the locks that it holds. A command whose keys are not known before, such as `KEYS`, makes it lock all keys.

use std::sync::Arc;

use larder_resp::{Args, ArgsBuffer};

use super::script;
use crate::cmd::connection::client;
use crate::cmd::dispatch::{answer, check_and_call, special};
use crate::cmd::options::database_index;
use crate::cmd::slices;
use crate::cmd::table::{Command, TABLE};
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Key, KeyLocks};
use crate::observers::Watches;
use crate::spec::{CommandSpec, Flags};
use crate::state::ServerState;
use crate::values::large;

/// The commands that wait for `EXEC`.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    requests: ArgsBuffer,
    /// The index of each command in the table.
    commands: Vec<u8>,
    /// Whether a command could not be queued: `EXEC` executes nothing then.
    is_aborted: bool,
}

impl Transaction {
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(crate) fn abort(&mut self) {
        self.is_aborted = true;
    }

    /// Whether it may change keys or send messages.
    pub(crate) fn writes(&self) -> bool {
        self.iter().any(|((spec, _), _)| spec.may_write())
    }

    /// Whether it has a command that may need memory for entries.
    pub(crate) fn may_need_memory(&self, state: &ServerState) -> bool {
        self.iter()
            .any(|((spec, _), args)| spec.is(Flags::DENYOOM) || script::needs_memory(state, spec, args))
    }

    /// The memory that it needs, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.requests.bytes_allocated() + self.commands.capacity()
    }

    fn iter(&self) -> impl Iterator<Item = (&'static Command, Args<'_>)> {
        let command =
            |(index, command): (usize, &u8)| (&TABLE[usize::from(*command)], self.requests.get(index));
        self.commands.iter().enumerate().map(command)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.requests.take_long_arguments().into_iter().for_each(large::release);
    }
}

pub(crate) fn multi(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    if cx.session.transaction().is_some() {
        return Err(CommandError::Fixed("ERR MULTI calls can not be nested"));
    }
    cx.session.set_transaction(Some(Box::default()));
    cx.ok()
}

/// Checks a command and queues it.
pub(crate) fn queue(cx: &mut Context<'_>, spec: &CommandSpec, args: Args<'_>) -> Outcome {
    if spec.is(Flags::NO_MULTI) || client::changes_replies(spec, args) {
        cx.abort_transaction();
        cx.counters(spec).rejected.add(1);
        return Err(CommandError::Fixed("ERR Command not allowed inside a transaction"));
    }
    let Some(transaction) = cx.session.transaction() else { return Ok(()) };
    // Nothing is executed after an error, so nothing has to be kept.
    if !transaction.is_aborted {
        if !transaction.requests.push(args) {
            transaction.abort();
            return Err(CommandError::Fixed("ERR the transaction is too large"));
        }
        transaction.commands.push(spec.index);
    }
    cx.reply().simple("QUEUED");
    Ok(())
}

pub(crate) fn discard(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    if cx.session.set_transaction(None).is_none() {
        return Err(CommandError::Fixed("ERR DISCARD without MULTI"));
    }
    cx.session.watches = None;
    cx.ok()
}

pub(crate) fn watch(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if cx.session.transaction().is_some() {
        return Err(CommandError::Fixed("ERR WATCH inside MULTI is not allowed"));
    }
    let (db, observers) = (cx.db(), &cx.state.store.observers);
    let watches = cx.session.watches.get_or_insert_with(|| Box::new(Watches::new(Arc::clone(observers))));
    for name in args.skip(1).iter() {
        watches.add(db.key(name), || db.contains(name));
    }
    cx.ok()
}

pub(crate) fn unwatch(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    cx.session.watches = None;
    cx.ok()
}

pub(crate) fn exec(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let transaction =
        cx.session.set_transaction(None).ok_or(CommandError::Fixed("ERR EXEC without MULTI"))?;
    let watches = cx.session.watches.take();
    if transaction.is_aborted {
        return Err(CommandError::Fixed("EXECABORT Transaction discarded because of previous errors."));
    }
    let start = cx.out.len();
    let locks = lock(cx, &transaction, watches.as_deref()).of_transaction();
    if watches.is_some_and(|watches| has_changed(&watches, &locks)) {
        cx.reply().null_array();
        cx.drop_muted_reply(start);
        cx.take_mail(start);
        return Ok(());
    }
    cx.reply().array(transaction.commands.len());
    let own_command = cx.session.last_command;
    for (command, args) in transaction.iter() {
        let mut cx = cx.with_locks(&locks);
        let spec = command.0;
        cx.session.last_command = Some(spec);
        cx.counts.commands += 1;
        answer(&mut cx, Some(spec), |cx| {
            check_and_call(command, cx, args)?;
            slices::finish(cx);
            Ok(())
        });
        // A later command of this transaction may change what this one has read.
        special::track(&cx, spec, args);
    }
    cx.session.last_command = own_command;
    // Before others can change the keys: their messages follow the reply. So do those about keys that the full table has
    // forgotten meanwhile, which are registered again.
    cx.drop_muted_reply(start);
    cx.take_mail(start);
    transaction.iter().for_each(|((spec, _), args)| special::track(cx, spec, args));
    Ok(())
}

/// The error to reply with for a command that was refused. `EXEC` discards the transaction, and the watched keys if there is
/// none.
#[cold]
pub(crate) fn refuse(cx: &mut Context<'_>, spec: &CommandSpec, reason: CommandError) -> CommandError {
    if !spec.is(Flags::EXECUTES_QUEUE) {
        return reason;
    }
    cx.session.set_transaction(None);
    cx.session.watches = None;
    let reason = reason.to_string();
    CommandError::ExecAbort(reason.strip_prefix("ERR ").unwrap_or(&reason).to_owned())
}

/// Whether a watched key was written, or has no entry any more. Its lock is held.
fn has_changed(watches: &Watches, locks: &KeyLocks<'_>) -> bool {
    watches.is_marked() || watches.keys().any(|(key, existed)| existed && !locks.contains(key))
}

/// Locks the keys of all commands, and the watched ones.
fn lock<'a>(cx: &Context<'a>, transaction: &Transaction, watches: Option<&Watches>) -> KeyLocks<'a> {
    let store = &cx.state.store;
    let watched = watches.into_iter().flat_map(|watches| watches.keys().map(|(key, _)| key));
    match keys(transaction, cx.session.database()) {
        Some(keys) => store.lock(keys.into_iter().chain(watched)),
        None => store.lock_everything(),
    }
}

/// Locks the keys of one command, if they are known and not locked yet.
pub(crate) fn lock_keys_of<'a>(cx: &Context<'a>, spec: &CommandSpec, args: Args<'_>) -> Option<KeyLocks<'a>> {
    if cx.held.is_some() || !uses_keys(spec) || has_other_keys(spec) {
        return None;
    }
    let names = spec.keys_of(args).unwrap_or_default();
    let db = cx.db();
    Some(cx.state.store.lock(names.into_iter().map(|name| db.key(name))))
}

pub(crate) fn uses_keys(spec: &CommandSpec) -> bool {
    spec.is(Flags::READONLY) || spec.is(Flags::WRITE)
}

/// Whether a command may use keys that are not at fixed positions.
pub(crate) fn has_other_keys(spec: &CommandSpec) -> bool {
    spec.is(Flags::ANY_KEYS) || uses_keys(spec) && !spec.has_keys()
}

/// The keys of all commands; `None` if they are not known. `database` is the selected one at first.
fn keys(transaction: &Transaction, mut database: u8) -> Option<Vec<Key<'_>>> {
    let mut keys = Vec::new();
    for ((spec, _), args) in transaction.iter() {
        if has_other_keys(spec) {
            return None;
        }
        if uses_keys(spec) {
            // Without a valid number of keys the command fails before it uses any.
            let names = spec.keys_of(args).unwrap_or_default();
            keys.extend(names.into_iter().map(|name| Key { space: database, name }));
        }
        if spec.is(Flags::SELECTS_DATABASE)
            && let Ok(selected) = database_index(&args[1])
        {
            database = selected;
        }
    }
    Some(keys)
}
