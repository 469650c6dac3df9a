//! `RENAME`, `RENAMENX`, `COPY`, `MOVE`: an entry gets another name or database, in one atomic step.

use larder_resp::Args;

use crate::cmd::options::{database_index, refuse_in_cluster_mode};
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Key, LockedKeys};

const NO_SUCH_KEY: CommandError = CommandError::Fixed("ERR no such key");
const SAME_KEY: CommandError = CommandError::Fixed("ERR source and destination objects are the same");

pub(crate) fn rename(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    rename_unless(cx, args, |_, _| false)?;
    cx.ok()
}

pub(crate) fn renamenx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let renamed = rename_unless(cx, args, |locked, to| locked.contains(to))?;
    cx.integer(i64::from(renamed))
}

/// Renames a key, unless the function says that it must stay; returns whether it was renamed.
fn rename_unless(
    cx: &mut Context<'_>,
    args: Args<'_>,
    must_stay: impl FnOnce(&LockedKeys<'_>, Key<'_>) -> bool,
) -> Result<bool, CommandError> {
    let own = cx.session.database();
    let (mut locked, [from, to]) = lock_both(cx, [(own, &args[1]), (own, &args[2])]);
    if !locked.contains(from) {
        return Err(NO_SUCH_KEY);
    }
    if must_stay(&locked, to) {
        return Ok(false);
    }
    if from != to {
        move_entry(cx, &mut locked, from, to)?;
    }
    Ok(true)
}

pub(crate) fn copy(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let own = cx.session.database();
    let (mut to_database, mut replaces) = (own, false);
    let mut options = args.skip(3).iter();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"REPLACE") {
            replaces = true;
        } else if option.eq_ignore_ascii_case(b"DB") {
            to_database = database_index(options.next().ok_or(CommandError::Syntax)?)?;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    if to_database != own {
        refuse_in_cluster_mode(cx, "ERR Copying to another database is not allowed in cluster mode")?;
    }
    let names = [(own, &args[1]), (to_database, &args[2])];
    if names[0] == names[1] {
        return Err(SAME_KEY);
    }
    let (mut locked, [from, to]) = lock_both(cx, names);
    let copied = (replaces || !locked.contains(to)) && copy_entry(&mut locked, from, to)?;
    drop(locked);
    cx.integer(i64::from(copied))
}

pub(crate) fn move_key(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    refuse_in_cluster_mode(cx, "ERR MOVE is not allowed in cluster mode")?;
    let index = database_index(&args[2])?;
    let own = cx.session.database();
    if index == own {
        return Err(SAME_KEY);
    }
    let (mut locked, [from, to]) = lock_both(cx, [(own, &args[1]), (index, &args[1])]);
    let moved = !locked.contains(to) && move_entry(cx, &mut locked, from, to)?;
    drop(locked);
    cx.integer(i64::from(moved))
}

/// Locks two keys, each given by its database and name.
fn lock_both<'a, 'n>(cx: &Context<'a>, names: [(u8, &'n [u8]); 2]) -> (LockedKeys<'a>, [Key<'n>; 2]) {
    let keys = names.map(|(database, name)| Key { space: database, name });
    (cx.db().lock_keys(keys), keys)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cmd::test_support::{state, with_request};
    use crate::db::Expiry;
    use crate::system::Moment;

    /// The reply was `OK`, and the destination had its former value: the source expired between two steps.
    #[test]
    fn entry_does_not_expire_during_a_rename() {
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
        assert!(renamed.is_ok_and(|is_renamed| is_renamed));
        assert_eq!(db.get(b"to", <[u8]>::to_vec), Ok(None), "it has expired with its new name");
    }
}
