//! The right to load keys: the process that has it ends it with what it has loaded. It is given up when that process ends, or
//! forgets it.

use crate::cache::Loading;
use crate::call::Here;
use crate::erl::nif::Call;
use crate::erl::resource::{Kind, Resource};
use crate::erl::{SavedTerm, Term, atom};
use crate::key::{bytes_of, keys_of};
use crate::object::{Room, Stored};
use crate::options::{call_options, loaded_options, text};
use crate::raised::{Failure, Raised, Result};
use crate::view::{NativeView, View, found_many, pairs_of, slices, view_of, work_of_many};
use larder::{BulkLease, BulkLeased, FetchError, Loaded};
use larder_host::{HostLeased, HostLoad, lease as lease_one, lease_ahead};
use std::collections::HashSet;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};

type Outcome = std::result::Result<Arc<Stored>, FetchError<Failure>>;
type Leased = HostLeased<SavedTerm, Failure>;
type NativeLoad = HostLoad<SavedTerm, Failure>;
type Bulk = BulkLeased<[u8], Stored, Failure>;

/// The right to load one key.
pub(crate) struct Load {
    view: Arc<View>,
    key: Vec<u8>,
    lease: Mutex<Option<(NativeLoad, Loading)>>,
}

static LOAD: Kind = Kind::new();

impl Resource for Load {
    const NAME: &'static CStr = c"load";

    fn kind() -> &'static Kind {
        &LOAD
    }

    fn process_ended(&self) {
        drop(locked(&self.lease).take());
    }
}

/// The right to load some of several keys.
pub(crate) struct BulkLoad {
    view: Arc<View>,
    /// All keys of the call, in its order.
    keys: Arc<Vec<Vec<u8>>>,
    lease: Mutex<Option<LedKeys>>,
}

/// The lease of several keys, and the notes that this process loads them.
type LedKeys = (BulkLease<[u8], Stored, Failure>, Vec<Loading>);

static BULK_LOAD: Kind = Kind::new();

impl Resource for BulkLoad {
    const NAME: &'static CStr = c"bulk_load";

    fn kind() -> &'static Kind {
        &BULK_LOAD
    }

    fn process_ended(&self) {
        drop(locked(&self.lease).take());
    }
}

fn locked<T>(lease: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lease.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ended() -> Raised {
    Raised::fault("the load has ended")
}

impl Load {
    /// From now on the process may fetch the key.
    fn take(&self) -> Result<NativeLoad> {
        locked(&self.lease).take().map(|(lease, _)| lease).ok_or_else(ended)
    }

    /// What a call that ends the load results in: `{:ok, value}`, `:failed` for the failure of this loader, or `:miss` for a value
    /// that Elixir cannot read.
    fn ending<'e>(
        &self,
        call: &Call<'_, 'e>,
        end: impl Future<Output = Outcome> + Send + 'static,
    ) -> Result<Term<'e>> {
        let (view, key) = (self.view.clone(), self.key.clone());
        let work = |outcome: &Outcome| match outcome {
            Ok(found) => self.view.encoding.work(found, &self.key),
            Err(_) => 0,
        };
        self.view.call_with_work(
            call,
            |_| end,
            work,
            move |here, outcome| match outcome {
                Ok(found) => Ok(view.found(here, Some(&found), &key)),
                Err(FetchError::Load(_)) => Ok(here.env.atom(&atom::FAILED)),
                Err(other) => Err(Raised::of_fetch(&other)),
            },
        )
    }
}

impl BulkLoad {
    fn take(&self) -> Result<BulkLease<[u8], Stored, Failure>> {
        locked(&self.lease).take().map(|(lease, _)| lease).ok_or_else(ended)
    }
}

fn load_of<'e>(term: Term<'e>) -> Result<&'e Load> {
    term.resource().ok_or_else(|| Raised::fault("it is no load"))
}

fn bulk_load_of<'e>(term: Term<'e>) -> Result<&'e BulkLoad> {
    term.resource().ok_or_else(|| Raised::fault("it is no load of several keys"))
}

/// `lease(view, reference, key, options)`: `{:ok, value}`, `{:lead, load}`, `:miss` for a value that Elixir cannot read, or
/// `:recursive` if the process loads this key.
pub(crate) fn lease<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    let options = call_options(call.given[3])?;
    if view.cache.is_loading(&view.name, &key, call.env.caller()) {
        // While it loads ahead, the value is there.
        let found = if options.refresh { None } else { view.native()?.hit(&key) };
        let value = match &found {
            Some(found) => view.encoding.value_here(call, found, &key)?,
            None => None,
        };
        let env = call.env;
        return Ok(
            value.map_or_else(|| env.atom(&atom::RECURSIVE), |value| env.tuple([env.atom(&atom::OK), value]))
        );
    }
    let is_ahead = view.loads_ahead(&options);
    let waiting = view.cache.waiting(&view.name, std::iter::once(&key[..]), call.env.caller())?;
    let (own, weighed) = (view.clone(), key.clone());
    let lease = {
        let (codec, key) = (view.encoding.codec.clone(), key.clone());
        |native: NativeView| async move {
            let _waiting = waiting;
            if is_ahead {
                lease_ahead(&native, &codec, &key, &options).await
            } else {
                lease_one(&native, &codec, &key, &options).await
            }
        }
    };
    let work = |leased: &std::result::Result<Leased, _>| match leased {
        Ok(Leased::Hit(found)) => view.encoding.work(found, &weighed),
        _ => 0,
    };
    view.call_with_work(call, lease, work, move |here, leased| match leased {
        Ok(Leased::Hit(found)) => Ok(own.found(here, Some(&found), &key)),
        Ok(Leased::Lead(lease)) => {
            let loading = Loading::new(&own.cache, &own.name, &key, here.process);
            let load = Load { view: own, key, lease: Mutex::new(Some((lease, loading))) };
            Ok(here.env.tuple([here.env.atom(&atom::LEAD), here.watching(load)]))
        }
        Err(error) => Err(Raised::of_fetch(&error)),
    })
}

/// `stale(load)`: `{:ok, value}`, the stale value, or `:miss`.
pub(crate) fn stale<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let load = load_of(call.given[0])?;
    let stale = locked(&load.lease).as_ref().ok_or_else(ended)?.0.cx().stale().cloned();
    let value = match stale {
        Some(stale) => load.view.encoding.value_here(call, &stale, &load.key)?,
        None => None,
    };
    let env = call.env;
    Ok(value.map_or_else(|| env.atom(&atom::MISS), |value| env.tuple([env.atom(&atom::OK), value])))
}

/// `complete(load, reference, value, options)`: `{:ok, value}`, as it is stored.
pub(crate) fn complete<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let load = load_of(call.given[0])?;
    let stored = load.view.encoding.stored(&load.key, call.given[2], &mut Room::of(call));
    let options = loaded_options(call.given[3]);
    match (stored, options) {
        (Err(Raised::TooLong), _) => Err(Raised::TooLong),
        (Ok(value), Ok(options)) => {
            let lease = load.take()?;
            let cx = lease.cx();
            options.ttl.into_iter().for_each(|ttl| cx.ttl(ttl));
            options.grace.into_iter().for_each(|grace| cx.grace(grace));
            options.tags.iter().for_each(|tag| cx.tag(tag));
            if !options.store {
                cx.no_store();
            }
            load.ending(call, lease.complete(value))
        }
        // The next caller leads at once, however long this process has the load.
        (Err(raised), _) | (_, Err(raised)) => {
            drop(load.take());
            Err(raised)
        }
    }
}

/// `keep(load, reference)`: `{:ok, value}`, the stale one, which is fresh again.
pub(crate) fn keep<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let load = load_of(call.given[0])?;
    load.ending(call, load.take()?.complete(Loaded::NotModified))
}

/// `fail(load, reference, message, cause)`: `{:ok, value}`, the stale one, or `:failed`.
pub(crate) fn fail<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let load = load_of(call.given[0])?;
    let failure = Failure::new(text(call.given[2], "the message")?, call.given[3]);
    load.ending(call, load.take()?.fail(failure))
}

/// `lease_multi(view, reference, keys, options)`: `{:ok, values}` as `read_multi` has them, `{:lead, load, positions}` of the
/// keys to load, or `{:recursive, position}` of a key that the process loads.
pub(crate) fn lease_multi<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, keys) = (view_of(call.given[0])?, Arc::new(keys_of(call, call.given[2])?));
    let options = call_options(call.given[3])?;
    if options.refresh {
        return Err(Raised::option("refresh is an option of a fetch of one key"));
    }
    let (env, process) = (call.env, call.env.caller());
    if let Some(own) = keys.iter().position(|key| view.cache.is_loading(&view.name, key, process)) {
        return Ok(env.tuple([env.atom(&atom::RECURSIVE), env.unsigned(own as u64)]));
    }
    let waiting = view.cache.waiting(&view.name, slices(&keys), process)?;
    let lease = {
        let keys = keys.clone();
        |native: NativeView| async move {
            let _waiting = waiting;
            larder_host::lease_many(&native, &keys, &options).await
        }
    };
    bulk_step(call, view, keys, lease)
}

/// A step of a call for several keys.
fn bulk_step<'e, F>(
    call: &Call<'_, 'e>,
    view: &Arc<View>,
    keys: Arc<Vec<Vec<u8>>>,
    step: impl FnOnce(NativeView) -> F,
) -> Result<Term<'e>>
where
    F: Future<Output = Bulk> + Send + 'static,
{
    let work = |leased: &Bulk| match leased {
        BulkLeased::Done(outcomes) => {
            let found: Vec<_> =
                outcomes.iter().map(|outcome| outcome.as_ref().ok().cloned().flatten()).collect();
            work_of_many(view, &keys, &found)
        }
        BulkLeased::Lead(_) => 0,
    };
    let (own, keys) = (view.clone(), keys.clone());
    view.call_with_work(call, step, work, move |here, leased| bulk_answer(here, own, keys, leased))
}

fn bulk_answer<'a>(
    here: Here<'a>,
    view: Arc<View>,
    keys: Arc<Vec<Vec<u8>>>,
    leased: Bulk,
) -> Result<Term<'a>> {
    let env = here.env;
    match leased {
        BulkLeased::Done(outcomes) => {
            let found = outcomes.into_iter().map(|outcome| outcome.map_err(|error| Raised::of_fetch(&error)));
            let found = found.collect::<Result<Vec<_>>>()?;
            Ok(env.tuple([env.atom(&atom::OK), found_many(&view, here, &keys, &found)]))
        }
        BulkLeased::Lead(lease) => {
            let mut wanted: HashSet<&[u8]> = lease.keys().iter().map(Vec::as_slice).collect();
            let positions: Vec<usize> = (0..keys.len()).filter(|at| wanted.remove(&keys[*at][..])).collect();
            let loading = |at: &usize| Loading::new(&view.cache, &view.name, &keys[*at], here.process);
            let loading = positions.iter().map(loading).collect();
            let load = BulkLoad { view, keys, lease: Mutex::new(Some((lease, loading))) };
            let positions = env.list(positions.into_iter().map(|at| env.unsigned(at as u64)));
            Ok(env.tuple([env.atom(&atom::LEAD), here.watching(load), positions]))
        }
    }
}

/// `complete_multi(load, reference, pairs, options)`: as `lease_multi`. A key without a value is absent.
pub(crate) fn complete_multi<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let load = bulk_load_of(call.given[0])?;
    let options = loaded_options(call.given[3]).and_then(|options| match options.grace {
        None => Ok(options),
        Some(_) => Err(Raised::option(
            "values that are loaded together have the grace of the call, and none of their own",
        )),
    });
    match (pairs_of(&load.view, call, call.given[2]), options) {
        (Err(Raised::TooLong), _) => Err(Raised::TooLong),
        (Ok(values), Ok(options)) => {
            let lease = load.take()?;
            let cx = lease.cx();
            options.ttl.into_iter().for_each(|ttl| cx.ttl(ttl));
            options.tags.iter().for_each(|tag| cx.tag(tag));
            if !options.store {
                cx.no_store();
            }
            let (view, process) = (&load.view, call.env.caller());
            // It waits for the keys that others load.
            let waiting = view.cache.waiting(&view.name, slices(&load.keys), process)?;
            bulk_step(call, view, load.keys.clone(), |_| async move {
                let _waiting = waiting;
                lease.complete(values).await
            })
        }
        (Err(raised), _) | (_, Err(raised)) => {
            drop(load.take());
            Err(raised)
        }
    }
}

/// `fail_multi(load, reference, message, cause)`: as `lease_multi`, or `:failed`.
pub(crate) fn fail_multi<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let load = bulk_load_of(call.given[0])?;
    let failure = Failure::new(text(call.given[2], "the message")?, call.given[3]);
    let lease = load.take()?;
    let (view, keys) = (load.view.clone(), load.keys.clone());
    load.view.call(
        call,
        |_| async move { lease.fail(failure).await },
        move |here, leased| match leased {
            BulkLeased::Done(outcomes) if outcomes.iter().any(std::result::Result::is_err) => {
                Ok(here.env.atom(&atom::FAILED))
            }
            leased => bulk_answer(here, view, keys, leased),
        },
    )
}
