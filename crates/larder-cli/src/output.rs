//! What commands write: results to the standard output, remarks to the standard error.

pub(crate) use larder_terminal::{PRINT_FAILURE, exit, print, remark};
