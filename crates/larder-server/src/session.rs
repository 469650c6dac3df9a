//! What a connection remembers from one command to the next.

use std::sync::Arc;

use larder_resp::Protocol;

use crate::clients::Client;

/// The state of one connection that commands read and change.
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    database: u8,
    protocol: Protocol,
    pub(crate) authenticated: bool,
    /// Set by a command after whose reply the connection ends.
    pub(crate) closing: bool,
    /// Position in the table of the command executed last.
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
            last_command: None,
        }
    }

    pub(crate) fn database(&self) -> u8 {
        self.database
    }

    pub(crate) fn select(&mut self, database: u8) {
        self.database = database;
        self.client.selected(database);
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.client.set_protocol(protocol.version());
    }
}
