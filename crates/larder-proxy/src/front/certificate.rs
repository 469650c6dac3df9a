//! The certificate of the proxy. It can be replaced while the proxy runs.

use crate::error::ProxyError;
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A certificate chain with its key, from two files.
#[derive(Debug)]
pub(crate) struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read or is not PEM, others than the owner have access to the key, or the key is that of another
    /// certificate.
    pub(crate) fn load(chain: &Path, key: &Path) -> Result<Certificate, ProxyError> {
        let current = RwLock::new(Arc::new(read(chain, key)?));
        Ok(Certificate { chain: chain.to_owned(), key: key.to_owned(), current })
    }

    /// Reads the files again, for handshakes that begin later.
    ///
    /// # Errors
    /// As [`load`](Self::load): the certificate stays what it was.
    pub(crate) fn reload(&self) -> Result<(), ProxyError> {
        let config = Arc::new(read(&self.chain, &self.key)?);
        *self.current.write() = config;
        Ok(())
    }

    /// The settings of a handshake that begins now.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.current.read().clone()
    }
}

fn read(chain: &Path, key: &Path) -> Result<ServerConfig, ProxyError> {
    let failed = |field, path: &Path| {
        let path = path.to_owned();
        move |reason: String| ProxyError::File { field, path, reason }
    };
    let certificates = read_chain(chain).map_err(failed("tls_cert", chain))?;
    let private = read_key(key).map_err(failed("tls_key", key))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the cipher suites of both versions")
        .with_no_client_auth()
        .with_single_cert(certificates, private);
    let mut config = config.map_err(|error| failed("tls_key", key)(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let pem = read_all(file)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err("no certificate in PEM".to_owned()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(error.to_string()),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    // Of the open file: another one may have its name a moment later.
    let mode = file.metadata().map_err(|error| error.to_string())?.permissions().mode();
    if mode & 0o077 != 0 {
        let mode = mode & 0o777;
        return Err(format!("the mode is {mode:04o}, which gives others access to the key: chmod 600"));
    }
    let pem = read_all(file)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| "no private key in PEM".to_owned())
}

fn read_all(file: File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("longer than {MAX_FILE_BYTES} bytes"));
    }
    Ok(bytes)
}
