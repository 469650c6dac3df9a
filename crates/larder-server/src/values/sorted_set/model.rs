//! Sorted sets of both forms against a model.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Form, MAX_PACKED_MEMBERS, MAX_PACKED_NAME_BYTES, NameBound, ScoreBound, SortedSet};

/// What a sorted set must contain.
#[derive(Clone, Debug, Default)]
struct Model {
    scores: BTreeMap<Vec<u8>, f64>,
    has_outgrown: bool,
}

impl Model {
    fn insert(&mut self, name: &[u8], score: f64) -> Option<f64> {
        let former = self.scores.insert(name.to_vec(), score);
        self.has_outgrown |= self.scores.len() > MAX_PACKED_MEMBERS || name.len() > MAX_PACKED_NAME_BYTES;
        former
    }

    /// The members in their order. Zeros are equal.
    fn members(&self) -> Vec<(Vec<u8>, f64)> {
        let mut members: Vec<_> = self.scores.iter().map(|(name, score)| (name.clone(), *score)).collect();
        // Names are in order already.
        members.sort_by(|(_, a), (_, b)| a.partial_cmp(b).expect("no score is NaN"));
        members
    }

    /// That a set which was filled at once has the form that its members allow.
    fn check_form(&self, set: &SortedSet) {
        let longest = self.scores.keys().map(Vec::len).max().unwrap_or(0);
        let total: usize = self.scores.keys().map(|name| name.len() + 9).sum();
        let is_tree = matches!(&set.form, Form::Tree(_));
        assert!(!is_tree || self.scores.len() > 128 || longest > 63 || total > 2_000);
        assert!(is_tree || self.scores.len() <= 128 && longest <= 63);
    }

    fn check(&self, set: &SortedSet) {
        let bits = |members: &[(Vec<u8>, f64)]| -> Vec<(Vec<u8>, u64)> {
            members.iter().map(|(name, score)| (name.clone(), score.to_bits())).collect()
        };
        let mut expected = self.members();
        assert_eq!((set.len(), set.is_packed()), (expected.len(), !self.has_outgrown));
        for (rank, (name, score)) in expected.iter().enumerate().step_by(7) {
            assert_eq!((set.rank(name), set.at(rank)), (Some((rank, *score)), (&name[..], *score)));
        }
        assert_eq!(bits(&content(set, false)), bits(&expected));
        expected.reverse();
        assert_eq!(bits(&content(set, true)), bits(&expected));
    }
}

fn content(set: &SortedSet, reversed: bool) -> Vec<(Vec<u8>, f64)> {
    let mut members = Vec::new();
    set.visit(0..set.len(), reversed, |name, score| {
        members.push((name.to_vec(), score));
        true
    });
    members
}

/// Names of about the length that the number of a kind says, with the ones at the limits of both forms.
fn name_of(kind: u8, number: u16) -> Vec<u8> {
    match (kind, number) {
        (_, 0) => Vec::new(),
        (1, 1..4) => vec![b'x'; 62 + usize::from(number)],
        (1, _) => format!("{number:040}").into_bytes(),
        _ => format!("member {number}").into_bytes(),
    }
}

/// Scores that are equal, that differ by little, and those at the limits of each length.
fn score() -> impl Strategy<Value = f64> {
    let edges = [
        0.0,
        -0.0,
        127.0,
        128.0,
        -128.0,
        -129.0,
        32_767.0,
        32_768.0,
        -32_768.0,
        -32_769.0,
        2_147_483_647.0,
        2_147_483_648.0,
        -2_147_483_648.0,
        -2_147_483_649.0,
        9_007_199_254_740_992.0,
        -9_007_199_254_740_992.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN_POSITIVE,
    ];
    prop_oneof![4 => (-9i8..9).prop_map(f64::from), 2 => (-9i8..9).prop_map(|n| f64::from(n) / 10.0), 2 => prop::sample::select(edges.to_vec())]
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, f64),
    Remove(u16),
    RemoveRange(u16, u16),
    /// The set is copied member by member, as a command does that stores a range: the copy may be small again.
    Copy,
    /// Members are inserted and removed, and that is undone.
    Undo(u16, f64),
}

fn step(names: u16) -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (0..names, score()).prop_map(|(name, score)| Step::Insert(name, score)),
        15 => (0..names).prop_map(Step::Remove),
        2 => (0..names, 0u16..20).prop_map(|(start, count)| Step::RemoveRange(start, count)),
        1 => Just(Step::Copy),
        1 => (0..names, score()).prop_map(|(name, score)| Step::Undo(name, score)),
    ]
}

/// The kind and the number of names, and steps: for sets far below the limits, around them, and above.
fn steps() -> impl Strategy<Value = (u8, Vec<Step>)> {
    let kinds = prop::sample::select(vec![(0u8, 12u16), (1, 12), (1, 70), (0, 170), (0, 400)]);
    kinds.prop_flat_map(|(kind, names)| (Just(kind), vec(step(names), 1..1_000)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sorted_set_matches_a_model((kind, steps) in steps(), low in score(), high in score()) {
        let (mut set, mut model) = (SortedSet::new(), Model::default());
        for (number, step) in steps.into_iter().enumerate() {
            let changes = set.changes;
            match step {
                Step::Insert(name, score) => {
                    let name = name_of(kind, name);
                    let former = model.insert(&name, score);
                    prop_assert_eq!(set.insert(&name, score), former);
                    prop_assert_eq!(set.changes != changes, former != Some(score));
                    prop_assert_eq!(set.score(&name).map(f64::to_bits), Some(score.to_bits()));
                }
                Step::Remove(name) => {
                    let name = name_of(kind, name);
                    let former = model.scores.remove(&name);
                    prop_assert_eq!(set.remove(&name), former);
                    prop_assert_eq!((set.changes != changes, set.score(&name)), (former.is_some(), None));
                }
                Step::RemoveRange(start, count) => {
                    let start = usize::from(start).min(set.len());
                    let end = (start + usize::from(count)).min(set.len());
                    for (name, _) in &model.members()[start..end] {
                        model.scores.remove(name);
                    }
                    set.remove_range(start..end);
                    prop_assert_eq!(set.changes != changes, start < end);
                }
                Step::Copy => {
                    let members = content(&set, number % 2 == 0);
                    (set, model) = (SortedSet::new(), Model::default());
                    for (name, score) in &members {
                        set.insert(name, *score);
                        model.insert(name, *score);
                    }
                    model.check_form(&set);
                }
                Step::Undo(first, score) => {
                    set.start_journal();
                    for name in (first..first + 60).map(|name| name_of(kind, name)) {
                        _ = if name.len() % 3 == 0 { set.remove(&name) } else { set.insert(&name, score) };
                    }
                    set.remove_range(0..set.len() / 2);
                    let journal = set.take_journal().expect("it was started");
                    set.undo(&journal);
                }
            }
            if number % 8 == 0 {
                model.check(&set);
            }
        }
        model.check(&set);
        let members = model.members();
        for (below, above) in [(false, false), (false, true), (true, false), (true, true)] {
            let bound = |score, is_exclusive| ScoreBound { score, is_exclusive };
            let ranks = set.ranks_by_score(bound(low, below), bound(high, above));
            let inside = |score: f64| (score > low || !below && score == low) && (score < high || !above && score == high);
            prop_assert_eq!(ranks.len(), members.iter().filter(|(_, score)| inside(*score)).count());
            prop_assert!(ranks.is_empty() || inside(members[ranks.start].1));
        }
    }

    #[test]
    fn ranks_by_name_match_a_filter(names in proptest::collection::btree_set("[a-d]{0,4}", 0..180), low in "[a-d]{0,3}", high in "[a-d]{0,3}") {
        let mut set = SortedSet::new();
        names.iter().for_each(|name| _ = set.insert(name.as_bytes(), 0.0));
        let (low, high) = (low.as_bytes(), high.as_bytes());
        let bounds = |bound| [NameBound::First, NameBound::Last, NameBound::Inclusive(bound), NameBound::Exclusive(bound)];
        for min in bounds(low) {
            for max in bounds(high) {
                let inside = |name: &&String| !min.is_above(name.as_bytes()) && !max.is_below(name.as_bytes());
                let ranks = set.ranks_by_name(min, max);
                prop_assert_eq!(ranks.len(), names.iter().filter(inside).count(), "{:?} {:?}", min, max);
            }
        }
    }
}

/// Each limit of the small form: the last set below it, and the first one above it.
#[test]
fn set_becomes_a_tree_at_each_limit_and_keeps_its_members() {
    let name = |number: usize, bytes: usize| format!("{number:0bytes$}").into_bytes();
    // 31 members of 63 bytes, with scores of one byte and the header, are 2,018 bytes.
    for (limit, members, bytes, steps) in [
        ("the 129th member", 128, 8, vec![(name(128, 8), 0.0)]),
        ("a name of 64 bytes", 1, 63, vec![(name(1, 64), 0.0)]),
        ("one more long name", 31, 63, vec![(name(31, 63), 0.0)]),
        ("a longer score", 31, 63, (0..5).map(|number| (name(number, 63), 0.5)).collect()),
    ] {
        let (mut set, mut model) = (SortedSet::new(), Model::default());
        let first = (0..members).map(|number| (name(number, bytes), (number % 5) as f64));
        let last = first.len() + steps.len();
        for (index, (name, score)) in (1..).zip(first.chain(steps)) {
            assert_eq!(set.insert(&name, score), model.insert(&name, score), "{limit}");
            assert_eq!(matches!(&set.form, Form::Tree(_)), index == last, "{limit}: {index} of {last}");
            model.check(&set);
        }
        set.remove_range(1..set.len());
        assert!(matches!(&set.form, Form::Tree(_)), "{limit}: it stays a tree");
    }
}
