//! Sets against a model, and the memory that they need.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{MAX_PACKED_MEMBERS, Set};
use crate::values::allocated::allocated;

fn content(set: &Set) -> BTreeSet<Vec<u8>> {
    let mut members = BTreeSet::new();
    set.visit(|member| assert!(members.insert(member.to_vec())));
    members
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn set_is_what_its_steps_make(steps in vec((any::<bool>(), any::<bool>(), 0u16..300), 0..600)) {
        let (mut set, mut model) = (Set::new(), BTreeSet::new());
        for (adds, is_integer, number) in steps {
            let member = if is_integer { number.to_string() } else { format!("member {number}") }.into_bytes();
            let (is_changed, answer) =
                set.observe(|set| if adds { set.insert(&member) } else { set.remove(&member) });
            let expected = if adds { model.insert(member.clone()) } else { model.remove(&member) };
            prop_assert_eq!((is_changed, answer), (expected, expected));
            prop_assert_eq!((set.len(), set.contains(&member)), (model.len(), adds));
        }
        prop_assert_eq!(content(&set), model.clone());
        let mut by_rank = BTreeSet::new();
        set.visit_ranks(0..set.len(), |member| by_rank.insert(member.to_vec()));
        prop_assert_eq!(by_rank, model);
    }
}

#[test]
fn only_integers_have_the_form_of_integers() {
    let mut set = Set::new();
    for number in 0..512 {
        set.insert(number.to_string().as_bytes());
    }
    assert!(set.has_few_integers());
    set.insert(b"512");
    assert!(!set.has_few_integers());
    set.remove(b"512");
    set.insert(b"007");
    assert!(!set.has_few_integers());
}

/// Redis needs 75.7 bytes for each.
#[test]
fn twenty_thousand_members_take_at_most_45_bytes_each() {
    const MEMBERS: u64 = 20_000;
    let names: Vec<String> =
        (0..MEMBERS).map(|number| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let before = allocated();
    let mut set = Box::new(Set::new());
    names.iter().for_each(|name| _ = set.insert(name.as_bytes()));
    let bytes = allocated() - before;
    assert_eq!(bytes as usize, set.bytes_allocated(), "the charge is what is allocated");
    let each = bytes as f64 / MEMBERS as f64;
    println!("{each:.1} bytes per member of 16 bytes");
    assert!(each <= 45.0, "{each:.1}");
}

#[test]
fn set_leaves_the_buffer_when_walks_become_long() {
    let mut set = Set::new();
    let is_packed = |set: &Set| set.members.is_packed();
    for number in 0..MAX_PACKED_MEMBERS {
        set.insert(format!("member {number}").as_bytes());
        assert!(is_packed(&set));
    }
    set.insert(b"one more");
    assert!(!is_packed(&set));
    set.start_journal();
    set.remove(b"one more");
    set.insert(b"other");
    let journal = set.take_journal().expect("it was started");
    set.undo(&journal);
    assert!(set.contains(b"one more") && !set.contains(b"other"));
}
