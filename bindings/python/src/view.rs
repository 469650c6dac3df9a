//! A view: hits are answered here, everything else is a call that the modules in Python wait for.

use crate::cache::{Cache, reached};
use crate::call::Call;
use crate::key::bytes_of;
use crate::lease::{BulkKeys, Lease, bulk_answer};
use crate::object::{Encoding, Value};
use crate::options;
use crate::raised::{Failure, of_fetch, of_host};
use larder::{CacheError, FetchError, Fetched, Removal};
use larder_host::{
    AheadHit, CallOptions, HostCodec, HostLeased, HostView, Objects, PrivateFormat, SignedView, Signer, Sum,
    ViewOptions, hit_ahead,
};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::collections::HashMap;
use std::sync::Arc;

/// Values of one kind.
#[pyclass(frozen, subclass, module = "larder_cache")]
pub(crate) struct View {
    view: HostView<Py<PyAny>, Failure>,
    encoding: Arc<Encoding>,
    /// Whether all fetches load ahead.
    #[pyo3(get, name = "_loads_ahead")]
    loads_ahead: bool,
}

type NativeView = larder::View<[u8], Value, Failure>;
/// A value, or the right to load it.
type Leased = HostLeased<Py<PyAny>, Failure>;

/// How many times larger than its bytes an object is that is kept, where only those that cannot change are.
const IMMUTABLE_FACTOR: u32 = 1;

impl View {
    fn native(&self) -> PyResult<&NativeView> {
        self.view.get().map_err(of_host)
    }

    /// The value in memory, if it is there and can be read.
    fn find<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(found) = self.native()?.hit(key) else { return Ok(None) };
        self.encoding.object(py, &found, key)
    }

    /// A call of the native view with one key.
    fn call<R, F>(
        &self,
        key: &Bound<'_, PyAny>,
        call: impl FnOnce(NativeView, Vec<u8>) -> F,
        answer: impl for<'py> FnOnce(Python<'py>, R) -> PyResult<Bound<'py, PyAny>> + Send + 'static,
    ) -> PyResult<Call>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        let (view, key) = (self.native()?.clone(), bytes_of(key)?.into_owned());
        Ok(Call::new(self.view.cache(), call(view, key), answer))
    }

    /// Makes what a lease results in: the value, a [`Lease`], or `NotImplemented` for a value that Python cannot read.
    fn leased(
        &self,
        key: Vec<u8>,
    ) -> impl for<'py> FnOnce(Python<'py>, Result<Leased, FetchError<Failure>>) -> PyResult<Bound<'py, PyAny>>
    + Send
    + use<> {
        let (encoding, cache) = (self.encoding.clone(), self.view.cache().clone());
        move |py, leased| match leased {
            Ok(HostLeased::Hit(found)) => {
                Ok(encoding.object(py, &found, &key)?.unwrap_or_else(|| py.NotImplemented().into_bound(py)))
            }
            Ok(HostLeased::Lead(load)) => {
                Ok(Bound::new(py, Lease::new(load, key, encoding, cache))?.into_any())
            }
            Err(error) => Err(of_fetch(py, &error)),
        }
    }

    /// Several keys, each once.
    fn keys(&self, keys: &Bound<'_, PyAny>) -> PyResult<Arc<BulkKeys>> {
        let (mut bytes, mut objects) = (Vec::new(), HashMap::new());
        for key in keys.try_iter()? {
            let key = key?;
            let own = bytes_of(&key)?.into_owned();
            if objects.insert(own.clone(), key.unbind()).is_none() {
                bytes.push(own);
            }
        }
        Ok(Arc::new(BulkKeys { bytes, objects, encoding: self.encoding.clone() }))
    }
}

#[pymethods]
impl View {
    /// With the name of the codec are the keys that sign private values, which only a view with pickle has.
    #[new]
    #[pyo3(signature = (cache, name, schema, shared, codec, options))]
    fn new(
        py: Python<'_>,
        cache: &Cache,
        name: String,
        schema: (String, u32),
        shared: bool,
        codec: (String, Option<Vec<Vec<u8>>>),
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let defaults = options::of(Some(options))?;
        let encoding = match codec.1 {
            None => {
                let codec = HostCodec::of_name(&codec.0).map_err(of_host)?;
                Encoding::of_all_languages(codec, shared, cache.host().max_value_bytes())
            }
            Some(keys) => {
                let signer = Signer::new(keys).map_err(of_host)?;
                let shown = format!("{}/{}", schema.0, schema.1);
                let signed = SignedView { namespace: cache.namespace_name(), view: &name, schema: &shown };
                let codec = HostCodec::private(PrivateFormat::Pickle, &signer, signed);
                Encoding::pickle(py, codec, shared, cache.host().max_value_bytes())?
            }
        };
        let objects = if shared { Objects::kept() } else { Objects::Kept { factor: IMMUTABLE_FACTOR } };
        let options = ViewOptions { name, schema, codec: encoding.codec.clone(), objects, defaults };
        let view = cache.host().open_view(options).map_err(of_host)?;
        let loads_ahead = view.loads_ahead(&CallOptions::default());
        Ok(View { view, encoding: Arc::new(encoding), loads_ahead })
    }

    /// The value in memory, or `default`: never waits.
    #[pyo3(signature = (key, default = None))]
    fn hit<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, &bytes_of(key)?)?.or(default))
    }

    /// A call that results in the value, or in `default`.
    fn _read(&self, key: &Bound<'_, PyAny>, default: Py<PyAny>) -> PyResult<Call> {
        let encoding = self.encoding.clone();
        let own = bytes_of(key)?.into_owned();
        let read = |view: NativeView, key: Vec<u8>| async move { view.read(&key[..]).await };
        self.call(key, read, move |py, found: Option<Fetched<Value>>| {
            let Some(found) = found else { return Ok(default.into_bound(py)) };
            Ok(encoding.object(py, &found, &own)?.unwrap_or_else(|| default.into_bound(py)))
        })
    }

    /// A call that results in a dictionary of the values that are there.
    fn _read_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<Call> {
        let (view, keys) = (self.native()?.clone(), self.keys(keys)?);
        let read = {
            let keys = keys.clone();
            async move { view.read_multi(keys.bytes.iter().map(Vec::as_slice)).await }
        };
        Ok(Call::new(self.view.cache(), read, move |py, found| Ok(keys.dict(py, found)?.into_any())))
    }

    /// The value in memory, or `default`. If the value is due, and these options or those of the view want that it is loaded ahead,
    /// it is a call that results as that of `_lease`.
    #[pyo3(signature = (key, default, options = None))]
    fn _hit_ahead<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (options, key) = (options::of(options)?, bytes_of(key)?.into_owned());
        let found = if !self.view.loads_ahead(&options) {
            self.find(py, &key)?
        } else {
            match hit_ahead(self.native()?, &self.encoding.codec, &key, &options) {
                AheadHit::Missed => None,
                AheadHit::Found(found) => self.encoding.object(py, &found, &key)?,
                AheadHit::Due(due) => {
                    let answer = self.leased(key);
                    let call = Call::new(self.view.cache(), due.lead(), |py, leased| answer(py, Ok(leased)));
                    return Ok(Bound::new(py, call)?.into_any());
                }
            }
        };
        Ok(found.unwrap_or(default))
    }

    /// A call that results in the value, or in a [`Lease`].
    #[pyo3(signature = (key, options = None))]
    fn _lease(&self, key: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Call> {
        let options = options::of(options)?;
        let (answer, codec) = (self.leased(bytes_of(key)?.into_owned()), self.encoding.codec.clone());
        let lease = |view: NativeView, key: Vec<u8>| async move {
            larder_host::lease(&view, &codec, &key, &options).await
        };
        self.call(key, lease, answer)
    }

    /// A call that results in a dictionary, or in the right to load some of its keys.
    #[pyo3(signature = (keys, options = None))]
    fn _lease_many(&self, keys: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Call> {
        let options = options::of(options)?;
        let (view, keys) = (self.native()?.clone(), self.keys(keys)?);
        let lease = {
            let keys = keys.clone();
            async move { larder_host::lease_many(&view, &keys.bytes, &options).await }
        };
        let cache = self.view.cache().clone();
        Ok(Call::new(self.view.cache(), lease, move |py, leased| bulk_answer(py, leased, keys, cache)))
    }

    #[pyo3(signature = (key, value, options = None))]
    fn _write(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Call> {
        let options = options::of(options)?.for_write().map_err(of_host)?;
        let (view, key) = (self.native()?.clone(), bytes_of(key)?.into_owned());
        let value = self.encoding.value(&key, value)?;
        Ok(reached(self.view.cache(), async move { view.write_with(&key[..], value, &options).await }))
    }

    #[pyo3(signature = (values, options = None))]
    fn _write_many(&self, values: &Bound<'_, PyDict>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Call> {
        let options = options::of(options)?.for_write().map_err(of_host)?;
        let view = self.native()?.clone();
        let mut encoded = Vec::with_capacity(values.len());
        for (key, value) in values {
            let key = bytes_of(&key)?.into_owned();
            let value = self.encoding.value(&key, &value)?;
            encoded.push((key, value));
        }
        Ok(reached(self.view.cache(), async move { larder_host::write_many(&view, encoded, &options).await }))
    }

    /// A call that results in whether it stored the value.
    #[pyo3(signature = (key, value, options = None))]
    fn _add(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Call> {
        let options = options::of(options)?.for_write().map_err(of_host)?;
        let value = self.encoding.value(&bytes_of(key)?, value)?;
        let add =
            |view: NativeView, key: Vec<u8>| async move { view.add_with(&key[..], value, &options).await };
        self.call(key, add, of_result)
    }

    fn _delete(&self, key: &Bound<'_, PyAny>) -> PyResult<Call> {
        let delete = |view: NativeView, key: Vec<u8>| async move { view.delete(&key[..]).await };
        self.call(key, delete, of_removal)
    }

    fn _expire(&self, key: &Bound<'_, PyAny>) -> PyResult<Call> {
        let expire = |view: NativeView, key: Vec<u8>| async move { view.expire(&key[..]).await };
        self.call(key, expire, of_removal)
    }

    /// A call that results in how many were there, and whether all nodes know.
    fn _delete_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<Call> {
        let (view, keys) = (self.native()?.clone(), self.keys(keys)?);
        let deletion = async move { view.delete_multi(keys.bytes.iter().map(Vec::as_slice)).await };
        Ok(Call::new(self.view.cache(), deletion, |py, removed| {
            let removed = removed.map_err(of_host)?;
            let existed = removed.existed.iter().filter(|existed| **existed).count();
            (existed, removed.reach.is_everywhere()).into_bound_py_any(py)
        }))
    }

    /// A call that removes the value and results in it, or in `default`.
    fn _take(&self, key: &Bound<'_, PyAny>, default: Py<PyAny>) -> PyResult<Call> {
        let encoding = self.encoding.clone();
        let own = bytes_of(key)?.into_owned();
        let take = |view: NativeView, key: Vec<u8>| async move { view.take(&key[..]).await };
        self.call(key, take, move |py, taken: Result<Option<Fetched<Value>>, CacheError>| {
            let Some(found) = taken.map_err(of_host)? else {
                return Ok(default.into_bound(py));
            };
            Ok(encoding.object(py, &found, &own)?.unwrap_or_else(|| default.into_bound(py)))
        })
    }

    /// A call that results in an [`Update`](crate::update::Update) to decide about, or in the value at its end.
    #[pyo3(signature = (key, default, options))]
    fn _update(
        &self,
        key: &Bound<'_, PyAny>,
        default: Py<PyAny>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Call> {
        let key = bytes_of(key)?.into_owned();
        let options = options::of(Some(options))?.for_update().map_err(of_host)?;
        let step = self.view.update(key.clone(), options).map_err(of_host)?;
        Ok(crate::update::begin((self.view.cache(), &self.encoding), key, default, step))
    }

    /// A call that gives a value another lifetime and results in whether it was there.
    #[pyo3(signature = (key, options = None))]
    fn _touch(&self, key: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Call> {
        let policy = options::of(options)?.for_touch().map_err(of_host)?;
        let touch = |view: NativeView, key: Vec<u8>| async move { view.touch(&key[..], policy).await };
        self.call(key, touch, of_result)
    }

    /// A call that results in the seconds for which a value is fresh, or in `None`.
    fn _ttl(&self, key: &Bound<'_, PyAny>) -> PyResult<Call> {
        let ttl = |view: NativeView, key: Vec<u8>| async move { view.ttl(&key[..]).await };
        self.call(key, ttl, |py, ttl: Option<std::time::Duration>| {
            ttl.map(|ttl| ttl.as_secs_f64()).into_bound_py_any(py)
        })
    }

    /// A call that adds to a number, and results in the sum. Without a value it stores `initial`, if there is one, and results
    /// in `None` otherwise. A value that is no number, or too large a sum, is `False`.
    #[pyo3(signature = (key, by, initial = None, options = None))]
    fn _increment(
        &self,
        key: &Bound<'_, PyAny>,
        by: i64,
        initial: Option<i64>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Call> {
        let options = options::of(options)?.for_write().map_err(of_host)?;
        let codec = self.encoding.codec.clone();
        let increment = |view: NativeView, key: Vec<u8>| async move {
            larder_host::increment(&view, &codec, &key, by, initial, &options).await
        };
        self.call(key, increment, |py, sum| match sum.map_err(|error: CacheError| of_host(error))? {
            Sum::Is(sum) => sum.into_bound_py_any(py),
            Sum::NoValue => Ok(py.None().into_bound(py)),
            Sum::NoNumber => false.into_bound_py_any(py),
        })
    }
}

fn of_result(py: Python<'_>, result: Result<bool, CacheError>) -> PyResult<Bound<'_, PyAny>> {
    result.map_err(of_host)?.into_bound_py_any(py)
}

/// Whether a value was there, and whether all nodes know that it is removed.
fn of_removal(py: Python<'_>, removed: Result<Removal, CacheError>) -> PyResult<Bound<'_, PyAny>> {
    let removed = removed.map_err(of_host)?;
    let answer = PyTuple::new(py, [removed.existed, removed.reach.is_everywhere()])?;
    Ok(answer.into_any())
}
