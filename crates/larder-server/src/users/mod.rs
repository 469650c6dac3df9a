//! Users, their passwords and their rights.
//!
//! ```text
//! Users ── by name ──► User ──► Profile: on or off, passwords ──► Rights ──► selectors: commands, keys, channels
//!   │ version           ▲ shared by its connections
//!   └─ a connection whose version is older takes the rights of its user again, when its turn begins
//! ```
//!
//! A connection whose user may do everything has no rights to check, so none of its commands comes here.

mod catalogue;
mod denied;
mod file;
mod log;
mod password;
mod rule_error;
mod selector;
mod user;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use larder_engine::stats::Counter;
use larder_resp::Args;
use parking_lot::Mutex;

use catalogue::{Catalogue, Named};
pub(crate) use denied::Denied;
use log::AccessLog;
pub(crate) use log::Event;
use password::PasswordHash;
use selector::Uses;
use user::Profile;
pub(crate) use user::{Rights, RulesError, User, valid_name};

use crate::spec::{Access, CommandSpec};

/// The name of the user of connections that have not named another one.
pub(crate) const DEFAULT_USER: &[u8] = b"default";

/// All users of a server.
#[derive(Debug)]
pub(crate) struct Users {
    catalogue: Catalogue,
    default: Arc<User>,
    by_name: Mutex<BTreeMap<Box<[u8]>, Arc<User>>>,
    /// Increases with each change.
    version: AtomicU32,
    pub(crate) log: AccessLog,
    /// What was denied: logins, commands, keys and channels.
    pub(crate) denied: [Counter; 4],
    file: Option<PathBuf>,
}

/// What a change of users means for connections.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Those that are no more.
    pub(crate) removed: Vec<Arc<User>>,
    /// Those whose channels may be other ones.
    pub(crate) changed: Vec<Arc<User>>,
}

/// Why users were not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoadError {
    NoFile,
    Faults(Vec<String>),
    /// The default user would need no password, and others on the network could use the server.
    Open,
}

impl Users {
    /// The default user alone, who needs this password.
    pub(crate) fn new(specs: &'static [CommandSpec], password: Option<&str>, file: Option<PathBuf>) -> Self {
        let catalogue = Catalogue::new(specs);
        let mut profile = Profile::of_default(&catalogue);
        profile.set_only_password(password.map(str::as_bytes));
        let default = Arc::new(User::new(DEFAULT_USER, profile));
        let by_name = BTreeMap::from([(DEFAULT_USER.into(), Arc::clone(&default))]);
        Users {
            catalogue,
            default,
            by_name: Mutex::new(by_name),
            version: AtomicU32::new(0),
            log: AccessLog::default(),
            denied: Default::default(),
            file,
        }
    }

    /// The user of a connection that has not named one.
    pub(crate) fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// Whether a connection is the default user without a password.
    pub(crate) fn is_open(&self) -> bool {
        self.default.profile().is_open()
    }

    /// Whether the default user needs no password. It may be off.
    pub(crate) fn needs_no_password(&self) -> bool {
        self.default.profile().needs_no_password()
    }

    /// The number of changes so far: rights that a connection has taken before are old.
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    fn end_change(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.by_name.lock().get(name).cloned()
    }

    /// All users, by their names.
    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        self.by_name.lock().values().cloned().collect()
    }

    /// The user of this name, if the password is right.
    pub(crate) fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let password = PasswordHash::of(password);
        self.find(name).filter(|user| user.profile().accepts(password))
    }

    /// Sets the only password of the default user, or that it needs none.
    pub(crate) fn set_default_password(&self, password: Option<&str>) {
        let _changing = self.by_name.lock();
        let mut profile = (*self.default.profile()).clone();
        profile.set_only_password(password.map(str::as_bytes));
        self.default.set_profile(profile);
        self.end_change();
    }

    /// Applies rules to a user, who is a new one if there is none of this name. With `keeps_closed` the default user must
    /// not become one without a password.
    ///
    /// # Errors
    /// A rule is not valid: nothing has changed.
    pub(crate) fn set(
        &self,
        name: &[u8],
        rules: &[&[u8]],
        keeps_closed: bool,
    ) -> Result<Changed, Option<RulesError>> {
        let mut by_name = self.by_name.lock();
        let known = by_name.get(name).cloned();
        let mut profile =
            known.as_ref().map_or_else(|| Profile::new(&self.catalogue), |user| (*user.profile()).clone());
        profile.apply_all(&self.catalogue, rules).map_err(Some)?;
        if keeps_closed && name == DEFAULT_USER && profile.is_open() {
            return Err(None);
        }
        match &known {
            Some(user) => user.set_profile(profile),
            None => _ = by_name.insert(name.into(), Arc::new(User::new(name, profile))),
        }
        self.end_change();
        Ok(Changed { removed: Vec::new(), changed: known.into_iter().collect() })
    }

    /// Removes a user, who has no rights from now on.
    pub(crate) fn remove(&self, name: &[u8]) -> Option<Arc<User>> {
        let user = self.by_name.lock().remove(name)?;
        user.set_profile(Profile::new(&self.catalogue));
        self.end_change();
        Some(user)
    }

    /// Reads the file of users. A default user that it does not name is as at the start. With `keeps_closed` that must not
    /// be one without a password.
    ///
    /// # Errors
    /// A line is not valid, or the file cannot be read: nothing has changed.
    pub(crate) fn load(&self, password: Option<&str>, keeps_closed: bool) -> Result<Changed, LoadError> {
        let path = self.file.as_deref().ok_or(LoadError::NoFile)?;
        let mut profiles = file::read(&self.catalogue, path).map_err(LoadError::Faults)?;
        let default = profiles.entry(DEFAULT_USER.into()).or_insert_with(|| {
            let mut profile = Profile::of_default(&self.catalogue);
            profile.set_only_password(password.map(str::as_bytes));
            profile
        });
        if keeps_closed && default.is_open() {
            return Err(LoadError::Open);
        }
        let mut by_name = self.by_name.lock();
        let is_named = |(name, _): &(Box<[u8]>, Arc<User>)| profiles.contains_key(name);
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut *by_name).into_iter().partition(is_named);
        *by_name = kept;
        let removed: Vec<Arc<User>> = gone.into_values().collect();
        removed.iter().for_each(|user| user.set_profile(Profile::new(&self.catalogue)));
        let changed = by_name.values().cloned().collect();
        for (name, profile) in profiles {
            match by_name.get(&name) {
                Some(user) => user.set_profile(profile),
                None => {
                    let user = Arc::new(User::new(&name, profile));
                    by_name.insert(name, user);
                }
            }
        }
        self.end_change();
        Ok(Changed { removed, changed })
    }

    /// Writes the file of users; `None` if there is none.
    pub(crate) fn save(&self) -> Option<std::io::Result<()>> {
        let path = self.file.as_deref()?;
        let users: Vec<_> = self.all().into_iter().map(|user| (user.profile(), user)).collect();
        Some(file::write(path, users.iter().map(|(profile, user)| (user.name(), &**profile))))
    }

    /// The line of a user in `ACL LIST`.
    pub(crate) fn line(user: &User) -> Vec<u8> {
        file::line(user.name(), &user.profile())
    }

    /// Whether a request is allowed with these rights.
    pub(crate) fn check(
        &self,
        rights: &Rights,
        spec: &'static CommandSpec,
        args: Args<'_>,
    ) -> Result<(), Denied> {
        rights.check(&self.catalogue, &Uses::of_request(self.catalogue.of_request(spec, args), args))
    }

    /// Whether a request may read keys that its arguments do not name.
    pub(crate) fn read_all_keys(&self, rights: &Rights, spec: &'static CommandSpec, args: Args<'_>) -> bool {
        let uses = Uses::of_request(self.catalogue.of_request(spec, args), args);
        rights.read_all_keys(&self.catalogue, &uses)
    }

    /// Whether a command that waits may take members of its keys with these rights.
    pub(crate) fn check_keys<'a>(
        &self,
        rights: &Rights,
        spec: &'static CommandSpec,
        keys: impl Iterator<Item = (&'a [u8], Access)>,
    ) -> Result<(), Denied> {
        let keys: Vec<_> = keys.collect();
        let first_argument = keys.first().map(|(key, _)| *key);
        let named = Named { spec, subcommand: None };
        rights.check(&self.catalogue, &Uses { named, first_argument, keys, args: None })
    }

    /// The command of this name.
    pub(crate) fn command(&self, name: &[u8]) -> Option<&'static CommandSpec> {
        self.catalogue.find(name).filter(|named| !named.has_subcommand()).map(|named| named.spec)
    }

    /// The full name of the command of a request.
    pub(crate) fn full_name(&self, spec: &'static CommandSpec, args: Args<'_>) -> String {
        self.catalogue.of_request(spec, args).full_name()
    }

    /// The subcommand of a request that does not exist.
    pub(crate) fn unknown_subcommand<'a>(
        &self,
        spec: &'static CommandSpec,
        args: Args<'a>,
    ) -> Option<&'a [u8]> {
        let is_known = spec.subcommands.is_empty() || self.catalogue.of_request(spec, args).has_subcommand();
        args.get(1).filter(|_| !is_known)
    }

    /// The full names of the commands in a category. A command whose subcommands are in categories is left out.
    pub(crate) fn names_of_category(&self, category: &str) -> Vec<String> {
        self.catalogue.iter().filter(|named| named.is_in(category)).map(|named| named.full_name()).collect()
    }

    /// Records what was denied.
    pub(crate) fn record(&self, event: Event, client: String) {
        let kinds = ["auth", "command", "key", "channel"];
        if let Some(kind) = kinds.iter().position(|kind| *kind == event.reason) {
            self.denied[kind].add(1);
        }
        self.log.record(event, client);
    }
}
