//! Many keys in one call.

use super::{BulkLoader, Failure, How, Subject, Value, text};
use std::sync::{Arc, Mutex};

type Asked = Arc<Mutex<Vec<Vec<String>>>>;

/// A bulk loader that returns each key in capitals, but for those without a pair, and notes what it was asked.
fn capitals(asked: &Asked) -> BulkLoader {
    let asked = asked.clone();
    Box::new(move |keys| {
        Box::pin(async move {
            asked.lock().expect("nobody panics with it").push(keys.clone());
            Ok(keys.into_iter().map(|key| (key.clone(), Some(key.to_uppercase()))).collect())
        })
    })
}

fn returns(pairs: &'static [(&'static str, Option<&'static str>)]) -> BulkLoader {
    Box::new(move |_| {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned))).collect();
        Box::pin(async move { Ok(pairs) })
    })
}

fn asked(asked: &Asked) -> Vec<Vec<String>> {
    asked.lock().expect("nobody panics with it").clone()
}

fn some(texts: &[&str]) -> Vec<Option<Value>> {
    texts.iter().map(|one| Some(text(one))).collect()
}

/// With gaps, and with one asked for twice.
pub async fn read_multi_keeps_order(cache: impl Subject) {
    cache.write("a", text("1"), How::default()).await;
    cache.write("c", None, How::default()).await;
    let found = cache.read_multi(&["c", "b", "a", "a"]).await;
    assert_eq!(found, [Some(None), None, Some(text("1")), Some(text("1"))]);
    assert!(cache.read_multi(&[]).await.is_empty());
}

/// In one call, and no call for none.
pub async fn write_multi_stores_all(cache: impl Subject) {
    cache.write("b", text("old"), How::default()).await;
    cache.write_multi(&[("a", text("1")), ("b", text("2")), ("c", None)]).await;
    assert_eq!(cache.read_multi(&["a", "b", "c"]).await, [Some(text("1")), Some(text("2")), Some(None)]);
    cache.write_multi(&[]).await;
}

/// Those that were there.
pub async fn delete_multi_counts_removed_keys(cache: impl Subject) {
    cache.write_multi(&[("a", text("1")), ("b", text("2")), ("c", text("3"))]).await;
    assert_eq!(cache.delete_multi(&["a", "c", "x"]).await, 2);
    assert_eq!(cache.read_multi(&["a", "b", "c"]).await, [None, Some(text("2")), None]);
    assert_eq!(cache.delete_multi(&[]).await, 0);
}

/// One call of the loader for all that are missing; afterwards nothing is.
pub async fn fetch_multi_loads_missing_keys_together(cache: impl Subject) {
    cache.write("b", text("here"), How::default()).await;
    let seen = Asked::default();
    let found = cache.fetch_multi(&["a", "b", "c"], capitals(&seen)).await;
    assert_eq!(found, Ok(some(&["A", "here", "C"])));
    let mut calls = asked(&seen);
    calls.iter_mut().for_each(|call| call.sort());
    assert_eq!(calls, [["a", "c"]]);
    assert_eq!(cache.read_multi(&["a", "b", "c"]).await, some(&["A", "here", "C"]));
}

/// However often it was asked for.
pub async fn fetch_multi_asks_for_each_key_once(cache: impl Subject) {
    let seen = Asked::default();
    let found = cache.fetch_multi(&["a", "b", "a", "a"], capitals(&seen)).await;
    assert_eq!(found, Ok(some(&["A", "B", "A", "A"])));
    assert_eq!(asked(&seen).concat().len(), 2);
}

/// What it leaves out stays missing.
pub async fn bulk_loader_may_return_fewer_keys(cache: impl Subject) {
    let found = cache.fetch_multi(&["a", "b"], returns(&[("b", Some("2"))])).await;
    assert_eq!(found, Ok(vec![None, Some(text("2"))]));
    assert_eq!(cache.read("a").await, None);
    let seen = Asked::default();
    assert_eq!(cache.fetch_multi(&["a", "b"], capitals(&seen)).await, Ok(some(&["A", "2"])), "asked again");
}

/// Additional values are allowed.
pub async fn bulk_loader_may_return_more_keys(cache: impl Subject) {
    let found = cache.fetch_multi(&["a"], returns(&[("x", Some("9")), ("a", Some("1"))])).await;
    assert_eq!(found, Ok(some(&["1"])));
    assert_eq!(cache.read("a").await, Some(text("1")));
}

/// No call at all.
pub async fn fetch_multi_without_missing_keys_does_not_load(cache: impl Subject) {
    cache.write_multi(&[("a", text("1")), ("b", None)]).await;
    let seen = Asked::default();
    let found = cache.fetch_multi(&["a", "b"], capitals(&seen)).await;
    assert_eq!((found, asked(&seen).len()), (Ok(vec![Some(text("1")), Some(None)]), 0));
}

/// Neither a load nor an error.
pub async fn fetch_multi_without_keys_does_nothing(cache: impl Subject) {
    let seen = Asked::default();
    assert_eq!(cache.fetch_multi(&[], capitals(&seen)).await, Ok(Vec::new()));
    assert_eq!(asked(&seen).len(), 0);
}

/// And the next call asks again.
pub async fn failing_bulk_loader_stores_nothing(cache: impl Subject) {
    cache.write("a", text("1"), How::default()).await;
    let failing: BulkLoader = Box::new(|_| Box::pin(async { Err("no".to_owned()) }));
    let found = cache.fetch_multi(&["a", "b"], failing).await;
    assert_eq!(found, Err(Failure::Loader("no".into())));
    let seen = Asked::default();
    assert_eq!(cache.fetch_multi(&["a", "b"], capitals(&seen)).await, Ok(some(&["1", "B"])));
}

/// One that is loaded is stored, one that is stored is not loaded.
pub async fn absence_is_not_loaded_again(cache: impl Subject) {
    let found = cache.fetch_multi(&["a", "b"], returns(&[("a", None), ("b", Some("2"))])).await;
    assert_eq!(found, Ok(vec![Some(None), Some(text("2"))]));
    let seen = Asked::default();
    assert_eq!(cache.fetch_multi(&["a"], capitals(&seen)).await, Ok(vec![Some(None)]));
}
