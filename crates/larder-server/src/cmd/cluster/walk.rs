//! The keys in a slot. There is no index by slot, so each such command visits all keys, in slices.

use super::slot::slot_of;
use crate::cmd::keys::names::Names;
use crate::cmd::slices::{self, ENTRIES_PER_SLICE, SlicedWork};
use crate::cmd::{CommandError, Context, Outcome};

/// Replies with the number of keys in a slot.
pub(super) fn count(cx: &mut Context<'_>, slot: u16) -> Outcome {
    cx.require_all_keys()?;
    slices::begin(cx, Walk { slot, cursor: 0, found: Found::Number(0) })
}

/// Replies with the names of keys in a slot, at most `limit` of them.
pub(super) fn list(cx: &mut Context<'_>, slot: u16, limit: usize) -> Outcome {
    cx.require_all_keys()?;
    slices::begin(cx, Walk { slot, cursor: 0, found: Found::Names(Names::default(), limit) })
}

/// A walk over the entries.
struct Walk {
    slot: u16,
    cursor: u64,
    found: Found,
}

/// What a walk has found so far.
enum Found {
    Number(i64),
    /// With the number of names that are wanted.
    Names(Names, usize),
}

impl Found {
    fn add(&mut self, name: &[u8]) {
        match self {
            Found::Number(number) => *number += 1,
            Found::Names(names, limit) if names.len() < *limit => names.push(name),
            Found::Names(..) => {}
        }
    }

    fn is_complete(&self) -> bool {
        matches!(self, Found::Names(names, limit) if names.len() == *limit)
    }
}

impl SlicedWork for Walk {
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        let Walk { slot, cursor, found } = self;
        if !found.is_complete() {
            *cursor = cx.db().scan(*cursor, ENTRIES_PER_SLICE, |name, _| {
                if slot_of(name) == *slot {
                    found.add(name);
                }
            });
        }
        let ended = *cursor == 0 || found.is_complete();
        match found {
            Found::Number(number) if ended => cx.reply().integer(*number),
            Found::Number(_) => {}
            Found::Names(names, _) => {
                cx.check_reply(names.reply_bytes())?;
                if ended {
                    names.reply(&mut cx.reply());
                }
            }
        }
        Ok(ended)
    }

    fn bytes(&self) -> usize {
        match &self.found {
            Found::Number(_) => 0,
            Found::Names(names, _) => names.bytes_allocated(),
        }
    }
}
