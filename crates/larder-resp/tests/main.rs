//! Promises of the codec, one file each: `properties` holds what must be true of any bytes.

mod properties;
