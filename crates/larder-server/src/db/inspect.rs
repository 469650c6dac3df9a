//! What the keyspace has under a name, for tools that explain it.

use std::time::Duration;

use super::{DATABASE_COUNT, Store, encoding};
use crate::system::Moment;

/// An entry at one moment; see [`Store::inspect`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyInspection {
    /// The number of its database.
    pub database: u8,
    /// The representation of its value, as `OBJECT ENCODING` names it.
    pub encoding: &'static str,
    /// The bytes that it is charged, as `MEMORY USAGE` returns them.
    pub charged_bytes: u64,
    /// The rest of its time to live; `None` if it does not expire.
    pub ttl: Option<Duration>,
}

impl Store {
    /// The entries of this name in all databases. The policy does not learn of it.
    ///
    /// Cost: a few lookups in each of the 16 databases.
    #[must_use]
    pub fn inspect(&self, name: &[u8]) -> Vec<KeyInspection> {
        self.advance_to(Moment::now());
        (0..DATABASE_COUNT as u8).filter_map(|database| self.inspect_in(database, name)).collect()
    }

    /// `None` also if the entry is removed between two lookups.
    fn inspect_in(&self, database: u8, name: &[u8]) -> Option<KeyInspection> {
        let db = self.database(database);
        let deadline = db.deadline(name)?;
        let rest =
            |deadline: i64| Duration::from_millis(deadline.saturating_sub(self.now_ms()).max(0) as u64);
        Some(KeyInspection {
            database,
            encoding: db.peek(name, encoding)?,
            charged_bytes: db.charge(name)?,
            ttl: deadline.map(rest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Expiry;

    #[test]
    fn inspection_finds_a_name_in_every_database() {
        let store = Store::new(Some(1 << 20)).unwrap();
        assert_eq!(store.inspect(b"key"), []);
        store.database(0).set(b"key", b"12", Expiry::Never).unwrap();
        let deadline = store.now_ms() + 60_000;
        store.database(3).set(b"key", b"text", Expiry::At(deadline)).unwrap();
        let found = store.inspect(b"key");
        assert_eq!(
            found.iter().map(|entry| (entry.database, entry.encoding)).collect::<Vec<_>>(),
            [(0, "int"), (3, "embstr")]
        );
        assert_eq!(found[0].ttl, None);
        let ttl = found[1].ttl.unwrap();
        assert!(ttl <= Duration::from_secs(60) && ttl > Duration::from_secs(30), "{ttl:?}");
        assert!(found.iter().all(|entry| entry.charged_bytes > 5));
    }
}
