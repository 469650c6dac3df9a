//! What stands for [`Disk`] without the feature `disk`: a type without values.

use std::convert::Infallible;

use crate::key::Key;
use crate::status::stats::DiskStats;

/// No cache writes anything to a disk.
#[derive(Debug)]
pub(crate) enum Disk {}

/// Nothing is written.
pub(crate) type DiskWrite = Infallible;

impl Disk {
    pub(crate) fn may_have(&self, _: &[u8]) -> bool {
        match *self {}
    }

    pub(crate) fn has_other_keys(&self) -> bool {
        match *self {}
    }

    pub(crate) fn replace<E>(
        &self,
        _: &Key,
        _: Option<DiskWrite>,
        _: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        match *self {}
    }

    pub(crate) fn add_missing(&self, _: &Key, _: impl FnOnce() -> Option<DiskWrite>) {
        match *self {}
    }

    pub(crate) fn forget(&self, _: &Key) {
        match *self {}
    }

    pub(crate) fn clear(&self) {
        match *self {}
    }

    pub(crate) fn stats(&self) -> DiskStats {
        match *self {}
    }
}
