//! What stands for [`SharedStore`] without the feature `shared`: a type without values, so that nothing but this file and its
//! neighbours has to know whether there is sharing.

use std::time::Duration;

use larder_engine::Follower;

use crate::key::Key;
use crate::shared::{Asked, Permits, Unverified, Verdict};
use crate::stored::entry::StoreValue;

/// No cache shares anything.
#[derive(Debug)]
pub(crate) enum SharedStore {}

/// No moment needs to be known.
#[derive(Clone, Copy)]
pub(crate) enum AskedAt {}

impl SharedStore {
    pub(crate) fn verdict(&self, _: &StoreValue, _: Permits<'_>, _: impl FnOnce() -> u64) -> Verdict {
        match *self {}
    }

    pub(crate) fn asked_at(&self, _: Duration) -> AskedAt {
        match *self {}
    }

    pub(crate) fn may_follow(&self, _: &Follower<Key, StoreValue>, _: Asked) -> bool {
        match *self {}
    }

    pub(crate) fn serves_waiting_requests_only(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_of_handler(&self, _: &str) -> bool {
        match *self {}
    }

    pub(crate) async fn verify(&self, _: &Unverified, _: impl FnOnce() -> u64) -> bool {
        match *self {}
    }

    pub(crate) fn invalidate_uri(&self, _: &[u8], _: bool) {
        match *self {}
    }

    pub(crate) fn spawn_purge_of_tag(&self, _: &str) {
        match *self {}
    }

    pub(crate) fn spawn_purge_of_ruled_path(&self, _: &[u8]) {
        match *self {}
    }

    pub(crate) fn is_hashed_tag(&self, _: &str) -> bool {
        match *self {}
    }
}
