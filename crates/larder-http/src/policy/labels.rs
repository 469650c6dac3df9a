//! Labels of a response, for metrics. The handler sets them, the entry keeps them, and every hit has them again: the
//! handler does not run on a hit, so what it counts itself would be missing there.

use std::borrow::Cow;
use std::sync::Arc;

use http::Extensions;

/// Labels that one response may have.
const MAX_LABELS: usize = 8;
/// Bytes of one value.
const MAX_VALUE_BYTES: usize = 128;

/// The labels of a response, in its extensions: set by [`Cached::label`](crate::Cached::label) and
/// [`CacheCtx::label`](crate::CacheCtx::label), for a layer outside of the cache that counts requests. They are never
/// sent to clients.
///
/// Every response of a handler that ran for this request or for the stored response has them, whether it is a hit, a
/// miss or was not stored, or whether the request bypassed the cache. A response without labels has no such extension.
///
/// A response has at most eight labels; further ones are ignored. A value is cut after 128 bytes. Labels are charged to
/// their entry. Cost on a hit: two allocations, if there are labels.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use larder_http::{Body, Cached, HttpCache, Labels};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let handler = service_fn(|_: Request<String>| async {
///     let mut response = Response::new(Full::new(Bytes::from("{}")));
///     response.extensions_mut().insert(Cached::ttl(Duration::from_secs(60)).label("route", "/products/{id}"));
///     Ok::<_, std::convert::Infallible>(response)
/// });
/// let service = HttpCache::builder().build()?.layer().layer(handler);
///
/// let (counter, counts) = std::sync::mpsc::channel();
/// let counted = service.map_response(move |response: Response<Body<_>>| {
///     let route = response.extensions().get::<Labels>().and_then(|labels| labels.get("route"));
///     let outcome = response.body().outcome().map(|outcome| outcome.as_str());
///     counter.send((route.map(str::to_owned), outcome)).unwrap();
///     response
/// });
/// for _ in 0..2 {
///     counted.clone().oneshot(Request::get("http://shop.example/products/7").body(String::new())?).await?;
/// }
/// assert_eq!(counts.recv()?, (Some("/products/{id}".to_owned()), Some("miss")));
/// assert_eq!(counts.recv()?, (Some("/products/{id}".to_owned()), Some("hit")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Option<Arc<Vec<Label>>>);

/// A name and a value. The name of a response of another replica is not static.
type Label = (Cow<'static, str>, Box<str>);

impl Labels {
    /// The value of a label.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// The names and values, in the order in which the names were set first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|labels| labels.iter()).map(|(name, value)| (&**name, &**value))
    }

    /// Sets a label. A later value replaces an earlier one.
    pub(crate) fn set(&mut self, name: impl Into<Cow<'static, str>>, value: &str) {
        let labels = Arc::make_mut(self.0.get_or_insert_default());
        let (name, value) = (name.into(), cut(value).into());
        match labels.iter().position(|(other, _)| *other == name) {
            Some(position) => labels[position].1 = value,
            None if labels.len() < MAX_LABELS => labels.push((name, value)),
            None => {}
        }
    }

    /// Sets the labels of `later` too.
    pub(crate) fn merge(&mut self, later: Labels) {
        for (name, value) in later.0.iter().flat_map(|labels| labels.iter()) {
            self.set(name.clone(), value);
        }
    }

    /// Adds the labels, if there are any, to the extensions of a response.
    pub(crate) fn add_to(&self, extensions: &mut Extensions) {
        if self.0.is_some() {
            extensions.insert(self.clone());
        }
    }

    /// The size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.iter().map(|(_, value)| size_of::<Label>() + value.len()).sum()
    }
}

/// The longest start of a value that is not too long.
fn cut(value: &str) -> &str {
    let end = (0..=MAX_VALUE_BYTES).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0);
    if value.len() <= MAX_VALUE_BYTES { value } else { &value[..end] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_value_replaces_earlier_one() {
        let (mut nested, mut handler) = (Labels::default(), Labels::default());
        nested.set("route", "/a");
        nested.set("operation", "list");
        handler.set("route", "/b");
        handler.set("route", "/c");
        nested.merge(handler);
        assert_eq!(nested.iter().collect::<Vec<_>>(), [("route", "/c"), ("operation", "list")]);
        assert_eq!((nested.get("route"), nested.get("other")), (Some("/c"), None));
    }

    #[test]
    fn ninth_label_is_ignored() {
        const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let mut labels = Labels::default();
        NAMES.iter().for_each(|name| labels.set(*name, "first"));
        labels.set("a", "second");
        assert_eq!(labels.iter().count(), 8);
        assert_eq!((labels.get("a"), labels.get("i")), (Some("second"), None));
    }

    #[test]
    fn long_value_is_cut_between_characters() {
        let mut labels = Labels::default();
        labels.set("a", &"x".repeat(128));
        labels.set("b", &format!("{}é", "x".repeat(127)));
        let lengths: Vec<_> = labels.iter().map(|(_, value)| value.len()).collect();
        assert_eq!(lengths, [128, 127]);
    }
}
