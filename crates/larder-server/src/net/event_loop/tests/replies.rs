//! Replies that exceed their limit: a command that may repeat what it replies stops there.

use super::*;
use crate::cmd;
use crate::cmd::test_support::last_reply_bytes;
use larder_text::ByteSize;

/// The limit of a reply.
const LIMIT: usize = 64 << 10;

fn state_with_limit() -> Arc<ServerState> {
    let config = Config { max_reply_bytes: ByteSize(LIMIT as u64), ..Config::default() };
    let store = Store::new(Some(8 << 20)).unwrap();
    Arc::new(ServerState::new(config, store, Arc::new(Stats::new(1, crate::cmd::commands()))))
}

/// The length of the error that takes the place of a reply.
fn error_bytes() -> usize {
    format!("-{}\r\n", cmd::CommandError::ReplyTooLarge(LIMIT as u64)).len()
}

#[test]
fn random_members_stop_at_the_limit() {
    let state = state_with_limit();
    for version in [2, 3] {
        let hello = format!("HELLO {version}");
        for options in ["", " WITHSCORES"] {
            let request = format!("ZRANDMEMBER z -1000000{options}");
            let bytes = last_reply_bytes(&state, &[&hello, "ZADD z 0.1 a", &request]);
            assert_eq!(bytes, error_bytes(), "RESP{version}{options}");
        }
    }
}

#[test]
fn repeated_names_of_commands_and_ids_of_clients_stop_at_the_limit() {
    let state = state_with_limit();
    let (client, _end) = connection(&state);
    let id = client.client().id.to_string();
    for (request, name) in [("COMMAND INFO", "get"), ("COMMAND DOCS", "get"), ("CLIENT LIST ID", &id)] {
        let request = format!("{request}{}", format!(" {name}").repeat(10_000));
        let bytes = last_reply_bytes(&state, &[&request]);
        assert_eq!(bytes, error_bytes(), "{request:.20}");
    }
}

#[test]
fn collected_names_count_as_client_memory_and_stop_at_the_limit() {
    const NAME_BYTES: usize = 20;
    for command in ["KEYS *", "KEYS 0*", "SCAN 0 COUNT 1000000"] {
        let state = state_with_limit();
        let mut event_loop = event_loop(&state);
        for number in 0..5_000 {
            let name = format!("{number:0NAME_BYTES$}");
            state.store.database(0).set(name.as_bytes(), b"v", Expiry::Never).unwrap();
        }
        let (connection, mut client_end) = connection(&state);
        event_loop.adopt(connection);
        client_end.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        poll(&mut event_loop);
        let buffered = state.clients.buffered_bytes() as usize;
        assert!(buffered > 1_000 * NAME_BYTES, "{command}: {buffered} bytes after a slice of names");
        // Each has at least six bytes more in the reply: the limit is exceeded in the third of five slices.
        (0..2).for_each(|_| poll(&mut event_loop));
        let mut reply = [0; 1_000];
        let length = client_end.read(&mut reply).unwrap();
        assert_eq!(length, error_bytes(), "{command}: {}", reply[..length].escape_ascii());
        assert!(state.clients.buffered_bytes() < 1_000, "{command} keeps no names");
    }
}
