//! Calls of a view that every binding makes in the same way.

use super::load::{HostLeased, HostLoad, LoadError};
use crate::codec::HostCodec;
use crate::options::CallOptions;
use crate::value::HostValue;
use larder::{
    BulkLeased, CacheError, FetchError, Fetched, Leased, Reach, Update, Updated, View, WriteOptions,
};

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
) -> Result<HostLeased<O, X>, FetchError<X>>
where
    O: Send + Sync + 'static,
    X: LoadError,
{
    let mut refresh = options.refresh;
    loop {
        let fetch = view.fetch(key).policy(options.policy);
        let fetch = options.tags.iter().fold(fetch, |fetch, tag| fetch.tag(tag));
        let fetch = if refresh { fetch.refresh() } else { fetch };
        match fetch.lease().await {
            Ok(Leased::Hit(found)) if !refresh && codec.is_private() && found.payload(key).is_none() => {
                refresh = true;
            }
            // Its caller has left a load ahead, whose value has ended meanwhile.
            Err(error) if is_given_up(&error) => {}
            leased => {
                return leased.map(|leased| match leased {
                    Leased::Hit(found) => HostLeased::Hit(found.into_arc()),
                    Leased::Lead(lease) => HostLeased::Lead(HostLoad::Leased(lease)),
                });
            }
        }
    }
}

fn is_given_up<X: LoadError>(error: &FetchError<X>) -> bool {
    matches!(error, FetchError::Load(cause) if cause.is_given_up())
}

/// The values of several keys, or the right to load some of them.
pub async fn lease_many<O, X>(
    view: &NativeView<O, X>,
    keys: &[Vec<u8>],
    options: &CallOptions,
) -> BulkLeased<[u8], HostValue<O>, X>
where
    O: Send + Sync + 'static,
    X: LoadError,
{
    loop {
        let fetch = view.fetch_multi(keys.iter().map(Vec::as_slice)).policy(options.policy);
        let leased = options.tags.iter().fold(fetch, |fetch, tag| fetch.tag(tag)).lease().await;
        let is_over = |outcome: &Result<Option<Fetched<_>>, _>| outcome.as_ref().is_err_and(is_given_up);
        if !matches!(&leased, BulkLeased::Done(outcomes) if outcomes.iter().any(is_over)) {
            return leased;
        }
    }
}

/// Writes several values with the same options.
///
/// # Errors
/// As [`View::write_multi_with`].
pub async fn write_many<O, X>(
    view: &NativeView<O, X>,
    values: Vec<(Vec<u8>, HostValue<O>)>,
    options: &WriteOptions,
) -> Result<Reach, CacheError>
where
    O: Send + Sync + 'static,
    X: Send + Sync + 'static,
{
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
    options: &WriteOptions,
) -> Result<Sum, CacheError>
where
    O: Send + Sync + 'static,
    X: Send + Sync + 'static,
{
    let change = {
        let (codec, own, options) = (codec.clone(), key.to_vec(), options.clone());
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
