//! The state of a connection between commands.

use std::sync::Arc;

use larder_resp::Protocol;

use crate::clients::Client;
use crate::cmd::Visit;

/// The state of one connection that commands read and change.
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    database: u8,
    protocol: Protocol,
    pub(crate) authenticated: bool,
    /// Set by a command: the connection closes after its reply.
    pub(crate) closing: bool,
    /// A command that visits every entry and is not at its end: it goes on before the next request.
    pub(crate) visit: Option<Box<Visit>>,
    /// Index in the command table of the last executed command.
    pub(crate) last_command: Option<usize>,
}

impl Session {
    pub(crate) fn new(client: Arc<Client>, authenticated: bool) -> Self {
        Session {
            client,
            database: 0,
            protocol: Protocol::Resp2,
            authenticated,
            closing: false,
            visit: None,
            last_command: None,
        }
    }

    pub(crate) fn database(&self) -> u8 {
        self.database
    }

    pub(crate) fn select(&mut self, database: u8) {
        self.database = database;
        self.client.set_database(database);
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.client.set_protocol(protocol);
    }
}
