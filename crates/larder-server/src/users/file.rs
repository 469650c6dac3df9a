//! The file of users: a line for each, in the form of `ACL LIST`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use larder_resp::{Limits, Progress, RequestParser};

use super::catalogue::Catalogue;
use super::user::{Profile, RulesError, valid_name};

/// The longest file that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The users of a file by their names.
pub(super) type Profiles = BTreeMap<Box<[u8]>, Profile>;

/// Reads all users of a file.
///
/// # Errors
/// One text for each line that is not valid, with its number, or why the file cannot be read.
pub(super) fn read(catalogue: &Catalogue, path: &Path) -> Result<Profiles, Vec<String>> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let is_read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    is_read.map_err(|error| vec![format!("cannot read {shown}: {error}")])?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(vec![format!("{shown} is longer than {MAX_BYTES} bytes")]);
    }
    let (mut profiles, mut faults) = (Profiles::new(), Vec::new());
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        match parse(catalogue, line) {
            Ok((name, profile)) => match profiles.entry(name) {
                Entry::Vacant(entry) => _ = entry.insert(profile),
                Entry::Occupied(entry) => {
                    let name = String::from_utf8_lossy(entry.key());
                    faults.push(format!("{shown}:{number}: duplicate user '{name}'"));
                }
            },
            Err(fault) => faults.push(format!("{shown}:{number}: {fault}")),
        }
    }
    if faults.is_empty() { Ok(profiles) } else { Err(faults) }
}

fn parse(catalogue: &Catalogue, line: &[u8]) -> Result<(Box<[u8]>, Profile), String> {
    const NO_USER: &str = "should start with user keyword followed by the username";
    if !line.starts_with(b"user") {
        return Err(NO_USER.to_owned());
    }
    let (mut parser, line) = (RequestParser::new(), [line, b"\r\n"].concat());
    let limits = Limits { max_inline_bytes: line.len(), ..Limits::default() };
    match parser.parse(&line, &limits) {
        Ok(Progress::Complete { .. }) => {}
        // A line that is complete has quotation marks without an end.
        _ => return Err("unbalanced quotes".to_owned()),
    }
    let words: Vec<&[u8]> = parser.args(&line).iter().collect();
    let (Some(&b"user"), Some(name)) = (words.first(), words.get(1)) else { return Err(NO_USER.to_owned()) };
    if !valid_name(name) {
        return Err("usernames can't contain spaces or null characters".to_owned());
    }
    let mut profile = Profile::new(catalogue);
    profile.apply_all(catalogue, &words[2..]).map_err(|error| match error {
        RulesError::Unmatched(_) => "unmatched parenthesis in selector definition".to_owned(),
        RulesError::Rule { rule, reason } => format!("error in applying operation '{rule}': {reason}"),
    })?;
    Ok(((*name).into(), profile))
}

/// The line of a user.
pub(super) fn line(name: &[u8], profile: &Profile) -> Vec<u8> {
    let rules = profile.rules();
    let words = [&b"user"[..], name].into_iter().chain(rules.iter().map(Vec::as_slice));
    words.map(<[u8]>::to_vec).collect::<Vec<_>>().join(&b' ')
}

/// Replaces a file by these users. The former file stays if that fails.
pub(super) fn write<'a>(
    path: &Path,
    profiles: impl Iterator<Item = (&'a [u8], &'a Profile)>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    for (name, profile) in profiles {
        bytes.extend_from_slice(b"user ");
        bytes.extend_from_slice(&quoted(name));
        for rule in profile.rules() {
            bytes.push(b' ');
            bytes.extend_from_slice(&quoted(&rule));
        }
        bytes.push(b'\n');
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let other = path.with_file_name(name);
    let write = || {
        // The hashes of passwords are for nobody else.
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&other)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&other, path)
    };
    write().inspect_err(|_| _ = fs::remove_file(&other))
}

/// A word as the file has it: in quotation marks if it has characters with a meaning.
fn quoted(word: &[u8]) -> Vec<u8> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    if !word.is_empty() && word.iter().all(is_plain) {
        return word.to_vec();
    }
    let mut text = vec![b'"'];
    for byte in word {
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => text.push(*byte),
            _ => text.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    text.push(b'"');
    text
}
