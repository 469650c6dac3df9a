//! The queues of a small cache, what contests teach, and hit ratios of whole caches.

use super::super::testing::{Numbered, PolicyHarness};
use super::contest::{Class, Contest};
use super::*;
use crate::{Cache, Policy};

/// Eight entries, the last of which was inserted when the cache was full.
fn full() -> PolicyHarness<Ctd> {
    let mut harness = PolicyHarness::new(Ctd::new());
    (0..8).for_each(|_| _ = harness.insert());
    assert_eq!(harness.evict(), Some(0), "the oldest of main, for the window is empty");
    assert_eq!(harness.insert(), 0);
    harness
}

#[test]
fn newcomer_with_more_uses_replaces_the_resident_under_the_hand() {
    let mut harness = full();
    assert_eq!(harness.order(), [0, 1, 2, 3, 4, 5, 6, 7], "window, then main");
    assert_eq!(harness.evict(), Some(1), "0 was inserted twice");
    assert_eq!(harness.order(), [2, 3, 4, 5, 6, 7, 0]);
}

#[test]
fn hand_takes_all_hits_and_grants_a_second_chance() {
    let mut harness = full();
    (0..3).for_each(|_| harness.hit(1));
    assert_eq!(harness.evict(), Some(2), "the next one");
    assert_eq!(harness.order(), [3, 4, 5, 6, 7, 1, 0]);
    for victim in [3, 4, 5, 6, 7, 1] {
        let newcomer = harness.insert();
        (0..3).for_each(|_| harness.hit(newcomer));
        assert_eq!(harness.evict(), Some(victim), "1 has no hits in the next round of the hand");
    }
}

/// The fault was a resident with a high estimate that stayed under the hand and turned every newcomer away.
#[test]
fn resident_that_wins_twice_goes_to_the_back() {
    let mut harness = full();
    for round in 0..2 {
        (1..8).for_each(|id| harness.hit(id));
        assert_eq!(harness.evict(), Some(0), "the hand counted the uses of the others, round {round}");
        assert_eq!(harness.insert(), 0);
    }
    assert_eq!(harness.order(), [0, 2, 3, 4, 5, 6, 7, 1]);
}

#[test]
fn expired_resident_leaves_for_a_newcomer_with_fewer_uses() {
    let mut harness = full();
    (1..8).for_each(|id| harness.hit(id));
    harness.expire(1);
    assert_eq!(harness.evict(), Some(1));
}

#[test]
fn contest_starts_with_the_rule_of_tinylfu() {
    let contest = Contest::new();
    for has_hits in [false, true] {
        for lead in -20..=20 {
            assert_eq!(contest.admits(Class::of(lead, has_hits)), lead > 0, "a lead of {lead}");
        }
    }
}

/// Contests of the entries 1 and 2, and what happens after each.
struct Lesson {
    contest: Contest,
    entries: Numbered,
}

impl Lesson {
    fn new() -> Self {
        let mut contest = Contest::new();
        contest.resize(64);
        Lesson { contest, entries: Numbered { marks: [IN_MAIN; 8], used: [true; 8], due: [false; 8] } }
    }

    /// 1 stays and 2 leaves.
    fn observe(&mut self, class: Class, admitted: bool) {
        let [keeper, loser] = [1, 2].map(|id| self.entries.entry(id));
        self.contest.observe(&mut self.entries, class, admitted, keeper, loser);
    }

    /// In each round the key of 2 leaves and returns; before, `meanwhile` happens to the entries. `newcomer` is 1 or 2.
    fn repeat(&mut self, rounds: usize, class: Class, newcomer: u32, meanwhile: impl Fn(&mut Numbered)) {
        for _ in 0..rounds {
            self.entries.marks = [IN_MAIN; 8];
            self.observe(class, newcomer == 1);
            meanwhile(&mut self.entries);
            self.contest.inserted(self.entries.rank(2));
            self.contest.learn(&self.entries);
        }
    }
}

#[test]
fn newcomers_that_return_before_residents_are_used_are_admitted() {
    let (mut lesson, tie) = (Lesson::new(), Class::of(0, false));
    lesson.repeat(20, tie, 2, |_| {});
    assert!(lesson.contest.admits(tie));
    assert!(lesson.contest.admits(Class::of(-3, true)), "the bias is shared");
    lesson.repeat(60, tie, 2, |entries| entries.marks[1] |= USED);
    assert!(!lesson.contest.admits(tie), "now residents are used before");
}

#[test]
fn residents_that_return_before_newcomers_are_used_are_kept() {
    let lead = Class::of(1, false);
    let mut lesson = Lesson::new();
    lesson.repeat(50, lead, 1, |_| {});
    assert!(!lesson.contest.admits(lead));
    let mut lesson = Lesson::new();
    lesson.repeat(50, lead, 1, |entries| entries.marks[1] += 1);
    assert!(lesson.contest.admits(lead), "a hit of the newcomer came before");
}

#[test]
fn entry_that_has_left_was_not_first() {
    let (mut lesson, tie) = (Lesson::new(), Class::of(0, false));
    lesson.repeat(20, tie, 2, |entries| (entries.marks[1], entries.used[1]) = (IN_MAIN | USED, false));
    assert!(lesson.contest.admits(tie));
}

/// Without this the losers that return, which are seen at once, were all that the first contests taught.
#[test]
fn used_keeper_of_an_early_contest_is_seen_before_the_loser_returns() {
    let (mut lesson, tie) = (Lesson::new(), Class::of(0, false));
    for _ in 0..12 {
        lesson.contest.resize(64);
        lesson.entries.marks = [IN_MAIN; 8];
        lesson.observe(tie, true);
        assert!(lesson.contest.awaits(lesson.entries.rank(2)).is_some());
        lesson.entries.marks[1] |= USED;
        (0..64).for_each(|_| lesson.contest.learn(&lesson.entries));
        assert_eq!(lesson.contest.awaits(lesson.entries.rank(2)), None, "the newcomer that stayed was used");
    }
    assert!(lesson.contest.admits(tie));
}

/// Whether the contest that each of these ranks loses to 1 is observed.
fn observed(lesson: &mut Lesson, ranks: impl Iterator<Item = u32>) -> Vec<bool> {
    let (tie, keeper) = (Class::of(0, false), lesson.entries.entry(1));
    let is_observed = |rank| {
        lesson.contest.observe(&mut lesson.entries, tie, true, keeper, Queued { slot: 2, rank });
        lesson.contest.awaits(rank).is_some()
    };
    ranks.map(is_observed).collect()
}

#[test]
fn contests_of_one_loser_in_sixteen_are_observed_and_each_has_its_turn() {
    let mut lesson = Lesson::new();
    lesson.contest.resize(64 * 16);
    let ranks = || (0..4096u32).map(|n| n.wrapping_mul(0x9e37_79b9));
    let mut ever = vec![false; 4096];
    for _ in 0..32 {
        let now = observed(&mut lesson, ranks());
        let count = now.iter().filter(|is_observed| **is_observed).count();
        assert!((128..384).contains(&count), "{count} of 4096");
        ever.iter_mut().zip(now).for_each(|(ever, now)| *ever |= now);
    }
    let never = ever.iter().filter(|is_observed| !**is_observed).count();
    assert!(never < 100, "{never} of 4096 were never observed");
}

#[test]
fn forget_drops_all_observations() {
    let (mut lesson, tie) = (Lesson::new(), Class::of(0, false));
    for _ in 0..100 {
        lesson.observe(tie, false);
        lesson.contest.forget();
        lesson.contest.inserted(lesson.entries.rank(2));
        lesson.contest.learn(&lesson.entries);
    }
    assert!(!lesson.contest.admits(tie));
}

/// The share of hits among these requests.
fn hit_ratio(policy: Policy, capacity: u64, keys: impl Iterator<Item = u64>) -> f64 {
    let cache = Cache::<u64, ()>::builder().policy(policy).entries(capacity).build().unwrap();
    let (mut hits, mut requests) = (0, 0);
    for key in keys {
        requests += 1;
        match cache.get(&key) {
            Some(()) => hits += 1,
            None => _ = cache.insert(key, ()),
        }
    }
    f64::from(hits) / f64::from(requests)
}

/// Without learning it was 0.32 where LRU has 0.77.
#[test]
fn hit_ratio_of_a_sliding_window_is_close_to_that_of_lru() {
    let keys =
        || (0..400_000u64).map(|n| n / 10 + n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) % 3000);
    let [ours, lru] = [Policy::Ctd, Policy::Lru].map(|policy| hit_ratio(policy, 3000, keys()));
    assert!(ours > lru - 0.05, "{ours} for {lru}");
}

#[test]
fn hit_ratio_of_a_loop_is_close_to_the_optimum() {
    let ratio = hit_ratio(Policy::Ctd, 500, (0..200_000).map(|n| n % 2000));
    assert!(ratio > 0.22, "{ratio}, and at most 0.25 is possible");
}

/// The fault was a main space that never got back what had left it without an eviction: it ended empty, as a first-in-first-out
/// cache.
#[test]
fn hit_ratio_of_a_loop_is_close_to_the_optimum_after_all_entries_were_removed() {
    let cache = Cache::<u64, ()>::builder().entries(500).build().unwrap();
    let request = |key: u64| {
        let is_hit = cache.get(&key).is_some();
        if !is_hit {
            cache.insert(key, ());
        }
        u32::from(is_hit)
    };
    (0..100_000).for_each(|n| _ = request(n % 2000));
    (0..2000).for_each(|key| _ = cache.remove(&key));
    let hits: u32 = (0..200_000).map(|n| request(n % 2000)).sum();
    assert!(hits > 40_000, "{hits} of 200,000, and at most 50,000 are possible");
}
