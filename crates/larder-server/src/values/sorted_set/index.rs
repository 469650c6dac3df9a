//! The index of a sorted set: from the hash of a name to the handle of its member.
//!
//! A hash table that doubles moves all its entries at once, which takes tens of milliseconds for a million of them, under
//! the lock of the set. So the index is many tables, and grows by splitting one of them at a time (Witold Litwin, "Linear
//! Hashing: A New Tool for File and Table Addressing", VLDB 1980): no insertion moves more than a few thousand entries.

use hashbrown::HashTable;

use super::members::Handle;

/// One more entry per table, and a table is split.
const MAX_MEAN_ENTRIES: usize = 3_072;
/// One entry fewer per table, and two tables are joined.
const MIN_MEAN_ENTRIES: usize = 512;

#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Never empty. Entries of the same table have the same low bits in the upper half of their hashes.
    tables: Vec<HashTable<Handle>>,
    len: usize,
    /// The memory of all tables.
    table_bytes: usize,
}

impl Index {
    pub(super) fn new() -> Self {
        Index { tables: vec![HashTable::new()], len: 0, table_bytes: 0 }
    }

    /// The memory that was allocated.
    pub(super) fn bytes_allocated(&self) -> usize {
        self.table_bytes + self.tables.capacity() * size_of::<HashTable<Handle>>()
    }

    pub(super) fn find(&self, hash: u64, is_found: impl Fn(Handle) -> bool) -> Option<Handle> {
        self.tables[table_of(hash, self.tables.len())].find(hash, |handle| is_found(*handle)).copied()
    }

    /// Adds a handle, which is not in the index. `hash_of` computes the hash of any handle in it.
    pub(super) fn insert(&mut self, hash: u64, handle: Handle, hash_of: impl Fn(Handle) -> u64) {
        if self.len >= self.tables.len() * MAX_MEAN_ENTRIES {
            self.split(&hash_of);
        }
        let table = table_of(hash, self.tables.len());
        self.edit(table, |table| _ = table.insert_unique(hash, handle, |handle| hash_of(*handle)));
        self.len += 1;
    }

    /// Removes a handle. `hash_of` computes the hash of any other handle in the index.
    pub(super) fn remove(&mut self, hash: u64, handle: Handle, hash_of: impl Fn(Handle) -> u64) {
        let table = table_of(hash, self.tables.len());
        if let Ok(entry) = self.tables[table].find_entry(hash, |other| *other == handle) {
            entry.remove();
            self.len -= 1;
        }
        if self.tables.len() > 1 && self.len < self.tables.len() * MIN_MEAN_ENTRIES {
            self.join(&hash_of);
        } else if self.tables.len() == 1 && self.tables[0].capacity() >= 8 * self.len.max(8) {
            // Seven eighths are free; afterwards, a half.
            let capacity = 2 * self.len;
            self.edit(0, |table| table.shrink_to(capacity, |handle| hash_of(*handle)));
        }
    }

    /// Adds a table, and moves to it what belongs there: about half of one other.
    fn split(&mut self, hash_of: &impl Fn(Handle) -> u64) {
        let added = self.tables.len();
        self.tables.push(HashTable::new());
        let from = partner_of(added);
        let mut moved = Vec::new();
        let belongs_there = |handle: &mut Handle| table_of(hash_of(*handle), added + 1) == added;
        moved.extend(self.tables[from].extract_if(belongs_there));
        self.edit(added, |table| {
            table.reserve(moved.len(), |handle| hash_of(*handle));
            for handle in moved {
                table.insert_unique(hash_of(handle), handle, |handle| hash_of(*handle));
            }
        });
    }

    /// Moves the content of the last table to the one from which it was split.
    fn join(&mut self, hash_of: &impl Fn(Handle) -> u64) {
        let Some(last) = self.tables.pop() else { return };
        self.table_bytes -= last.allocation_size();
        let to = partner_of(self.tables.len());
        self.edit(to, |table| {
            for handle in last {
                table.insert_unique(hash_of(handle), handle, |handle| hash_of(*handle));
            }
            let capacity = table.len();
            table.shrink_to(capacity, |handle| hash_of(*handle));
        });
    }

    /// Changes a table, and counts its memory.
    fn edit(&mut self, table: usize, f: impl FnOnce(&mut HashTable<Handle>)) {
        let table = &mut self.tables[table];
        let before = table.allocation_size();
        f(table);
        self.table_bytes = self.table_bytes + table.allocation_size() - before;
    }
}

/// The table of a hash, of so many tables: its low bits, without the highest if that table does not exist yet. The upper
/// half of the hash is used, because the tables use the lower one.
fn table_of(hash: u64, tables: usize) -> usize {
    let bits = (hash >> 32) as usize;
    let table = bits & (tables.next_power_of_two() - 1);
    if table < tables { table } else { partner_of(table) }
}

/// The table from which this one was split: without the highest bit.
fn partner_of(table: usize) -> usize {
    table & !(1 << table.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(handle: Handle) -> u64 {
        u64::from(handle).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn index_of_many_entries_finds_all_while_it_grows_and_shrinks() {
        const ENTRIES: Handle = 100_000;
        let mut index = Index::new();
        let check = |index: &Index, range: std::ops::Range<Handle>| {
            for handle in (0..ENTRIES).step_by(97) {
                let found = index.find(hash_of(handle), |other| other == handle);
                assert_eq!(found.is_some(), range.contains(&handle), "{handle} of {range:?}");
            }
            let bytes: usize = index.tables.iter().map(HashTable::allocation_size).sum();
            assert_eq!((index.table_bytes, index.len), (bytes, range.len()));
            let largest = index.tables.iter().map(HashTable::len).max().unwrap_or(0);
            assert!(largest <= 3 * MAX_MEAN_ENTRIES, "a table of {largest}");
        };
        for handle in 0..ENTRIES {
            index.insert(hash_of(handle), handle, hash_of);
            if handle % 10_007 == 0 {
                check(&index, 0..handle + 1);
            }
        }
        assert!(index.tables.len() >= 32, "{} tables", index.tables.len());
        let full = index.bytes_allocated();
        for handle in 0..ENTRIES {
            index.remove(hash_of(handle), handle, hash_of);
            if handle % 10_007 == 0 {
                check(&index, handle + 1..ENTRIES);
            }
        }
        check(&index, 0..0);
        assert!(
            index.tables.len() == 1 && index.bytes_allocated() < full / 50,
            "{}",
            index.bytes_allocated()
        );
    }

    #[test]
    fn table_of_a_hash_changes_only_when_its_table_is_split() {
        for tables in 1..200 {
            for hash in (0..2_000u32).map(hash_of) {
                let (before, after) = (table_of(hash, tables), table_of(hash, tables + 1));
                assert!(before < tables);
                assert!(after == before || after == tables && before == partner_of(tables));
            }
        }
    }
}
