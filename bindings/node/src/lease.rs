//! The right to load keys: its caller ends it with what it has loaded.

use crate::cache::text;
use crate::environment::Environment;
use crate::js::external::External;
use crate::js::function::Arguments;
use crate::js::reference::Reference;
use crate::js::{Env, Kind, Value};
use crate::key::bytes_of;
use crate::object::{Encoding, Kept, Stored};
use crate::options::{self, time};
use crate::raised::{Failure, Raised, Result, of_fetch};
use crate::view::{NativeView, View, keys_of, value_or_undefined};
use larder::{BulkCx, BulkLease, BulkLeased, FetchError, LoadCx, Loaded};
use larder_host::{AheadHit, DueLoad, ErrorClass, HostLeased, HostLoad, Waiting, hit_ahead as find_ahead};
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

type Outcome = std::result::Result<Arc<Stored>, FetchError<Failure>>;
type Leased = HostLeased<Kept, Failure>;
type NativeLoad = HostLoad<Kept, Failure>;

/// The right to load one key. Without an end it is given up when JavaScript forgets it.
pub(crate) struct Load {
    lease: RefCell<Option<NativeLoad>>,
    key: Vec<u8>,
}

/// A value that is still fresh, and that its caller is to load again.
pub(crate) struct Due {
    load: RefCell<Option<DueLoad<Kept, Failure>>>,
    key: Vec<u8>,
}

/// The right to load some of several keys.
pub(crate) struct BulkLoad {
    lease: RefCell<Option<BulkLease<[u8], Stored, Failure>>>,
    /// All keys of the call, in its order.
    keys: Vec<Vec<u8>>,
}

fn ended() -> Raised {
    Raised::of(ErrorClass::Other, "the load has ended")
}

impl Load {
    fn take(&self) -> Result<NativeLoad> {
        self.lease.take().ok_or_else(ended)
    }
}

impl BulkLoad {
    fn take(&self) -> Result<BulkLease<[u8], Stored, Failure>> {
        self.lease.take().ok_or_else(ended)
    }
}

/// `lease(view, key, options)`: the value, a load, or `undefined` for a value that JavaScript cannot read.
pub(crate) fn lease<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    let options = options::of(env, given[2])?;
    let (answer, codec) = (view.leased(key.clone()), view.encoding.codec.clone());
    let lease = |native: NativeView| async move { larder_host::lease(&native, &codec, &key, &options).await };
    view.call(env, lease, move |env, leased| match leased {
        Ok(leased) => answer(env, leased),
        Err(error) => Err(of_fetch(&error)),
    })
}

impl View {
    /// Makes what a lease results in.
    fn leased(
        &self,
        key: Vec<u8>,
    ) -> impl for<'a> FnOnce(Env<'a>, Leased) -> Result<Value<'a>> + Send + use<> {
        let encoding = self.encoding.clone();
        move |env, leased| match leased {
            Leased::Hit(found) => value_or_undefined(env, &encoding, Some(&found), &key),
            Leased::Lead(load) => env.external(External::Load(Load { lease: RefCell::new(Some(load)), key })),
        }
    }
}

/// `hitAhead(view, key, options)`: the value in memory, or `undefined`. One that is due is an external of its own, if these options or
/// those of the view want that it is loaded ahead.
pub(crate) fn hit_ahead<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    let options = options::of(env, given[2])?;
    let native = view.native()?;
    if !view.view.loads_ahead(&options) {
        return value_or_undefined(env, &view.encoding, native.hit(&key).as_deref(), &key);
    }
    match find_ahead(native, &view.encoding.codec, &key, &options) {
        AheadHit::Missed => env.undefined(),
        AheadHit::Found(found) => value_or_undefined(env, &view.encoding, Some(&found), &key),
        AheadHit::Due(due) => env.external(External::Due(Due { load: RefCell::new(Some(due)), key })),
    }
}

/// `dueValue(view, due)`: the value, or `undefined` for one that JavaScript cannot read.
pub(crate) fn due_value<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, due) = (given[0].view(env)?, given[1].due(env)?);
    let found = due.load.borrow().as_ref().ok_or_else(ended)?.found().clone();
    value_or_undefined(env, &view.encoding, Some(&found), &due.key)
}

/// `leadDue(view, due)`: as `lease`; the value is what was found, if others load it.
pub(crate) fn lead_due<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, due) = (given[0].view(env)?, given[1].due(env)?);
    let load = due.load.take().ok_or_else(ended)?;
    Environment::of(env)?.start(env, &view.cache, load.lead(), view.leased(due.key.clone()))
}

/// `beginWait(held, wanted)`, each an array of texts that name loads. Throws if one of the wanted ones waits for one that is held.
pub(crate) fn begin_wait<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let ids = |list: Value<'s>| {
        let id = |id: Value<'s>| Ok(text(env, id, "the name of a load")?.into_bytes());
        list.elements(env)?.into_iter().map(id).collect::<Result<Vec<_>>>()
    };
    let waiting = Waiting::begin(ids(given[0])?, ids(given[1])?)?;
    env.external(External::Waiting(RefCell::new(waiting)))
}

/// `endWait(waiting)`
pub(crate) fn end_wait<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    drop(given[0].waiting(env)?.take());
    env.undefined()
}

/// A call that ends a load: the value, or `undefined` for the failure of this loader.
fn ending<'s>(
    env: Env<'s>,
    view: &View,
    key: Vec<u8>,
    end: impl Future<Output = Outcome> + Send + 'static,
) -> Result<Value<'s>> {
    let encoding = view.encoding.clone();
    Environment::of(env)?.start(env, &view.cache, end, move |env, outcome: Outcome| match outcome {
        Ok(found) => value_or_undefined(env, &encoding, Some(&found), &key),
        Err(FetchError::Load(_)) => env.undefined(),
        Err(other) => Err(of_fetch(&other)),
    })
}

/// `complete(view, load, value)`: the value as it is stored.
pub(crate) fn complete<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, load) = (given[0].view(env)?, given[1].load(env)?);
    // Taken first: a value that cannot be encoded gives the load up at once.
    let lease = load.take()?;
    let value = view.encoding.stored(env, &load.key, given[2])?;
    ending(env, view, load.key.clone(), lease.complete(value))
}

/// `keep(view, load)`: the stale value, which is fresh again.
pub(crate) fn keep<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, load) = (given[0].view(env)?, given[1].load(env)?);
    ending(env, view, load.key.clone(), load.take()?.complete(Loaded::NotModified))
}

/// `fail(view, load, error)`: the stale value, or `undefined`.
pub(crate) fn fail<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, load) = (given[0].view(env)?, given[1].load(env)?);
    let failure = failure(env, given[2])?;
    ending(env, view, load.key.clone(), load.take()?.fail(failure))
}

/// What a loader has thrown, for those that have waited for it.
fn failure<'s>(env: Env<'s>, thrown: Value<'s>) -> Result<Failure> {
    if thrown.kind(env)? != Kind::Object {
        return Ok(Failure::new(thrown.shown(env), None));
    }
    let reference = Reference::new(env, Environment::of(env)?.dropped(), thrown)?;
    let message = thrown.property(env, env.text("message")?)?;
    let message = if message.kind(env)? == Kind::Text { message.text(env)? } else { None };
    Ok(Failure::new(message.unwrap_or_else(|| "an object without a message".to_owned()), Some(reference)))
}

/// `abandon(load)`: gives the load up, whichever it is, so that the next caller leads.
pub(crate) fn abandon<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    match given[0].load(env) {
        Ok(load) => drop(load.lease.take()),
        Err(_) => drop(given[0].bulk_load(env)?.lease.take()),
    }
    env.undefined()
}

/// `stale(view, load)`: the stale value, or `undefined`.
pub(crate) fn stale<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, load) = (given[0].view(env)?, given[1].load(env)?);
    let stale = load.lease.borrow().as_ref().ok_or_else(ended)?.cx().stale().cloned();
    value_or_undefined(env, &view.encoding, stale.as_deref(), &load.key)
}

/// `setTtl(load, time)`
pub(crate) fn set_ttl<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let ttl = time(env, "ttl", given[1])?;
    set(env, given[0], |cx| cx.ttl(ttl), |cx| cx.ttl(ttl))
}

/// `setGrace(load, time)`, of a load of one key.
pub(crate) fn set_grace<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let grace = time(env, "grace", given[1])?;
    given[0].load(env)?.lease.borrow().as_ref().ok_or_else(ended)?.cx().grace(grace);
    env.undefined()
}

/// `addTag(load, tag)`
pub(crate) fn add_tag<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let tag = text(env, given[1], "the tag")?;
    set(env, given[0], |cx| cx.tag(&tag), |cx| cx.tag(&tag))
}

/// `noStore(load)`
pub(crate) fn no_store<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    set(env, given[0], LoadCx::no_store, BulkCx::no_store)
}

/// Sets an option of a load of one key, or of one of several.
fn set<'s>(
    env: Env<'s>,
    load: Value<'s>,
    of_one: impl FnOnce(&LoadCx<Stored>),
    of_several: impl FnOnce(&BulkCx<[u8], Stored>),
) -> Result<Value<'s>> {
    match load.load(env) {
        Ok(load) => of_one(load.lease.borrow().as_ref().ok_or_else(ended)?.cx()),
        Err(_) => of_several(load.bulk_load(env)?.lease.borrow().as_ref().ok_or_else(ended)?.cx()),
    }
    env.undefined()
}

/// `leaseMany(view, keys, options)`: an array of the values, `undefined` where there is none, or a load of some of them.
pub(crate) fn lease_many<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, keys) = (given[0].view(env)?, keys_of(env, given[1])?);
    let options = options::of(env, given[2])?;
    let (encoding, own) = (view.encoding.clone(), keys.clone());
    let lease = |native: NativeView| async move { larder_host::lease_many(&native, &keys, &options).await };
    view.call(env, lease, move |env, leased| bulk_answer(env, leased, own, &encoding))
}

/// What a step of a call for several keys results in.
fn bulk_answer<'s>(
    env: Env<'s>,
    leased: BulkLeased<[u8], Stored, Failure>,
    keys: Vec<Vec<u8>>,
    encoding: &Encoding,
) -> Result<Value<'s>> {
    let outcomes = match leased {
        BulkLeased::Lead(lease) => {
            let load = BulkLoad { lease: RefCell::new(Some(lease)), keys };
            return env.external(External::BulkLoad(Box::new(load)));
        }
        BulkLeased::Done(outcomes) => outcomes,
    };
    let mut values = Vec::with_capacity(keys.len());
    for (key, outcome) in keys.iter().zip(outcomes) {
        let found = outcome.map_err(|error| of_fetch(&error))?;
        values.push(value_or_undefined(env, encoding, found.as_deref(), key)?);
    }
    env.array_of(values)
}

/// `wanted(load)`: the positions of the keys to load among those of the call, each key once.
pub(crate) fn wanted<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let load = given[0].bulk_load(env)?;
    let lease = load.lease.borrow();
    let mut wanted: HashSet<&[u8]> =
        lease.as_ref().ok_or_else(ended)?.keys().iter().map(Vec::as_slice).collect();
    let positions = load.keys.iter().enumerate().filter(|(_, key)| wanted.remove(&key[..]));
    env.array_of(positions.map(|(position, _)| env.number(position as f64)).collect::<Result<Vec<_>>>()?)
}

/// `completeMany(view, load, keys, values)`: as `leaseMany`. A key without a value is absent.
pub(crate) fn complete_many<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, load) = (given[0].view(env)?, given[1].bulk_load(env)?);
    let lease = load.take()?;
    let mut loaded = Vec::new();
    for (key, value) in keys_of(env, given[2])?.into_iter().zip(given[3].elements(env)?) {
        let value = view.encoding.stored(env, &key, value)?;
        loaded.push((key, value));
    }
    bulk_ending(env, view, load, async move { lease.complete(loaded).await })
}

/// `failMany(view, load, error)`: as `leaseMany`; `undefined` for the failure of this loader.
pub(crate) fn fail_many<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, load) = (given[0].view(env)?, given[1].bulk_load(env)?);
    let failure = failure(env, given[2])?;
    let lease = load.take()?;
    let (encoding, keys) = (view.encoding.clone(), load.keys.clone());
    let end = async move { lease.fail(failure).await };
    Environment::of(env)?.start(env, &view.cache, end, move |env, leased| match leased {
        BulkLeased::Done(outcomes) if outcomes.iter().any(std::result::Result::is_err) => env.undefined(),
        leased => bulk_answer(env, leased, keys, &encoding),
    })
}

fn bulk_ending<'s>(
    env: Env<'s>,
    view: &View,
    load: &BulkLoad,
    end: impl Future<Output = BulkLeased<[u8], Stored, Failure>> + Send + 'static,
) -> Result<Value<'s>> {
    let (encoding, keys) = (view.encoding.clone(), load.keys.clone());
    Environment::of(env)?
        .start(env, &view.cache, end, move |env, leased| bulk_answer(env, leased, keys, &encoding))
}
