//! An index of names: from the hash of a name to the handle of its member or field.
//!
//! A hash table that doubles moves all its entries at once, which takes tens of milliseconds for a million of them, under
//! the lock of the value. So the index is many small tables, and grows by splitting one of them at a time (Witold Litwin,
//! "Linear Hashing: A New Tool for File and Table Addressing", VLDB 1980): an insertion moves a few hundred entries at most.
//!
//! A scan goes over the hashes in the order of their reversed bits, in which every table has an interval, whether others
//! were split or joined since: its cursor is a position there, and stays valid whatever happens to handles.

use std::hash::BuildHasher;
use std::sync::LazyLock;

use hashbrown::HashTable;

use super::slots::Handle;

/// One more entry per table, and a table is split. It has room in 128 places then, and in 256 before it is split itself.
const MAX_MEAN_ENTRIES: usize = 80;
/// One entry fewer per table, and two tables are joined.
const MIN_MEAN_ENTRIES: usize = 20;
/// The position behind all hashes.
const END: u64 = 1 << 32;

/// The hasher of names. Its seed is random, so that clients cannot choose names that collide.
static HASHER: LazyLock<rapidhash::fast::RandomState> = LazyLock::new(rapidhash::fast::RandomState::default);

/// The hash of a name in every index of this process.
#[inline]
pub(in crate::values) fn hash_of(name: &[u8]) -> u64 {
    HASHER.hash_one(name)
}

#[derive(Clone, Debug)]
pub(in crate::values) struct Index {
    /// Never empty. Entries of the same table have the same low bits in the upper half of their hashes.
    tables: Vec<HashTable<Handle>>,
    len: usize,
    /// The memory of all tables.
    table_bytes: usize,
}

impl Index {
    pub(in crate::values) fn new() -> Self {
        Index { tables: vec![HashTable::new()], len: 0, table_bytes: 0 }
    }

    /// The number of handles.
    pub(in crate::values) fn len(&self) -> usize {
        self.len
    }

    /// The memory that was allocated.
    pub(in crate::values) fn bytes_allocated(&self) -> usize {
        self.table_bytes + self.tables.capacity() * size_of::<HashTable<Handle>>()
    }

    pub(in crate::values) fn find(&self, hash: u64, is_found: impl Fn(Handle) -> bool) -> Option<Handle> {
        self.tables[table_of(hash, self.tables.len())].find(hash, |handle| is_found(*handle)).copied()
    }

    /// The handle at which a lookup of this hash looks first.
    pub(in crate::values) fn candidate(&self, hash: u64) -> Option<Handle> {
        self.tables[table_of(hash, self.tables.len())].iter_hash(hash).next().copied()
    }

    /// Adds a handle, which is not in the index. `hash_of` computes the hash of any handle in it.
    pub(in crate::values) fn insert(&mut self, hash: u64, handle: Handle, hash_of: impl Fn(Handle) -> u64) {
        if self.len >= self.tables.len() * MAX_MEAN_ENTRIES {
            self.split(&hash_of);
        }
        let table = table_of(hash, self.tables.len());
        self.edit(table, |table| _ = table.insert_unique(hash, handle, |handle| hash_of(*handle)));
        self.len += 1;
    }

    /// Puts a handle in the place of another one, whose name has this hash too.
    pub(in crate::values) fn replace(&mut self, hash: u64, former: Handle, handle: Handle) {
        let table = table_of(hash, self.tables.len());
        if let Some(entry) = self.tables[table].find_mut(hash, |other| *other == former) {
            *entry = handle;
        }
    }

    /// Removes a handle. `hash_of` computes the hash of any other handle in the index.
    pub(in crate::values) fn remove(&mut self, hash: u64, handle: Handle, hash_of: impl Fn(Handle) -> u64) {
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

    /// Calls `f` with about `count` handles from a cursor on, and returns the next cursor. Zero starts a scan, and ends it
    /// when it is returned. A name that stays throughout is visited exactly once, whatever its handles are.
    pub(in crate::values) fn scan(
        &self,
        cursor: u64,
        count: usize,
        hash_of: impl Fn(Handle) -> u64,
        mut f: impl FnMut(Handle),
    ) -> u64 {
        let (mut cursor, mut left, mut found) = (cursor, count.max(1), Vec::new());
        while let Ok(position) = u32::try_from(cursor) {
            if left == 0 {
                return cursor;
            }
            let (table, end) = self.table_at(position);
            let positions = self.tables[table].iter().map(|handle| (position_of(hash_of(*handle)), *handle));
            found.extend(positions.filter(|(at, _)| *at >= position));
            cursor = end;
            if found.len() > left {
                found.sort_unstable();
                let last = found[left - 1].0;
                // Those at the same position are visited together.
                found.retain(|(at, _)| *at <= last);
                cursor = u64::from(last) + 1;
            }
            left = left.saturating_sub(found.len());
            found.drain(..).for_each(|(_, handle)| f(handle));
        }
        0
    }

    /// Calls `f` with all handles, in any order.
    pub(in crate::values) fn visit(&self, f: impl FnMut(Handle)) {
        self.tables.iter().flatten().copied().for_each(f);
    }

    /// The ranks of all handles, in an order that lasts until the next change. Cost: a visit of each table.
    pub(in crate::values) fn ranks(&self) -> Ranks<'_> {
        let ends = self.tables.iter().scan(0, |end, table| {
            *end += table.len();
            Some(*end)
        });
        Ranks { index: self, ends: ends.collect() }
    }

    /// The table whose interval has this position, and the end of that interval.
    fn table_at(&self, position: u32) -> (usize, u64) {
        let tables = self.tables.len();
        let table = table_of_bits(position.reverse_bits() as usize, tables);
        let bits = tables.next_power_of_two().ilog2();
        let half = 1usize << bits >> 1;
        // One that is not split yet has those hashes, too, whose table does not exist yet.
        let is_whole = table < half && table + half >= tables;
        let bits = if is_whole { bits - 1 } else { bits };
        let start = u64::from((table as u32).reverse_bits());
        (table, start + (END >> bits))
    }

    /// Adds a table, and moves to it what belongs there: about half of one other.
    fn split(&mut self, hash_of: &impl Fn(Handle) -> u64) {
        let added = self.tables.len();
        self.tables.push(HashTable::new());
        let from = partner_of(added);
        let mut moved = Vec::new();
        let belongs_there = |handle: &mut Handle| table_of(hash_of(*handle), added + 1) == added;
        moved.extend(self.tables[from].extract_if(belongs_there));
        self.edit(from, |table| table.shrink_to(table.len(), |handle| hash_of(*handle)));
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
        if self.tables.capacity() >= 4 * self.tables.len() {
            self.tables.shrink_to(2 * self.tables.len());
        }
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

/// The ranks of the handles of an index.
pub(in crate::values) struct Ranks<'a> {
    index: &'a Index,
    /// The number of handles in each table and those before it.
    ends: Vec<usize>,
}

impl Ranks<'_> {
    /// The handle of this rank, if there are more handles.
    pub(in crate::values) fn get(&self, rank: usize) -> Option<Handle> {
        let table = self.ends.partition_point(|end| *end <= rank);
        let start = table.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.index.tables.get(table)?.iter().nth(rank - start).copied()
    }
}

/// The position of a hash in a scan.
fn position_of(hash: u64) -> u32 {
    ((hash >> 32) as u32).reverse_bits()
}

/// The table of a hash, of so many tables. The upper half of the hash is used, because the tables use the lower one.
fn table_of(hash: u64, tables: usize) -> usize {
    table_of_bits((hash >> 32) as usize, tables)
}

/// The low bits, without the highest if that table does not exist yet.
fn table_of_bits(bits: usize, tables: usize) -> usize {
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
    fn candidate_is_nearly_always_what_a_lookup_finds() {
        let mut index = Index::new();
        assert_eq!(index.candidate(0), None);
        (0..10_000).for_each(|handle| index.insert(hash_of(handle), handle, hash_of));
        let right = (0..10_000).filter(|handle| index.candidate(hash_of(*handle)) == Some(*handle)).count();
        assert!(right > 9_000, "{right}");
    }

    #[test]
    fn positions_of_each_table_are_one_interval() {
        for tables in 1..70 {
            let mut index = Index::new();
            index.tables = (0..tables).map(|_| HashTable::new()).collect();
            let (mut position, mut seen) = (0, Vec::new());
            while let Ok(at) = u32::try_from(position) {
                let (table, end) = index.table_at(at);
                for inside in [at, at + 1, (end - 1) as u32] {
                    assert_eq!(table_of_bits(inside.reverse_bits() as usize, tables), table, "{tables} {at}");
                }
                seen.push(table);
                position = end;
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..tables).collect::<Vec<_>>(), "each table has one");
        }
    }

    #[test]
    fn scan_visits_each_handle_once_in_pieces_of_any_size() {
        let mut index = Index::new();
        (0..3_000).for_each(|handle| index.insert(hash_of(handle), handle, hash_of));
        for count in [1, 7, 100, 5_000] {
            let (mut seen, mut cursor) = (Vec::new(), 0);
            loop {
                let before = seen.len();
                cursor = index.scan(cursor, count, hash_of, |handle| seen.push(handle));
                assert!(seen.len() - before <= count + 1, "two hashes may be at one position");
                if cursor == 0 {
                    break;
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..3_000).collect::<Vec<_>>(), "{count} at a time");
        }
        assert_eq!(index.scan(u64::MAX, 10, hash_of, |_| panic!("it is behind the end")), 0);
        let mut all: Vec<_> = (0..3_000).filter_map(|rank| index.ranks().get(rank)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..3_000).collect::<Vec<_>>());
        assert_eq!(index.ranks().get(3_000), None);
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
