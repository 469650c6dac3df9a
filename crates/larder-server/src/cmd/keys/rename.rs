//! `RENAME`, `RENAMENX`, `COPY`, `MOVE`, `SWAPDB`: an entry gets another name or database, in one atomic step.

use larder_resp::Args;

use crate::cmd::options::{database_index, database_of, integer};
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
    cx.state.store.in_current_spaces(|spaces| {
        let keys = names.map(|(database, name)| Key { space: spaces.of(database), name });
        (cx.db().lock_keys(keys), keys)
    })
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

pub(crate) fn swapdb(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let number = |text| integer(text).ok().and_then(|number| i32::try_from(number).ok());
    let first = number(&args[1]).ok_or(CommandError::Fixed("ERR invalid first DB index"))?;
    let second = number(&args[2]).ok_or(CommandError::Fixed("ERR invalid second DB index"))?;
    let (first, second) = (database_of(first)?, database_of(second)?);
    let store = &cx.state.store;
    let _locks = cx.held.is_none().then(|| store.lock_everything());
    store.swap_databases(first, second);
    cx.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::cmd::execute;
    use crate::cmd::test_support::{state, with_request};
    use crate::db::{Expiry, MemoryPolicy};
    use crate::state::ServerState;
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

    /// Exchanges two databases while a command waits for the locks. Returns its reply.
    fn execute_during_exchange(state: &ServerState, request: &str) -> Vec<u8> {
        let (started, is_started) = mpsc::channel();
        let locks = state.store.lock_everything();
        thread::scope(|scope| {
            let command = scope.spawn(|| {
                started.send(()).unwrap();
                with_request(state, request, |cx, args| {
                    execute(cx, args);
                    cx.out.clone()
                })
            });
            is_started.recv().unwrap();
            (0..1_000).for_each(|_| thread::yield_now());
            state.store.swap_databases(0, 1);
            drop(locks);
            command.join().unwrap()
        })
    }

    /// They used the databases as they were before they waited for the locks.
    #[test]
    fn commands_use_databases_that_were_exchanged_before_they_lock() {
        let requests = [
            "RENAME a b",
            "COPY a b",
            "MOVE a 2",
            "GET a",
            "GETDEL a",
            "STRLEN a",
            "EXISTS a",
            "EXISTS a a",
            "MGET a",
            "TTL a",
            "SET a x",
            "SET a w XX",
            "SETNX b w",
            "GETSET a w",
            "SET a w GET",
            "INCR a",
            "APPEND a w",
            "SETRANGE a 0 w",
            "SETBIT a 1 1",
            "BITFIELD a SET u8 0 1",
            "EXPIRE a 10",
            "DEL a",
            "DEL a b",
            "MSET a w b w",
            "MSETNX b w c w",
            "BITOP NOT b a",
            "PFADD b w",
            "PFMERGE b c",
            "ZADD b 1 w",
            "ZUNIONSTORE b 1 c",
            "ZRANGESTORE a b 0 1",
            "RESTORE b 0 x",
            "DUMP a",
        ];
        let state = state();
        for policy in [MemoryPolicy::default(), MemoryPolicy::Noeviction] {
            state.store.set_policy(policy);
            for request in requests {
                for _ in 0..10 {
                    let former = state.store.space(state.store.spaces().of(0));
                    former.set(b"a", b"v", Expiry::Never).unwrap();
                    execute_during_exchange(&state, request);
                    let is_same = former.get(b"a", |value| value == b"v") == Ok(Some(true));
                    assert!(is_same && former.len() == 1, "{request}, {policy}");
                    assert_eq!(former.deadline(b"a"), Some(None), "{request}, {policy}");
                    former.clear_from(0, usize::MAX, true);
                }
            }
        }
    }

    #[test]
    fn command_without_keys_reads_the_database_that_was_exchanged() {
        let state = state();
        for (request, expected) in [("DBSIZE", &b":0\r\n"[..]), ("RANDOMKEY", b"$-1\r\n")] {
            for _ in 0..20 {
                let former = state.store.space(state.store.spaces().of(0));
                former.set(b"a", b"v", Expiry::Never).unwrap();
                let reply = execute_during_exchange(&state, request);
                assert_eq!(reply, expected, "{request}");
                assert!(former.remove(b"a"));
            }
        }
    }

    #[test]
    fn database_that_was_exchanged_is_found_again() {
        let state = state();
        let first_space = state.store.spaces().of(0);
        state.store.space(first_space).set(b"a", b"v", Expiry::Never).unwrap();
        let (found, is_found) = mpsc::channel();
        let locks = state.store.lock_everything();
        let read = thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let db = state.store.database(0);
                found.send(()).unwrap();
                (db.get(b"a", |_| ()), db.contains(b"a"), db.set(b"a", b"w", Expiry::Never), db.remove(b"a"))
            });
            is_found.recv().unwrap();
            state.store.swap_databases(0, 1);
            drop(locks);
            reader.join().unwrap()
        });
        assert_eq!(read, (Ok(None), false, Ok(()), true));
        assert!(state.store.space(first_space).contains(b"a"));
    }
}
