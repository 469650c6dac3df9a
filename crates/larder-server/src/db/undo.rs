//! Locks whose changes can be undone: those of a script, which may have to start again, or may take too long.
//!
//! Each change is recorded before it is done. The record of a key whose whole former value is kept ends there: later
//! changes of that key need no record. A sorted set or a hash that is edited records the former scores or values of what is
//! edited, so the record is as small as the edit. Observers are told at the end.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use larder_engine::raw::{Entry, Key, UpdateOp, Value};
use larder_engine::stats::PartitionStats;
use larder_engine::{EntryRef, Refusal, Stats, Ttl};

use super::held::HeldLocks;
use super::object::{Journal, Object};
use super::record::Record;
use crate::observers::{Deferred, Observers};

/// Changes are searched one by one for a key while they are fewer than this.
const MAX_SEARCHED: usize = 16;
/// Bytes that the record of a change needs beside the former value, about.
const CHANGE_BYTES: usize = 96;

/// The locks of a command, with the changes that were done on them.
pub(crate) struct UndoableLocks<'a> {
    locks: &'a dyn HeldLocks,
    changes: RefCell<Changes>,
    deferred: Deferred,
    /// Bytes of the copies of former values.
    copied_bytes: Cell<usize>,
}

#[derive(Default)]
struct Changes {
    list: Vec<Change>,
    /// The names of the keys whose whole former values are kept, with a bit for each space: once there are many changes.
    whole: HashMap<Box<[u8]>, u16>,
}

/// One change, as its reverse.
enum Change {
    /// Store this record with this deadline.
    Restore(Record, Ttl),
    /// Remove the entry of this key.
    Remove { space: u8, name: Box<[u8]> },
    /// Set this deadline.
    SetDeadline { space: u8, name: Box<[u8]>, ttl: Ttl },
    /// Undo the edits of an object.
    Edit { space: u8, name: Box<[u8]>, journal: Journal },
}

impl Change {
    /// The key whose whole former value this has.
    fn whole_key(&self) -> Option<Key<'_>> {
        match self {
            Change::Restore(record, _) => Some(record.key()),
            Change::Remove { space, name } => Some(Key { space: *space, name }),
            Change::SetDeadline { .. } | Change::Edit { .. } => None,
        }
    }
}

/// The entry of a key before a change.
enum Former {
    Missing,
    /// A string, copied.
    Copy(Record, Ttl),
    /// An object, which records its edits.
    Object(Ttl),
}

impl Changes {
    fn has_whole(&self, key: Key<'_>) -> bool {
        match self.list.len() < MAX_SEARCHED {
            true => self.list.iter().any(|change| change.whole_key() == Some(key)),
            false => self.whole.get(key.name).is_some_and(|spaces| spaces & 1 << key.space != 0),
        }
    }

    fn push(&mut self, change: Change) {
        self.list.push(change);
        let unlisted = match self.list.len() {
            ..MAX_SEARCHED => return,
            MAX_SEARCHED => &self.list[..],
            length => &self.list[length - 1..],
        };
        for key in unlisted.iter().filter_map(Change::whole_key) {
            *self.whole.entry(key.name.into()).or_default() |= 1 << key.space;
        }
    }
}

impl<'a> UndoableLocks<'a> {
    pub(crate) fn new(locks: &'a dyn HeldLocks) -> Self {
        UndoableLocks {
            locks,
            changes: RefCell::default(),
            deferred: Deferred::default(),
            copied_bytes: Cell::new(0),
        }
    }

    /// The memory of former values and of what observers will be told, except for entries that were only moved there.
    pub(crate) fn bytes(&self) -> usize {
        self.copied_bytes.get() + self.deferred.bytes()
    }

    /// Undoes all changes, the last one first. Observers are not told anything.
    pub(crate) fn undo(&self) {
        self.deferred.clear();
        self.copied_bytes.set(0);
        for change in self.changes.take().list.into_iter().rev() {
            // A restored entry was in the store before, so it fits; it may evict others, as any write.
            match change {
                Change::Restore(record, ttl) => _ = self.locks.restore(record, ttl),
                Change::Remove { space, name } => drop(self.locks.take(Key { space, name: &name })),
                Change::SetDeadline { space, name, ttl } => {
                    _ = self.locks.update(Key { space, name: &name }, &mut |_| UpdateOp::SetTtl(ttl));
                }
                Change::Edit { space, name, journal } => {
                    self.undo_edits(Key { space, name: &name }, &journal)
                }
            }
        }
    }

    fn undo_edits(&self, key: Key<'_>, journal: &Journal) {
        let _ = self.locks.update(key, &mut |entry| match entry.and_then(Entry::into_object_mut) {
            Some(object) => {
                object.undo(journal);
                UpdateOp::Edited(Ttl::Keep)
            }
            _ => UpdateOp::Keep,
        });
    }

    /// Tells observers of all changes. The locks are still held.
    pub(crate) fn commit(&self, observers: &Observers) {
        observers.tell_all(&self.deferred);
    }

    fn add_copied(&self, bytes: usize) {
        self.copied_bytes.set(self.copied_bytes.get() + bytes);
    }

    fn push(&self, change: Change) {
        self.changes.borrow_mut().push(change);
    }

    /// Keeps a record that was taken out of the store, or that there was none.
    fn keep_former(&self, key: Key<'_>, former: Option<(Record, Ttl)>) {
        self.add_copied(CHANGE_BYTES + key.name.len());
        self.push(match former {
            Some((record, ttl)) => Change::Restore(record, ttl),
            None => Change::Remove { space: key.space, name: key.name.into() },
        });
    }

    /// Takes the entry of a key out of the store.
    fn take_out(&self, key: Key<'_>) -> Option<(Record, Ttl)> {
        let ttl = self.ttl(key)?;
        self.locks.take(key).map(|record| (record, ttl))
    }

    /// The deadline of an entry; `None` without an entry.
    fn ttl(&self, key: Key<'_>) -> Option<Ttl> {
        let mut ttl = None;
        self.locks.peek(key, &mut |entry| ttl = Some(to_ttl(entry.deadline_ms())));
        ttl
    }

    /// Records the change of an object, and does what was postponed: its record is moved and not copied.
    fn finish_object(
        &self,
        key: Key<'_>,
        former: Ttl,
        sets_deadline: bool,
        postponed: Option<UpdateOp<Object>>,
    ) -> Result<(), Refusal> {
        self.record_edits(key);
        if sets_deadline {
            self.push(Change::SetDeadline { space: key.space, name: key.name.into(), ttl: former });
        }
        let Some(operation) = postponed else { return Ok(()) };
        self.keep_former(key, self.take_out(key));
        match operation {
            UpdateOp::Put(record, Ttl::Keep) => self.locks.insert(record, former).map(drop),
            UpdateOp::Put(record, ttl) => self.locks.insert(record, ttl).map(drop),
            _ => Ok(()),
        }
    }

    /// Keeps the former record of a key, and stores another one by `store`.
    fn replace(
        &self,
        record: Record,
        ttl: Ttl,
        store: impl FnOnce(Record, Ttl) -> Result<bool, Refusal>,
    ) -> Result<bool, Refusal> {
        let key = record.key();
        if self.changes.borrow().has_whole(key) {
            return store(record, ttl);
        }
        let former = self.take_out(key);
        let is_new = former.is_none();
        let ttl = match (&former, ttl) {
            (Some((_, former)), Ttl::Keep) => *former,
            _ => ttl,
        };
        self.keep_former(key, former);
        store(record, ttl).map(|_| is_new)
    }

    /// Records the edits of an object that has recorded them itself.
    fn record_edits(&self, key: Key<'_>) {
        let mut journal = None;
        let _ = self.locks.update(key, &mut |entry| {
            if let Some(object) = entry.and_then(Entry::into_object_mut) {
                journal = object.take_journal();
            }
            UpdateOp::Keep
        });
        if let Some(journal) = journal {
            self.add_copied(CHANGE_BYTES + key.name.len() + journal.bytes());
            self.push(Change::Edit { space: key.space, name: key.name.into(), journal });
        }
    }
}

fn former_of(key: Key<'_>, entry: &mut Entry<'_, Object>) -> Former {
    let ttl = to_ttl(entry.deadline_ms());
    if matches!(entry.record().value(), Value::Bytes(_)) {
        return Former::Copy(entry.record().copy_with_key(key), ttl);
    }
    if let Some(object) = entry.object_mut() {
        object.start_journal();
    }
    Former::Object(ttl)
}

fn to_ttl(deadline_ms: Option<u64>) -> Ttl {
    deadline_ms.map_or(Ttl::Never, Ttl::At)
}

impl HeldLocks for UndoableLocks<'_> {
    fn read(&self, key: Key<'_>, f: &mut dyn FnMut(&Record)) {
        self.locks.read(key, f);
    }

    fn peek(&self, key: Key<'_>, f: &mut dyn FnMut(EntryRef<'_, Record, ()>)) {
        self.locks.peek(key, f);
    }

    fn update(
        &self,
        key: Key<'_>,
        f: &mut dyn FnMut(Option<Entry<'_, Object>>) -> UpdateOp<Object>,
    ) -> Result<(), Refusal> {
        if self.changes.borrow().has_whole(key) {
            return self.locks.update(key, f);
        }
        let (mut former, mut postponed) = (Former::Missing, None);
        let (mut is_kept, mut sets_deadline) = (false, false);
        let updated = self.locks.update(key, &mut |mut entry| {
            former = entry.as_mut().map_or(Former::Missing, |entry| former_of(key, entry));
            let operation = f(entry);
            is_kept = matches!(operation, UpdateOp::Keep);
            sets_deadline = matches!(operation, UpdateOp::SetTtl(_));
            if matches!(former, Former::Object(_))
                && matches!(operation, UpdateOp::Remove | UpdateOp::Put(..))
            {
                postponed = Some(operation);
                return UpdateOp::Keep;
            }
            operation
        });
        match former {
            Former::Object(ttl) => {
                return updated.and(self.finish_object(key, ttl, sets_deadline, postponed));
            }
            _ if is_kept => {}
            Former::Missing => self.keep_former(key, None),
            Former::Copy(record, ttl) => {
                self.add_copied(record.bytes_allocated());
                self.keep_former(key, Some((record, ttl)));
            }
        }
        // A former entry whose replacement was refused is gone, and is kept here.
        updated
    }

    fn insert(&self, record: Record, ttl: Ttl) -> Result<bool, Refusal> {
        self.replace(record, ttl, |record, ttl| self.locks.insert(record, ttl))
    }

    fn restore(&self, record: Record, ttl: Ttl) -> Result<bool, Refusal> {
        self.replace(record, ttl, |record, ttl| self.locks.restore(record, ttl))
    }

    fn make_room(&self, _: u64, _: Option<Key<'_>>) -> bool {
        true
    }

    fn discard_expired(&self, key: Key<'_>) {
        self.locks.discard_expired(key);
    }

    fn take(&self, key: Key<'_>) -> Option<Record> {
        if self.changes.borrow().has_whole(key) {
            return self.locks.take(key);
        }
        let (record, ttl) = self.take_out(key)?;
        let copy = record.copy_with_key(key);
        self.add_copied(copy.bytes_allocated());
        self.keep_former(key, Some((copy, ttl)));
        Some(record)
    }

    fn scan(&self, cursor: u64, count: usize, f: &mut dyn FnMut(&Record)) -> u64 {
        self.locks.scan(cursor, count, f)
    }

    /// The entries are moved out of the store.
    fn retain(&self, keep: &mut dyn FnMut(Key<'_>) -> bool) {
        let mut names = Vec::new();
        self.locks.scan(0, usize::MAX, &mut |record| {
            let key = record.key();
            if !keep(key) {
                names.push((key.space, Box::<[u8]>::from(key.name)));
            }
        });
        for (space, name) in &names {
            let key = Key { space: *space, name };
            let former = self.take_out(key);
            if !self.changes.borrow().has_whole(key) {
                self.push(former.map_or_else(
                    || Change::Remove { space: *space, name: name.clone() },
                    |(record, ttl)| Change::Restore(record, ttl),
                ));
            }
        }
    }

    fn is_locked(&self, key: Key<'_>) -> bool {
        self.locks.is_locked(key)
    }

    fn stats(&self) -> Stats {
        self.locks.stats()
    }

    fn partition_stats(&self, index: usize) -> PartitionStats {
        self.locks.partition_stats(index)
    }

    fn deferred(&self) -> Option<&Deferred> {
        Some(&self.deferred)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::{Database, Expiry, Store, collections};
    use crate::observers::FieldEvents;
    use crate::values::hash::{Field, Hash};

    /// Every kind of change, done and undone on entries of every kind.
    #[test]
    fn undo_restores_every_entry() {
        let store = Store::new(Some(8 << 20)).expect("a valid limit");
        let db = store.database(0);
        let later = store.now_ms() + 100_000;
        for index in 0..40u32 {
            let name = format!("key {index}");
            let value = vec![b'v'; if index % 4 == 0 { 100_000 } else { index as usize }];
            let expiry = if index % 3 == 0 { Expiry::At(later) } else { Expiry::Never };
            db.set(name.as_bytes(), &value, expiry).expect("it fits");
        }
        for index in 0..10u32 {
            let name = format!("set {index}");
            let edited = db.edit_sorted_set(name.as_bytes(), true, |set| {
                (0..100 * index + 1)
                    .for_each(|member| _ = set.insert(&member.to_le_bytes(), f64::from(member)));
            });
            edited.expect("it fits");
            let edited = db.edit_hash(format!("hash {index}").as_bytes(), true, |hash| {
                for number in 0..100 * index + 1 {
                    let deadline = (number % 3 == 0).then_some(later);
                    hash.insert(Field { name: &number.to_le_bytes(), value: b"value", deadline });
                }
                (FieldEvents::OWN, ())
            });
            edited.expect("it fits");
        }
        let (before, weight) = (content(&store), store.used_memory());
        let locks = store.lock_everything();
        let undoable = UndoableLocks::new(&locks);
        change(db.with_locks(Some(&undoable)), later + 5);
        assert_ne!(content_of(db.with_locks(Some(&locks))), before);
        undoable.undo();
        drop(locks);
        assert_eq!(content(&store), before);
        // Sets keep spare memory.
        assert!(store.used_memory().abs_diff(weight) < weight / 20, "{weight} {}", store.used_memory());
    }

    fn change(db: Database<'_>, deadline: i64) {
        use crate::db::EntryOp;
        let set = |name: &str, value: &[u8], expiry| db.set(name.as_bytes(), value, expiry).expect("it fits");
        let edit = |name: &str, f: &mut dyn FnMut(&mut crate::values::sorted_set::SortedSet)| {
            db.edit_sorted_set(name.as_bytes(), true, f).expect("it fits");
        };
        let expire = |name: &str, expiry| {
            db.update(name.as_bytes(), |_| (EntryOp::Expire(expiry), ())).expect("it fits");
        };
        for round in 0..2 {
            set("key 1", b"x", Expiry::Never);
            set("key 2", b"longer than before", Expiry::At(deadline));
            set("key 4", &[round; 50_000], Expiry::Keep);
            set("new", &[round; 70_000], Expiry::Keep);
            assert!(db.remove(b"key 5"));
            set("key 5", b"again", Expiry::Never);
            expire("key 6", Expiry::Never);
            expire("set 1", Expiry::At(deadline));
            edit("set 1", &mut |set| _ = set.insert(b"new", 1.0));
            edit("set 2", &mut |set| set.remove_range(0..set.len()));
            edit("set 2", &mut |set| _ = set.insert(b"new", 1.0));
            edit("new set", &mut |set| _ = set.insert(b"new", f64::from(round)));
            assert_eq!(db.remove(b"set 3"), round == 0);
            edit_hashes(db, round.into());
            assert_eq!(db.remove(b"hash 3"), round == 0);
            set("set 4", b"a string", Expiry::Never);
            let mut locked = db.lock([&b"key 7"[..], b"set 5", b"key 8"]);
            let [seven, five, eight] = [&b"key 7"[..], b"set 5", b"key 8"].map(|name| db.key(name));
            if let Some(record) = locked.take(five) {
                locked.put(record.with_key(seven), Expiry::Never).expect("it fits");
            }
            locked.put(db.record(b"key 8", &[b"put"]), Expiry::Keep).expect("it fits");
            assert!(locked.remove(eight));
        }
        let name = b"set 6";
        let _ = db.lock([&name[..]]).put(
            collections::record(db.key(name), crate::values::sorted_set::SortedSet::new()),
            Expiry::Never,
        );
        for index in 0..100 {
            set(&format!("another {index}"), b"x", Expiry::Never);
        }
        assert_eq!(db.clear_from(0, usize::MAX, false), 0);
        set("after", b"x", Expiry::Never);
        set("key 9", b"x", Expiry::Never);
    }

    /// Changes hashes of both forms, one that is emptied and stored again, and one that outgrows its form.
    fn edit_hashes(db: Database<'_>, round: u32) {
        let edit = |name: &str, f: &mut dyn FnMut(&mut Hash)| {
            let edited = db.edit_hash(name.as_bytes(), true, |hash| {
                f(hash);
                (FieldEvents::OWN, ())
            });
            edited.expect("it fits");
        };
        let deadline = Some(db.now_ms() + 7_000);
        for name in ["hash 1", "hash 9"] {
            edit(name, &mut |hash| _ = hash.insert(Field { name: b"new", value: &[b'v'; 40], deadline }));
            edit(name, &mut |hash| _ = hash.remove(&round.to_le_bytes()));
            edit(name, &mut |hash| {
                _ = hash.insert(Field { name: &[9, 0, 0, 0], value: b"", deadline: None })
            });
        }
        edit("hash 2", &mut |hash| {
            (0..=200u32).for_each(|number| _ = hash.remove(&number.to_le_bytes()));
            hash.remove(b"x");
        });
        edit("hash 2", &mut |hash| _ = hash.insert(Field { name: b"x", value: b"y", deadline }));
        edit("hash 4", &mut |hash| {
            for number in 0..400u32 {
                hash.insert(Field { name: &(round + number).to_be_bytes(), value: b"v", deadline });
            }
        });
    }

    /// The form of a hash and its fields, sorted.
    fn fields_of(hash: &Hash) -> String {
        let mut fields = Vec::new();
        hash.visit(i64::MIN, |field| fields.push(format!("{field:?}")));
        fields.sort();
        format!("{} {fields:?}", hash.is_packed())
    }

    type Content = Vec<(Vec<u8>, Option<i64>, String)>;

    fn content(store: &Store) -> Content {
        content_of(store.database(0))
    }

    fn content_of(db: Database<'_>) -> Content {
        let mut names = Vec::new();
        db.scan(0, usize::MAX, |name, _| names.push(name.to_vec()));
        names.sort();
        let value = |name: &[u8]| {
            let set = db.sorted_set(name, |set| {
                let mut text = String::new();
                set.visit(0..set.len(), false, |name, score| {
                    text += &format!("{name:?} {score} ");
                    true
                });
                text
            });
            match set {
                Ok(text) => text.unwrap_or_default(),
                Err(_) => match db.hash(name, fields_of) {
                    Ok(fields) => fields.unwrap_or_default(),
                    Err(_) => {
                        db.get(name, |value| format!("{value:?}")).unwrap_or_default().unwrap_or_default()
                    }
                },
            }
        };
        names.into_iter().map(|name| (name.clone(), db.deadline(&name).flatten(), value(&name))).collect()
    }
}
