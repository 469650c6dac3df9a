//! `SADD`, `SREM`, `SMOVE`: members that come and go.

use larder_resp::Args;

use crate::cmd::{Context, Outcome};
use crate::observers::Origin;
use crate::spec::{Access, CommandSpec};

/// The rows of `SADD` and `SREM` in the table of commands. Observers are told of `SMOVE` in these names.
pub(crate) static SADD: CommandSpec = CommandSpec::new("sadd", -3, "1.0.0", "Adds members to a set.")
    .writes_set()
    .fast()
    .one_key()
    .access(Access::INSERTED);
pub(crate) static SREM: CommandSpec = CommandSpec::new("srem", -3, "1.0.0", "Removes members from a set.")
    .updates_set()
    .fast()
    .one_key()
    .access(Access::REDUCED);

pub(crate) fn sadd(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let added = cx
        .db()
        .edit_set(&args[1], true, |set| args.skip(2).iter().filter(|member| set.insert(member)).count())?;
    cx.integer(added.unwrap_or(0) as i64)
}

pub(crate) fn srem(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let removed = cx
        .db()
        .edit_set(&args[1], false, |set| args.skip(2).iter().filter(|member| set.remove(member)).count())?;
    cx.integer(removed.unwrap_or(0) as i64)
}

pub(crate) fn smove(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (db, mut locked) = cx.lock([&args[1], &args[2]]);
    let (source, target, member) = (db.key(&args[1]), db.key(&args[2]), &args[3]);
    let Some(is_member) = locked.set_members(source, |set| set.contains(member))? else {
        return cx.integer(0);
    };
    // A target of another type is an error, also if nothing would be moved.
    locked.set_members(target, |_| ())?;
    if is_member && source != target {
        locked.tell_as(Origin { command: Some(&SREM), ..cx.origin() });
        locked.edit_set(source, false, |set| set.remove(member))?;
        locked.tell_as(Origin { command: Some(&SADD), ..cx.origin() });
        if let Err(error) = locked.edit_set(target, true, |set| set.insert(member)) {
            // There was room for it where it was.
            _ = locked.edit_set(source, true, |set| set.insert(member));
            return Err(error.into());
        }
    }
    drop(locked);
    cx.integer(is_member.into())
}
