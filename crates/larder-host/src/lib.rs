//! What bindings of larder to other languages share. A binding translates calls and objects of its language, and nothing else.

mod wait;

pub use wait::{WAIT_SLICE, WaitError, wait};
