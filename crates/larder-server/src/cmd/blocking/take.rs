//! Taking members for a connection, now or because it has waited for them.

use crate::cmd::CommandError;
use crate::cmd::list::transfer;
use crate::cmd::zset::pop::{ZPOPMAX, ZPOPMIN};
use crate::db::{Key, LockedKeys};
use crate::observers::{Origin, Pop, Popped};
use crate::spec::CommandSpec;
use crate::values::list::{End, List};

/// Takes what is to be taken from a locked key, if it has members.
///
/// # Errors
/// The key has another type.
pub(super) fn members(
    locked: &mut LockedKeys<'_>,
    key: Key<'_>,
    pop: &Pop,
    origin: Origin,
) -> Result<Option<Popped>, CommandError> {
    let tell_as = |locked: &mut LockedKeys<'_>, command: &'static CommandSpec| {
        locked.tell_as(Origin { command: Some(command), ..origin });
    };
    match pop {
        Pop::Elements { end, count } => {
            tell_as(locked, end.pop_spec());
            let elements = locked.edit_list(key, false, |list| end.take(list, count.unwrap_or(1)))?;
            Ok(elements.map(|elements| Popped::Elements { name: key.name.into(), elements }))
        }
        Pop::Members { takes_last, count } => {
            tell_as(locked, if *takes_last { &ZPOPMAX } else { &ZPOPMIN });
            let members = locked.edit_sorted_set(key, |set| {
                let count = count.unwrap_or(1).min(set.len());
                let ranks = if *takes_last { set.len() - count..set.len() } else { 0..count };
                let mut members = Vec::with_capacity(count);
                set.visit(ranks.clone(), *takes_last, |name, score| {
                    members.push((name.into(), score));
                    true
                });
                set.remove_range(ranks);
                members
            })?;
            Ok(members.map(|members| Popped::Members { name: key.name.into(), members }))
        }
        Pop::Move { from, to, target } => {
            let target = Key { space: key.space, name: target };
            Ok(transfer::element(locked, (key, *from), (target, *to), origin)?.map(Popped::Moved))
        }
    }
}

impl End {
    /// Takes so many elements from this end, in the order in which they leave.
    fn take(self, list: &mut List, count: usize) -> Vec<Box<[u8]>> {
        let indices = self.indices(list, count);
        let mut elements = Vec::with_capacity(indices.len());
        list.visit(indices.clone(), self == End::Right, |element| {
            elements.push(element.into());
            true
        });
        list.remove(indices);
        elements
    }
}
