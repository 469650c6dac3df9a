//! TLS to PostgreSQL: what is verified of a server, and what its errors mean.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

/// What is verified of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verified {
    Nothing,
    /// That a trusted root signed its certificate.
    Root,
    /// That too, and that the certificate is for the host of the URL.
    RootAndName,
}

/// TLS with the roots of a file, or of the operating system.
pub(super) fn connector(verified: Verified, roots: Option<&Path>) -> Result<MakeRustlsConnect, String> {
    let provider =
        CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()));
    let algorithms = provider.signature_verification_algorithms;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    let of = |roots| Arc::new(NamelessVerifier { roots, algorithms });
    let config = match verified {
        Verified::Nothing => config.dangerous().with_custom_certificate_verifier(of(None)),
        Verified::Root => config.dangerous().with_custom_certificate_verifier(of(Some(trusted(roots)?))),
        Verified::RootAndName => config.with_root_certificates(trusted(roots)?),
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn trusted(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return match roots.is_empty() {
            true => Err("this system has no root certificates: name some by sslrootcert=FILE".into()),
            false => Ok(roots),
        };
    };
    let failed = |error: &dyn std::fmt::Display| format!("sslrootcert: {}: {error}", file.display());
    let pem = std::fs::read(file).map_err(|error| failed(&error))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| failed(&error))?;
        roots.add(certificate).map_err(|error| failed(&error))?;
    }
    if roots.is_empty() { Err(failed(&"no certificate in PEM")) } else { Ok(roots) }
}

/// Verifies that the server has the key of its certificate, and that one of the roots signed that, if there are any; never for
/// which host.
#[derive(Debug)]
struct NamelessVerifier {
    roots: Option<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for NamelessVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// A failed handshake.
#[derive(Debug, thiserror::Error)]
#[error("TLS failed: {source}: {advice}")]
pub(super) struct TlsError {
    source: Box<dyn std::error::Error + Send + Sync>,
    advice: &'static str,
}

/// The error of a handshake with what to do, or the same error if it is another one.
pub(super) fn explain(
    source: Box<dyn std::error::Error + Send + Sync>,
) -> Arc<dyn std::error::Error + Send + Sync> {
    let inner = source.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
    let advice = match inner.and_then(|error| error.downcast_ref::<Error>()) {
        // A root of the same name with another key.
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "no trusted root signed the server's certificate, name its root by sslrootcert=FILE in the URL"
        }
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => {
            "use a name of the server's certificate as the host of the URL, or sslmode=verify-ca, which accepts any name"
        }
        Some(Error::InvalidCertificate(_)) => "renew or replace the server's certificate",
        Some(_) => "check the TLS versions of the server, and whether it demands client certificates",
        // The client library has no type for it.
        None if source.to_string() == "server does not support TLS" => {
            "set ssl = on at the server, or sslmode=disable in the URL"
        }
        None => return Arc::from(source),
    };
    Arc::new(TlsError { source, advice })
}
