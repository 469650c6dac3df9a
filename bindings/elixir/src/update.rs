//! An update by a function of Elixir, which runs in its caller between the steps.

use crate::erl::nif::Call;
use crate::erl::resource::{Kind, Resource};
use crate::erl::{SavedTerm, Term, atom};
use crate::key::bytes_of;
use crate::object::Room;
use crate::options::call_options;
use crate::raised::{Failure, Raised, Result};
use crate::view::{View, view_of};
use larder_host::{Change, HostError, UpdateStep, UpdateTry};
use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};

type Step = std::result::Result<UpdateStep<SavedTerm, Failure>, HostError>;

/// A value to decide about. It stays as it is when the process ends, or forgets this.
pub(crate) struct Update {
    view: Arc<View>,
    key: Vec<u8>,
    step: Mutex<Option<UpdateTry<SavedTerm, Failure>>>,
}

static UPDATE: Kind = Kind::new();

impl Resource for Update {
    const NAME: &'static CStr = c"update";

    fn kind() -> &'static Kind {
        &UPDATE
    }

    fn process_ended(&self) {
        drop(self.take());
    }
}

impl Update {
    fn take(&self) -> Option<UpdateTry<SavedTerm, Failure>> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn update_of<'e>(term: Term<'e>) -> Result<&'e Update> {
    term.resource().ok_or_else(|| Raised::fault("it is no update"))
}

/// A step: `{:decide, update, value}` with `{:ok, value}` or `:miss`, or what is there at the end, likewise.
fn run<'e>(
    call: &Call<'_, 'e>,
    view: &Arc<View>,
    key: Vec<u8>,
    step: impl Future<Output = Step> + Send + 'static,
) -> Result<Term<'e>> {
    let own = view.clone();
    let work = |step: &Step| {
        let found = match step {
            Ok(UpdateStep::Decide(step)) => step.value(),
            Ok(UpdateStep::Done(found)) => found.as_ref(),
            Err(_) => None,
        };
        found.map_or(0, |found| view.encoding.work(found, &key))
    };
    let answered = key.clone();
    view.call_with_work(
        call,
        |_| step,
        work,
        move |here, step| match step? {
            UpdateStep::Decide(step) => {
                let value = own.found(here, step.value().map(|found| &**found), &answered);
                let update = Update { view: own, key: answered, step: Mutex::new(Some(step)) };
                Ok(here.env.tuple([here.env.atom(&atom::DECIDE), here.watching(update), value]))
            }
            UpdateStep::Done(found) => Ok(own.found(here, found.as_deref(), &answered)),
        },
    )
}

/// `update(view, reference, key, options)`
pub(crate) fn begin<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    let options = call_options(call.given[3])?.for_update()?;
    if view.cache.is_closed() {
        return Ok(call.env.atom(&atom::CLOSED));
    }
    run(call, view, key.clone(), view.update(key, options)?)
}

/// `put(update, reference, value)`
pub(crate) fn put<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let update = update_of(call.given[0])?;
    match update.view.encoding.stored(&update.key, call.given[2], &mut Room::of(call)) {
        Ok(value) => decide(call, update, Change::Put(value)),
        Err(Raised::TooLong) => Err(Raised::TooLong),
        Err(raised) => {
            drop(update.take());
            Err(raised)
        }
    }
}

/// `keep_value(update, reference)`
pub(crate) fn keep<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    decide(call, update_of(call.given[0])?, Change::Keep)
}

/// `remove(update, reference)`
pub(crate) fn remove<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    decide(call, update_of(call.given[0])?, Change::Remove)
}

/// `leave(update)`: leaves the value as it is.
pub(crate) fn leave<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    drop(update_of(call.given[0])?.take());
    Ok(call.env.atom(&atom::OK))
}

fn decide<'e>(call: &Call<'_, 'e>, update: &Update, change: Change<SavedTerm>) -> Result<Term<'e>> {
    let step = update.take().ok_or_else(|| Raised::fault("the update has ended"))?;
    run(call, &update.view, update.key.clone(), step.decide(change))
}
