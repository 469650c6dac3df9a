//! A PostgreSQL for the tests of one binary: each has a database of its own in it.

use crate::program::needs;
use crate::redis::free_port;
use larder_process::PostgresServer;
use std::sync::{Mutex, Once, OnceLock, PoisonError};

/// What a crash of the machine would lose is of no importance to a test, and what a crash of the server loses is the same.
const SETTINGS: [&str; 4] =
    ["fsync=off", "max_connections=400", "shared_buffers=64MB", "client_min_messages=error"];

static SHARED: Mutex<Option<PostgresServer>> = Mutex::new(None);

/// Starts a server of the test's own; `None` and a note if it is not installed.
///
/// # Panics
/// If it is installed and does not start.
pub fn start_postgres() -> Option<PostgresServer> {
    needs("PostgreSQL 15", PostgresServer::is_installed())?;
    Some(PostgresServer::start_with(&SETTINGS).expect("PostgreSQL starts"))
}

/// Starts one on a port of 127.0.0.1 too, and returns the port. With a certificate and its key, in PEM, it has TLS there.
///
/// # Panics
/// As [`start_postgres`].
pub fn start_postgres_on_port(certificate: Option<(&str, &str)>) -> Option<(PostgresServer, u16)> {
    let mut server = start_postgres()?;
    if let Some((certificate, key)) = certificate {
        let file = |name, content| server.private_file(name, content).expect("a file");
        let files =
            [("ssl_cert_file", file("server.pem", certificate)), ("ssl_key_file", file("server.key", key))];
        server.execute("postgres", "ALTER SYSTEM SET ssl = on").expect("the settings can be written");
        for (setting, path) in files {
            let set = format!("ALTER SYSTEM SET {setting} = '{}'", path.display());
            server.execute("postgres", &set).expect("the settings can be written");
        }
    }
    // Another process may take the port before the server does.
    let mut ports = (0..10).map(|_| free_port());
    let port = ports.find(|port| server.listen(*port).is_ok()).expect("PostgreSQL starts on a free port");
    Some((server, port))
}

/// Uses the server of this test binary, which the first call starts; `None` and a note if it is not installed.
///
/// # Panics
/// As [`start_postgres`].
pub fn with_postgres<T>(work: impl FnOnce(&PostgresServer) -> T) -> Option<T> {
    static AT_EXIT: Once = Once::new();
    static IS_INSTALLED: OnceLock<bool> = OnceLock::new();
    needs("PostgreSQL 15", *IS_INSTALLED.get_or_init(PostgresServer::is_installed))?;
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if shared.is_none() {
        // Nobody drops a static.
        // SAFETY: the function is safe, and takes and returns nothing.
        AT_EXIT.call_once(|| assert_eq!(unsafe { libc::atexit(end) }, 0, "an exit handler can be added"));
        *shared = start_postgres();
    }
    shared.as_ref().map(work)
}

extern "C" fn end() {
    // Another thread may hold the lock for ever: the process ends all the same.
    if let Ok(mut shared) = SHARED.try_lock() {
        drop(shared.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_process::POSTGRES_USER;
    use std::path::Path;

    #[test]
    fn killed_server_recovers_and_ends_with_its_owner() {
        let Some(mut server) = start_postgres() else { return };
        assert!(server.url(POSTGRES_USER, "postgres").contains(&server.folder().display().to_string()));
        server.execute("postgres", "CREATE TABLE kept (n bigint); INSERT INTO kept VALUES (7)").unwrap();
        server.kill();
        assert!(server.execute("postgres", "SELECT n FROM kept").is_err());
        server.restart().unwrap();
        assert_eq!(server.execute("postgres", "SELECT n FROM kept").unwrap(), "7");
        let id = server.id();
        drop(server);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }
}
