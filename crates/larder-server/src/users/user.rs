//! A user: whether it may log in, its passwords and its rights.

use std::sync::Arc;

use parking_lot::RwLock;

use super::catalogue::Catalogue;
use super::denied::Denied;
use super::password::PasswordHash;
use super::rule_error::{RuleError, shown};
use super::selector::{Selector, Uses};

/// Whether a user may have this name.
pub(crate) fn valid_name(name: &[u8]) -> bool {
    !name.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0)
}

/// A user of the server, which its connections share.
#[derive(Debug)]
pub(crate) struct User {
    name: Box<[u8]>,
    profile: RwLock<Arc<Profile>>,
}

impl User {
    pub(super) fn new(name: &[u8], profile: Profile) -> Self {
        User { name: name.into(), profile: RwLock::new(Arc::new(profile)) }
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The name as a text.
    pub(crate) fn name_text(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// What it is now.
    pub(crate) fn profile(&self) -> Arc<Profile> {
        self.profile.read().clone()
    }

    pub(super) fn set_profile(&self, profile: Profile) {
        *self.profile.write() = Arc::new(profile);
    }

    /// What it may do, unless that is everything.
    pub(crate) fn limits(&self) -> Option<Arc<Rights>> {
        let rights = self.profile.read().rights.clone();
        (!rights.allow_everything()).then_some(rights)
    }
}

/// What a user may do.
#[derive(Debug, Clone)]
pub(crate) struct Rights {
    /// Each allows what it says; the first one has the rules outside of parentheses.
    selectors: Vec<Selector>,
}

impl Rights {
    fn allow_everything(&self) -> bool {
        self.selectors.iter().any(Selector::allows_everything)
    }

    /// Whether a request is allowed.
    pub(super) fn check(&self, catalogue: &Catalogue, uses: &Uses<'_>) -> Result<(), Denied> {
        let mut reason = Denied::Command;
        for selector in &self.selectors {
            match selector.check(catalogue, uses) {
                Ok(()) => return Ok(()),
                Err(denied) => reason = reason.max(denied),
            }
        }
        Err(reason)
    }

    /// Whether a connection may subscribe to a channel or a pattern.
    pub(crate) fn allow_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        self.selectors.iter().any(|selector| selector.allows_channel(name, is_pattern))
    }

    /// Whether a set of rights that allows the request also allows to read every key.
    pub(super) fn read_all_keys(&self, catalogue: &Catalogue, uses: &Uses<'_>) -> bool {
        self.selectors
            .iter()
            .any(|selector| selector.reads_all_keys() && selector.check(catalogue, uses).is_ok())
    }
}

/// What a user is at a time.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    is_on: bool,
    needs_no_password: bool,
    /// As it was set. It has no effect: every payload of `RESTORE` is checked.
    sanitizes_payloads: Option<bool>,
    passwords: Vec<PasswordHash>,
    pub(super) rights: Arc<Rights>,
}

impl Profile {
    /// Of a new user, who may nothing.
    pub(super) fn new(catalogue: &Catalogue) -> Self {
        let rights = Rights { selectors: vec![Selector::new(catalogue)] };
        Profile {
            is_on: false,
            needs_no_password: false,
            sanitizes_payloads: None,
            passwords: Vec::new(),
            rights: Arc::new(rights),
        }
    }

    /// Of the default user, who may everything.
    pub(super) fn of_default(catalogue: &Catalogue) -> Self {
        let mut profile = Profile::new(catalogue);
        for rule in [&b"on"[..], b"nopass", b"~*", b"&*", b"+@all"] {
            profile.apply(catalogue, rule).expect("the rules of the default user are valid");
        }
        profile
    }

    /// Whether anybody is this user without a password.
    pub(super) fn is_open(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    /// Whether it needs no password.
    pub(super) fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// Whether it may log in with this password.
    pub(super) fn accepts(&self, password: PasswordHash) -> bool {
        let is_known = password.is_among(&self.passwords);
        self.is_on && (is_known || self.needs_no_password)
    }

    /// Sets the only password, or that none is needed.
    pub(super) fn set_only_password(&mut self, password: Option<&[u8]>) {
        self.passwords = password.map(PasswordHash::of).into_iter().collect();
        self.needs_no_password = password.is_none();
    }

    /// Applies rules, each of which is a word, but for those in parentheses.
    pub(super) fn apply_all(&mut self, catalogue: &Catalogue, rules: &[&[u8]]) -> Result<(), RulesError> {
        let joined = join_selectors(rules)?;
        joined.iter().try_for_each(|rule| {
            let failed = |reason| RulesError::Rule { rule: shown(rule), reason };
            self.apply(catalogue, rule).map_err(failed)
        })
    }

    fn apply(&mut self, catalogue: &Catalogue, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => self.set_only_password(None),
            b"resetpass" => {
                self.passwords.clear();
                self.needs_no_password = false;
            }
            b"sanitize-payload" => self.sanitizes_payloads = Some(true),
            b"skip-sanitize-payload" => self.sanitizes_payloads = Some(false),
            b"clearselectors" => Arc::make_mut(&mut self.rights).selectors.truncate(1),
            b"reset" => *self = Profile { sanitizes_payloads: Some(true), ..Profile::new(catalogue) },
            _ => match rule {
                [b'>', password @ ..] => self.add(PasswordHash::of(password)),
                [b'#', hash @ ..] => self.add(PasswordHash::parse(hash).ok_or(RuleError::Hash)?),
                [b'<', password @ ..] => self.remove(PasswordHash::of(password))?,
                [b'!', hash @ ..] => self.remove(PasswordHash::parse(hash).ok_or(RuleError::Hash)?)?,
                [b'(', rules @ .., b')'] => {
                    let selector = Selector::parse(catalogue, rules)?;
                    Arc::make_mut(&mut self.rights).selectors.push(selector);
                }
                _ => Arc::make_mut(&mut self.rights).selectors[0].apply(catalogue, rule)?,
            },
        }
        Ok(())
    }

    fn add(&mut self, password: PasswordHash) {
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
        self.needs_no_password = false;
    }

    fn remove(&mut self, password: PasswordHash) -> Result<(), RuleError> {
        let position = self.passwords.iter().position(|known| *known == password);
        self.passwords.remove(position.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    /// The flags, as `ACL GETUSER` names them.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.needs_no_password.then_some("nopass"));
        flags.extend(self.sanitizes_payloads.map(|does| match does {
            true => "sanitize-payload",
            false => "skip-sanitize-payload",
        }));
        flags
    }

    /// The hashes of its passwords.
    pub(crate) fn passwords(&self) -> Vec<String> {
        self.passwords.iter().map(|password| password.to_text()).collect()
    }

    /// For each set of rights: the rules of commands, of keys and of channels.
    pub(crate) fn selectors(&self) -> impl ExactSizeIterator<Item = [Vec<u8>; 3]> {
        self.rights.selectors.iter().map(|selector| {
            [
                selector.describe_commands().into_bytes(),
                selector.describe_keys(),
                selector.describe_channels(),
            ]
        })
    }

    /// The rules that make a new user to this one. Those of a selector are one rule.
    pub(super) fn rules(&self) -> Vec<Vec<u8>> {
        let flags = self.flags().into_iter().map(|flag| flag.as_bytes().to_vec());
        let passwords = self.passwords().into_iter().map(|hash| format!("#{hash}").into_bytes());
        let (root, further) = self.rights.selectors.split_first().expect("a user has rights");
        let root = root.describe();
        let root = root.split(|byte| *byte == b' ').map(<[u8]>::to_vec);
        let further = further.iter().map(|selector| [b"(", &*selector.describe(), b")"].concat());
        flags.chain(passwords).chain(root).chain(further).collect()
    }
}

/// Why rules are not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RulesError {
    /// A parenthesis has no end. The text begins with it.
    Unmatched(String),
    Rule {
        rule: String,
        reason: RuleError,
    },
}

/// Joins the words of each selector, from one that begins with a parenthesis to one that ends with one.
fn join_selectors(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, RulesError> {
    let mut joined = Vec::new();
    let mut open: Option<(Vec<u8>, &[u8])> = None;
    for rule in rules {
        let (mut text, first) = match open.take() {
            Some((mut text, first)) => {
                text.push(b' ');
                (text, first)
            }
            None => (Vec::new(), *rule),
        };
        text.extend_from_slice(rule);
        match text.first() == Some(&b'(') && !text.ends_with(b")") {
            true => open = Some((text, first)),
            false => joined.push(text),
        }
    }
    match open {
        Some((_, first)) => Err(RulesError::Unmatched(String::from_utf8_lossy(first).into_owned())),
        None => Ok(joined),
    }
}
