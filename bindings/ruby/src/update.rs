//! An update by a block of Ruby, which runs in its caller between the steps.

use crate::cache::Node;
use crate::call::run;
use crate::key::bytes_of;
use crate::object::Encoding;
use crate::options::call_options;
use crate::raised::{Failure, Raised, Result};
use crate::ruby::data::data;
use crate::ruby::kept::Kept;
use crate::ruby::method::{Arguments, methods};
use crate::ruby::{Ruby, Value};
use crate::view::{View, found_or_missed};
use larder_host::{Change, HostError, UpdateStep, UpdateTry};
use std::sync::{Arc, Mutex, PoisonError};

type Step = std::result::Result<UpdateStep<Kept, Failure>, HostError>;
/// Where a try is until it is decided. Ruby has the object of it before: an interruption may come between any two steps.
type Slot = Arc<Mutex<Option<UpdateTry<Kept, Failure>>>>;

/// An update, which has a value to decide about while its slot is full.
struct Update {
    step: Slot,
    key: Vec<u8>,
    encoding: Encoding,
    node: Arc<Node>,
}

data!(Update: c"Larder::Update");

fn take(slot: &Slot) -> Option<UpdateTry<Kept, Failure>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// `View#_update(key)`: an update that has not begun.
pub(crate) fn update<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let (view, key) = (given.this.data::<View>()?, bytes_of(ruby, given.get(0))?);
    let (encoding, node) = (view.encoding.clone(), view.node.clone());
    ruby.object(ruby.constant("Update")?, Update { step: Slot::default(), key, encoding, node })
}

impl Update {
    /// A step: the update itself, which has a value to decide about then, or what is there at its end.
    fn step<'r>(
        &self,
        ruby: Ruby<'r>,
        this: Value<'r>,
        step: impl Future<Output = Step> + Send + 'static,
    ) -> Result<Value<'r>> {
        let (slot, encoding, key) = (self.step.clone(), self.encoding.clone(), self.key.clone());
        let found = run(ruby, &self.node, step, move |ruby, step| match step? {
            UpdateStep::Decide(step) => {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(step);
                Ok(ruby.nil())
            }
            UpdateStep::Done(found) => found_or_missed(ruby, &encoding, found.as_deref(), &key),
        })?;
        let decides = self.step.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        Ok(if decides { this } else { found })
    }

    fn decide<'r>(&self, ruby: Ruby<'r>, this: Value<'r>, change: Change<Kept>) -> Result<Value<'r>> {
        let step = take(&self.step).ok_or_else(|| Raised::fault("the update has ended"))?;
        self.step(ruby, this, step.decide(change))
    }
}

/// `Update#_begin(view, options)`
fn begin<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let (update, view): (&Update, &View) = (given.this.data()?, given.get(0).data()?);
    let options = call_options(ruby, given.get(1))?.for_update()?;
    update.step(ruby, given.this, view.update(update.key.clone(), options)?)
}

/// `Update#_value`: the value, or `Larder::MISSED`.
fn value<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let update: &Update = given.this.data()?;
    let step = update.step.lock().unwrap_or_else(PoisonError::into_inner);
    let found = step.as_ref().and_then(|step| step.value().cloned());
    drop(step);
    found_or_missed(ruby, &update.encoding, found.as_deref(), &update.key)
}

/// `Update#_put(value)`
fn put<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let update: &Update = given.this.data()?;
    let value = update.encoding.stored(ruby, &update.key, given.get(0))?;
    update.decide(ruby, given.this, Change::Put(value))
}

/// `Update#_keep`
fn keep<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    given.this.data::<Update>()?.decide(ruby, given.this, Change::Keep)
}

/// `Update#_remove`
fn remove<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    given.this.data::<Update>()?.decide(ruby, given.this, Change::Remove)
}

/// `Update#_abandon`: leaves the value as it is.
fn abandon<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    drop(take(&given.this.data::<Update>()?.step));
    Ok(ruby.nil())
}

pub(crate) fn define(ruby: Ruby<'_>) -> Result<()> {
    let class = ruby.class(c"Update")?;
    ruby.add_methods(
        class,
        methods![
            c"_begin" => begin, 2..=2;
            c"_value" => value, 0..=0;
            c"_put" => put, 1..=1;
            c"_keep" => keep, 0..=0;
            c"_remove" => remove, 0..=0;
            c"_abandon" => abandon, 0..=0;
        ],
    )
}
