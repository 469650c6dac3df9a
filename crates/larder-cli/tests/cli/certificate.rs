//! A certificate for a server with TLS.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

/// The files of a certificate that is valid until then, and of its key.
pub(crate) fn certificate_until(folder: &Path, end: SystemTime) -> [String; 2] {
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a valid name");
    params.not_after = end.into();
    let key = rcgen::KeyPair::generate().expect("a key");
    let signed = params.self_signed(&key).expect("a certificate");
    [("tls.pem", signed.pem()), ("tls.key", key.serialize_pem())].map(|(name, text)| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("the file can be written");
        // Others must not read the key.
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("the mode can be set");
        path.display().to_string()
    })
}
