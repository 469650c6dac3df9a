//! The database server of documents 0 and 4: PostgreSQL 15, where it is installed and its client is built in.

use crate::source::Place;
use crate::suite::Findings;
use crate::tool::Usage;
use anyhow::Result;

/// A running server. Dropping it ends it.
pub(super) enum Server {
    #[cfg(feature = "postgres")]
    Postgres(larder_process::PostgresServer),
}

impl Server {
    pub(super) const SUBJECT: &'static str = "PostgreSQL";

    /// Starts it; `None` if it is not there. The notes say why.
    #[cfg(feature = "postgres")]
    pub(super) fn start(_findings: &mut Findings) -> Result<Option<Server>> {
        use larder_process::PostgresServer;
        let start = || PostgresServer::start().map(Server::Postgres);
        Ok(PostgresServer::is_installed().then(start).transpose()?)
    }

    #[cfg(not(feature = "postgres"))]
    pub(super) fn start(findings: &mut Findings) -> Result<Option<Server>> {
        findings.notes.push("PostgreSQL: only with the feature postgres, which bench-peers has.".to_owned());
        Ok(None)
    }

    pub(super) fn place(&self) -> Place {
        match *self {
            #[cfg(feature = "postgres")]
            Server::Postgres(ref server) => Place::Postgres(server.folder().to_owned()),
        }
    }

    /// What tells a child which database to use.
    pub(super) fn arguments(server: Option<&Server>) -> Vec<String> {
        match server.map(Server::place) {
            Some(Place::Postgres(folder)) => vec!["--postgres".to_owned(), folder.display().to_string()],
            Some(Place::Sqlite(_)) | None => Vec::new(),
        }
    }

    /// What it has used so far, with the processes that serve its connections.
    pub(super) fn usage(server: Option<&Server>) -> Usage {
        server.map_or_else(Usage::default, |server| match *server {
            #[cfg(feature = "postgres")]
            Server::Postgres(ref server) => Usage::of(server.id()),
        })
    }
}
