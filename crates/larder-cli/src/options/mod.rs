//! What the parts are started with: flags, variables and the configuration file, and where each value is from.

mod config_file;
pub(crate) mod option_sources;
pub(crate) mod settings;
pub(crate) mod usage;
pub(crate) mod variables;
pub(crate) mod wrong_usage;
