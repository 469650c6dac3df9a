//! Reading, writing and removing.

use super::{How, Subject, text};

/// Before anything is written there is nothing.
pub async fn miss_returns_nothing(cache: impl Subject) {
    assert_eq!(cache.read("k").await, None);
    assert_eq!(cache.read("").await, None);
}

/// The first thing that a cache is for.
pub async fn written_value_is_read(cache: impl Subject) {
    cache.write("k", text("v"), How::default()).await;
    assert_eq!(cache.read("k").await, Some(text("v")));
    assert_eq!(cache.read("k").await, Some(text("v")), "and read again");
}

/// The last writer has the word.
pub async fn later_write_replaces_value(cache: impl Subject) {
    cache.write("k", text("one"), How::default()).await;
    cache.write("k", text("other"), How::default()).await;
    assert_eq!(cache.read("k").await, Some(text("other")));
    cache.write("k", None, How::default()).await;
    assert_eq!(cache.read("k").await, Some(None));
}

/// Nothing in it is not nothing there.
pub async fn empty_text_is_a_value(cache: impl Subject) {
    cache.write("k", text(""), How::default()).await;
    assert_eq!(cache.read("k").await, Some(text("")));
}

/// "There is none" can be known.
pub async fn absence_is_a_value(cache: impl Subject) {
    cache.write("k", None, How::default()).await;
    assert_eq!(cache.read("k").await, Some(None));
    assert_eq!(cache.fetch("k", How::default(), super::never()).await, Ok(None));
}

/// Absences exist.
pub async fn exist_reports_presence(cache: impl Subject) {
    assert!(!cache.exist("k").await);
    cache.write("k", text("v"), How::default()).await;
    cache.write("none", None, How::default()).await;
    assert!(cache.exist("k").await && cache.exist("none").await);
    cache.delete("k").await;
    assert!(!cache.exist("k").await);
}

/// Once it is true, then false.
pub async fn delete_reports_whether_key_was_present(cache: impl Subject) {
    assert!(!cache.delete("k").await);
    cache.write("k", text("v"), How::default()).await;
    assert!(cache.delete("k").await);
    assert!(!cache.delete("k").await);
    assert_eq!(cache.read("k").await, None);
}

/// A mebibyte.
pub async fn large_value_is_unchanged(cache: impl Subject) {
    let large: String = (0..1 << 20).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    cache.write("k", text(&large), How::default()).await;
    assert!(cache.read("k").await == Some(text(&large)));
}

/// Spaces, line ends, other alphabets, no letters at all, and ten thousand letters.
pub async fn any_text_is_a_key(cache: impl Subject) {
    let long = "k".repeat(10_000);
    let longer = format!("{long}x");
    let keys = ["", " ", "a b", "a\r\nb", "\0", "größe", "鍵", "*", "a[b]?", "k", "K", "{k}", &long, &longer];
    for key in keys {
        cache.write(key, text(key), How::default()).await;
    }
    for key in keys {
        assert!(cache.read(key).await == Some(text(key)), "key {key:.20?}");
    }
    for key in keys {
        assert!(cache.delete(key).await, "key {key:.20?}");
    }
}

/// Whatever separates parts inside.
pub async fn similar_keys_are_separate(cache: impl Subject) {
    for key in ["a:b", "a", "b", "a::b", ":a", "a:", "a\\:b", "a/b", "a.b"] {
        assert_eq!(cache.read(key).await, None, "{key}");
        cache.write(key, text(key), How::default()).await;
    }
    assert_eq!(cache.read("a:b").await, Some(text("a:b")));
    assert_eq!(cache.read("a").await, Some(text("a")));
}

/// Numbers, quotes, and the bytes that envelopes begin with.
pub async fn value_with_special_bytes_is_unchanged(cache: impl Subject) {
    for value in ["1", "-0", "null", "\"", "{}", "Lr\u{1}\u{1}", "nil\0", "\r\n$-1\r\n"] {
        cache.write("k", text(value), How::default()).await;
        assert_eq!(cache.read("k").await, Some(text(value)));
    }
}

/// Also when there was nothing to clear.
pub async fn clear_removes_everything_and_cache_works_after_it(cache: impl Subject) {
    cache.clear().await;
    cache.write("a", text("1"), How::default()).await;
    cache.write("b", None, How::default()).await;
    cache.clear().await;
    assert_eq!(cache.read_multi(&["a", "b"]).await, [None, None]);
    cache.write("a", text("2"), How::default()).await;
    assert_eq!(cache.read("a").await, Some(text("2")));
}

/// Who comes second changes nothing.
pub async fn add_does_not_replace(cache: impl Subject) {
    assert!(cache.write_if_absent("k", text("first")).await);
    assert!(!cache.write_if_absent("k", text("second")).await);
    assert_eq!(cache.read("k").await, Some(text("first")));
    cache.delete("k").await;
    assert!(cache.write_if_absent("k", text("third")).await);
    cache.write("none", None, How::default()).await;
    assert!(!cache.write_if_absent("none", text("v")).await, "an absence is there");
}

/// Of many at the same time one succeeds.
pub async fn concurrent_adds_store_once(cache: impl Subject) {
    let adding: Vec<_> = (0..20)
        .map(|n: usize| {
            let cache = cache.clone();
            tokio::spawn(async move { cache.write_if_absent("k", text(&n.to_string())).await })
        })
        .collect();
    let mut added = 0;
    for task in adding {
        added += usize::from(task.await.expect("adds"));
    }
    assert_eq!(added, 1);
}

/// What is taken is gone.
pub async fn take_removes_value(cache: impl Subject) {
    assert_eq!(cache.take("k").await, None);
    cache.write("k", text("v"), How::default()).await;
    assert_eq!(cache.take("k").await, Some(text("v")));
    assert_eq!(cache.read("k").await, None);
    cache.write("k", None, How::default()).await;
    assert_eq!(cache.take("k").await, Some(None));
}

/// Of many at the same time one gets it.
pub async fn concurrent_takes_return_once(cache: impl Subject) {
    cache.write("k", text("v"), How::default()).await;
    let taking: Vec<_> = (0..20)
        .map(|_| {
            let cache = cache.clone();
            tokio::spawn(async move { cache.take("k").await })
        })
        .collect();
    let mut taken = 0;
    for task in taking {
        taken += usize::from(task.await.expect("takes").is_some());
    }
    assert_eq!(taken, 1);
}
