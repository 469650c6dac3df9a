//! A two-tier cache: memory in front of Redis, with fetch-through loading.
