//! What the programs `larder` and `larder-bench` share at the terminal: output whose failures are errors, aligned tables, and
//! whole numbers of flags.

mod number;
mod output;
mod table;

pub use number::{expected, whole_number};
pub use output::{PRINT_FAILURE, exit, print, remark};
pub use table::{Table, grouped};
