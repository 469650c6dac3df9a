//! What tells whether other replicas still allow an entry. Without the feature `shared` no entry has one: then it is a type
//! without values.

#[cfg(feature = "shared")]
pub(crate) use larder::SharedCopy as EntryCopy;

#[cfg(not(feature = "shared"))]
#[derive(Debug)]
pub(crate) enum EntryCopy {}

#[cfg(not(feature = "shared"))]
impl EntryCopy {
    pub(crate) fn heap_bytes(&self) -> usize {
        match *self {}
    }

    pub(crate) fn tags(&self) -> std::iter::Empty<&str> {
        match *self {}
    }
}
