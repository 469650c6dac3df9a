//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`: queued commands that are executed in one atomic step.
//!
//! `EXEC` locks the keys of all its commands, and the watched ones. Then it executes each command as if it were alone,
//! but on the locks that it holds. A command whose keys are not known before, such as `KEYS`, makes it lock all keys.

use std::sync::Arc;

use larder_resp::Args;

use crate::cmd::blocking::serve::serve_ready;
use crate::cmd::dispatch::{answer, check_and_call};
use crate::cmd::options::database_index;
use crate::cmd::queue::Transaction;
use crate::cmd::rights;
use crate::cmd::{CommandError, Context, Outcome, slices, table};
use crate::db::{Key, KeyLocks};
use crate::observers::Watches;
use crate::spec::Flags;

pub(crate) fn multi(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    if cx.session.transaction().is_some() {
        return Err(CommandError::Fixed("ERR MULTI calls can not be nested"));
    }
    cx.session.set_transaction(Some(Box::default()));
    cx.ok()
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
    if transaction.is_aborted() {
        return Err(CommandError::Fixed("EXECABORT Transaction discarded because of previous errors."));
    }
    let start = cx.out.len();
    let locks = lock(cx, &transaction, watches.as_deref())?.of_transaction();
    if watches.is_some_and(|watches| has_changed(&watches, &locks)) {
        cx.reply().null_array();
        cx.drop_muted_reply(start);
        cx.take_mail(start);
        return Ok(());
    }
    cx.reply().array(transaction.len());
    let own_command = cx.session.last_command;
    for (spec, args) in transaction.iter() {
        let mut cx = cx.with_locks(&locks);
        cx.session.last_command = Some(spec);
        cx.counts.commands += 1;
        answer(&mut cx, Some(spec), |cx| {
            rights::check_in_exec(spec, cx, args)?;
            check_and_call(table::command(spec), cx, args)?;
            slices::finish(cx);
            Ok(())
        });
        cx.show_monitors(spec, args);
        // A later command of this transaction may change what this one has read.
        cx.track(spec, args);
    }
    cx.session.last_command = own_command;
    serve_ready(&mut cx.with_locks(&locks));
    // Before others can change the keys: their messages follow the reply. So do those about keys that the full table has
    // forgotten meanwhile, which are registered again.
    cx.drop_muted_reply(start);
    cx.take_mail(start);
    transaction.iter().for_each(|(spec, args)| cx.track(spec, args));
    Ok(())
}

/// Whether a watched key was written, or has no entry any more. Its lock is held.
fn has_changed(watches: &Watches, locks: &KeyLocks<'_>) -> bool {
    watches.is_marked() || watches.keys().any(|(key, existed)| existed && !locks.contains(key))
}

/// Locks the keys of all commands, and the watched ones.
fn lock<'a>(
    cx: &Context<'a>,
    transaction: &Transaction,
    watches: Option<&Watches>,
) -> Result<KeyLocks<'a>, CommandError> {
    let store = &cx.state.store;
    let watched = watches.into_iter().flat_map(|watches| watches.keys().map(|(key, _)| key));
    match keys(transaction, cx.session.database()) {
        Some(keys) => Ok(store.lock(keys.into_iter().chain(watched))),
        None => cx.lock_everything(),
    }
}

/// The keys of all commands; `None` if they are not known. `database` is the selected one at first.
fn keys(transaction: &Transaction, mut database: u8) -> Option<Vec<Key<'_>>> {
    let mut keys = Vec::new();
    for (spec, args) in transaction.iter() {
        if spec.has_other_keys(args) {
            return None;
        }
        if spec.uses_keys() {
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
