//! A cache server that speaks the Redis protocol.
