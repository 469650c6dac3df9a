//! A view: hits are answered here, everything else is a call that may wait. Keys and values go in and out by their positions:
//! the modules in Ruby make hashes of them.

use crate::cache::{Node, node_of, reached};
use crate::call::run;
use crate::hit::hit;
use crate::key::bytes_of;
use crate::lease;
use crate::object::{Encoding, Stored};
use crate::options::{call_options, text};
use crate::raised::{Failure, Raised, Result};
use crate::ruby::data::data;
use crate::ruby::kept::Kept;
use crate::ruby::method::{Arguments, methods};
use crate::ruby::{Ruby, Value};
use crate::update;
use larder::{CacheError, Fetched, Removal, WriteOptions};
use larder_host::{
    CallOptions, ErrorClass, HostCodec, HostError, HostView, PrivateFormat, SignedView, Signer, StartError,
    Sum, UpdateStep, ViewOptions, increment as add_to, write_many,
};
use std::sync::Arc;

/// What an object of the class `View` has.
pub(crate) struct View {
    view: HostView<Kept, Failure>,
    pub(crate) node: Arc<Node>,
    pub(crate) encoding: Encoding,
    /// Whether all fetches load ahead.
    pub(crate) loads_ahead: bool,
}

data!(View: c"Larder::View");

pub(crate) type NativeView = larder::View<[u8], Stored, Failure>;

impl View {
    #[inline]
    pub(crate) fn native(&self) -> std::result::Result<&NativeView, StartError> {
        self.view.get()
    }

    /// Begins an update.
    pub(crate) fn update(
        &self,
        key: Vec<u8>,
        options: Option<WriteOptions>,
    ) -> std::result::Result<
        impl Future<Output = std::result::Result<UpdateStep<Kept, Failure>, HostError>> + Send + use<>,
        StartError,
    > {
        self.view.update(key, options)
    }

    /// A call of the native view with one key.
    fn call<'r, R, F>(
        &self,
        ruby: Ruby<'r>,
        key: Value<'r>,
        call: impl FnOnce(NativeView, Vec<u8>) -> F,
        answer: impl for<'a> FnOnce(Ruby<'a>, R) -> Result<Value<'a>> + Send + 'static,
    ) -> Result<Value<'r>>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        let (view, key) = (self.native()?.clone(), bytes_of(ruby, key)?);
        run(ruby, &self.node, call(view, key), answer)
    }
}

/// The bytes of the keys in an array.
pub(crate) fn keys_of<'r>(ruby: Ruby<'r>, keys: Value<'r>) -> Result<Vec<Vec<u8>>> {
    keys.elements(ruby)?.into_iter().map(|key| bytes_of(ruby, key)).collect()
}

pub(crate) fn slices(keys: &[Vec<u8>]) -> impl Iterator<Item = &[u8]> {
    keys.iter().map(Vec::as_slice)
}

/// The object of what was found under a key, or [`Ruby::missed`].
pub(crate) fn found_or_missed<'r>(
    ruby: Ruby<'r>,
    encoding: &Encoding,
    found: Option<&Stored>,
    key: &[u8],
) -> Result<Value<'r>> {
    let Some(found) = found else { return Ok(ruby.missed()) };
    Ok(encoding.object(ruby, found, key)?.unwrap_or_else(|| ruby.missed()))
}

/// `View._open(cache, name, schema, number, shared, codec, keys, options)`. `keys` are those that sign private values, which only a
/// view with `Marshal` has.
fn open<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let node = node_of(given.get(0))?;
    let name = text(ruby, given.get(1), "the name of a view")?;
    let schema = text(ruby, given.get(2), "the name of a schema")?;
    let number = given.get(3).to_i64().and_then(|number| u32::try_from(number).ok());
    let number =
        number.ok_or_else(|| Raised::new(ErrorClass::Option, "the number of a schema has 32 bits"))?;
    let codec = match given.get(6) {
        none if none.is_nil() => HostCodec::of_name(&text(ruby, given.get(5), "the name of a codec")?)?,
        keys => {
            let secrets =
                keys.elements(ruby)?.into_iter().map(|key| secret(key)).collect::<Result<Vec<_>>>()?;
            let (signer, shown) = (Signer::new(secrets)?, format!("{schema}/{number}"));
            let signed = SignedView { namespace: node.namespace(), view: &name, schema: &shown };
            HostCodec::private(PrivateFormat::Marshal, &signer, signed)
        }
    };
    let encoding = Encoding::new(codec.clone(), given.get(4).is_true(), node.host().max_value_bytes());
    let options = ViewOptions {
        name,
        schema: (schema, number),
        codec,
        objects: encoding.objects(),
        defaults: call_options(ruby, given.get(7))?,
    };
    let view = node.host().open_view(options)?;
    let loads_ahead = view.loads_ahead(&CallOptions::default());
    ruby.object(given.this, View { view, node: node.clone(), encoding, loads_ahead })
}

/// A key that signs. The message has nothing of it.
fn secret(key: Value<'_>) -> Result<Vec<u8>> {
    if key.is_string() {
        Ok(key.bytes())
    } else {
        Err(Raised::new(ErrorClass::Option, "a key that signs is no String"))
    }
}

/// `View#_read(key)`
fn read<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let view: &View = given.this.data()?;
    let (encoding, own) = (view.encoding.clone(), bytes_of(ruby, given.get(0))?);
    let read = |native: NativeView, key: Vec<u8>| async move { native.read(&key[..]).await };
    view.call(ruby, given.get(0), read, move |ruby, found: Option<Fetched<Stored>>| {
        found_or_missed(ruby, &encoding, found.as_deref(), &own)
    })
}

/// `View#_read_multi(keys)`: an array of the values.
fn read_multi<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let view: &View = given.this.data()?;
    let (native, keys) = (view.native()?.clone(), keys_of(ruby, given.get(0))?);
    let (encoding, own) = (view.encoding.clone(), keys.clone());
    let read = async move { native.read_multi(slices(&keys)).await };
    run(ruby, &view.node, read, move |ruby, found| {
        let values = ruby.array(&[])?;
        for (key, found) in own.iter().zip(found) {
            ruby.push(values, found_or_missed(ruby, &encoding, found.as_deref(), key)?)?;
        }
        Ok(values)
    })
}

/// `View#_exist(key)`
fn exist<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let exist = |native: NativeView, key: Vec<u8>| async move { native.exist(&key[..]).await };
    given.this.data::<View>()?.call(ruby, given.get(0), exist, |ruby, exists| Ok(ruby.boolean(exists)))
}

/// `View#_write(key, value, options)`
fn write<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let view: &View = given.this.data()?;
    let options = call_options(ruby, given.get(2))?.for_write()?;
    let (native, key) = (view.native()?.clone(), bytes_of(ruby, given.get(0))?);
    let value = view.encoding.stored(ruby, &key, given.get(1))?;
    reached(ruby, &view.node, async move { native.write_with(&key[..], value, &options).await })
}

/// `View#_write_multi(keys, values, options)`
fn write_multi<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let view: &View = given.this.data()?;
    let (native, options) = (view.native()?.clone(), call_options(ruby, given.get(2))?.for_write()?);
    let values = stored_of(ruby, &view.encoding, given.get(0), given.get(1))?;
    reached(ruby, &view.node, async move { write_many(&native, values, &options).await })
}

/// The stored forms of the values in an array, by the keys in another one.
pub(crate) fn stored_of<'r>(
    ruby: Ruby<'r>,
    encoding: &Encoding,
    keys: Value<'r>,
    values: Value<'r>,
) -> Result<Vec<(Vec<u8>, Stored)>> {
    let mut stored = Vec::new();
    for (key, value) in keys.elements(ruby)?.into_iter().zip(values.elements(ruby)?) {
        let key = bytes_of(ruby, key)?;
        let value = encoding.stored(ruby, &key, value)?;
        stored.push((key, value));
    }
    Ok(stored)
}

/// `View#_add(key, value, options)`: whether it stored the value.
fn add<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let view: &View = given.this.data()?;
    let options = call_options(ruby, given.get(2))?.for_write()?;
    let value = view.encoding.stored(ruby, &bytes_of(ruby, given.get(0))?, given.get(1))?;
    let add =
        |native: NativeView, key: Vec<u8>| async move { native.add_with(&key[..], value, &options).await };
    view.call(ruby, given.get(0), add, of_result)
}

/// `View#delete_with_reach(key)`
fn delete<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let delete = |native: NativeView, key: Vec<u8>| async move { native.delete(&key[..]).await };
    given.this.data::<View>()?.call(ruby, given.get(0), delete, of_removal)
}

/// `View#_expire(key)`
fn expire<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let expire = |native: NativeView, key: Vec<u8>| async move { native.expire(&key[..]).await };
    given.this.data::<View>()?.call(ruby, given.get(0), expire, of_removal)
}

/// `View#_delete_multi(keys)`, of an array that nobody changes: how many there were, and whether all nodes know.
fn delete_multi<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let view: &View = given.this.data()?;
    let (native, keys) = (view.native()?.clone(), keys_of(ruby, given.get(0))?);
    let deletion = async move { native.delete_multi(slices(&keys)).await };
    run(ruby, &view.node, deletion, |ruby, removed| {
        let removed: Removal<Vec<bool>> = removed?;
        let existed = removed.existed.iter().filter(|existed| **existed).count();
        ruby.array(&[ruby.count(existed as u64)?, ruby.boolean(removed.reach.is_everywhere())])
    })
}

/// `View#_take(key)`
fn take<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let view: &View = given.this.data()?;
    let (encoding, own) = (view.encoding.clone(), bytes_of(ruby, given.get(0))?);
    let take = |native: NativeView, key: Vec<u8>| async move { native.take(&key[..]).await };
    view.call(ruby, given.get(0), take, move |ruby, taken| {
        let taken: Option<Fetched<Stored>> = taken?;
        found_or_missed(ruby, &encoding, taken.as_deref(), &own)
    })
}

/// `View#_touch(key, options)`: whether there was a value.
fn touch<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let policy = call_options(ruby, given.get(1))?.for_touch()?;
    let touch = |native: NativeView, key: Vec<u8>| async move { native.touch(&key[..], policy).await };
    given.this.data::<View>()?.call(ruby, given.get(0), touch, of_result)
}

/// `View#ttl(key)`: the seconds for which a value is fresh, or `nil`.
fn ttl<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let ttl = |native: NativeView, key: Vec<u8>| async move { native.ttl(&key[..]).await };
    given.this.data::<View>()?.call(ruby, given.get(0), ttl, |ruby, ttl| match ttl {
        Some(ttl) => ruby.seconds(ttl),
        None => Ok(ruby.nil()),
    })
}

/// `View#_loads_ahead?`: whether all fetches do.
fn loads_ahead<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    Ok(ruby.boolean(given.this.data::<View>()?.loads_ahead))
}

/// `View#_increment(key, by, initial, options)`: the sum; `nil` without a value and `initial`.
fn increment<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let view: &View = given.this.data()?;
    let options = call_options(ruby, given.get(3))?.for_write()?;
    let by = number(ruby, "by", given.get(1))?;
    let initial = match given.get(2) {
        none if none.is_nil() => None,
        initial => Some(number(ruby, "initial", initial)?),
    };
    let codec = view.encoding.codec.clone();
    let change = |native: NativeView, key: Vec<u8>| async move {
        add_to(&native, &codec, &key, by, initial, &options).await.map(|sum| (sum, key))
    };
    view.call(ruby, given.get(0), change, |ruby, sum| match sum? {
        (Sum::Is(sum), _) => ruby.integer(sum),
        (Sum::NoValue, _) => Ok(ruby.nil()),
        (Sum::NoNumber, key) => {
            let key = String::from_utf8_lossy(&key);
            let message = format!("the value of key {key:?} is no integer, or the sum has more than 64 bits");
            Err(Raised::new(ErrorClass::Other, message))
        }
    })
}

fn number<'r>(ruby: Ruby<'r>, name: &str, value: Value<'r>) -> Result<i64> {
    match value.to_i64() {
        Some(number) => Ok(number),
        None => {
            let shown = value.shown(ruby)?;
            let message = format!("{name} is {shown}; it must be an Integer of 64 bits");
            Err(Raised::new(ErrorClass::Option, message))
        }
    }
}

fn of_result<'r>(ruby: Ruby<'r>, result: std::result::Result<bool, CacheError>) -> Result<Value<'r>> {
    Ok(ruby.boolean(result?))
}

/// Whether a value was there, and whether all nodes know that it is removed.
fn of_removal<'r>(ruby: Ruby<'r>, removed: std::result::Result<Removal, CacheError>) -> Result<Value<'r>> {
    let Removal { existed, reach } = removed?;
    ruby.array(&[ruby.boolean(existed), ruby.boolean(reach.is_everywhere())])
}

pub(crate) fn define(ruby: Ruby<'_>) -> Result<()> {
    let class = ruby.class(c"View")?;
    ruby.add_functions(class, methods![c"_open" => open, 8..=8])?;
    ruby.add_methods(
        class,
        methods![
            c"hit" => hit, 1..=2;
            c"_read" => read, 1..=1;
            c"_read_multi" => read_multi, 1..=1;
            c"exist?" => exist, 1..=1;
            c"_load" => lease::load, 1..=1;
            c"_bulk_load" => lease::bulk_load, 1..=1;
            c"_write" => write, 3..=3;
            c"_write_multi" => write_multi, 3..=3;
            c"_add" => add, 3..=3;
            c"delete_with_reach" => delete, 1..=1;
            c"_delete_multi" => delete_multi, 1..=1;
            c"_expire" => expire, 1..=1;
            c"_take" => take, 1..=1;
            c"_touch" => touch, 2..=2;
            c"ttl" => ttl, 1..=1;
            c"_increment" => increment, 4..=4;
            c"_update" => update::update, 1..=1;
            c"_loads_ahead?" => loads_ahead, 0..=0;
        ],
    )
}
