//! API tokens of the URL shortener: the commands that create, list and remove them, and the initial token of `larder
//! up`.

use crate::flags::{DatabaseFlag, LinksFlags, LinksOptions, TokenCommand};
use crate::options::settings::{self, File};
use crate::output::{PRINT_FAILURE, print, remark};
use crate::parts::{database_error, runtime};
use anyhow::{Context, Error, Result, bail};
use larder_links::{Scope, Store};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The name of the token file in the data folder of `larder up`.
const TOKEN_FILE: &str = "links-token";

pub(crate) fn run(command: TokenCommand, file: File) -> Result<()> {
    let (flag, may_create) = match &command {
        TokenCommand::Add { database, .. } => (database, true),
        TokenCommand::List { database } | TokenCommand::Remove { database, .. } => (database, false),
    };
    let store = open_store(flag, file, may_create)?;
    runtime()?.block_on(async {
        let result = execute(&command, &store).await;
        store.close().await;
        result
    })
}

/// Opens the database of a command, which must exist unless the command may create it.
pub(crate) fn open_store(flag: &DatabaseFlag, file: File, may_create: bool) -> Result<Store> {
    let options = LinksOptions { database: flag.database.clone(), ..LinksOptions::default() };
    let flags = LinksFlags { options, ..LinksFlags::default() };
    let settings::Links { config, sources, .. } = file.links(flags)?;
    config.validate().map_err(|error| sources.of_links(error))?;
    let store = config.store_config()?;
    if let Some(path) = store.database.file()
        && !may_create
        && !path.exists()
    {
        bail!("there is no database at {}", path.display());
    }
    Store::open(&store).map_err(|error| database_error(error.into(), &config, &sources))
}

async fn execute(command: &TokenCommand, store: &Store) -> Result<()> {
    match command {
        TokenCommand::Add { name, scope, .. } => {
            let (token, secret) = store.add_token(name.as_str(), *scope).await?;
            // Only the token goes to stdout, so that a script can read it.
            let mut stdout = std::io::stdout().lock();
            if let Err(error) = writeln!(stdout, "{}", secret.as_str()).and_then(|()| stdout.flush()) {
                // Nobody has seen it, and nobody could show it again. A closed pipe is a failure too.
                store.remove_token(token.id).await?;
                return Err(Error::from(error).context(format!("no token was created: {PRINT_FAILURE}")));
            }
            // With the path: a mistyped one has created another database.
            remark(&format!(
                "created token {} with the scope {} in {}; it cannot be shown again",
                token.id,
                token.scope,
                store.address()
            ));
        }
        TokenCommand::List { .. } => {
            let mut table = format!("{:>4}  {:<5}  {:<10}  NAME\n", "ID", "SCOPE", "CREATED");
            for token in store.tokens().await? {
                let line = format!(
                    "{:>4}  {:<5}  {:<10}  {}",
                    token.id,
                    token.scope.as_str(),
                    token.created_on,
                    token.name
                );
                table += line.trim_end();
                table.push('\n');
            }
            print(&table)?;
        }
        TokenCommand::Remove { id, .. } => {
            if !store.remove_token(*id).await? {
                bail!("there is no token {id}");
            }
            print(&format!("removed token {id}\n"))?;
        }
    }
    Ok(())
}

/// The initial token of `larder up`: the path of its file, and whether the database knows it.
pub(crate) struct InitialToken {
    pub(crate) path: PathBuf,
    pub(crate) is_valid: bool,
}

/// Creates the initial token of `larder up` in a file in the data folder that only the owner can read. An existing file is
/// not changed, because its token may have been removed on purpose.
pub(crate) async fn create_initial(data: &Path, store: &Store) -> Result<InitialToken> {
    let path = data.join(TOKEN_FILE);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = match options.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let token = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let is_valid = store.has_token(String::from_utf8_lossy(&token).trim()).await?;
            return Ok(InitialToken { path, is_valid });
        }
        Err(error) => return Err(error).with_context(|| format!("cannot create {}", path.display())),
    };
    let created = async {
        let (_, secret) = store.add_token("larder up", Scope::Write).await?;
        writeln!(file, "{}", secret.as_str())?;
        anyhow::Ok(file.sync_all()?)
    };
    if let Err(error) = created.await {
        // With an empty file the next start would not try again.
        let _ = std::fs::remove_file(&path);
        return Err(error.context(format!("cannot create {}", path.display())));
    }
    Ok(InitialToken { path, is_valid: true })
}
