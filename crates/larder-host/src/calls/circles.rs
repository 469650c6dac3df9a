//! Callers whose loaders wait for each other's keys: the one that would close the circle is told so, since nobody would ever end it.
//!
//! ```text
//!  loads k1, fetches k2 ── k1 waits for k2 ──┐
//!                                            ├── a circle: the second one that begins to wait gets an error
//!  loads k2, fetches k1 ── k2 waits for k1 ──┘
//! ```
//!
//! Only a caller that loads something can close a circle, so others are not looked at. Loads of other processes are not known here:
//! for these a caller waits no longer than `lease_wait`.

use crate::errors::{ErrorClass, HostError};
use crate::process::PerProcess;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A load as the binding names it: by its cache, its view and its key.
pub type LoadId = Vec<u8>;

/// Of each load whose caller waits: the loads that it waits for, and how many of its calls do.
type Waits = HashMap<LoadId, HashMap<LoadId, usize>>;

static WAITS: PerProcess<Mutex<Waits>> = PerProcess::new();

fn waits() -> MutexGuard<'static, Waits> {
    let Ok(waits) = WAITS.get_or_make(|| Ok::<_, Infallible>(Mutex::default()));
    waits.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A wait of a caller that loads something. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the wait"]
pub struct Waiting {
    held: Vec<LoadId>,
    wanted: Vec<LoadId>,
}

impl Waiting {
    /// Begins to wait for these loads, in a caller that has those. `None` where it has none.
    ///
    /// Cost: a lock, and a look at each load that those waited for wait for.
    ///
    /// # Errors
    /// Of class [`Recursive`](ErrorClass::Recursive), if one of those waited for waits for a load of the caller, itself or through
    /// others.
    ///
    /// # Examples
    /// ```
    /// use larder_host::Waiting;
    ///
    /// let [one, other] = [b"one".to_vec(), b"other".to_vec()];
    /// let waiting = Waiting::begin(vec![one.clone()], vec![other.clone()]).expect("nobody waits");
    /// assert!(Waiting::begin(vec![other.clone()], vec![one.clone()]).is_err());
    /// drop(waiting);
    /// assert!(Waiting::begin(vec![other], vec![one]).is_ok());
    /// ```
    pub fn begin(held: Vec<LoadId>, wanted: Vec<LoadId>) -> Result<Option<Self>, HostError> {
        if held.is_empty() {
            return Ok(None);
        }
        let mut waits = waits();
        if is_circle(&waits, &held, &wanted) {
            let message = "the loader waits for a load that waits for this one: both would wait for ever";
            return Err(HostError::new(ErrorClass::Recursive, message));
        }
        for load in &held {
            let of_load = waits.entry(load.clone()).or_default();
            wanted.iter().for_each(|wanted| *of_load.entry(wanted.clone()).or_default() += 1);
        }
        Ok(Some(Waiting { held, wanted }))
    }
}

/// Whether one of the loads that are held is reached from those that are wanted.
fn is_circle(waits: &Waits, held: &[LoadId], wanted: &[LoadId]) -> bool {
    let (mut next, mut seen) = (Vec::from_iter(wanted), HashSet::new());
    while let Some(load) = next.pop() {
        if held.contains(load) {
            return true;
        }
        if seen.insert(load) {
            next.extend(waits.get(load).into_iter().flat_map(HashMap::keys));
        }
    }
    false
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // A child of the process has waits of its own.
        let Some(waits) = WAITS.get() else { return };
        let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
        for load in &self.held {
            let Some(of_load) = waits.get_mut(load) else { continue };
            for wanted in &self.wanted {
                match of_load.get_mut(wanted) {
                    Some(count @ 2..) => *count -= 1,
                    _ => _ = of_load.remove(wanted),
                }
            }
            if of_load.is_empty() {
                waits.remove(load);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(held: &[&str], wanted: &[&str]) -> Result<Option<Waiting>, ErrorClass> {
        let ids = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
        Waiting::begin(ids(held), ids(wanted)).map_err(|error| error.class)
    }

    #[test]
    fn circle_through_any_number_of_loads_is_found() {
        let chain = [wait(&["a1"], &["a2", "a9"]), wait(&["a2"], &["a3"]), wait(&["a3", "a7"], &["a4"])];
        assert!(chain.iter().all(Result::is_ok));
        for (held, wanted) in [(&["a4"], &["a1"]), (&["a4"], &["a7"]), (&["a9"], &["a1"])] {
            assert_eq!(wait(held, wanted).err(), Some(ErrorClass::Recursive), "{held:?}");
        }
        assert!(wait(&["a4"], &["a9"]).is_ok() && wait(&["a8"], &["a1"]).is_ok(), "no circle");
    }

    #[test]
    fn wait_ends_with_its_guard_and_counts_as_often_as_it_was_begun() {
        let twice = [wait(&["b1"], &["b2"]), wait(&["b1"], &["b2"])];
        let [first, second] = twice.map(|waiting| waiting.expect("no circle"));
        drop(first);
        assert!(wait(&["b2"], &["b1"]).is_err());
        drop(second);
        assert!(wait(&["b2"], &["b1"]).is_ok());
        assert!(waits().keys().all(|load| !load.starts_with(b"b")), "nothing is left");
    }

    #[test]
    fn caller_that_loads_nothing_closes_no_circle() {
        let _waiting = wait(&["c1"], &["c2"]);
        assert!(wait(&[], &["c1"]).is_ok_and(|waiting| waiting.is_none()));
    }
}
