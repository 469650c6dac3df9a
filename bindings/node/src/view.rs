//! A view: hits are answered at once, everything else is a call with a promise.

use crate::cache::{CacheHandle, milliseconds, reached, text};
use crate::environment::Environment;
use crate::js::external::External;
use crate::js::function::Arguments;
use crate::js::{Env, Value};
use crate::key::bytes_of;
use crate::object::{Encoding, Kept, Stored};
use crate::options;
use crate::raised::{Failure, Raised, Result};
use larder::{CacheError, Fetched, Removal};
use larder_host::{ErrorClass, HostCodec, HostView, Objects, Sum, ViewOptions};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type NativeView = larder::View<[u8], Stored, Failure>;
type Outcome<T> = std::result::Result<T, CacheError>;

/// Values of one kind.
pub(crate) struct View {
    pub(crate) cache: Rc<CacheHandle>,
    pub(crate) view: Arc<HostView<Kept, Failure>>,
    pub(crate) encoding: Encoding,
}

impl View {
    pub(crate) fn native(&self) -> Result<&NativeView> {
        self.cache.host()?;
        Ok(self.view.get()?)
    }

    /// A call of the native view.
    pub(crate) fn call<'s, R, F>(
        &self,
        env: Env<'s>,
        call: impl FnOnce(NativeView) -> F,
        answer: impl for<'a> FnOnce(Env<'a>, R) -> Result<Value<'a>> + Send + 'static,
    ) -> Result<Value<'s>>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        Environment::of(env)?.start(env, &self.cache, call(self.native()?.clone()), answer)
    }

    /// Makes the value of what a call has found; `undefined` for nothing.
    pub(crate) fn found(
        &self,
        key: Vec<u8>,
    ) -> impl for<'a> FnOnce(Env<'a>, Option<Fetched<Stored>>) -> Result<Value<'a>> + Send + use<> {
        let encoding = self.encoding.clone();
        move |env, found| value_or_undefined(env, &encoding, found.as_deref(), &key)
    }
}

/// The value of what was found; `undefined` for nothing.
pub(crate) fn value_or_undefined<'s>(
    env: Env<'s>,
    encoding: &Encoding,
    found: Option<&Stored>,
    key: &[u8],
) -> Result<Value<'s>> {
    let dropped = Environment::of(env)?.dropped();
    let value = found.map_or(Ok(None), |found| encoding.value(env, dropped, found, key))?;
    value.map_or_else(|| env.undefined(), Ok)
}

/// The keys of an array.
pub(crate) fn keys_of<'s>(env: Env<'s>, keys: Value<'s>) -> Result<Vec<Vec<u8>>> {
    keys.elements(env)?.into_iter().map(|key| bytes_of(env, key)).collect()
}

/// The keys as larder takes them.
pub(crate) fn slices(keys: &[Vec<u8>]) -> impl Iterator<Item = &[u8]> {
    keys.iter().map(Vec::as_slice)
}

/// `openView(cache, name, schema, number, isShared, codec, options)`
pub(crate) fn open<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let cache = given[0].cache(env)?.clone();
    let (name, schema) =
        (text(env, given[1], "the name of a view")?, text(env, given[2], "the name of a schema")?);
    let (number, is_shared) = (given[3].number(env)? as u32, given[4].boolean(env)?);
    let codec = HostCodec::of_name(&text(env, given[5], "the name of a codec")?)?;
    let defaults = options::of(env, given[6])?;
    let host = cache.host()?;
    let encoding = Encoding::new(codec, is_shared, host.max_value_bytes());
    let objects = if is_shared { Objects::kept() } else { Objects::Copied };
    let codec = encoding.codec.clone();
    let view = host.open_view(ViewOptions { name, schema: (schema, number), codec, objects, defaults })?;
    let view = Arc::new(view);
    env.external(External::View(View { cache, view, encoding }))
}

/// `read(view, key)`: the value, or `undefined`.
pub(crate) fn read<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    let answer = view.found(key.clone());
    view.call(env, |native| async move { native.read(&key[..]).await }, answer)
}

/// `readMany(view, keys)`: an array of the values, `undefined` where there is none.
pub(crate) fn read_many<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, keys) = (given[0].view(env)?, keys_of(env, given[1])?);
    let (encoding, own) = (view.encoding.clone(), keys.clone());
    let read = |native: NativeView| async move { native.read_multi(slices(&keys)).await };
    view.call(env, read, move |env, found: Vec<Option<Fetched<Stored>>>| {
        let values = own.iter().zip(found);
        let values = values.map(|(key, found)| value_or_undefined(env, &encoding, found.as_deref(), key));
        env.array_of(values.collect::<Result<Vec<_>>>()?)
    })
}

/// `write(view, key, value, options)`: whether all nodes know.
pub(crate) fn write<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    let options = options::of(env, given[3])?.for_write()?;
    let value = view.encoding.stored(env, &key, given[2])?;
    let native = view.native()?.clone();
    reached(env, &view.cache, async move { native.write_with(&key[..], value, &options).await })
}

/// `writeMany(view, keys, values, options)`: whether all nodes know.
pub(crate) fn write_many<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, keys) = (given[0].view(env)?, keys_of(env, given[1])?);
    let options = options::of(env, given[3])?.for_write()?;
    let mut values = Vec::with_capacity(keys.len());
    for (key, value) in keys.into_iter().zip(given[2].elements(env)?) {
        let value = view.encoding.stored(env, &key, value)?;
        values.push((key, value));
    }
    let native = view.native()?.clone();
    reached(env, &view.cache, async move { larder_host::write_many(&native, values, &options).await })
}

/// `add(view, key, value, options)`: whether it stored the value.
pub(crate) fn add<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    let options = options::of(env, given[3])?.for_write()?;
    let value = view.encoding.stored(env, &key, given[2])?;
    let add = |native: NativeView| async move { native.add_with(&key[..], value, &options).await };
    view.call(env, add, is_done)
}

/// `remove(view, key)`: whether there was a value.
pub(crate) fn remove<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    view.call(env, |native| async move { native.delete(&key[..]).await }, has_existed)
}

/// `removeMany(view, keys)`: how many values there were.
pub(crate) fn remove_many<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, keys) = (given[0].view(env)?, keys_of(env, given[1])?);
    let deletion = |native: NativeView| async move { native.delete_multi(slices(&keys)).await };
    view.call(env, deletion, |env, removed| {
        let removed = removed?;
        let existed = removed.existed.iter().filter(|existed| **existed).count();
        env.number(existed as f64)
    })
}

/// `expire(view, key)`: whether there was a value.
pub(crate) fn expire<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    view.call(env, |native| async move { native.expire(&key[..]).await }, has_existed)
}

/// `take(view, key)`: the value, which it removes, or `undefined`.
pub(crate) fn take<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    let answer = view.found(key.clone());
    view.call(
        env,
        |native| async move { native.take(&key[..]).await },
        move |env, taken: Outcome<_>| answer(env, taken?),
    )
}

/// `touch(view, key, options)`: whether there was a value.
pub(crate) fn touch<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    let policy = options::of(env, given[2])?.for_touch()?;
    view.call(env, |native| async move { native.touch(&key[..], policy).await }, is_done)
}

/// `ttl(view, key)`: the milliseconds for which the value is fresh, or `undefined`.
pub(crate) fn ttl<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    let ttl = |native: NativeView| async move { native.ttl(&key[..]).await };
    view.call(env, ttl, |env, ttl: Option<Duration>| {
        ttl.map_or_else(|| env.undefined(), |ttl| env.number(milliseconds(ttl)))
    })
}

/// `increment(view, key, by, initial, options)`: the sum. Without a value it stores `initial` if that is a number, and results in
/// `undefined` otherwise. A value that is no whole number, or too large a sum, is `false`.
pub(crate) fn increment<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let (view, key) = (given[0].view(env)?, bytes_of(env, given[1])?);
    let by = whole(env, given[2], "by")?;
    let initial = if given[3].is_undefined(env)? { None } else { Some(whole(env, given[3], "initial")?) };
    let options = options::of(env, given[4])?.for_write()?;
    let codec = view.encoding.codec.clone();
    let increment = |native: NativeView| async move {
        larder_host::increment(&native, &codec, &key, by, initial, &options).await
    };
    view.call(env, increment, |env, sum: Outcome<Sum>| match sum? {
        Sum::Is(sum) => env.integer(sum),
        Sum::NoValue => env.undefined(),
        Sum::NoNumber => env.boolean(false),
    })
}

/// A whole number of 64 bits.
fn whole<'s>(env: Env<'s>, value: Value<'s>, name: &str) -> Result<i64> {
    use crate::js::Kind;
    let number = match value.kind(env)? {
        Kind::Number => value.whole(env)?,
        Kind::BigInt => value.signed(env)?,
        _ => None,
    };
    number.ok_or_else(|| {
        Raised::of(
            ErrorClass::Option,
            format!("{name} is {}; it must be a whole number of 64 bits", value.shown(env)),
        )
    })
}

fn is_done<'s>(env: Env<'s>, done: Outcome<bool>) -> Result<Value<'s>> {
    env.boolean(done?)
}

fn has_existed<'s>(env: Env<'s>, removed: Outcome<Removal>) -> Result<Value<'s>> {
    env.boolean(removed?.existed)
}
