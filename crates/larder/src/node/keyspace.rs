//! The names of a cache: its namespace and views, the keys of entries in both tiers, the channel and the ledger.

use crate::key::glob::Glob;
use crate::key::{KeyBuf, MemoryKey, MemoryKeyRef};
use crate::value::format::Id;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Keyspace {
    namespace: String,
    /// The channel of the announcements.
    pub(crate) channel: Vec<u8>,
    /// The key of the ledger.
    pub(crate) ledger: Vec<u8>,
    /// The prefix of the markers, which tell how old a restored copy of the data is.
    pub(crate) marker: Vec<u8>,
    /// The prefix of the keys of leases by which values are loaded again.
    reloads: Vec<u8>,
    views: RwLock<ViewNames>,
}

/// The names of all views that the process has made. They stay: entries in memory have the numbers.
#[derive(Debug, Default)]
struct ViewNames {
    /// By number.
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Keyspace {
    /// `database` separates databases that share their channels. No view has an empty name, so neither the channel nor the
    /// ledger nor a marker nor a lease of a reload is the key of an entry.
    pub(crate) fn new(namespace: &str, database: &str) -> Self {
        Keyspace {
            namespace: namespace.to_owned(),
            channel: format!("{namespace}::news:{database}").into_bytes(),
            ledger: format!("{namespace}::ledger").into_bytes(),
            marker: format!("{namespace}::marker:").into_bytes(),
            reloads: format!("{namespace}::reload:").into_bytes(),
            views: RwLock::default(),
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether a key in Redis is one of the namespace.
    pub(crate) fn has(&self, redis_key: &[u8]) -> bool {
        redis_key.strip_prefix(self.namespace.as_bytes()).is_some_and(|rest| rest.starts_with(b":"))
    }

    /// The prefix of all Redis keys.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        [self.namespace.as_bytes(), b":"].concat()
    }

    /// The number of a view; a name that is new gets the next one.
    pub(crate) fn view_number(&self, name: &str) -> u32 {
        if let Some(number) = self.views.read().numbers.get(name) {
            return *number;
        }
        let mut views = self.views.write();
        if let Some(number) = views.numbers.get(name) {
            return *number;
        }
        let (number, name) = (views.names.len() as u32, Arc::<str>::from(name));
        views.names.push(name.clone());
        views.numbers.insert(name, number);
        number
    }

    pub(crate) fn redis_key(&self, view: &str, key: &KeyBuf) -> Vec<u8> {
        let parts = [self.namespace.as_bytes(), b":", view.as_bytes(), b":", key.as_bytes()];
        let mut redis_key = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| redis_key.extend_from_slice(part));
        redis_key
    }

    /// The key in memory of a key in Redis, if this node has the view.
    pub(crate) fn memory_key_of(&self, redis_key: &[u8]) -> Option<MemoryKey> {
        let rest = redis_key.strip_prefix(self.namespace.as_bytes())?.strip_prefix(b":")?;
        let colon = rest.iter().position(|byte| *byte == b':')?;
        let (view, bytes) = (&rest[..colon], &rest[colon + 1..]);
        let view = *self.views.read().numbers.get(str::from_utf8(view).ok()?)?;
        Some(MemoryKeyRef { view, bytes }.into_owned())
    }

    /// The key in Redis of a key in memory.
    pub(crate) fn redis_key_of(&self, key: &MemoryKey) -> Vec<u8> {
        let MemoryKeyRef { view, bytes } = key.borrow();
        let views = self.views.read();
        let view = views.names.get(view as usize).map_or("", |name| name);
        [self.namespace.as_bytes(), b":", view.as_bytes(), b":", bytes].concat()
    }

    /// The key of the lease of the load that replaces the value with this id.
    pub(crate) fn reload_lease(&self, replaced: Id) -> Vec<u8> {
        [&self.reloads[..], format!("{:032x}", u128::from_be_bytes(replaced.0)).as_bytes()].concat()
    }

    /// A glob over Redis keys from a pattern over their names without the namespace, `view:key`.
    pub(crate) fn glob(&self, pattern: &str) -> Glob {
        Glob::new((larder_glob::escape(&self.namespace) + ":" + pattern).into_bytes())
    }

    /// Whether this is no key of an entry, but one of the cache's own.
    pub(crate) fn is_own(&self, redis_key: &[u8]) -> bool {
        let prefixes = [&self.marker, &self.reloads, &self.channel];
        redis_key == self.ledger || prefixes.iter().any(|prefix| redis_key.starts_with(prefix))
    }
}
