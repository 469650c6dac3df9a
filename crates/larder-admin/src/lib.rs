//! Dashboard, metrics and JSON of a running Larder.
