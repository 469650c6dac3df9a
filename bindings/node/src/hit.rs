//! The hit: a function of its own for each view, since a call of a method would look up what it belongs to.

use crate::cache::CacheHandle;
use crate::environment::Environment;
use crate::js::function::{Arguments, called};
use crate::js::reference::Dropped;
use crate::js::{Env, Value};
use crate::key::bytes_of;
use crate::object::{Encoding, Kept};
use crate::raised::{Failure, Result};
use larder_host::HostView;
use napi_sys::{napi_callback_info, napi_env, napi_value};
use std::rc::Rc;
use std::sync::Arc;

/// Texts up to this length, with some bytes to spare, are read without an allocation.
const SHORT_KEY_BYTES: usize = 256;

/// What a hit needs.
struct Hit {
    cache: Rc<CacheHandle>,
    view: Arc<HostView<Kept, Failure>>,
    encoding: Encoding,
    dropped: Arc<Dropped>,
}

/// `hitFunction(view)`: a function that takes a key, and returns the value in memory, or `undefined`.
pub(crate) fn hit_function<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let view = given[0].view(env)?;
    let hit = Hit {
        cache: view.cache.clone(),
        view: view.view.clone(),
        encoding: view.encoding.clone(),
        dropped: Environment::of(env)?.dropped().clone(),
    };
    // SAFETY: `hit` takes its data for a `Hit`.
    unsafe { env.closure("hit", self::hit, hit) }
}

unsafe extern "C" fn hit(raw: napi_env, info: napi_callback_info) -> napi_value {
    // SAFETY: Node calls this thread, and the data is that of `hit_function`.
    unsafe { called::<Hit, 1>(raw, info, |env, hit, [key]| hit.find(env, *key)) }
}

impl Hit {
    #[inline]
    fn find<'s>(&self, env: Env<'s>, key: Value<'s>) -> Result<Value<'s>> {
        let mut buffer = [0; SHORT_KEY_BYTES];
        match key.short_text(env, &mut buffer)? {
            Some(key) => self.find_bytes(env, key),
            None => self.find_bytes(env, &bytes_of(env, key)?),
        }
    }

    #[inline]
    fn find_bytes<'s>(&self, env: Env<'s>, key: &[u8]) -> Result<Value<'s>> {
        self.cache.host()?;
        if let Some(found) = self.view.get()?.hit(key)
            && let Some(value) = self.encoding.value(env, &self.dropped, &found, key)?
        {
            return Ok(value);
        }
        env.undefined()
    }
}
