//! An update by a function of JavaScript, which runs in its caller between the steps.

use crate::environment::Environment;
use crate::js::external::External;
use crate::js::function::Arguments;
use crate::js::{Env, Value};
use crate::key::bytes_of;
use crate::object::Kept;
use crate::options;
use crate::raised::{Failure, Raised, Result};
use crate::view::{View, value_or_undefined};
use larder_host::{Change, ErrorClass, HostError, UpdateStep, UpdateTry};
use std::cell::RefCell;

type Step = std::result::Result<UpdateStep<Kept, Failure>, HostError>;

/// A value to decide about. JavaScript forgets it to leave the value as it is.
pub(crate) struct Update {
    step: RefCell<Option<UpdateTry<Kept, Failure>>>,
    key: Vec<u8>,
}

impl View {
    /// The promise of a step: an external of an update, or what is there at its end.
    fn step<'s>(
        &self,
        env: Env<'s>,
        key: Vec<u8>,
        step: impl Future<Output = Step> + Send + 'static,
    ) -> Result<Value<'s>> {
        let encoding = self.encoding.clone();
        Environment::of(env)?.start(env, &self.cache, step, move |env, step| match step? {
            UpdateStep::Decide(step) => {
                env.external(External::Update(Box::new(Update { step: RefCell::new(Some(step)), key })))
            }
            UpdateStep::Done(found) => value_or_undefined(env, &encoding, found.as_deref(), &key),
        })
    }
}

/// `update(view, key, options)`: an update to decide about, or the value at its end.
pub(crate) fn begin<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    let options = options::of(env, given[2])?.for_update()?;
    view.cache.host()?;
    view.step(env, key.clone(), view.view.update(key, options)?)
}

/// `updated(view, update)`: the value, or `undefined`.
pub(crate) fn value<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, update) = (given[0].view(env)?, given[1].update(env)?);
    let found = update.step.borrow().as_ref().and_then(|step| step.value().cloned());
    value_or_undefined(env, &view.encoding, found.as_deref(), &update.key)
}

/// `decide(view, update, verb, value)`: as `update`. The verb is `"put"`, `"keep"` or `"remove"`.
pub(crate) fn decide<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, update) = (given[0].view(env)?, given[1].update(env)?);
    // Taken first: with a value that cannot be encoded the update ends at once.
    let step = update.step.take();
    let step = step.ok_or_else(|| Raised::of(ErrorClass::Other, "the update has ended"))?;
    let change = match given[2].text(env)?.as_deref() {
        Some("keep") => Change::Keep,
        Some("remove") => Change::Remove,
        _ => Change::Put(view.encoding.stored(env, &update.key, given[3])?),
    };
    view.step(env, update.key.clone(), step.decide(change))
}

/// `leave(update)`: leaves the value as it is, so that others need not wait until JavaScript forgets this.
pub(crate) fn leave<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    drop(given[0].update(env)?.step.take());
    env.undefined()
}
