//! Fetch-through, one caller at a time.

use super::{Failure, How, Loaded, Subject, fails, loads, never, text};

/// And returns what it loaded.
pub async fn miss_loads_and_stores(cache: impl Subject) {
    assert_eq!(cache.fetch("k", How::default(), loads("v")).await, Ok(text("v")));
    assert_eq!(cache.read("k").await, Some(text("v")));
}

/// Whoever stored it.
pub async fn hit_does_not_load(cache: impl Subject) {
    cache.write("k", text("v"), How::default()).await;
    assert_eq!(cache.fetch("k", How::default(), never()).await, Ok(text("v")));
    cache.fetch("l", How::default(), loads("w")).await.expect("loads");
    assert_eq!(cache.fetch("l", How::default(), never()).await, Ok(text("w")));
}

/// The next caller asks again.
pub async fn failure_is_returned_and_not_stored(cache: impl Subject) {
    let failed = cache.fetch("k", How::default(), fails()).await;
    assert_eq!(failed, Err(Failure::Loader("the origin is down".into())));
    assert_eq!(cache.read("k").await, None);
    assert_eq!(cache.fetch("k", How::default(), loads("v")).await, Ok(text("v")));
}

/// It is asked for once.
pub async fn loaded_absence_is_stored(cache: impl Subject) {
    let nothing = Box::pin(async { Ok(Loaded::default()) });
    assert_eq!(cache.fetch("k", How::default(), nothing).await, Ok(None));
    assert_eq!(cache.fetch("k", How::default(), never()).await, Ok(None));
    assert_eq!(cache.read("k").await, Some(None));
}

/// To those who asked.
pub async fn no_store_value_is_returned(cache: impl Subject) {
    let loading = Box::pin(async { Ok(Loaded { value: text("v"), no_store: true, ..Loaded::default() }) });
    assert_eq!(cache.fetch("k", How::default(), loading).await, Ok(text("v")));
    assert_eq!(cache.read("k").await, None);
    assert_eq!(cache.fetch("k", How::default(), loads("w")).await, Ok(text("w")));
}

/// And stores what it loaded.
pub async fn refresh_loads_over_value(cache: impl Subject) {
    assert_eq!(cache.refresh("k", loads("one")).await, Ok(text("one")), "also where there is none");
    assert_eq!(cache.refresh("k", loads("other")).await, Ok(text("other")));
    assert_eq!(cache.read("k").await, Some(text("other")));
}

/// What was there is no worse for it.
pub async fn failed_refresh_keeps_value(cache: impl Subject) {
    cache.write("k", text("v"), How::default()).await;
    _ = cache.refresh("k", fails()).await;
    assert_eq!(cache.read("k").await, Some(text("v")));
}

/// Nobody waits for it for ever.
pub async fn panicking_loader_fails_and_key_stays_usable(cache: impl Subject) {
    let panicking = Box::pin(async { panic!("a loader that panics on purpose") });
    assert_eq!(cache.fetch("k", How::default(), panicking).await, Err(Failure::Panicked));
    assert_eq!(cache.fetch("k", How::default(), loads("v")).await, Ok(text("v")));
}

/// For other keys.
pub async fn loader_may_use_cache(cache: impl Subject) {
    let inside = cache.clone();
    let loading = Box::pin(async move {
        let part =
            inside.fetch("part", How::default(), loads("x")).await.map_err(|_| "no part".to_owned())?;
        inside.write("side", text("effect"), How::default()).await;
        Ok(Loaded { value: part.map(|part| part + "y"), ..Loaded::default() })
    });
    assert_eq!(cache.fetch("whole", How::default(), loading).await, Ok(text("xy")));
    assert_eq!(cache.read_multi(&["part", "side"]).await, [Some(text("x")), Some(text("effect"))]);
}

/// One key's loader may wait for another's.
pub async fn different_keys_load_concurrently(cache: impl Subject) {
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let waiting = Box::pin(async move {
        receiver.await.map_err(|_| "nobody came".to_owned())?;
        Ok(Loaded { value: text("first"), ..Loaded::default() })
    });
    let telling = Box::pin(async move {
        sender.send(()).map_err(|()| "nobody waits".to_owned())?;
        Ok(Loaded { value: text("second"), ..Loaded::default() })
    });
    let (one, other) = tokio::join!(
        cache.fetch("one", How::default(), waiting),
        cache.fetch("other", How::default(), telling)
    );
    assert_eq!((one, other), (Ok(text("first")), Ok(text("second"))));
}
