//! `RENAME`, `RENAMENX`, `COPY`, `MOVE`, `SWAPDB`: an entry gets another name or database, in one atomic step.

use larder_resp::Args;

use super::options::{database_index, integer};
use super::{CommandError, Context, Outcome};
use crate::db::{Key, LockedKeys};

const NO_SUCH_KEY: CommandError = CommandError::Fixed("ERR no such key");
const SAME_KEY: CommandError = CommandError::Fixed("ERR source and destination objects are the same");

pub(super) fn rename(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    rename_unless(cx, args, |_, _| false)?;
    cx.ok()
}

pub(super) fn renamenx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let renamed = rename_unless(cx, args, |locked, to| locked.contains(to))?;
    cx.integer(i64::from(renamed))
}

/// Renames a key, unless the function says that it must stay; returns whether it was renamed.
fn rename_unless(
    cx: &mut Context<'_>,
    args: Args<'_>,
    must_stay: impl FnOnce(&LockedKeys<'_>, Key<'_>) -> bool,
) -> Result<bool, CommandError> {
    let db = cx.db();
    let (from, to) = (db.key(&args[1]), db.key(&args[2]));
    let mut locked = cx.db().lock_keys([from, to]);
    if !locked.contains(from) {
        return Err(NO_SUCH_KEY);
    }
    if must_stay(&locked, to) {
        return Ok(false);
    }
    // Another thread may have advanced the time, by which the entry has expired.
    if from != to && !move_entry(cx, &mut locked, from, to)? {
        return Err(NO_SUCH_KEY);
    }
    Ok(true)
}

pub(super) fn copy(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (mut to_db, mut replaces) = (cx.db(), false);
    let mut options = args.skip(3).iter();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"REPLACE") {
            replaces = true;
        } else if option.eq_ignore_ascii_case(b"DB") {
            let index = database_index(integer(options.next().ok_or(CommandError::Syntax)?)?)?;
            to_db = cx.database(index);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let (from, to) = (cx.db().key(&args[1]), to_db.key(&args[2]));
    if from == to {
        return Err(SAME_KEY);
    }
    let mut locked = cx.db().lock_keys([from, to]);
    let copied = (replaces || !locked.contains(to)) && copy_entry(&mut locked, from, to)?;
    drop(locked);
    cx.integer(i64::from(copied))
}

pub(super) fn move_key(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let index = database_index(integer(&args[2])?)?;
    let (from, to) = (cx.db().key(&args[1]), cx.database(index).key(&args[1]));
    if from == to {
        return Err(SAME_KEY);
    }
    let mut locked = cx.db().lock_keys([from, to]);
    let moved = !locked.contains(to) && move_entry(cx, &mut locked, from, to)?;
    drop(locked);
    cx.integer(i64::from(moved))
}

/// Copies an entry with its deadline; returns whether there is one.
fn copy_entry(locked: &mut LockedKeys<'_>, from: Key<'_>, to: Key<'_>) -> Result<bool, CommandError> {
    let Some(expiry) = locked.expiry(from) else { return Ok(false) };
    let Some(record) = locked.read(from, |record| record.copy_with_key(to)) else { return Ok(false) };
    locked.put(record, expiry)?;
    Ok(true)
}

/// Moves an entry with its deadline; returns whether there is one. If it does not fit with its new name, it stays.
fn move_entry(
    cx: &Context<'_>,
    locked: &mut LockedKeys<'_>,
    from: Key<'_>,
    to: Key<'_>,
) -> Result<bool, CommandError> {
    let Some(expiry) = locked.expiry(from) else { return Ok(false) };
    let Some(record) = locked.take(from) else { return Ok(false) };
    let moved = [record.with_key(to)];
    // Without eviction it may always be moved, as in Redis.
    let fits = cx.state.store.can_hold(&moved) || !cx.state.store.evicts_all();
    let [moved] = moved;
    if !fits {
        locked.restore(moved.with_key(from), expiry)?;
        return Err(CommandError::OutOfMemory);
    }
    locked.restore(moved, expiry)?;
    Ok(true)
}

pub(super) fn swapdb(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let first = integer(&args[1]).map_err(|_| CommandError::Fixed("ERR invalid first DB index"))?;
    let second = integer(&args[2]).map_err(|_| CommandError::Fixed("ERR invalid second DB index"))?;
    let (first, second) = (database_index(first)?, database_index(second)?);
    let store = &cx.state.store;
    let _locks = cx.held.is_none().then(|| store.lock_everything());
    store.swap_databases(first, second);
    cx.ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cmd::test_support::{state, with_request};
    use crate::db::Expiry;
    use crate::moment::Moment;

    /// The reply was `OK`, and the destination had its former value.
    #[test]
    fn rename_of_an_entry_that_expires_meanwhile_is_an_error() {
        let state = state();
        let db = state.store.database(0);
        db.set(b"from", b"new", Expiry::At(state.store.now_ms() + 60_000)).unwrap();
        db.set(b"to", b"old", Expiry::Never).unwrap();
        let renamed = with_request(&state, "RENAME from to", |cx, args| {
            rename_unless(cx, args, |_, _| {
                state.store.advance_to(Moment::now() + Duration::from_secs(61));
                false
            })
        });
        assert_eq!(renamed.map_err(|error| error.to_string()), Err(NO_SUCH_KEY.to_string()));
        assert_eq!(db.get(b"to", <[u8]>::to_vec), Ok(Some(b"old".to_vec())));
    }
}
