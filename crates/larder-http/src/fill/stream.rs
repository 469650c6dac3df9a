//! The readers of a running fill: its client, and the requests that follow it through the store.

use std::sync::Arc;

use bytes::Bytes;

use crate::fill::UnticketedFill;
use crate::key::Key;
use crate::status::Reason;
use crate::store::HttpCache;
use crate::stored::body::{Continuation, Rest};
use crate::stored::buffer::FillBuffer;
use crate::stored::entry::StoreValue;

/// A fill's side of the body that clients are reading. If it is dropped before the end, their bodies fail.
pub(crate) struct Stream<B: http_body::Body> {
    cache: HttpCache,
    buffer: Arc<FillBuffer>,
    /// `None` if the client got a 304 or there is none.
    client: Option<Arc<Continuation<B>>>,
    published: Option<Published>,
}

/// The entry through which other requests find the running fill.
pub(crate) struct Published {
    pub(crate) key: Key,
    pub(crate) value: StoreValue,
    /// Its ticket is spent: a removal of the key does not void the fill.
    pub(crate) _counted: UnticketedFill,
}

impl<B: http_body::Body> Stream<B> {
    pub(crate) fn new(
        cache: HttpCache,
        buffer: Arc<FillBuffer>,
        client: Option<Arc<Continuation<B>>>,
        published: Option<Published>,
    ) -> Stream<B> {
        Stream { cache, buffer, client, published }
    }

    pub(crate) fn published(&self) -> Option<&Published> {
        self.published.as_ref()
    }

    pub(crate) fn append(&self, chunks: &[Bytes]) {
        self.buffer.append(chunks);
    }

    /// The body has been read to its end. Its client needs no more; whether the others may have it is not known yet.
    pub(crate) fn end_for_client(&self) {
        self.buffer.end_for_client();
    }

    /// The body is complete, for all readers.
    pub(crate) fn complete(mut self) {
        self.published = None;
        self.buffer.complete();
    }

    /// The response is not stored: followers get an error, and the client gets `rest`.
    pub(crate) fn fail(self, reason: Reason, rest: Rest<B>) {
        if let Some(client) = &self.client {
            client.set(rest);
        }
        self.withdraw();
        self.buffer.fail(reason);
    }

    /// Hides the fill from further requests.
    pub(crate) fn withdraw(&self) {
        if let Some(Published { key, value, .. }) = &self.published {
            self.cache.core().store.remove_if_same(key.clone(), value);
        }
    }
}

/// The task of the fill has panicked or was dropped. After `complete` and `fail` this has no effect.
impl<B: http_body::Body> Drop for Stream<B> {
    fn drop(&mut self) {
        self.withdraw();
        self.buffer.fail(Reason::HandlerPanic);
    }
}
