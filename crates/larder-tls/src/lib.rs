//! The TLS side of a server: its certificate, which can be replaced while the server runs, and which clients need one. A part
//! of Larder; it has no use of its own.
//!
//! ```no_run
//! use larder_tls::{Certificate, Clients, Files};
//!
//! # fn demo() -> Result<(), larder_tls::FileError> {
//! let files = Files::new("server.pem", "server.key");
//! let certificate = Certificate::load(files, Clients::Anybody, &[])?;
//! let handshake = rustls::ServerConnection::new(certificate.current());
//! certificate.reload()?;
//! # Ok(()) }
//! ```

mod files;
mod validity;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;

pub use files::FileError;
use files::{read_certificates, read_key, read_roots};

/// The files of a server, in PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate chain.
    pub chain: PathBuf,
    /// The private key. Only its owner may have access to it.
    pub key: PathBuf,
}

impl Files {
    /// The files of a certificate chain and its key.
    pub fn new(chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Files { chain: chain.into(), key: key.into() }
    }
}

/// Which clients may connect. The files have root certificates in PEM.
#[derive(Clone, Debug)]
pub enum Clients {
    /// No certificate is asked for.
    Anybody,
    /// A certificate is asked for. One that is sent must be signed by a root.
    Asked(PathBuf),
    /// All clients need a certificate that is signed by a root.
    Certified(PathBuf),
}

/// The certificate of a server, with what its handshakes need.
#[derive(Debug)]
pub struct Certificate {
    files: Files,
    clients: Clients,
    protocols: Vec<Vec<u8>>,
    current: RwLock<Current>,
}

/// What the files had when they were read.
#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    expires: Option<SystemTime>,
}

impl Certificate {
    /// Reads the files. `protocols` are those of ALPN, the preferred one first.
    ///
    /// # Errors
    /// A file cannot be read or is not PEM, others than the owner have access to the key, or the key is that of another
    /// certificate.
    pub fn load(files: Files, clients: Clients, protocols: &[&[u8]]) -> Result<Self, FileError> {
        let protocols: Vec<Vec<u8>> = protocols.iter().map(|name| name.to_vec()).collect();
        let current = RwLock::new(read(&files, &clients, &protocols)?);
        Ok(Certificate { files, clients, protocols, current })
    }

    /// Reads the files again, for handshakes that begin later.
    ///
    /// # Errors
    /// As [`load`](Self::load): everything stays what it was.
    pub fn reload(&self) -> Result<(), FileError> {
        let read = read(&self.files, &self.clients, &self.protocols)?;
        *self.current.write() = read;
        Ok(())
    }

    /// The files that it is read from.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The settings of a handshake that begins now.
    #[must_use]
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.read().config.clone()
    }

    /// When the first certificate of the chain to expire does; `None` if none of them can be read.
    #[must_use]
    pub fn expires(&self) -> Option<SystemTime> {
        self.current.read().expires
    }
}

fn read(files: &Files, clients: &Clients, protocols: &[Vec<u8>]) -> Result<Current, FileError> {
    let provider = Arc::new(ring::default_provider());
    let certificates = read_certificates(&files.chain)?;
    let expires = certificates.iter().filter_map(validity::end).min();
    let key = read_key(&files.key)?;
    let verified = |path: &PathBuf| -> Result<_, FileError> {
        let roots = Arc::new(read_roots(path)?);
        Ok(WebPkiClientVerifier::builder_with_provider(roots, provider.clone()))
    };
    let verifier = match clients {
        Clients::Anybody => None,
        Clients::Asked(path) => Some((verified(path)?.allow_unauthenticated(), path)),
        Clients::Certified(path) => Some((verified(path)?, path)),
    };
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider has the cipher suites of both versions");
    let config = match verifier {
        None => config.with_no_client_auth(),
        Some((verifier, path)) => {
            let verifier = verifier.build().map_err(|error| FileError::new(path, error.to_string()))?;
            config.with_client_cert_verifier(verifier)
        }
    };
    let config = config.with_single_cert(certificates, key);
    let mut config = config.map_err(|error| FileError::new(&files.key, error.to_string()))?;
    config.alpn_protocols = protocols.to_vec();
    Ok(Current { config: Arc::new(config), expires })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use rcgen::generate_simple_self_signed;

    use super::*;

    fn write(path: &Path, text: &str, mode: u32) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_that_cannot_be_used_are_named_and_leave_the_former_ones() {
        let folder = tempfile::tempdir().unwrap();
        let [chain, key, roots] = ["a.pem", "a.key", "roots.pem"].map(|name| folder.path().join(name));
        let signed = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let other = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (pem, key_pem) = (signed.cert.pem(), signed.signing_key.serialize_pem());
        write(&chain, &pem, 0o644);
        write(&key, &key_pem, 0o600);
        write(&roots, &pem, 0o644);
        let load = |clients| Certificate::load(Files::new(&chain, &key), clients, &[]);
        let certificate = load(Clients::Certified(roots.clone())).unwrap();
        let before = certificate.current();
        for (path, text, mode, expected) in [
            (&key, key_pem.as_str(), 0o644, "the mode is 0644, which gives others access to the key"),
            (&key, "no key", 0o600, "no private key in PEM"),
            (&key, other.signing_key.serialize_pem().as_str(), 0o600, "a.key: "),
            (&chain, "no certificate", 0o644, "no certificate in PEM"),
            (&roots, "no certificate", 0o644, "roots.pem: no certificate in PEM"),
        ] {
            let former = std::fs::read_to_string(path).unwrap();
            write(path, text, mode);
            let error = certificate.reload().unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(Arc::ptr_eq(&before, &certificate.current()));
            write(path, &former, if path == &key { 0o600 } else { 0o644 });
        }
        certificate.reload().unwrap();
        assert!(!Arc::ptr_eq(&before, &certificate.current()));
        std::fs::remove_file(&chain).unwrap();
        assert!(load(Clients::Anybody).unwrap_err().to_string().contains("No such file"));
    }
}
