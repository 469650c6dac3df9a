//! Until when a certificate is valid: the one thing of it that rustls does not tell.

use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// The end of its validity; `None` if it cannot be read, which a handshake does not need.
pub(crate) fn end(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let certificate = Certificate::from_der(certificate).ok()?;
    UNIX_EPOCH.checked_add(certificate.tbs_certificate.validity.not_after.to_unix_duration())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use std::time::Duration;

    #[test]
    fn end_is_that_of_the_certificate() {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(2001, 9, 9);
        let signed = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(end(signed.der()), Some(UNIX_EPOCH + Duration::from_secs(999_993_600)));
        assert_eq!(end(&CertificateDer::from_slice(b"no certificate")), None);
    }
}
