//! What the tests of every crate share: real servers on free ports, counting loaders, a hand-moved clock.
