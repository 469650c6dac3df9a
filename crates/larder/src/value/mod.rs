//! Values as bytes: their codec, compression, schema and envelope, and the absence of one.

pub(crate) mod absence;
pub(crate) mod codec;
pub(crate) mod compression;
pub(crate) mod envelope;
pub(crate) mod format;
pub(crate) mod random;
pub(crate) mod schema;
