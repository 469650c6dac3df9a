//! The right to load keys: its caller ends it with what it has loaded.

use crate::cache::Node;
use crate::call::run;
use crate::key::bytes_of;
use crate::object::{Encoding, Stored, message_of};
use crate::options::{call_options, text, time};
use crate::raised::{Failure, Raised, Result, of_fetch};
use crate::ruby::data::data;
use crate::ruby::kept::Kept;
use crate::ruby::method::{Arguments, methods};
use crate::ruby::{Ruby, Value};
use crate::view::{NativeView, View, found_or_missed, keys_of, stored_of};
use larder::{BulkCx, BulkLease, BulkLeased, FetchError, LoadCx, Loaded};
use larder_host::{HostLeased, HostLoad, lease as lease_one, lease_ahead, lease_many};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Outcome = std::result::Result<Arc<Stored>, FetchError<Failure>>;

/// Where a lease is until it is ended. Ruby has the object of it before there is a lease: an interruption may come between any two
/// steps of it, also while a method returns, and would lose what that returns.
type Slot<L> = Arc<Mutex<Option<L>>>;

/// The load of one key, which leads while it has a lease. Without an end that is given up when Ruby frees it.
struct Load {
    lease: Slot<HostLoad<Kept, Failure>>,
    key: Vec<u8>,
    view: Fetching,
}

/// The load of some of several keys.
struct BulkLoad {
    lease: Slot<BulkLease<[u8], Stored, Failure>>,
    /// The keys of the call, in its order.
    keys: Arc<Vec<Vec<u8>>>,
    view: Fetching,
}

/// What a load needs of its view.
#[derive(Clone)]
struct Fetching {
    native: NativeView,
    encoding: Encoding,
    node: Arc<Node>,
    /// Whether all fetches of the view load ahead.
    loads_ahead: bool,
}

data!(Load: c"Larder::Load", BulkLoad: c"Larder::BulkLoad");

fn ended() -> Raised {
    Raised::fault("the load has ended")
}

fn lock<L>(slot: &Slot<L>) -> MutexGuard<'_, Option<L>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take<L>(slot: &Slot<L>) -> Result<L> {
    lock(slot).take().ok_or_else(ended)
}

impl Fetching {
    fn of(view: &View) -> Result<Self> {
        let native = view.native()?.clone();
        let (encoding, node) = (view.encoding.clone(), view.node.clone());
        Ok(Fetching { native, encoding, node, loads_ahead: view.loads_ahead })
    }
}

/// `View#_load(key)`: a load, which does not lead yet.
pub(crate) fn load<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let (view, key) = (Fetching::of(given.this.data()?)?, bytes_of(ruby, given.get(0))?);
    ruby.object(ruby.constant("Load")?, Load { lease: Slot::default(), key, view })
}

/// `View#_bulk_load(keys)`
pub(crate) fn bulk_load<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let (view, keys) = (Fetching::of(given.this.data()?)?, Arc::new(keys_of(ruby, given.get(0))?));
    ruby.object(ruby.constant("BulkLoad")?, BulkLoad { lease: Slot::default(), keys, view })
}

/// `Load#_lease(options)`: the value, or the load itself, which leads then; `Larder::MISSED` for a value that Ruby cannot read. It also
/// leads if the value is due, and these options or those of the view want that it is loaded ahead.
fn lease<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let load: &Load = given.this.data()?;
    let options = call_options(ruby, given.get(0))?;
    let (view, key) = (load.view.clone(), load.key.clone());
    let (slot, encoding, own) = (load.lease.clone(), view.encoding.clone(), key.clone());
    let is_ahead = options.loads_ahead().unwrap_or(view.loads_ahead);
    let lease = async move {
        let codec = &view.encoding.codec;
        if is_ahead {
            lease_ahead(&view.native, codec, &key, &options).await
        } else {
            lease_one(&view.native, codec, &key, &options).await
        }
    };
    let found = run(ruby, &load.view.node, lease, move |ruby, leased| match leased {
        Ok(HostLeased::Hit(found)) => found_or_missed(ruby, &encoding, Some(&found), &own),
        Ok(HostLeased::Lead(lease)) => {
            *lock(&slot) = Some(lease);
            Ok(ruby.nil())
        }
        Err(error) => Err(of_fetch(ruby, &error)),
    })?;
    Ok(if lock(&load.lease).is_some() { given.this } else { found })
}

impl Load {
    /// A call that ends the load: the value, or `Larder::MISSED` for the failure of its own block.
    fn end<'r>(
        &self,
        ruby: Ruby<'r>,
        end: impl Future<Output = Outcome> + Send + 'static,
    ) -> Result<Value<'r>> {
        let (key, encoding) = (self.key.clone(), self.view.encoding.clone());
        run(ruby, &self.view.node, end, move |ruby, outcome| match outcome {
            Ok(found) => found_or_missed(ruby, &encoding, Some(&found), &key),
            Err(FetchError::Load(_)) => Ok(ruby.missed()),
            Err(other) => Err(of_fetch(ruby, &other)),
        })
    }
}

/// `Load#_complete(value)`: the value as it is stored.
fn complete<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let load: &Load = given.this.data()?;
    // Taken first: a value that cannot be encoded gives the load up at once.
    let lease = take(&load.lease)?;
    let value = load.view.encoding.stored(ruby, &load.key, given.get(0))?;
    load.end(ruby, lease.complete(value))
}

/// `Load#_keep`: the stale value, which is fresh again.
fn keep<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let load: &Load = given.this.data()?;
    let lease = take(&load.lease)?;
    load.end(ruby, lease.complete(Loaded::NotModified))
}

/// `Load#_fail(exception)`: the stale value, or `Larder::MISSED`.
fn fail<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let load: &Load = given.this.data()?;
    let failure = failure(ruby, given.get(0))?;
    load.end(ruby, take(&load.lease)?.fail(failure))
}

/// What a block has raised, for those that have waited for it.
fn failure<'r>(ruby: Ruby<'r>, exception: Value<'r>) -> Result<Failure> {
    Ok(Failure::new(message_of(ruby, exception)?, Some(Kept::new(ruby, exception)?)))
}

/// `Load#_abandon`: gives the load up, so that the next caller leads. A load that has ended stays as it is.
fn abandon<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    match given.this.try_data::<Load>() {
        Some(load) => _ = take(&load.lease),
        None => _ = take(&given.this.data::<BulkLoad>()?.lease),
    }
    Ok(ruby.nil())
}

/// `Load#_leads?`
fn leads<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    Ok(ruby.boolean(match given.this.try_data::<Load>() {
        Some(load) => lock(&load.lease).is_some(),
        None => lock(&given.this.data::<BulkLoad>()?.lease).is_some(),
    }))
}

/// `Load#stale`: the stale value, or `nil`.
fn stale<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let load: &Load = given.this.data()?;
    let stale = lock(&load.lease).as_ref().ok_or_else(ended)?.cx().stale().cloned();
    let Some(stale) = stale else { return Ok(ruby.nil()) };
    Ok(load.view.encoding.object(ruby, &stale, &load.key)?.unwrap_or_else(|| ruby.nil()))
}

/// `Load#ttl=`
fn set_ttl<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let ttl = time(ruby, "ttl", given.get(0))?;
    set(ruby, given, |cx| cx.ttl(ttl), |cx| cx.ttl(ttl))
}

/// `Load#grace=`
fn set_grace<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let grace = time(ruby, "grace", given.get(0))?;
    set(ruby, given, |cx| cx.grace(grace), |cx| cx.grace(grace))
}

/// `Load#tag(*tags)`
fn tag<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    for tag in given.all() {
        let tag = text(ruby, *tag, "a tag")?;
        set(ruby, given, |cx| cx.tag(&tag), |cx| cx.tag(&tag))?;
    }
    Ok(ruby.nil())
}

/// `Load#no_store!`
fn no_store<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    set(ruby, given, LoadCx::no_store, BulkCx::no_store)
}

/// Sets an option of a load of one key, or of one of several.
fn set<'r>(
    ruby: Ruby<'r>,
    given: Arguments<'r>,
    of_one: impl FnOnce(&LoadCx<Stored>),
    of_several: impl FnOnce(&BulkCx<[u8], Stored>),
) -> Result<Value<'r>> {
    match given.this.try_data::<Load>() {
        Some(load) => of_one(lock(&load.lease).as_ref().ok_or_else(ended)?.cx()),
        None => {
            let load: &BulkLoad = given.this.data()?;
            of_several(lock(&load.lease).as_ref().ok_or_else(ended)?.cx());
        }
    }
    Ok(ruby.nil())
}

/// `BulkLoad#_lease(options)`: an array of the values, with `Larder::MISSED` where there is none, or the load itself, which leads
/// some of the keys then.
fn lease_multi<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let load: &BulkLoad = given.this.data()?;
    let options = call_options(ruby, given.get(0))?;
    let (native, keys) = (load.view.native.clone(), load.keys.clone());
    load.step(ruby, given.this, async move { lease_many(&native, &keys, &options).await })
}

type BulkOutcome = BulkLeased<[u8], Stored, Failure>;

impl BulkLoad {
    /// A step of a call for several keys: as `BulkLoad#_lease`.
    fn step<'r>(
        &self,
        ruby: Ruby<'r>,
        this: Value<'r>,
        step: impl Future<Output = BulkOutcome> + Send + 'static,
    ) -> Result<Value<'r>> {
        let answer = self.answer();
        let values = run(ruby, &self.view.node, step, answer)?;
        Ok(if lock(&self.lease).is_some() { this } else { values })
    }

    /// Makes what a step results in.
    fn answer(&self) -> impl for<'a> FnOnce(Ruby<'a>, BulkOutcome) -> Result<Value<'a>> + Send + use<> {
        let (slot, keys, encoding) = (self.lease.clone(), self.keys.clone(), self.view.encoding.clone());
        move |ruby, leased| {
            let outcomes = match leased {
                BulkLeased::Lead(lease) => {
                    *lock(&slot) = Some(lease);
                    return Ok(ruby.nil());
                }
                BulkLeased::Done(outcomes) => outcomes,
            };
            let values = ruby.array(&[])?;
            for (key, outcome) in keys.iter().zip(outcomes) {
                let found = outcome.map_err(|error| of_fetch(ruby, &error))?;
                ruby.push(values, found_or_missed(ruby, &encoding, found.as_deref(), key)?)?;
            }
            Ok(values)
        }
    }
}

/// `BulkLoad#_wanted`: the positions of the keys to load among those of the call, each key once.
fn wanted<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let load: &BulkLoad = given.this.data()?;
    let mut wanted: HashSet<Vec<u8>> =
        lock(&load.lease).as_ref().ok_or_else(ended)?.keys().iter().cloned().collect();
    let positions = ruby.array(&[])?;
    for (position, key) in load.keys.iter().enumerate() {
        if wanted.remove(key) {
            ruby.push(positions, ruby.count(position as u64)?)?;
        }
    }
    Ok(positions)
}

/// `BulkLoad#_complete(keys, values)`: as `BulkLoad#_lease`. A key without a value is absent.
fn complete_multi<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let load: &BulkLoad = given.this.data()?;
    let lease = take(&load.lease)?;
    let loaded = stored_of(ruby, &load.view.encoding, given.get(0), given.get(1))?;
    load.step(ruby, given.this, async move { lease.complete(loaded).await })
}

/// `BulkLoad#_fail(exception)`: as `BulkLoad#_lease`; `Larder::MISSED` for the failure of its own block.
fn fail_multi<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let load: &BulkLoad = given.this.data()?;
    let failure = failure(ruby, given.get(0))?;
    let (lease, answer) = (take(&load.lease)?, load.answer());
    let end = async move { lease.fail(failure).await };
    let values = run(ruby, &load.view.node, end, move |ruby, leased| match leased {
        BulkLeased::Done(outcomes) if outcomes.iter().any(std::result::Result::is_err) => Ok(ruby.missed()),
        leased => answer(ruby, leased),
    })?;
    Ok(if lock(&load.lease).is_some() { given.this } else { values })
}

pub(crate) fn define(ruby: Ruby<'_>) -> Result<()> {
    let (of_one, of_several) = (ruby.class(c"Load")?, ruby.class(c"BulkLoad")?);
    ruby.add_methods(
        of_one,
        methods![
            c"_lease" => lease, 1..=1;
            c"stale" => stale, 0..=0;
            c"_complete" => complete, 1..=1;
            c"_keep" => keep, 0..=0;
            c"_fail" => fail, 1..=1;
        ],
    )?;
    ruby.add_methods(
        of_several,
        methods![
            c"_lease" => lease_multi, 1..=1;
            c"_wanted" => wanted, 0..=0;
            c"_complete" => complete_multi, 2..=2;
            c"_fail" => fail_multi, 1..=1;
        ],
    )?;
    for class in [of_one, of_several] {
        ruby.add_methods(
            class,
            methods![
                c"ttl=" => set_ttl, 1..=1;
                c"grace=" => set_grace, 1..=1;
                c"tag" => tag, 1..=64;
                c"no_store!" => no_store, 0..=0;
                c"_abandon" => abandon, 0..=0;
                c"_leads?" => leads, 0..=0;
            ],
        )?;
    }
    Ok(())
}
