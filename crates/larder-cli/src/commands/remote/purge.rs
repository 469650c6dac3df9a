//! `larder purge`: purges a part of a running Larder.

use super::client::AdminClient;
use crate::flags::PurgeFlags;
use crate::options::settings::File;
use crate::output::print;
use crate::parts::runtime;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// The file of the token in the data folder of `larder up`.
const TOKEN_FILE: &str = "admin-token";

pub(crate) fn run(flags: PurgeFlags, file: File) -> Result<()> {
    let path = file.data_folder(flags.data).join(TOKEN_FILE);
    let token = std::fs::read_to_string(&path);
    let token = token.with_context(|| format!("cannot read the admin token from {}", path.display()))?;
    let token = token.trim();
    // The client would say that it cannot parse a header.
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!("{} contains no admin token", path.display());
    }
    let client = AdminClient::new(file.admin_authority(flags.admin.admin));
    let mut body = json!({ "part": flags.part });
    let target = &flags.target;
    let named = [
        ("tag", &target.tag),
        ("uri", &target.uri),
        ("prefix", &target.prefix),
        ("principal", &target.principal),
    ];
    let named = named.into_iter().find_map(|(name, value)| Some((name, Value::from(value.as_deref()?))));
    let (name, value) = named.unwrap_or(("all", true.into()));
    body[name] = value;
    if flags.soft {
        body["soft"] = true.into();
    }
    runtime()?.block_on(client.post("/api/purge", token, &body))?;
    print("purged\n")
}
