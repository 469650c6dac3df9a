//! Calls of a view that every binding makes in the same way.

use crate::codec::HostCodec;
use crate::options::CallOptions;
use crate::value::HostValue;
use larder::{BulkLeased, CacheError, FetchError, Leased, Reach, Update, Updated, View};

type NativeView<O, X> = View<[u8], HostValue<O>, X>;

/// The value of a key, or the right to load it. A signed value that somebody has moved to this key is loaded anew.
///
/// # Errors
/// As [`Fetch::lease`](larder::Fetch::lease).
pub async fn lease<O, X>(
    view: &NativeView<O, X>,
    codec: &HostCodec,
    key: &[u8],
    options: &CallOptions,
) -> Result<Leased<HostValue<O>, X>, FetchError<X>>
where
    O: Send + Sync + 'static,
    X: Send + Sync + 'static,
{
    let fetch = |refresh| {
        let fetch = view.fetch(key).policy(options.policy);
        let fetch = options.tags.iter().fold(fetch, |fetch, tag| fetch.tag(tag));
        if refresh { fetch.refresh() } else { fetch }
    };
    match fetch(options.refresh).lease().await {
        Ok(Leased::Hit(found)) if codec.is_private() && found.payload(key).is_none() => {
            fetch(true).lease().await
        }
        leased => leased,
    }
}

/// The values of several keys, or the right to load some of them.
pub async fn lease_many<O, X>(
    view: &NativeView<O, X>,
    keys: &[Vec<u8>],
    options: &CallOptions,
) -> BulkLeased<[u8], HostValue<O>, X>
where
    O: Send + Sync + 'static,
    X: Send + Sync + 'static,
{
    let fetch = view.fetch_multi(keys.iter().map(Vec::as_slice)).policy(options.policy);
    options.tags.iter().fold(fetch, |fetch, tag| fetch.tag(tag)).lease().await
}

/// Writes several values with the same options.
///
/// # Errors
/// As [`View::write_multi_with`].
pub async fn write_many<O, X>(
    view: &NativeView<O, X>,
    values: Vec<(Vec<u8>, HostValue<O>)>,
    options: &CallOptions,
) -> Result<Reach, CacheError>
where
    O: Send + Sync + 'static,
    X: Send + Sync + 'static,
{
    let options = options.for_write();
    let (keys, values): (Vec<_>, Vec<_>) = values.into_iter().unzip();
    let values = keys.iter().map(Vec::as_slice).zip(values).map(|(key, value)| (key, value, options.clone()));
    view.write_multi_with(values).await
}

/// What became of a number to which something was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// This is there now.
    Is(i64),
    /// There was no value, and no initial one was given.
    NoValue,
    /// The value is no integer, or the sum would not be one of 64 bits.
    NoNumber,
}

/// Adds to a number. Where there is no value it stores `initial`, if that is given, with the options; a value that is there
/// keeps its own.
///
/// # Errors
/// As [`View::update`].
pub async fn increment<O, X>(
    view: &NativeView<O, X>,
    codec: &HostCodec,
    key: &[u8],
    by: i64,
    initial: Option<i64>,
    options: &CallOptions,
) -> Result<Sum, CacheError>
where
    O: Send + Sync + 'static,
    X: Send + Sync + 'static,
{
    let change = {
        let (codec, own, options) = (codec.clone(), key.to_vec(), options.for_write());
        move |found: Option<&HostValue<O>>| match (found, initial) {
            (None, Some(initial)) => Update::PutWith(codec.integer_value(&own, initial), options.clone()),
            (None, None) => Update::Keep,
            (Some(value), _) => match codec.integer(value, &own).and_then(|number| number.checked_add(by)) {
                Some(sum) => Update::Put(codec.integer_value(&own, sum)),
                None => Update::Keep,
            },
        }
    };
    let Updated { value, changed, .. } = view.update(key, change).await?;
    Ok(match value {
        None => Sum::NoValue,
        Some(found) if changed => codec.integer(&found, key).map_or(Sum::NoNumber, Sum::Is),
        Some(_) => Sum::NoNumber,
    })
}
