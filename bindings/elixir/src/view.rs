//! A view: values of one kind in a cache.

use crate::cache::{Cache, cache_of, elsewhere, milliseconds, reach, reached};
use crate::call::{self, Here};
use crate::erl::nif::Call;
use crate::erl::resource::{Handle, Kind, Resource};
use crate::erl::{SavedTerm, Term, atom};
use crate::key::{bytes_of, keys_of};
use crate::object::{Encoding, Room, Stored};
use crate::options::{call_options, integer, text};
use crate::raised::{Failure, Raised, Result};
use larder::{CacheError, Fetched, Removal, WriteOptions};
use larder_host::{
    CallOptions, HostCodec, HostError, HostView, PrivateFormat, SignedView, Signer, Sum, UpdateStep,
    ViewOptions, increment as increment_by, write_many,
};
use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type NativeView = larder::View<[u8], Stored, Failure>;
type Outcome<T> = std::result::Result<T, CacheError>;

/// Values of one kind.
pub(crate) struct View {
    pub(crate) cache: Arc<Cache>,
    pub(crate) name: Arc<str>,
    pub(crate) encoding: Encoding,
    view: HostView<SavedTerm, Failure>,
}

impl View {
    #[inline]
    pub(crate) fn native(&self) -> Result<&NativeView> {
        Ok(self.view.get()?)
    }

    /// Begins an update.
    pub(crate) fn update(
        &self,
        key: Vec<u8>,
        options: Option<WriteOptions>,
    ) -> Result<
        impl Future<Output = std::result::Result<UpdateStep<SavedTerm, Failure>, HostError>> + Send + use<>,
    > {
        Ok(self.view.update(key, options)?)
    }

    /// Whether a fetch with these options loads a value again that is due.
    pub(crate) fn loads_ahead(&self, options: &CallOptions) -> bool {
        self.view.loads_ahead(options)
    }

    /// A call of the native view, or `:closed`: the process that owns the cache may have been started again.
    pub(crate) fn call<'e, R, F>(
        &self,
        call: &Call<'_, 'e>,
        run: impl FnOnce(NativeView) -> F,
        answer: impl for<'a> FnOnce(Here<'a>, R) -> Result<Term<'a>> + Send + 'static,
    ) -> Result<Term<'e>>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        self.call_with_work(call, run, |_| 0, answer)
    }

    /// The same for a call whose answer has values.
    pub(crate) fn call_with_work<'e, R, F>(
        &self,
        call: &Call<'_, 'e>,
        run: impl FnOnce(NativeView) -> F,
        work: impl FnOnce(&R) -> usize,
        answer: impl for<'a> FnOnce(Here<'a>, R) -> Result<Term<'a>> + Send + 'static,
    ) -> Result<Term<'e>>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        if self.cache.is_closed() {
            return Ok(call.env.atom(&atom::CLOSED));
        }
        let future = run(self.native()?.clone());
        call::start_with_work(call, &self.cache.host, call.given[1], future, work, answer)
    }

    /// `{:ok, value}`, or `:miss`.
    pub(crate) fn found<'e>(&self, here: Here<'e>, found: Option<&Stored>, key: &[u8]) -> Term<'e> {
        let value = found.and_then(|found| self.encoding.value(here.env, found, key));
        match value {
            Some(value) => here.env.tuple([here.env.atom(&atom::OK), value]),
            None => here.env.atom(&atom::MISS),
        }
    }
}

/// What terms refer to.
pub(crate) struct ViewResource(Arc<View>);

static VIEW: Kind = Kind::new();

impl Resource for ViewResource {
    const NAME: &'static CStr = c"view";

    fn kind() -> &'static Kind {
        &VIEW
    }
}

impl Drop for ViewResource {
    /// With it may end the cache, whose memory takes long to free.
    fn drop(&mut self) {
        let view = self.0.clone();
        elsewhere(move || drop(view));
    }
}

/// The view that a term refers to.
#[inline]
pub(crate) fn view_of<'e>(term: Term<'e>) -> Result<&'e Arc<View>> {
    let resource = term.resource::<ViewResource>().ok_or_else(|| Raised::fault("it is no view"))?;
    Ok(&resource.0)
}

/// The keys as larder takes them.
pub(crate) fn slices(keys: &[Vec<u8>]) -> impl Iterator<Item = &[u8]> {
    keys.iter().map(Vec::as_slice)
}

/// `open_view(cache, name, schema, number, codec, signing_keys, options)`. With keys its values are private.
pub(crate) fn open<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let cache = cache_of(call.given[0])?.clone();
    if cache.is_closed() {
        return Ok(call.env.atom(&atom::CLOSED));
    }
    let (name, schema) =
        (text(call.given[1], "the name of a view")?, text(call.given[2], "the name of a schema")?);
    let number = u32::try_from(integer(call.given[3], "the number of a schema")?);
    let number = number.map_err(|_| Raised::option("the number of a schema must be from 0 to 2^32 - 1"))?;
    let defaults = call_options(call.given[6])?;
    let codec = if call.given[5].is_nil() {
        HostCodec::of_name(&text(call.given[4], "the name of a codec")?)?
    } else {
        let keys: Option<Vec<&[u8]>> = call.given[5].elements().map(Term::bytes).collect();
        let signer = Signer::new(keys.ok_or_else(|| Raised::option("keys must be a list of binaries"))?)?;
        let shown = format!("{schema}/{number}");
        let signed = SignedView { namespace: &cache.namespace, view: &name, schema: &shown };
        HostCodec::private(PrivateFormat::Etf, &signer, signed)
    };
    let encoding = Encoding::new(codec.clone(), cache.host.max_value_bytes());
    let options = ViewOptions {
        name: name.clone(),
        schema: (schema, number),
        objects: Encoding::objects(&codec),
        codec,
        defaults,
    };
    let view = cache.host.open_view(options)?;
    view.get()?;
    let view = View { cache, name: name.into(), encoding, view };
    Ok(Handle::new(ViewResource(Arc::new(view))).term(call.env))
}

/// `read(view, reference, key)`: `{:ok, value}` or `:miss`.
pub(crate) fn read<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    let read = {
        let key = key.clone();
        |native: NativeView| async move { native.read(&key[..]).await }
    };
    let (own, weighed) = (view.clone(), key.clone());
    let work = |found: &Option<Fetched<Stored>>| {
        found.as_ref().map_or(0, |found| view.encoding.work(found, &weighed))
    };
    view.call_with_work(call, read, work, move |here, found| Ok(own.found(here, found.as_deref(), &key)))
}

/// `read_multi(view, reference, keys)`: for each key as [`read`].
pub(crate) fn read_multi<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, keys) = (view_of(call.given[0])?, Arc::new(keys_of(call, call.given[2])?));
    let read = {
        let keys = keys.clone();
        |native: NativeView| async move { native.read_multi(slices(&keys)).await }
    };
    let work = |found: &Vec<Option<Fetched<Stored>>>| work_of_many(view, &keys, found);
    let (own, keys) = (view.clone(), keys.clone());
    view.call_with_work(call, read, work, move |here, found| Ok(found_many(&own, here, &keys, &found)))
}

/// The bytes of several values.
pub(crate) fn work_of_many(view: &View, keys: &[Vec<u8>], found: &[Option<Fetched<Stored>>]) -> usize {
    let values = keys.iter().zip(found);
    values.map(|(key, found)| found.as_ref().map_or(0, |found| view.encoding.work(found, key))).sum()
}

/// A list of the values, in the order of the keys.
pub(crate) fn found_many<'e>(
    view: &View,
    here: Here<'e>,
    keys: &[Vec<u8>],
    found: &[Option<Fetched<Stored>>],
) -> Term<'e> {
    here.env.list(keys.iter().zip(found).map(|(key, found)| view.found(here, found.as_deref(), key)))
}

/// `exists(view, reference, key)`
pub(crate) fn exists<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    let exist = |native: NativeView| async move { native.exist(&key[..]).await };
    view.call(call, exist, |here, exists| Ok(here.env.boolean(exists)))
}

/// `write(view, reference, key, value, options)`: `:ok`, or `:queued`.
pub(crate) fn write<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    let options = call_options(call.given[4])?.for_write()?;
    let value = view.encoding.stored(&key, call.given[3], &mut Room::of(call))?;
    let write = |native: NativeView| async move { native.write_with(&key[..], value, &options).await };
    view.call(call, write, reached)
}

/// `write_multi(view, reference, pairs, options)`: `:ok`, or `:queued`.
pub(crate) fn write_multi<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let view = view_of(call.given[0])?;
    let options = call_options(call.given[3])?.for_write()?;
    let values = pairs_of(view, call, call.given[2])?;
    let write = |native: NativeView| async move { write_many(&native, values, &options).await };
    view.call(call, write, reached)
}

/// Keys with the stored forms of their values, of a list of pairs.
pub(crate) fn pairs_of(view: &View, call: &Call<'_, '_>, pairs: Term<'_>) -> Result<Vec<(Vec<u8>, Stored)>> {
    let mut room = Room::of(call);
    let pair = |pair: Term<'_>| {
        let [key, value] = pair.tuple().ok_or_else(|| Raised::fault("a pair has a key and a value"))?;
        let key = bytes_of(key)?.into_owned();
        let value = view.encoding.stored(&key, value, &mut room)?;
        Ok((key, value))
    };
    pairs.elements().map(pair).collect()
}

/// `add(view, reference, key, value, options)`: whether it stored the value.
pub(crate) fn add<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    let options = call_options(call.given[4])?.for_write()?;
    let value = view.encoding.stored(&key, call.given[3], &mut Room::of(call))?;
    let add = |native: NativeView| async move { native.add_with(&key[..], value, &options).await };
    view.call(call, add, is_done)
}

/// `delete(view, reference, key)`: `:ok` or `:queued`, and whether there was a value.
pub(crate) fn delete<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    view.call(call, |native| async move { native.delete(&key[..]).await }, removed)
}

/// `delete_multi(view, reference, keys)`: `:ok` or `:queued`, and how many values there were.
pub(crate) fn delete_multi<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, keys) = (view_of(call.given[0])?, keys_of(call, call.given[2])?);
    let deletion = |native: NativeView| async move { native.delete_multi(slices(&keys)).await };
    view.call(call, deletion, |here, removed| {
        let removed = removed.map_err(Raised::from)?;
        let existed = removed.existed.iter().filter(|existed| **existed).count();
        Ok(here.env.tuple([reach(here.env, removed.reach), here.env.unsigned(existed as u64)]))
    })
}

/// `expire(view, reference, key)`: as [`delete`].
pub(crate) fn expire<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    view.call(call, |native| async move { native.expire(&key[..]).await }, removed)
}

/// `take(view, reference, key)`: `{:ok, value}`, which it removes, or `:miss`.
pub(crate) fn take<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    let take = {
        let key = key.clone();
        |native: NativeView| async move { native.take(&key[..]).await }
    };
    let (own, weighed) = (view.clone(), key.clone());
    let work = |taken: &Outcome<Option<Fetched<Stored>>>| match taken {
        Ok(Some(found)) => view.encoding.work(found, &weighed),
        _ => 0,
    };
    view.call_with_work(call, take, work, move |here, taken| Ok(own.found(here, taken?.as_deref(), &key)))
}

/// `touch(view, reference, key, options)`: whether there was a value.
pub(crate) fn touch<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    let policy = call_options(call.given[3])?.for_touch()?;
    view.call(call, move |native| async move { native.touch(&key[..], policy).await }, is_done)
}

/// `ttl(view, reference, key)`: `{:ok, milliseconds}` for which the value is fresh, or `:miss`.
pub(crate) fn ttl<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    let ttl = |native: NativeView| async move { native.ttl(&key[..]).await };
    view.call(call, ttl, |here, ttl: Option<Duration>| {
        let env = here.env;
        Ok(match ttl {
            Some(ttl) => env.tuple([env.atom(&atom::OK), milliseconds(env, ttl)]),
            None => env.atom(&atom::MISS),
        })
    })
}

/// `increment(view, reference, key, by, initial, options)`: `{:ok, sum}`, `:miss` if there is neither a value nor an initial one, or
/// `:no_number`.
pub(crate) fn increment<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (view, key) = (view_of(call.given[0])?, bytes_of(call.given[2])?.into_owned());
    let by = integer(call.given[3], "by")?;
    let initial = if call.given[4].is_nil() { None } else { Some(integer(call.given[4], "initial")?) };
    let options = call_options(call.given[5])?.for_write()?;
    let codec = view.encoding.codec.clone();
    let increment =
        |native: NativeView| async move { increment_by(&native, &codec, &key, by, initial, &options).await };
    view.call(call, increment, |here, sum: Outcome<Sum>| {
        let env = here.env;
        Ok(match sum? {
            Sum::Is(sum) => env.tuple([env.atom(&atom::OK), env.integer(sum)]),
            Sum::NoValue => env.atom(&atom::MISS),
            Sum::NoNumber => env.atom(&atom::NO_NUMBER),
        })
    })
}

fn is_done<'a>(here: Here<'a>, done: Outcome<bool>) -> Result<Term<'a>> {
    Ok(here.env.boolean(done?))
}

fn removed<'a>(here: Here<'a>, removed: Outcome<Removal>) -> Result<Term<'a>> {
    let removed = removed?;
    Ok(here.env.tuple([reach(here.env, removed.reach), here.env.boolean(removed.existed)]))
}
