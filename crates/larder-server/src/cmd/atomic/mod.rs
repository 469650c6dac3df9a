//! Several commands in one atomic step: transactions and scripts.

#[cfg(not(feature = "scripts"))]
pub(crate) mod no_scripts;
#[cfg(feature = "scripts")]
pub(crate) mod script;
pub(crate) mod transaction;

#[cfg(not(feature = "scripts"))]
pub(crate) use no_scripts as script;
