//! Values: terms, and the bytes of them.

mod read;
mod write;

use crate::erl::nif::Call;
use crate::erl::{Env, SavedTerm, Term, atom};
use crate::raised::{Raised, Result};
use larder_host::profile::{Reason, Refused};
use larder_host::{ErrorClass, HostCodec, HostValue, Objects, Payload};

/// A value in the tiers, with a term beside it.
pub(crate) type Stored = HostValue<SavedTerm>;

/// How many bytes are encoded or decoded on a thread that runs processes. More take a thread for long work.
const QUICK_BYTES: usize = 32 << 10;
/// Work from which on a process has used a part of its time.
const NOTED_BYTES: usize = 1 << 10;
/// Values with fewer bytes are decoded at each hit: the memory of a term of its own would be much larger than they are.
const MIN_KEPT_BYTES: usize = 128;
/// The memory of a term of its own beside what the term takes.
const KEPT_BYTES: u64 = 1_200;
/// How many times larger than its bytes a term is: small numbers take 16 bytes in a list, and most maps 5 to 7 times their bytes.
const KEPT_FACTOR: u64 = 7;

/// How a view reads and writes its values.
#[derive(Clone, Debug)]
pub(crate) struct Encoding {
    pub(crate) codec: HostCodec,
    max_bytes: usize,
}

/// How many bytes a call may still encode where it runs.
pub(crate) struct Room(usize);

impl Room {
    pub(crate) fn of(call: &Call<'_, '_>) -> Self {
        Room(if call.may_take_long { usize::MAX } else { QUICK_BYTES })
    }

    /// Notes what a value has taken: its bytes, and what a call of many values does for each.
    fn take(&mut self, bytes: usize) {
        const EACH: usize = 64;
        self.0 = self.0.saturating_sub(bytes + EACH);
    }
}

impl Encoding {
    /// What entries weigh beside their bytes.
    pub(crate) fn objects(codec: &HostCodec) -> Objects {
        // A private value has a byte before what was encoded.
        if codec.is_private() {
            Objects::Weighed(|bytes| kept_weight(bytes.get(1..).unwrap_or_default()))
        } else {
            Objects::Weighed(kept_weight)
        }
    }

    pub(crate) fn new(codec: HostCodec, max_bytes: usize) -> Self {
        Encoding { codec, max_bytes }
    }

    /// The stored form of a value, for the entry of a key. A private view gets most values in the external format already.
    pub(crate) fn stored(&self, key: &[u8], value: Term<'_>, room: &mut Room) -> Result<Stored> {
        let limit = self.max_bytes.min(room.0);
        if self.codec.is_private()
            && let Some([tag, bytes]) = value.tuple()
            && tag.is(&atom::EXTERNAL)
        {
            let bytes = bytes.bytes().ok_or_else(|| Raised::fault("the external format is a binary"))?;
            if bytes.len() > limit {
                return Err(self.too_long(key, bytes.len(), room));
            }
            room.take(bytes.len());
            return Ok(self.codec.private_value(key, bytes));
        }
        match write::message_pack(value, limit, self.codec.encoder(limit)) {
            Ok(bytes) => {
                room.take(bytes.len());
                Ok(self.codec.message_pack_value(key, bytes))
            }
            Err(Refused { reason: Reason::TooLong { .. }, .. }) if limit < self.max_bytes => {
                Err(Raised::TooLong)
            }
            Err(refused) => {
                let key = String::from_utf8_lossy(key);
                let message = format!("the value of key {key:?} cannot be written: {refused}");
                Err(Raised::new(ErrorClass::Encode, message))
            }
        }
    }

    fn too_long(&self, key: &[u8], bytes: usize, room: &Room) -> Raised {
        if bytes <= self.max_bytes && room.0 < bytes {
            return Raised::TooLong;
        }
        let (key, limit) = (String::from_utf8_lossy(key), self.max_bytes);
        let message = format!(
            "the value of key {key:?} cannot be written: it has {bytes} bytes, and at most {limit} are stored"
        );
        Raised::new(ErrorClass::Encode, message)
    }

    /// The value that was found under a key. `None`, as if it were not there, if Elixir has none like it.
    #[inline]
    pub(crate) fn value<'e>(&self, env: Env<'e>, stored: &Stored, key: &[u8]) -> Option<Term<'e>> {
        let payload = self.codec.payload(stored, key)?;
        match stored.object() {
            Some(saved) => Some(saved.copy_to(env)),
            None => read(env, stored, payload),
        }
    }

    /// The same within a call of a process, which may have to be made again.
    #[inline]
    pub(crate) fn value_here<'e>(
        &self,
        call: &Call<'_, 'e>,
        stored: &Stored,
        key: &[u8],
    ) -> Result<Option<Term<'e>>> {
        let work = self.work(stored, key);
        if work > NOTED_BYTES && !call.may_take_long {
            if work > QUICK_BYTES {
                return Err(Raised::TooLong);
            }
            call.env.consume_timeslice(work * 100 / QUICK_BYTES);
        }
        Ok(self.value(call.env, stored, key))
    }

    /// The bytes to decode or to copy for a value. Those of one text are copied together, and once they are kept not at all.
    #[inline]
    pub(crate) fn work(&self, stored: &Stored, key: &[u8]) -> usize {
        /// How much faster one large copy is than many small terms.
        const COPIED_AT_ONCE: usize = 64;
        match self.codec.payload(stored, key) {
            Some(Payload::MessagePack(bytes)) if is_binary(bytes) => match stored.object() {
                Some(_) => 0,
                None => bytes.len() / COPIED_AT_ONCE,
            },
            Some(Payload::MessagePack(bytes) | Payload::Private(bytes)) => bytes.len(),
            None => 0,
        }
    }

    /// Whether so much work may be done on a thread that runs processes.
    pub(crate) fn is_quick(work: usize) -> bool {
        work <= QUICK_BYTES
    }
}

/// Whether some MessagePack is one text, or bytes.
fn is_binary(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(0xa0..=0xbf | 0xc4..=0xc6 | 0xd9..=0xdb))
}

/// The memory of the term that is kept for these bytes.
fn kept_weight(bytes: &[u8]) -> u64 {
    let length = bytes.len() as u64;
    match bytes.len() {
        ..MIN_KEPT_BYTES => 0,
        _ if is_binary(bytes) => KEPT_BYTES + length,
        _ => KEPT_BYTES + length.saturating_mul(KEPT_FACTOR),
    }
}

#[inline(never)]
fn read<'e>(env: Env<'e>, stored: &Stored, payload: Payload<'_>) -> Option<Term<'e>> {
    let (term, bytes) = match payload {
        Payload::MessagePack(bytes) => (read::message_pack(env, bytes)?, bytes),
        Payload::Private(bytes) => (env.of_external(bytes)?, bytes),
    };
    if bytes.len() >= MIN_KEPT_BYTES {
        stored.keep(SavedTerm::new(term));
    }
    Some(term)
}
