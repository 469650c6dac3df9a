//! Purges beside stamps: what they cover, what the log drops, and when a soft one has begun.

use super::PurgeKind::{Hard, Soft};
use super::log::MAX_PREFIXES;
use super::*;
use crate::key::{self, KeySpace};

fn is_unpurged(purges: &Purges, stamp: &PurgeStamp, resource: &[u8]) -> bool {
    purges.is_unpurged(stamp, resource, |_| panic!("nothing was softly purged"))
}

fn tags_are_unpurged(purges: &Purges, stamp: &PurgeStamp, tags: &[PurgeKey]) -> bool {
    purges.tags_are_unpurged(stamp, tags, |_| panic!("nothing was softly purged"))
}

fn resource(target: &str) -> Vec<u8> {
    let mut key = Vec::new();
    let uri = format!("http://h{target}").parse().unwrap();
    key::write_uri(&mut key, &uri, &Default::default(), &KeySpace::default()).unwrap();
    key
}

fn origin() -> Vec<u8> {
    let mut origin = Vec::new();
    key::write_origin(&mut origin, &KeySpace::default(), "http", "h").unwrap();
    origin
}

#[test]
fn purge_of_tag_covers_earlier_stamps_only() {
    let purges = Purges::new();
    let (red, blue) = (purges.purge_key(b"red"), purges.purge_key(b"blue"));
    let before = purges.stamp(b"k");
    purges.purge_by_key(red, Hard);
    assert!(!tags_are_unpurged(&purges, &before, &[blue, red]));
    assert!(tags_are_unpurged(&purges, &before, &[blue]));
    assert!(tags_are_unpurged(&purges, &purges.stamp(b"k"), &[red]));
}

#[test]
fn purge_of_uri_covers_only_that_uri() {
    let purges = Purges::new();
    let (a, b) = (resource("/a"), resource("/b"));
    let (stamp_a, stamp_b) = (purges.stamp(&a), purges.stamp(&b));
    purges.purge_by_key(purges.purge_key(&a), Hard);
    assert!(!is_unpurged(&purges, &stamp_a, &a));
    assert!(is_unpurged(&purges, &stamp_b, &b));
}

#[test]
fn purge_all_covers_every_earlier_stamp() {
    let purges = Purges::new();
    let a = resource("/a");
    let before = purges.stamp(&a);
    purges.purge_all(Hard);
    assert!(!is_unpurged(&purges, &before, &a));
    assert!(is_unpurged(&purges, &purges.stamp(&a), &a));
}

#[test]
fn prefix_check_advances_stamp() {
    let purges = Purges::new();
    let (in_shop, outside) = (resource("/shop/1"), resource("/blog/1"));
    let (shop, blog) = (purges.stamp(&in_shop), purges.stamp(&outside));
    purges.purge_prefix(&origin(), b"/shop/", Hard);
    assert!(!is_unpurged(&purges, &shop, &in_shop));
    assert!(is_unpurged(&purges, &blog, &outside));
    assert_eq!(blog.resource_checked.load(Ordering::Relaxed), 1);
    assert!(is_unpurged(&purges, &purges.stamp(&in_shop), &in_shop));
}

#[test]
fn prefix_dropped_from_log_covers_unchecked_stamps() {
    let purges = Purges::new();
    let a = resource("/a");
    let (unchecked, checked) = (purges.stamp(&a), purges.stamp(&a));
    for n in 0..=MAX_PREFIXES {
        assert!(is_unpurged(&purges, &checked, &a));
        purges.purge_prefix(&origin(), format!("/{n}/").as_bytes(), Hard);
    }
    assert!(!is_unpurged(&purges, &unchecked, &a));
    assert!(is_unpurged(&purges, &checked, &a));
    assert_eq!(purges.log().lengths()[3], MAX_PREFIXES);
}

#[test]
fn purges_of_other_tags_never_cover_an_entry() {
    let purges = Purges::new();
    let stamped_tags: Vec<_> =
        (0..100).map(|n| (purges.stamp(b"k"), purges.purge_key(format!("entry:{n}").as_bytes()))).collect();
    for n in 0..200_000 {
        purges.purge_by_key(purges.purge_key(format!("purged:{n}").as_bytes()), Hard);
    }
    for (stamp, tag) in &stamped_tags {
        assert!(tags_are_unpurged(&purges, stamp, &[*tag]) && is_unpurged(&purges, stamp, b"k"));
    }
    purges.purge_by_key(stamped_tags[7].1, Hard);
    let covered: Vec<_> = (0..100)
        .filter(|n| !tags_are_unpurged(&purges, &stamped_tags[*n].0, &[stamped_tags[*n].1]))
        .collect();
    assert_eq!(covered, [7]);
}

#[test]
fn purge_dropped_from_log_covers_unchecked_stamps() {
    let purges = Purges::with_log_capacity(4000, 0, PurgeHistory::default());
    let tag = purges.purge_key(b"first");
    let (before, other) = (purges.stamp(b"k"), purges.stamp(b"k"));
    purges.purge_by_key(tag, Hard);
    for n in 0..200_000 {
        purges.purge_by_key(purges.purge_key(format!("{n}").as_bytes()), Hard);
        if n % 500 == 0 {
            assert!(tags_are_unpurged(&purges, &other, &[purges.purge_key(b"other")]), "{n}");
        }
    }
    assert!(!tags_are_unpurged(&purges, &before, &[tag]));
    assert_eq!(purges.log().lengths()[..2], [4000, 4000]);
}

#[test]
fn repeated_purge_of_one_tag_is_logged_once() {
    let purges = Purges::with_log_capacity(10, 0, PurgeHistory::default());
    let (hot, cold) = (purges.purge_key(b"hot"), purges.purge_key(b"cold"));
    purges.purge_by_key(cold, Hard);
    let stamp = purges.stamp(b"k");
    (0..100).for_each(|_| purges.purge_by_key(hot, Hard));
    assert!(!tags_are_unpurged(&purges, &stamp, &[hot]));
    assert!(tags_are_unpurged(&purges, &stamp, &[cold]), "purged before the stamp was taken");
    assert_eq!(purges.log().lengths()[1], 1);
}

/// What checks of the resource and of its tags say: whether it is purged, and since when it is stale.
fn check(purges: &Purges, stamp: &PurgeStamp, resource: &[u8], tags: &[PurgeKey]) -> (bool, Vec<u64>) {
    let mut since = Vec::new();
    let is_unpurged = purges.is_unpurged(stamp, resource, |at_ms| since.push(at_ms));
    let is_unpurged = is_unpurged && purges.tags_are_unpurged(stamp, tags, |at_ms| since.push(at_ms));
    (is_unpurged, since)
}

#[test]
fn soft_purge_marks_once_and_a_hard_one_wins() {
    let purges = Purges::new();
    let (a, red) = (resource("/shop/1"), purges.purge_key(b"red"));
    let soft_purges: [&dyn Fn(u64); 4] = [
        &|at_ms| purges.purge_by_key(red, Soft { at_ms }),
        &|at_ms| purges.purge_by_key(purges.purge_key(&a), Soft { at_ms }),
        &|at_ms| purges.purge_prefix(&origin(), b"/shop/", Soft { at_ms }),
        &|at_ms| purges.purge_all(Soft { at_ms }),
    ];
    for (number, soft_purge) in soft_purges.into_iter().enumerate() {
        let (stamp, purged_too) = (purges.stamp(&a), purges.stamp(&a));
        soft_purge(7);
        assert_eq!(check(&purges, &stamp, &a, &[red]), (true, vec![7]), "{number}");
        assert_eq!(check(&purges, &stamp, &a, &[red]), (true, vec![]), "{number}: it is marked already");
        assert_eq!(check(&purges, &purges.stamp(&a), &a, &[red]), (true, vec![]), "{number}: it is newer");
        purges.purge_by_key(purges.purge_key(&a), Hard);
        soft_purge(8);
        assert!(!check(&purges, &purged_too, &a, &[red]).0, "{number}");
    }
    let (other, stamp) = (resource("/blog/1"), purges.stamp(b"k"));
    soft_purges[..3].iter().for_each(|soft_purge| soft_purge(9));
    assert_eq!(check(&purges, &stamp, &other, &[purges.purge_key(b"blue")]), (true, vec![]));
}

#[test]
fn first_of_several_soft_purges_counts() {
    let purges = Purges::new();
    let (a, tags) = (resource("/a"), [b"red", b"sea"].map(|tag| purges.purge_key(tag)));
    let stamp = purges.stamp(&a);
    for (tag, at_ms) in tags.into_iter().zip([9, 5]) {
        purges.purge_by_key(tag, Soft { at_ms });
    }
    purges.purge_prefix(&origin(), b"/", Soft { at_ms: 4 });
    purges.purge_all(Soft { at_ms: 6 });
    assert_eq!(check(&purges, &stamp, &a, &tags), (true, vec![4, 5]));
}

#[test]
fn soft_purge_dropped_from_log_covers_unchecked_stamps() {
    let purges = Purges::with_log_capacity(10, 0, PurgeHistory::default());
    let (tag, before) = (purges.purge_key(b"first"), purges.stamp(b"k"));
    purges.purge_by_key(tag, Soft { at_ms: 1 });
    (0..10).for_each(|n| purges.purge_by_key(purges.purge_key(&[n]), Hard));
    assert!(!tags_are_unpurged(&purges, &before, &[tag]));
    assert_eq!(purges.log().lengths()[2], 0);
}

/// The last one counted, so a response that had been of no use any more was served again.
#[test]
fn repeated_soft_purge_gives_no_further_time() {
    let a = resource("/a");
    let of_tag = |purges: &Purges, at_ms| purges.purge_by_key(purges.purge_key(b"red"), Soft { at_ms });
    let of_all = |purges: &Purges, at_ms| purges.purge_all(Soft { at_ms });
    for soft_purge in [&of_tag as &dyn Fn(&Purges, u64), &of_all] {
        let purges = Purges::new();
        let red = purges.purge_key(b"red");
        let unseen = purges.stamp(&a);
        soft_purge(&purges, 4);
        let second = purges.stamp(&a);
        (5..=20).for_each(|at_ms| soft_purge(&purges, at_ms));
        assert_eq!(check(&purges, &unseen, &a, &[red]), (true, vec![4]));
        assert_eq!(check(&purges, &second, &a, &[red]), (true, vec![5]));
        let unseen = purges.stamp(&a);
        (21..=38).for_each(|at_ms| soft_purge(&purges, at_ms));
        assert!(!check(&purges, &unseen, &a, &[red]).0, "the first one is not known any more");
        assert_eq!(check(&purges, &purges.stamp(&a), &a, &[red]), (true, vec![]));
    }
}
