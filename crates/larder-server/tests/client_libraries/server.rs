//! The server that the cases run against: this one, or a real Redis to prove the cases.

use larder_server::{Config, MemoryPolicy};
use larder_testkit::RedisServer;
use std::net::SocketAddr;

use crate::support::TestServer;

/// An address of this machine from which no connection starts: a client that tries to connect while the server is down
/// cannot connect to itself.
const HOST: [u8; 4] = [127, 0, 0, 2];

pub(super) enum Server {
    Larder(Box<TestServer>),
    Redis(RedisServer, SocketAddr),
}

impl Server {
    /// The server that `LARDER_CLIENTS_SERVER` selects; `None` if it is not installed. A real Redis has no limit of
    /// memory, so it evicts nothing.
    pub(super) fn start(policy: MemoryPolicy) -> Option<Server> {
        match std::env::var("LARDER_CLIENTS_SERVER").as_deref() {
            Ok("redis-server") => {
                let host = std::net::Ipv4Addr::from(HOST).to_string();
                let (server, port) = RedisServer::start_with_port("--port", &["--bind", &host])?;
                Some(Server::Redis(server, SocketAddr::from((HOST, port))))
            }
            Err(_) | Ok("larder") => {
                let (listen, max_memory_policy) = (Some(SocketAddr::from((HOST, 0))), Some(policy));
                let config = Config { listen, max_memory_policy, ..Config::default() };
                Some(Server::Larder(Box::new(TestServer::at(config))))
            }
            Ok(other) => panic!("LARDER_CLIENTS_SERVER is larder or redis-server, not {other}"),
        }
    }

    pub(super) fn is_larder(&self) -> bool {
        matches!(self, Server::Larder(_))
    }

    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Server::Larder(server) => server.address(),
            Server::Redis(_, address) => *address,
        }
    }

    /// Ends the server, and starts it again, empty, at the same address.
    pub(super) fn restart(&mut self) {
        match self {
            Server::Larder(server) => server.restart(),
            Server::Redis(server, _) => server.restart(),
        }
    }
}
