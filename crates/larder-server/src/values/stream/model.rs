//! Streams against a model, and the memory that they need.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::chunk::{MAX_CHUNK_BYTES, MAX_CHUNK_ENTRIES};
use super::{Head, Id, Keep, Stream, Trim};
use crate::values::allocated::allocated;

type Texts = Vec<Vec<u8>>;

#[derive(Clone, Debug, PartialEq)]
struct Model {
    entries: BTreeMap<Id, Texts>,
    head: Head,
}

fn content(stream: &Stream, ids: std::ops::RangeInclusive<Id>, reversed: bool) -> Vec<(Id, Texts)> {
    let mut entries = Vec::new();
    stream.visit(ids, reversed, |entry| {
        let mut texts = Texts::new();
        entry.visit(|name, value| texts.extend([name.to_vec(), value.to_vec()]));
        assert_eq!(texts.len(), 2 * entry.fields);
        entries.push((entry.id, texts));
        true
    });
    entries
}

fn check(stream: &Stream, model: &Model) {
    stream.validate();
    assert_eq!((stream.len(), stream.head()), (model.entries.len(), model.head));
    let ids = || model.entries.keys().copied();
    assert_eq!((stream.first_entry_id(), stream.last_entry_id()), (ids().next(), ids().next_back()));
    for (start, end) in [(0, usize::MAX), (1, 5), (7, 20), (3, 3)] {
        let id = |index: usize| ids().nth(index).unwrap_or(Id::MAX);
        // The bounds are in the stream, or between its ids.
        for range in [id(start)..=id(end), Id { seq: 3, ..id(start) }..=Id { ms: id(end).ms, seq: 0 }] {
            let mut expected: Vec<(Id, Texts)> = match range.is_empty() {
                true => Vec::new(),
                false => model.entries.range(range.clone()).map(|(id, texts)| (*id, texts.clone())).collect(),
            };
            assert_eq!(content(stream, range.clone(), false), expected);
            expected.reverse();
            assert_eq!(content(stream, range, true), expected);
        }
    }
}

/// Fields of a kind: those that most entries have, others, and one that fills a chunk.
fn texts(kind: u8, number: u8) -> Texts {
    let value = |length: usize| vec![b'a' + number % 26; length];
    let integer = (i64::from(number) << (number % 60)).to_string().into_bytes();
    match kind {
        0..10 => vec![b"event".to_vec(), value(3), b"job".to_vec(), integer],
        10 => vec![value(1), integer, value(70), value(0)],
        11 => vec![b"event".to_vec(), value(700)],
        _ => vec![b"event".to_vec(), value(MAX_CHUNK_BYTES - 20 + usize::from(number % 40))],
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Entries of this kind and number; the time grows by so many milliseconds.
    Append(u8, u8, u64, u16),
    /// That of this index, or none.
    Remove(u16),
    /// To this part of its length, or from that index on.
    Trim(u16, bool, bool, Option<u8>),
    /// Further steps, which are undone.
    Undone(Vec<Step>),
}

fn plain_step() -> impl Strategy<Value = Step> {
    let passed = prop_oneof![4 => Just(0), 4 => 1..900u64, 1 => Just(1 << 40), 1 => Just(1 << 62)];
    prop_oneof![
        9 => (0..13u8, any::<u8>(), passed, 0..30u16).prop_map(|(kind, number, passed, count)| Step::Append(kind, number, passed, count)),
        6 => any::<u16>().prop_map(Step::Remove),
        2 => (any::<u16>(), any::<bool>(), any::<bool>(), any::<Option<u8>>())
            .prop_map(|(at, by_id, is_exact, most)| Step::Trim(at, by_id, is_exact, most)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![12 => plain_step(), 1 => vec(plain_step(), 0..20).prop_map(Step::Undone)]
}

fn append(stream: &mut Stream, model: &mut Model, passed: u64, texts: Texts) {
    let last = model.head.last_id;
    let id = match passed {
        0 => Id { seq: last.seq + 1, ..last },
        _ => Id { ms: last.ms.saturating_add(passed), seq: last.seq / 2 + 1 },
    };
    if id <= last {
        return;
    }
    stream.append(id, &texts);
    model.entries.insert(id, texts);
    model.head = Head { last_id: id, added: model.head.added + 1, ..model.head };
}

fn trim(stream: &mut Stream, model: &mut Model, trim: &Trim) {
    let before = model.entries.len();
    let excess = match trim.keep {
        Keep::Last(most) => before.saturating_sub(most),
        Keep::From(first) => model.entries.range(..first).count(),
    };
    let removed = stream.trim(trim);
    assert!(removed <= excess && trim.most.is_none_or(|most| removed <= most));
    if trim.is_exact && trim.most.is_none() {
        assert_eq!(removed, excess);
    } else if trim.most.is_none() {
        assert!(excess - removed < MAX_CHUNK_ENTRIES.into());
    }
    (0..removed).for_each(|_| _ = model.entries.pop_first());
}

fn apply(stream: &mut Stream, model: &mut Model, step: &Step) {
    match step {
        Step::Append(kind, number, passed, count) => {
            for turn in 0..*count {
                append(stream, model, *passed, texts(*kind, number.wrapping_add(turn as u8)));
            }
        }
        Step::Remove(at) => {
            let index = usize::from(*at) % (model.entries.len() + 1);
            let id = model.entries.keys().nth(index).copied();
            let removed = stream.remove(id.unwrap_or(Id { ms: 5, seq: u64::MAX }));
            assert_eq!(removed, id.is_some());
            if let Some(id) = id {
                model.entries.remove(&id);
                model.head.max_removed_id = model.head.max_removed_id.max(id);
            }
        }
        Step::Trim(at, by_id, is_exact, most) => {
            let index = usize::from(*at) % (model.entries.len() + 1);
            let keep = match by_id {
                true => Keep::From(model.entries.keys().nth(index).copied().unwrap_or(Id::MAX)),
                false => Keep::Last(index),
            };
            trim(stream, model, &Trim { keep, is_exact: *is_exact, most: most.map(usize::from) });
        }
        Step::Undone(steps) => {
            stream.start_journal();
            let mut changed = model.clone();
            steps.iter().for_each(|step| apply(stream, &mut changed, step));
            check(stream, &changed);
            let journal = stream.take_journal().expect("it was started");
            assert!(!journal.is_empty() || changed == *model);
            stream.undo(&journal);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stream_is_what_its_steps_make(steps in vec(step(), 0..80)) {
        let mut stream = Stream::new();
        let mut model = Model { entries: BTreeMap::new(), head: stream.head() };
        for step in &steps {
            let before = model.clone();
            let (is_changed, ()) = stream.observe(|stream| apply(stream, &mut model, step));
            prop_assert!(is_changed || before == model);
            check(&stream, &model);
        }
        let copy = stream.clone();
        check(&copy, &model);
        trim(&mut stream, &mut model, &Trim { keep: Keep::Last(0), is_exact: true, most: None });
        check(&stream, &model);
        prop_assert_eq!((stream.buffer_bytes, stream.chunks()), (0, 0));
    }
}

/// Events of a queue of jobs: the number of the job grows.
fn event(number: usize) -> [String; 6] {
    let [event, from] = [["waiting", ""], ["active", "waiting"], ["completed", "active"]][number % 3];
    ["event", event, "jobId", &(number / 3 + 1).to_string(), "prev", from].map(str::to_owned)
}

#[test]
fn bytes_allocated_is_what_is_allocated_after_any_change() {
    let events: Vec<_> = (0..2_000).map(event).collect();
    let before = allocated();
    let mut stream = Box::new(Stream::new());
    let check = |stream: &Stream| assert_eq!((allocated() - before) as usize, stream.bytes_allocated());
    let id = |number: usize| Id { ms: number as u64 + 1, seq: 0 };
    for (number, event) in events.iter().enumerate() {
        stream.append(id(number), event);
        check(&stream);
    }
    for number in (0..2_000).filter(|number| number % 3 != 0 || number % 400 < 200) {
        stream.remove(id(number));
        check(&stream);
    }
    let before_copy = allocated();
    let copy = stream.clone();
    assert_eq!((allocated() - before_copy) as usize, copy.bytes_allocated(), "a copy");
    drop(copy);
    for len in (0..stream.len()).rev() {
        stream.trim(&Trim { keep: Keep::Last(len), is_exact: true, most: None });
        check(&stream);
    }
}

#[test]
fn event_of_three_fields_takes_25_bytes() {
    let mut stream = Stream::new();
    for number in 0..100_000 {
        stream
            .append(Id { ms: 1_700_000_000_000 + number as u64 / 2, seq: number as u64 % 2 }, &event(number));
    }
    let each = stream.bytes_allocated() as f64 / 100_000.0;
    println!("{each:.2} bytes per entry");
    assert!(each <= 25.0, "{each:.2}");
}

#[test]
fn trimmed_stream_needs_the_memory_of_what_is_in_it() {
    for is_exact in [false, true] {
        let mut stream = Stream::new();
        let mut most_bytes = 0;
        for number in 0..50_000 {
            stream.append(Id { ms: number as u64 + 1, seq: 0 }, &event(number));
            stream.trim(&Trim { keep: Keep::Last(500), is_exact, most: None });
            most_bytes = most_bytes.max(stream.bytes_allocated());
        }
        assert!(most_bytes < 40_000, "{most_bytes}");
        stream.trim(&Trim { keep: Keep::Last(1), is_exact: true, most: None });
        assert!(stream.bytes_allocated() < 1_000, "{}", stream.bytes_allocated());
    }
}
