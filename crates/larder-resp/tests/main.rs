//! Promises of the codec, one file each. `properties`: what is true for any bytes.

mod properties;
