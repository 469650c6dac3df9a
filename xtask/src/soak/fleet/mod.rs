//! The processes of a soak: they are started, watched, and ended by it, and no others.

mod member;
mod members;

pub(super) use member::{Figures, Member};
pub(super) use members::{HELD, Services};

use super::lock;
use super::shared::Shared;
use anyhow::{Context, Result};
use std::sync::Mutex;
use std::time::Duration;

/// How long a process may take to end after SIGTERM: the server writes a snapshot, which takes at most a minute.
pub(super) const END_LIMIT: Duration = Duration::from_secs(90);

/// All processes. A member is locked while a fault stops it or starts it again.
pub(super) struct Fleet(Vec<(&'static str, Mutex<Member>)>);

impl Fleet {
    /// Starts all members, one after the other, because later ones need earlier ones.
    pub(super) fn start(members: Vec<Member>) -> Result<Self> {
        let mut started = Vec::new();
        for mut member in members {
            let name = member.name();
            member.start().with_context(|| format!("{name} does not start"))?;
            started.push((name, Mutex::new(member)));
        }
        Ok(Fleet(started))
    }

    /// The member of a name, while nothing else uses it.
    pub(super) fn with<T>(&self, name: &str, act: impl FnOnce(&mut Member) -> T) -> T {
        let (_, member) = self.0.iter().find(|(own, _)| *own == name).expect("the fleet has this member");
        act(&mut lock(member))
    }

    /// The figures of all members that run and that no fault has stopped now.
    pub(super) fn figures(&self) -> Vec<(&'static str, Figures)> {
        let unlocked = self.0.iter().filter_map(|(name, member)| Some((*name, member.try_lock().ok()?)));
        unlocked.filter_map(|(name, member)| Some((name, member.figures()?))).collect()
    }

    /// Reports members that have ended by themselves, and starts them again.
    pub(super) fn watch(&self, shared: &Shared) {
        for (name, member) in &self.0 {
            let Ok(mut member) = member.try_lock() else { continue };
            let Some(how) = member.ended() else { continue };
            shared.fail(format!("{name} ended by itself: {how}: {}", member.last_words()));
            if let Err(error) = member.start() {
                shared.fail(format!("{name} does not start again: {error:#}"));
            }
        }
    }

    /// Ends all members, last ones first: those of Larder by SIGTERM. Reports those that do not end well, and panics in their
    /// logs.
    pub(super) fn end(self, shared: &Shared) {
        for (name, member) in self.0.into_iter().rev() {
            let mut member = member.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Err(error) = member.end() {
                shared.fail(format!("{name} did not end well: {error:#}"));
            }
            if let Some(line) = member.panic_in_log() {
                shared.fail(format!("{name} has panicked: {line}"));
            }
        }
    }
}
