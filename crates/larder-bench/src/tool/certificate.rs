//! A certificate for `localhost` and its key, for the workloads with TLS.

use super::output_within;
use anyhow::{Context, Result};
use larder_process::find_program;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

/// The files of a certificate. Dropping it removes them.
pub(crate) struct Certificate {
    /// The certificate.
    pub(crate) chain: PathBuf,
    /// Its key, which only its owner can read.
    pub(crate) key: PathBuf,
    /// A copy of its key for proxies that read it as another user than the one that starts them.
    pub(crate) readable_key: PathBuf,
    _folder: TempDir,
}

impl Certificate {
    /// Makes a certificate on P-256 that is signed by itself, by openssl.
    ///
    /// # Errors
    /// If openssl is not installed or fails.
    pub(crate) fn make() -> Result<Certificate> {
        let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir()?;
        let [chain, key, readable_key] =
            ["chain.pem", "key.pem", "readable-key.pem"].map(|name| folder.path().join(name));
        let mut command = Command::new(find_program("openssl").context("openssl is not installed")?);
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        command.args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
        command.arg("-keyout").arg(&key).arg("-out").arg(&chain);
        output_within(&mut command, PATIENCE)?;
        std::fs::copy(&key, &readable_key)?;
        std::fs::set_permissions(&readable_key, Permissions::from_mode(0o644))?;
        Ok(Certificate { chain, key, readable_key, _folder: folder })
    }
}
