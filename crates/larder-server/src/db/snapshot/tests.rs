//! Snapshots that are written and read back, whole, damaged, and while the keyspace is used.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;
use crate::db::{Database, EntryOp, Expiry, MemoryPolicy, Store};
use crate::error::SnapshotError;

const MEMORY: u64 = 64 << 20;

fn store() -> Store {
    Store::new(Some(MEMORY)).expect("a valid limit")
}

/// A place for a snapshot.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot");
    (folder, path)
}

fn until() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn set(db: Database<'_>, name: &str, value: &[u8], expiry: Expiry) {
    db.set(name.as_bytes(), value, expiry).unwrap();
}

fn get(db: Database<'_>, name: &str) -> Option<Vec<u8>> {
    db.get(name.as_bytes(), <[u8]>::to_vec).expect("a string")
}

/// A keyspace with this many keys, written to a file.
fn written(keys: usize) -> (TempDir, PathBuf) {
    let (folder, path) = place();
    let store = store();
    for n in 0..keys {
        set(
            store.database(0),
            &format!("key:{n}"),
            format!("value of {n}").repeat(5).as_bytes(),
            Expiry::Never,
        );
    }
    assert_eq!(write(&store, &path, until()).unwrap().keys, keys as u64);
    (folder, path)
}

/// A keyspace that is loading this snapshot.
fn loading(path: &Path) -> Store {
    let store = store();
    store.begin_loading(open(path).unwrap().expect("there is a snapshot"));
    store
}

#[test]
fn every_kind_of_value_comes_back_with_its_deadline() {
    let (_folder, path) = place();
    let former = store();
    let deadline = former.now_ms() + 3_600_000;
    let dump = |store: &Store, index| store.database(index).dump_object(b"collection");
    let long = vec![7; 3 << 20];
    set(former.database(0), "short", b"12", Expiry::Never);
    set(former.database(0), "", b"", Expiry::At(deadline));
    set(former.database(15), "long", &long, Expiry::At(deadline));
    let add = |index, f: &dyn Fn(Database<'_>)| f(former.database(index));
    add(1, &|db| _ = db.edit_list(b"collection", true, |list| list.insert(0, b"element")).unwrap());
    add(2, &|db| _ = db.edit_set(b"collection", true, |set| set.insert(b"member")).unwrap());
    add(3, &|db| _ = db.edit_sorted_set(b"collection", true, |set| set.insert(b"member", 1.5)).unwrap());
    let expected: Vec<_> = (1..4).map(|index| dump(&former, index)).collect();
    assert!(expected.iter().all(Option::is_some));

    write(&former, &path, until()).unwrap();
    let store = loading(&path);
    assert!(store.load_rest(|| true) && !store.is_loading());
    assert_eq!(get(store.database(0), "short"), Some(b"12".to_vec()));
    assert_eq!(get(store.database(0), ""), Some(Vec::new()));
    assert_eq!(get(store.database(15), "long"), Some(long));
    for index in 1..4 {
        assert_eq!(dump(&store, index), expected[usize::from(index) - 1]);
    }
    assert_eq!(store.database(0).deadline(b"short"), Some(None));
    assert_eq!(store.database(15).deadline(b"long"), Some(Some(deadline)));
    store.validate();
}

#[test]
fn file_is_gone_once_it_is_open() {
    let (folder, path) = written(10);
    assert!(open(&path).unwrap().is_some());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(open(&path).unwrap().is_none());
}

#[test]
fn what_expires_meanwhile_does_not_come_back() {
    let (_folder, path) = place();
    let former = store();
    set(former.database(0), "soon", b"v", Expiry::At(former.now_ms() + 20));
    set(former.database(0), "later", b"v", Expiry::At(former.now_ms() + 3_600_000));
    write(&former, &path, until()).unwrap();
    let store = loading(&path);
    while store.now_ms() <= former.now_ms() + 20 {
        store.advance_to(crate::system::Moment::now());
    }
    assert!(store.load_rest(|| true));
    assert_eq!((store.len(), get(store.database(0), "soon")), (1, None));
}

/// At each length and with each damaged byte, the file is refused, or only the keys of one block are missing.
#[test]
fn damaged_snapshots_are_refused_or_lose_a_block() {
    let (_folder, path) = written(1_000);
    let bytes = fs::read(&path).unwrap();
    let blocks_end = bytes.len() - 64 - 1_000 * 8 - 28 * bytes.len().div_ceil(BLOCK_BYTES);
    for length in (0..bytes.len()).step_by(997) {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(matches!(open(&path), Err(SnapshotError::Damaged(_))), "{length} bytes");
        assert!(path.exists(), "it stays for whoever wants to look at it");
    }
    let mut partly = 0;
    for at in (0..bytes.len()).step_by(331) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        let Ok(opened) = open(&path) else { continue };
        let store = store();
        store.begin_loading(opened.unwrap());
        let snapshot = store.loading().unwrap();
        assert!(store.load_rest(|| true));
        assert_eq!(store.len() as u64 + snapshot.lost(), 1_000);
        assert!(snapshot.lost() > 0 && at < blocks_end + 28 * 8, "byte {at} is in a block");
        partly += 1;
    }
    assert!(partly > 50);
    let mut newer = bytes;
    let version_at = newer.len() - 64 + 8;
    newer[version_at] = 9;
    fs::write(&path, &newer).unwrap();
    assert!(matches!(open(&path), Err(SnapshotError::Version { found: 9, .. })));
}

#[test]
fn what_was_used_most_is_loaded_first() {
    let (_folder, path) = place();
    let former = store();
    let name = |n: usize| format!("key:{n}");
    for n in 0..5_000 {
        set(former.database(0), &name(n), &[0; 100], Expiry::Never);
    }
    for n in (0..5_000).step_by(10) {
        (0..3).for_each(|_| _ = get(former.database(0), &name(n)));
    }
    write(&former, &path, until()).unwrap();
    let store = loading(&path);
    let snapshot = store.loading().unwrap();
    while store.len() < 450 {
        snapshot.load_next(&store);
    }
    let is_here = |n: usize| store.cache.contains(&store.database(0).key(name(n).as_bytes()));
    let hot = (0..5_000).step_by(10).filter(|&n| is_here(n)).count();
    assert!(hot >= 400, "{hot} of the {} loaded ones were used", store.len());
}

#[test]
fn no_room_is_wasted_on_what_was_used_least() {
    let (_folder, path) = written(20_000);
    let small = Store::new(Some(1 << 20)).unwrap();
    small.begin_loading(open(&path).unwrap().unwrap());
    assert!(small.load_rest(|| true));
    assert!(small.len() > 1_000 && small.engine_stats().evicted < 2_000, "{:?}", small.engine_stats());

    let (_folder, path) = written(20_000);
    let small = Store::new(Some(1 << 20)).unwrap();
    small.set_policy(MemoryPolicy::Noeviction);
    small.begin_loading(open(&path).unwrap().unwrap());
    let snapshot = small.loading().unwrap();
    assert!(small.load_rest(|| true));
    assert_eq!(small.len() as u64 + snapshot.lost(), 20_000);
    small.validate();
}

/// A snapshot that would not be complete in time leaves nothing.
#[test]
fn too_slow_a_snapshot_leaves_no_file() {
    // One of these is visited in a single step, after which only the disk may be too slow.
    for keys in [2_000, 10] {
        let (folder, path) = place();
        let store = store();
        (0..keys).for_each(|n| set(store.database(0), &format!("{n}"), b"v", Expiry::Never));
        assert!(matches!(write(&store, &path, Instant::now()), Err(SnapshotError::TooSlow)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// Whatever commands do while another thread loads, each sees what it would see if all had been loaded before.
#[test]
fn commands_during_the_loading_see_every_key() {
    const KEYS: usize = 3_000;
    for round in 0..6 {
        let (_folder, path) = written(KEYS);
        let store = loading(&path);
        let db = store.database(0);
        let mut model: HashMap<String, Vec<u8>> =
            (0..KEYS).map(|n| (format!("key:{n}"), format!("value of {n}").repeat(5).into_bytes())).collect();
        std::thread::scope(|scope| {
            let loader = scope.spawn(|| store.load_rest(|| true));
            let mut random = round * 7_919 + 1;
            for step in 0..20_000 {
                random = (random * 1_103_515_245 + 12_345) % (1 << 31);
                let name = format!("key:{}", (random >> 8) % (KEYS + 50));
                match random % 6 {
                    0 => {
                        set(db, &name, b"new", Expiry::Never);
                        model.insert(name, b"new".to_vec());
                    }
                    1 => assert_eq!(db.remove(name.as_bytes()), model.remove(&name).is_some(), "{name}"),
                    2 => {
                        let is_new = |entry: Option<crate::db::Entry<'_>>| match entry {
                            Some(_) => (EntryOp::Keep, false),
                            None => (EntryOp::Put(db.record(name.as_bytes(), &[b"nx"]), Expiry::Never), true),
                        };
                        let stored = db.update(name.as_bytes(), is_new).unwrap();
                        assert_eq!(stored, !model.contains_key(&name), "{name} at {step}");
                        model.entry(name).or_insert_with(|| b"nx".to_vec());
                    }
                    3 => {
                        let keys = [db.key(name.as_bytes())];
                        let locked = db.lock_keys(keys);
                        assert_eq!(locked.contains(keys[0]), model.contains_key(&name), "{name} at {step}");
                    }
                    _ => assert_eq!(get(db, &name), model.get(&name).cloned(), "{name} at {step}"),
                }
            }
            assert!(loader.join().unwrap());
        });
        assert_eq!(store.len(), model.len());
        model.iter().for_each(|(name, value)| assert_eq!(get(db, name).as_ref(), Some(value)));
        store.validate();
    }
}

/// A thread that had taken a block loaded it when another thread had declared the end: over what was written since.
#[test]
fn block_that_another_thread_has_taken_is_loaded_before_the_end() {
    let (_folder, path) = written(1_000);
    let store = loading(&path);
    assert_eq!(store.loading().unwrap().take_next(), Some(0));
    assert!(store.load_rest(|| true));
    assert_eq!(store.len(), 1_000);
}

#[test]
fn flushed_databases_stay_empty() {
    let (_folder, path) = place();
    let former = store();
    for n in 0..2_000 {
        (0..3).for_each(|index| set(former.database(index), &format!("{n}"), &[0; 50], Expiry::Never));
    }
    write(&former, &path, until()).unwrap();
    let store = loading(&path);
    std::thread::scope(|scope| {
        let loader = scope.spawn(|| store.load_rest(|| true));
        store.skip_loading(Some(1));
        let mut cursor = store.database(1).clear_from(0, 500, false);
        while cursor != 0 {
            cursor = store.database(1).clear_from(cursor, 500, false);
        }
        assert!(loader.join().unwrap());
    });
    assert_eq!([0, 1, 2].map(|index| store.database(index).len()), [2_000, 0, 2_000]);
}
