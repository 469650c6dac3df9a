//! Hashes of both forms against a model.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::packed::MAX_FIELDS;
use super::{Alarms, Field, Form, Hash};

type Fields = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

/// What a hash must contain.
#[derive(Clone, Debug, Default)]
struct Model {
    fields: Fields,
    has_outgrown: bool,
}

impl Model {
    fn insert(&mut self, name: &[u8], value: &[u8], deadline: Option<i64>) -> bool {
        let is_new = self.fields.insert(name.to_vec(), (value.to_vec(), deadline)).is_none();
        self.has_outgrown |= self.fields.len() > MAX_FIELDS || name.len() > 64 || value.len() > 64;
        is_new
    }

    fn live(&self, now: i64) -> Fields {
        let is_live = |deadline: Option<i64>| deadline.is_none_or(|deadline| deadline > now);
        let live = self.fields.iter().filter(|(_, (_, deadline))| is_live(*deadline));
        live.map(|(name, field)| (name.clone(), field.clone())).collect()
    }

    fn check(&self, hash: &Hash, now: i64) {
        let live = self.live(now);
        assert_eq!((hash.stored(), hash.len(now)), (self.fields.len(), live.len()));
        assert_eq!(matches!(hash.form, Form::Packed(_)), !self.has_outgrown);
        assert_eq!(hash.first_deadline(), self.fields.values().filter_map(|(_, deadline)| *deadline).min());
        for (name, (value, deadline)) in self.fields.iter().step_by(7) {
            let found =
                hash.read(name, now, |field| (field.name == *name, field.value == *value, field.deadline));
            assert_eq!(found, live.contains_key(name).then_some((true, true, *deadline)));
        }
        let mut visited = Fields::new();
        hash.visit(now, |field| {
            let former = visited.insert(field.name.to_vec(), (field.value.to_vec(), field.deadline));
            assert_eq!(former, None, "a field is visited once");
        });
        assert_eq!(visited, live);
    }
}

/// Names of about the length that the number of a kind says, with the ones at the limits of both forms.
fn text_of(kind: u8, number: u16) -> Vec<u8> {
    match (kind, number) {
        (_, 0) => Vec::new(),
        (1, 1..4) => vec![b'x'; 62 + usize::from(number)],
        (1, 4..6) => vec![b'y'; 118 + 3 * usize::from(number)],
        (1, _) => format!("{number:040}").into_bytes(),
        (2, _) => number.to_string().into_bytes(),
        _ => format!("field {number}").into_bytes(),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u16, Option<i64>),
    Remove(u16),
    /// The time advances, and some of the fields that have expired are removed.
    Advance(i64, usize),
    /// The hash is copied field by field: the copy may be small again.
    Copy,
    /// Fields are stored and removed, and that is undone.
    Undo(u16, u16),
    /// A scan in pieces, with changes of fields in between.
    Scan(usize, u16),
}

fn step(names: u16) -> impl Strategy<Value = Step> {
    let deadline = || prop_oneof![3 => Just(None), 1 => (0i64..1_000).prop_map(Some)];
    prop_oneof![
        40 => (0..names, 0u16..300, deadline()).prop_map(|(name, value, deadline)| Step::Insert(name, value, deadline)),
        12 => (0..names).prop_map(Step::Remove),
        3 => (0i64..20, 0usize..30).prop_map(|(ms, most)| Step::Advance(ms, most)),
        1 => Just(Step::Copy),
        1 => (0..names, 0u16..300).prop_map(|(name, value)| Step::Undo(name, value)),
        1 => (1usize..40, 0..names).prop_map(|(count, name)| Step::Scan(count, name)),
    ]
}

/// The kinds of names and values and the number of names, and steps: for hashes far below the limits, around them, and above.
fn steps() -> impl Strategy<Value = (u8, u8, Vec<Step>)> {
    let kinds =
        vec![(0u8, 0u8, 12u16), (0, 1, 12), (1, 0, 12), (2, 2, 40), (2, 2, 530), (0, 2, 800), (0, 1, 700)];
    prop::sample::select(kinds)
        .prop_flat_map(|(kind, values, names)| (Just(kind), Just(values), vec(step(names), 1..1_500)))
}

/// Scans a hash in pieces of `count`, and calls `between` after each. Returns the names in the order of the visits.
fn scan(hash: &mut Hash, count: usize, now: i64, mut between: impl FnMut(&mut Hash)) -> Vec<Vec<u8>> {
    let (mut names, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = hash.scan(cursor, count, now, |field| names.push(field.name.to_vec()));
        if cursor == 0 {
            return names;
        }
        between(hash);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hash_matches_a_model((kind, values, steps) in steps()) {
        let (mut hash, mut model, mut now) = (Hash::new(), Model::default(), 0);
        let alarms = Alarms::default();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert(name, value, deadline) => {
                    let (name, value) = (text_of(kind, name), text_of(values, value));
                    let is_new = hash.insert(Field { name: &name, value: &value, deadline });
                    prop_assert_eq!(is_new, model.insert(&name, &value, deadline));
                }
                Step::Remove(name) => {
                    let name = text_of(kind, name);
                    prop_assert_eq!(hash.remove(&name), model.fields.remove(&name).is_some());
                }
                Step::Advance(ms, most) => {
                    now += ms;
                    let before = model.fields.len() - model.live(now).len();
                    prop_assert_eq!(hash.remove_expired(now, most), before.min(most));
                    // Which of them are removed is not specified.
                    if most < before {
                        prop_assert_eq!(hash.remove_expired(now, usize::MAX), before - most);
                    }
                    model.fields = model.live(now);
                }
                Step::Copy => {
                    let mut copy = Hash::new();
                    hash.visit(i64::MIN, |field| _ = copy.insert(field));
                    let fields = std::mem::take(&mut model).fields;
                    fields.iter().for_each(|(name, (value, deadline))| _ = model.insert(name, value, *deadline));
                    hash = copy;
                }
                Step::Undo(first, value) => {
                    hash.start_journal();
                    for name in (first..first + 60).map(|name| text_of(kind, name)) {
                        let deadline = (name.len() % 2 == 0).then_some(now + 5);
                        let value = text_of(values, value);
                        let field = Field { name: &name, value: &value, deadline };
                        _ = if name.len() % 3 == 0 { hash.remove(&name) } else { hash.insert(field) };
                    }
                    hash.remove_expired(now + 10, 20);
                    let journal = hash.take_journal().expect("it was started");
                    hash.undo(&journal);
                }
                Step::Scan(count, name) => {
                    // A changed value moves to another slot.
                    let changed = text_of(kind, name);
                    let mut lengths = (0..50).cycle();
                    let names = scan(&mut hash, count, now, |hash| {
                        let value = vec![b'v'; lengths.next().unwrap_or_default()];
                        hash.insert(Field { name: &changed, value: &value, deadline: None });
                    });
                    let (visits, mut different) = (names.len(), names);
                    different.sort();
                    different.dedup();
                    prop_assert_eq!(different.len(), visits, "a field is visited once");
                    let mut expected: Vec<Vec<u8>> = model.live(now).into_keys().collect();
                    let is_new = !model.live(now).contains_key(&changed);
                    if hash.contains(&changed, now) {
                        let value = hash.read(&changed, now, |field| field.value.to_vec()).unwrap_or_default();
                        let deadline = hash.read(&changed, now, |field| field.deadline).flatten();
                        model.insert(&changed, &value, deadline);
                    }
                    expected.retain(|name| *name != changed || !is_new);
                    different.retain(|name| *name != changed || !is_new);
                    prop_assert_eq!(different, expected);
                }
            }
            hash.set_alarm(&alarms, now, 0, b"key");
            prop_assert_eq!(alarms.len() > 0, hash.extra.as_ref().is_some_and(|extra| extra.alarm.is_some()));
            if number % 16 == 0 {
                model.check(&hash, now);
            }
        }
        model.check(&hash, now);
        drop(hash);
        prop_assert_eq!(alarms.len(), 0);
    }
}

/// Each limit of the small form: the last hash below it, and the first one above it.
#[test]
fn hash_outgrows_the_buffer_at_each_limit_of_redis() {
    let text = |bytes: usize| vec![b'x'; bytes];
    for (limit, fields, last) in [
        ("the 513th field", 512, (b"last".to_vec(), b"1".to_vec())),
        ("a name of 65 bytes", 1, (text(65), b"1".to_vec())),
        ("a value of 65 bytes", 1, (b"last".to_vec(), text(65))),
    ] {
        let mut hash = Hash::new();
        let (longest_name, longest_value) = (text(64), text(64));
        hash.insert(Field { name: &longest_name, value: &longest_value, deadline: None });
        for number in 1..fields {
            let name = format!("field {number}");
            hash.insert(Field { name: name.as_bytes(), value: b"value", deadline: Some(number) });
        }
        assert!(hash.is_packed(), "{limit}");
        hash.insert(Field { name: &last.0, value: &last.1, deadline: None });
        assert!(!hash.is_packed(), "{limit}");
        assert_eq!(hash.stored(), fields as usize + 1);
        hash.remove(&last.0);
        assert!(!hash.is_packed(), "{limit}: it does not return");
    }
}
