//! Invalidation by tags.

use super::{How, Loaded, Subject, fails, loads, text};
use std::time::Duration;

fn tagged(tags: &[&'static str]) -> How {
    How { tags: tags.to_vec(), ..How::default() }
}

/// And no others.
pub async fn tag_invalidation_removes_tagged_entries(cache: impl Subject) {
    cache.write("a", text("1"), tagged(&["t"])).await;
    cache.write("b", text("2"), tagged(&["t"])).await;
    cache.write("c", text("3"), tagged(&["u"])).await;
    cache.write("d", text("4"), How::default()).await;
    cache.invalidate_tags(&["t"]).await;
    let found = cache.read_multi(&["a", "b", "c", "d"]).await;
    assert_eq!(found, [None, None, Some(text("3")), Some(text("4"))]);
}

/// Of several.
pub async fn any_tag_of_entry_invalidates_it(cache: impl Subject) {
    cache.write("k", text("v"), tagged(&["t", "u", "w"])).await;
    cache.invalidate_tags(&["x"]).await;
    assert_eq!(cache.read("k").await, Some(text("v")));
    cache.invalidate_tags(&["u"]).await;
    assert_eq!(cache.read("k").await, None);
}

/// It knows what the value is made of.
pub async fn tag_of_loader_is_honoured(cache: impl Subject) {
    let loading = Box::pin(async { Ok(Loaded { value: text("v"), tags: vec!["t"], ..Loaded::default() }) });
    assert_eq!(cache.fetch("k", How::default(), loading).await, Ok(text("v")));
    assert_eq!(cache.read("k").await, Some(text("v")));
    cache.invalidate_tags(&["t"]).await;
    assert_eq!(cache.read("k").await, None);
}

/// A value that was written anew has left its old tags behind.
pub async fn only_current_tags_of_entry_count(cache: impl Subject) {
    cache.write("k", text("one"), tagged(&["t"])).await;
    cache.write("k", text("other"), tagged(&["u"])).await;
    cache.invalidate_tags(&["t"]).await;
    assert_eq!(cache.read("k").await, Some(text("other")));
    cache.invalidate_tags(&["u"]).await;
    assert_eq!(cache.read("k").await, None);
}

/// At once.
pub async fn write_after_tag_invalidation_stays(cache: impl Subject) {
    for round in 0..5 {
        cache.invalidate_tags(&["t"]).await;
        let value = round.to_string();
        cache.write("k", text(&value), tagged(&["t"])).await;
        assert_eq!(cache.read("k").await, Some(text(&value)));
        assert_eq!(cache.fetch("l", tagged(&["t"]), loads(&value)).await, Ok(text(&value)));
    }
}

/// Nor is no tag at all.
pub async fn tag_without_entries_is_no_error(cache: impl Subject) {
    cache.write("k", text("v"), tagged(&["t"])).await;
    cache.invalidate_tags(&["nobody"]).await;
    cache.invalidate_tags(&[]).await;
    assert_eq!(cache.read("k").await, Some(text("v")));
}

/// For they come to an end like values.
pub async fn absence_can_have_tags(cache: impl Subject) {
    cache.write("k", None, tagged(&["t"])).await;
    assert_eq!(cache.read("k").await, Some(None));
    cache.invalidate_tags(&["t"]).await;
    assert_eq!(cache.read("k").await, None);
}

/// Each of them.
pub async fn invalidate_tags_takes_several_tags(cache: impl Subject) {
    cache.write("a", text("1"), tagged(&["t"])).await;
    cache.write("b", text("2"), tagged(&["u"])).await;
    cache.invalidate_tags(&["t", "u"]).await;
    assert_eq!(cache.read_multi(&["a", "b"]).await, [None, None]);
}

/// Names that mean something elsewhere.
pub async fn unusual_text_is_a_tag(cache: impl Subject) {
    let odd = ["clear", "floor", "clock", "*", "!", "a b", "größe", "t:u"];
    for tag in odd {
        cache.write(tag, text("v"), How { tags: vec![tag], ..How::default() }).await;
    }
    for tag in odd {
        assert_eq!(cache.read(tag).await, Some(text("v")), "{tag}");
        cache.invalidate_tags(&[tag]).await;
        assert_eq!(cache.read(tag).await, None, "{tag}");
    }
}

/// Nor within the grace period.
pub async fn tag_invalidated_value_is_not_served_stale(cache: impl Subject) {
    let how = How { grace: Some(Duration::from_secs(100)), ..tagged(&["t"]) };
    cache.write("k", text("old"), how.clone()).await;
    cache.invalidate_tags(&["t"]).await;
    assert!(cache.fetch("k", how, fails()).await.is_err());
}
