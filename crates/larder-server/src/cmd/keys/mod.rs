//! Commands on keys of any type: names, deadlines, serialized values, sorted elements.

pub(crate) mod dump;
pub(crate) mod expire;
pub(crate) mod key;
pub(crate) mod names;
pub(crate) mod object;
pub(crate) mod rename;
pub(crate) mod scan;
pub(crate) mod sort;
