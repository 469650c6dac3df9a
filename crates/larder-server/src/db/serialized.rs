//! Values in the form of `DUMP` and `RESTORE`.

use super::object::Object;
use super::{Database, Key, Record, Store, collections};
use crate::values::rdb::{self, RdbError, Restored};

impl Store {
    /// A record with a value from its serialized form. It is at most as long as all memory.
    pub(crate) fn restored(&self, key: Key<'_>, payload: &[u8]) -> Result<Record, RdbError> {
        let most = usize::try_from(self.max_memory()).unwrap_or(usize::MAX);
        let value = rdb::restore(payload, most)?;
        Ok(self.database(key.space).restored_record(key.name, value))
    }
}

impl Object {
    /// The serialized form; `None` of a hash whose fields have all expired at this time.
    pub(super) fn dump(&self, now: i64) -> Option<Vec<u8>> {
        match self {
            Object::Hash(hash) => (hash.len(now) > 0).then(|| rdb::dump_hash(hash, now)),
            Object::List(list) => Some(rdb::dump_list(list)),
            Object::Set(set) => Some(rdb::dump_set(set)),
            Object::SortedSet(set) => Some(rdb::dump_sorted_set(set)),
            Object::Stream(stream) => Some(rdb::dump_stream(stream)),
        }
    }
}

impl Database<'_> {
    /// The serialized form of a value that is not a string. This counts as a use of the entry. Cost: all members, under the
    /// lock of the key.
    pub(crate) fn dump_object(&self, name: &[u8]) -> Option<Vec<u8>> {
        let now = self.now_ms();
        self.read(name, |record| record.object()?.dump(now)).flatten()
    }

    /// A record of `name` with a value from its serialized form.
    pub(crate) fn restored_record(&self, name: &[u8], value: Restored) -> Record {
        match value {
            Restored::String(value) => self.record(name, &[&value]),
            Restored::Shared(value) => Record::with_value(self.key(name), value),
            Restored::Hash(hash) => self.hash_record(name, hash),
            Restored::List(list) => collections::record(self.key(name), list),
            Restored::Set(set) => collections::record(self.key(name), set),
            Restored::SortedSet(set) => collections::record(self.key(name), set),
            Restored::Stream(stream) => collections::record(self.key(name), stream),
        }
    }
}
