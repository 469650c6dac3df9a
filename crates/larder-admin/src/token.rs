//! The admin token: created at the first start, and stored in a file that only its owner can read.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq as _;

/// The name of the file in the data folder.
const FILE: &str = "admin-token";
/// The length of a token: 256 bits in hexadecimal.
const LEN: usize = 64;

/// The secret that authorizes purges over the admin port.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Reads the token from the file `admin-token` in `folder`. Creates the folder and the file, with mode 0600, if
    /// they do not exist.
    ///
    /// Processes that start at the same time get the same token.
    ///
    /// # Errors
    /// [`TokenError`] if the file cannot be read or created, contains no token, or is readable by others.
    pub fn load_or_create(folder: impl AsRef<Path>) -> Result<Token, TokenError> {
        let folder = folder.as_ref();
        let path = folder.join(FILE);
        match read(&path) {
            Err(TokenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        create(folder, &path).map_err(|source| TokenError::Io { path: path.clone(), source })?;
        read(&path)
    }

    /// The token as text, for the header `Authorization: Bearer …`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in constant time.
    pub(crate) fn matches(&self, sent: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(sent).into()
    }
}

/// Does not show the token.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

fn read(path: &Path) -> Result<Token, TokenError> {
    let text = fs::read_to_string(path).map_err(|source| TokenError::Io { path: path.into(), source })?;
    check_mode(path)?;
    let text = text.trim_end();
    if text.len() != LEN || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(TokenError::NoToken(path.into()));
    }
    Ok(Token(text.to_owned()))
}

#[cfg(unix)]
fn check_mode(path: &Path) -> Result<(), TokenError> {
    use std::os::unix::fs::PermissionsExt as _;
    let meta = fs::metadata(path).map_err(|source| TokenError::Io { path: path.into(), source })?;
    match meta.permissions().mode() & 0o777 {
        mode if mode & 0o077 == 0 => Ok(()),
        mode => Err(TokenError::Mode { path: path.into(), mode }),
    }
}

#[cfg(not(unix))]
fn check_mode(_: &Path) -> Result<(), TokenError> {
    Ok(())
}

/// Writes the file under a temporary name and links it to its final name, so that no process reads an incomplete
/// file. If another process was faster, its file remains.
fn create(folder: &Path, path: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let text = random_text(LEN / 2)?;
    let temporary = folder.join(format!("{FILE}.{}", random_text(8)?));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary)?;
    let linked = writeln!(file, "{text}")
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&temporary, path));
    fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Random bytes of the operating system in hexadecimal. A generator of this process would be copied by a fork, and two children
/// would make the same token.
fn random_text(bytes: usize) -> io::Result<String> {
    let mut secret = vec![0; bytes];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    Ok(secret.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The reason why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read or created.
    #[error("cannot use the admin token at {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file contains no token.
    #[error("{path} contains no admin token (64 hexadecimal digits); remove the file to create a new one", path = .0.display())]
    NoToken(PathBuf),
    /// The file is readable by others.
    #[error("the admin token at {path} has mode {mode:o}; it must not be readable by others (chmod 600)", path = path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_or_create_creates_a_token_once() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("new/data");
        let token = Token::load_or_create(&data).unwrap();
        assert_eq!(token.as_str().len(), LEN);
        assert_eq!(Token::load_or_create(&data).unwrap(), token);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 1, "the temporary file is removed");
        let other = folder.path().display().to_string();
        assert_ne!(Token::load_or_create(&other).unwrap(), token);
    }

    #[test]
    fn concurrent_load_or_create_returns_one_token() {
        let folder = tempfile::tempdir().unwrap();
        let tokens: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> =
                (0..8).map(|_| scope.spawn(|| Token::load_or_create(folder.path()).unwrap())).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]));
    }

    #[cfg(unix)]
    #[test]
    fn token_file_is_readable_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        Token::load_or_create(folder.path()).unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = Token::load_or_create(folder.path()).unwrap_err();
        assert!(error.to_string().contains("has mode 644"), "{error}");
    }

    #[test]
    fn file_without_a_token_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        Token::load_or_create(folder.path()).unwrap();
        fs::write(&path, "secret\n").unwrap();
        let error = Token::load_or_create(folder.path()).unwrap_err();
        assert!(error.to_string().contains("contains no admin token"), "{error}");
    }

    #[test]
    fn only_the_complete_token_matches() {
        let token = Token("ab".repeat(32));
        assert!(token.matches("ab".repeat(32).as_bytes()));
        for other in ["", "ab", &"ba".repeat(32), &"ab".repeat(33)] {
            assert!(!token.matches(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
