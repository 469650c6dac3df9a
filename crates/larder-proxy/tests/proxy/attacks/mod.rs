//! What an attacker sends, or an origin that dies, harms nobody else.

mod poisoning;
mod slow_clients;
mod truncated;

use crate::support::*;
