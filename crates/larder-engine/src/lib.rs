//! A bounded, concurrent in-process cache: sharded, with expiry, weights and single-flight loads.
