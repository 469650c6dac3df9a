//! The larder command.
fn main() {}
