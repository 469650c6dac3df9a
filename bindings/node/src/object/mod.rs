//! Values: those of JavaScript and the bytes of them.

mod read;
mod write;

use crate::js::reference::{Dropped, Reference};
use crate::js::{Env, Kind, Value};
use crate::raised::{Raised, Result};
use larder_host::{ErrorClass, HostCodec, HostValue};
use std::sync::{Arc, OnceLock};

/// A value in the tiers, with an object of JavaScript beside it.
pub(crate) type Stored = HostValue<Kept>;

/// The objects of a value, one for each environment that has asked for it.
#[derive(Debug)]
pub(crate) struct Kept {
    object: Reference,
    next: OnceLock<Box<Kept>>,
}

impl Kept {
    fn new(object: Reference) -> Self {
        Kept { object, next: OnceLock::new() }
    }

    /// That of the environment which has this.
    #[inline]
    fn find(&self, dropped: &Arc<Dropped>) -> Option<&Reference> {
        let mut kept = self;
        while !kept.object.is_of(dropped) {
            kept = kept.next.get()?;
        }
        Some(&kept.object)
    }

    /// Adds one behind all others.
    fn add(&self, object: Reference) {
        let mut added = Some(Box::new(Kept::new(object)));
        let mut last = self;
        while let Some(kept) = added.take() {
            let mut kept = Some(kept);
            last = last.next.get_or_init(|| kept.take().expect("this runs once"));
            // Another thread was faster.
            added = kept;
        }
    }
}

/// How a view reads and writes its values.
#[derive(Clone)]
pub(crate) struct Encoding {
    pub(crate) codec: HostCodec,
    /// Whether all hits of an environment share one object, which is frozen.
    is_shared: bool,
    max_bytes: usize,
}

impl Encoding {
    pub(crate) fn new(codec: HostCodec, is_shared: bool, max_bytes: usize) -> Self {
        Encoding { codec, is_shared, max_bytes }
    }

    /// The stored form of a value, for the entry of a key.
    pub(crate) fn stored<'s>(&self, env: Env<'s>, key: &[u8], value: Value<'s>) -> Result<Stored> {
        match write::message_pack(env, value, self.codec.encoder(self.max_bytes)) {
            Ok(bytes) => Ok(self.codec.value(key, bytes)),
            Err(write::WriteError::Raised(raised)) => Err(raised),
            Err(write::WriteError::Refused(refused)) => {
                let key = String::from_utf8_lossy(key);
                Err(Raised::of(
                    ErrorClass::Encode,
                    format!("the value of key {key:?} cannot be written: {refused}"),
                ))
            }
        }
    }

    /// The value that was found under a key. `None`, as if it were not there, if JavaScript has none like it.
    #[inline]
    pub(crate) fn value<'s>(
        &self,
        env: Env<'s>,
        dropped: &Arc<Dropped>,
        stored: &Stored,
        key: &[u8],
    ) -> Result<Option<Value<'s>>> {
        if let Some(object) = stored.object().and_then(|kept| kept.find(dropped)) {
            return object.value_here(env).map(Some);
        }
        self.read(env, dropped, stored, key)
    }

    fn read<'s>(
        &self,
        env: Env<'s>,
        dropped: &Arc<Dropped>,
        stored: &Stored,
        key: &[u8],
    ) -> Result<Option<Value<'s>>> {
        let Some(payload) = stored.payload(key) else { return Ok(None) };
        let value = match read::message_pack(env, payload, self.is_shared) {
            Ok(value) => value,
            Err(Raised::Larder { class: ErrorClass::Encode, .. }) => return Ok(None),
            Err(raised) => return Err(raised),
        };
        // Texts and numbers cannot be referred to, and cost little to make.
        if self.is_shared && value.kind(env)? == Kind::Object {
            dropped.delete(env);
            let object = Reference::new(env, dropped, value)?;
            let kept = stored.keep(Kept::new(object.clone()));
            if kept.find(dropped).is_none() {
                kept.add(object);
            }
        }
        Ok(Some(value))
    }
}
