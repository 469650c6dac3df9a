//! Lists of all forms against a model, and the memory that they need.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::chunk::MAX_CHUNK_BYTES;
use super::{End, List};

type Model = VecDeque<Vec<u8>>;

fn content(list: &List, reversed: bool) -> Model {
    let mut elements = Model::new();
    list.visit(0..list.len(), reversed, |element| {
        elements.push_back(element.to_vec());
        true
    });
    elements
}

fn check(list: &List, model: &Model) {
    list.chunks.validate();
    assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
    assert_eq!(content(list, false), *model);
    assert!(content(list, true).iter().eq(model.iter().rev()));
    for index in (0..model.len()).step_by(5) {
        assert_eq!(list.at(index), model[index]);
        let (from, to) = (index / 2, index);
        for reversed in [false, true] {
            let mut visited = Vec::new();
            list.visit(from..to, reversed, |element| {
                visited.push(element.to_vec());
                true
            });
            if reversed {
                visited.reverse();
            }
            assert!(visited.iter().eq(model.range(from..to)), "{from}..{to} {reversed}");
        }
    }
}

/// An element of a kind: short ones of few values, middle ones, and those that fill a chunk.
fn element(kind: u8, number: u8) -> Vec<u8> {
    match kind {
        0..6 => vec![number % 4; usize::from(number % 3)],
        6..9 => vec![number; 100 + usize::from(number)],
        9..11 => vec![number; 3_000],
        _ => vec![number; MAX_CHUNK_BYTES - 4 + usize::from(number % 8)],
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push(bool, u8, u8),
    Insert(u16, u8, u8),
    Replace(u16, u8, u8),
    Remove(u16, u16),
    RemoveEqual(u8, u8, bool),
    /// Further steps, which are undone.
    Undone(Vec<Step>),
}

fn plain_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (any::<bool>(), 0..12u8, any::<u8>()).prop_map(|(left, kind, number)| Step::Push(left, kind, number)),
        8 => (any::<u16>(), 0..12u8, any::<u8>()).prop_map(|(at, kind, number)| Step::Insert(at, kind, number)),
        8 => (any::<u16>(), 0..12u8, any::<u8>()).prop_map(|(at, kind, number)| Step::Replace(at, kind, number)),
        8 => (any::<u16>(), 0..9u16).prop_map(|(at, count)| Step::Remove(at, count)),
        1 => (any::<u16>(), 0..200u16).prop_map(|(at, count)| Step::Remove(at, count)),
        2 => (0..12u8, 0..9u8, any::<bool>()).prop_map(|(number, most, left)| Step::RemoveEqual(number, most, left)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![12 => plain_step(), 1 => vec(plain_step(), 0..20).prop_map(Step::Undone)]
}

fn apply(list: &mut List, model: &mut Model, step: &Step) {
    match *step {
        Step::Push(left, kind, number) => {
            let element = element(kind, number);
            list.push(if left { End::Left } else { End::Right }, &element);
            if left { model.push_front(element) } else { model.push_back(element) }
        }
        Step::Insert(at, kind, number) => {
            let (at, element) = (usize::from(at) % (model.len() + 1), element(kind, number));
            list.insert(at, &element);
            model.insert(at, element);
        }
        Step::Replace(at, kind, number) if !model.is_empty() => {
            let (at, element) = (usize::from(at) % model.len(), element(kind, number));
            list.replace(at, &element);
            model[at] = element;
        }
        Step::Remove(at, count) if !model.is_empty() => {
            let from = usize::from(at) % model.len();
            let to = (from + usize::from(count)).min(model.len());
            list.remove(from..to);
            model.drain(from..to);
        }
        Step::RemoveEqual(number, most, left) => {
            let (equal, most) = (element(0, number), usize::from(most));
            let from = if left { End::Left } else { End::Right };
            let (is_changed, removed) = list.observe(|list| list.remove_equal(&equal, most, from));
            assert_eq!(is_changed, removed > 0);
            for turn in 0..most {
                let found = match left {
                    true => model.iter().position(|other| *other == equal),
                    false => model.iter().rposition(|other| *other == equal),
                };
                let Some(index) = found else {
                    assert_eq!(removed, turn);
                    break;
                };
                model.remove(index);
            }
        }
        Step::Undone(ref steps) => {
            list.start_journal();
            let mut changed = model.clone();
            steps.iter().for_each(|step| apply(list, &mut changed, step));
            check(list, &changed);
            let journal = list.take_journal().expect("it was started");
            assert!(!journal.is_empty() || changed == *model);
            list.undo(&journal);
        }
        Step::Replace(..) | Step::Remove(..) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn list_is_what_its_steps_make(steps in vec(step(), 0..120)) {
        let (mut list, mut model) = (List::new(), Model::new());
        for step in &steps {
            let before = model.clone();
            let (is_changed, ()) = list.observe(|list| apply(list, &mut model, step));
            prop_assert!(is_changed || before == model);
            check(&list, &model);
        }
        let copy = list.clone();
        check(&copy, &model);
        list.remove(0..list.len());
        check(&list, &Model::new());
        prop_assert_eq!(list.chunks.bytes_allocated(), 0);
    }
}

#[test]
fn hundred_thousand_elements_take_19_bytes_each() {
    for end in [End::Left, End::Right] {
        let mut list = List::new();
        for number in 0..100_000u64 {
            list.push(end, format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).as_bytes());
        }
        let each = list.bytes_allocated() as f64 / 100_000.0;
        println!("{end:?}: {each:.2} bytes per element of 16 bytes");
        assert!(each <= 19.0, "{end:?}: {each:.2}");
    }
}

#[test]
fn queue_needs_the_memory_of_what_is_in_it() {
    let mut list = List::new();
    let element = [7; 100];
    for _ in 0..100_000 {
        list.push(End::Left, &element);
    }
    while list.len() > 10 {
        list.remove(list.len() - 1..list.len());
    }
    assert!(list.bytes_allocated() < 2_500, "{}", list.bytes_allocated());
    for _ in 0..100_000 {
        list.push(End::Left, &element);
        list.remove(list.len() - 1..list.len());
        assert!(list.bytes_allocated() < 20_000, "{}", list.bytes_allocated());
    }
}
