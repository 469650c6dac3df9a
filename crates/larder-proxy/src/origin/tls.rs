//! TLS to the origins: at least 1.2, verified with the roots of the operating system and those of a file.

use crate::error::ProxyError;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// The settings of TLS, for each set of protocols that a connection may choose from.
#[derive(Clone, Debug)]
pub(super) struct OriginTls {
    /// HTTP/2 if the origin has it, or HTTP/1.1.
    pub(super) any: Arc<ClientConfig>,
    /// HTTP/1.1 alone, for upgrades.
    pub(super) http1: Arc<ClientConfig>,
}

impl OriginTls {
    /// Reads the roots of the operating system, and those of the file.
    ///
    /// # Errors
    /// The file cannot be read or has no certificate, or there are no roots at all.
    pub(super) fn load(file: Option<&Path>) -> Result<OriginTls, ProxyError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(file) = file {
            add_file(&mut roots, file).map_err(|reason| ProxyError::File {
                field: "origin_roots",
                path: file.to_owned(),
                reason,
            })?;
        }
        if roots.is_empty() {
            return Err(ProxyError::NoRoots);
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has the cipher suites of both versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let with_protocols = |protocols: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Ok(OriginTls { any: with_protocols(&[b"h2", b"http/1.1"]), http1: with_protocols(&[b"http/1.1"]) })
    }
}

fn add_file(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    let pem = std::fs::read(file).map_err(|error| error.to_string())?;
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    if roots.len() == before { Err("no certificate in PEM".to_owned()) } else { Ok(()) }
}
