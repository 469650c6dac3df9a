//! RESP2 and RESP3: bytes to frames and back, without sockets.
