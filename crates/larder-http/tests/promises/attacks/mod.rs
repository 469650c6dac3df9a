//! Attacks on a cache that answers for a service, one test each. `docs/attacks.md` lists them with what the layer does,
//! also those that other promises withstand.
//!
//! - `poisoning`: a response that one client provokes never reaches another.
//! - `floods`: no request makes the layer hold, read or send more than its limits.
//! - `connections`: the same over HTTP/1.1 and HTTP/2 as clients speak them, byte by byte.

mod connections;
mod floods;
mod poisoning;
