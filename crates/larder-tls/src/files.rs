//! Reading certificates, keys and roots.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl FileError {
    pub(crate) fn new(path: &Path, reason: String) -> Self {
        FileError { path: path.to_owned(), reason }
    }
}

pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let failed = |reason| FileError::new(path, reason);
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let pem = read_all(file).map_err(failed)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(failed("no certificate in PEM".to_owned())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(failed(error.to_string())),
    }
}

pub(crate) fn read_roots(path: &Path) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        roots.add(certificate).map_err(|error| FileError::new(path, error.to_string()))?;
    }
    Ok(roots)
}

pub(crate) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    let failed = |reason| FileError::new(path, reason);
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    // Of the open file: another one may have its name a moment later.
    let mode = file.metadata().map_err(|error| failed(error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 && !(mode & 0o077 == 0o040 && is_credential(path)) {
        let mode = mode & 0o777;
        return Err(failed(format!(
            "the mode is {mode:04o}, which gives others access to the key: chmod 600"
        )));
    }
    let pem = read_all(file).map_err(failed)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| failed("no private key in PEM".to_owned()))
}

/// Whether a file is a credential that systemd has copied for this process. It may give the user of the process access by a list,
/// and the mode shows that as a right of the group.
fn is_credential(path: &Path) -> bool {
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY").filter(|folder| !folder.is_empty());
    folder.is_some_and(|folder| path.starts_with(folder))
}

fn read_all(file: File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("longer than {MAX_FILE_BYTES} bytes"));
    }
    Ok(bytes)
}
