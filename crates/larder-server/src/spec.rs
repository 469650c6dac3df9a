//! The description of a command: its name, arguments and properties, without the function that executes it. So whoever
//! counts, lists or reports commands knows this file and not the commands.

use larder_resp::{Args, parse_integer};

/// One command: its name, arguments and properties.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct CommandSpec {
    /// Lower-case name.
    pub name: &'static str,
    /// The number of arguments including the name: exactly `arity`, or at least `-arity` if negative.
    pub arity: i8,
    /// The first version of Redis with this command.
    pub since: &'static str,
    /// One sentence for the docs.
    pub summary: &'static str,
    /// Its group in the docs of Redis.
    pub group: &'static str,
    /// Index of the first key, of the last key (negative: from the end), and the step between keys; zeros without keys.
    pub keys: (i8, i8, i8),
    /// Index of the number of further keys, which follow it; 0 without.
    pub numkeys: u8,
    pub(crate) flags: Flags,
    /// Its position in the table of commands.
    pub(crate) index: u8,
}

/// Properties of a command, for clients and for dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags(u16);

impl Flags {
    const NONE: Flags = Flags(0);
    pub(crate) const WRITE: Flags = Flags(1);
    pub(crate) const READONLY: Flags = Flags(1 << 1);
    pub(crate) const FAST: Flags = Flags(1 << 2);
    pub(crate) const DENYOOM: Flags = Flags(1 << 3);
    pub(crate) const NO_AUTH: Flags = Flags(1 << 4);
    /// Can affect other clients. Reported as a category and not as a flag.
    pub(crate) const DANGEROUS: Flags = Flags(1 << 5);
    pub(crate) const LOADING: Flags = Flags(1 << 6);
    /// Is refused in a transaction.
    pub(crate) const NO_MULTI: Flags = Flags(1 << 7);
    /// Uses keys that are not at the positions of `keys`: a transaction locks all keys for it.
    pub(crate) const ANY_KEYS: Flags = Flags(1 << 8);
    /// Is executed at once in a transaction, and not queued.
    pub(crate) const NOT_QUEUED: Flags = Flags(1 << 9);
    /// Some keys are not at fixed positions.
    pub(crate) const MOVABLE_KEYS: Flags = Flags(1 << 10);
    /// Is refused in a script.
    pub(crate) const NO_SCRIPT: Flags = Flags(1 << 11);
    /// Changes no keys, but may have effects on other clients that a pause of writes has to stop.
    pub(crate) const MAY_WRITE: Flags = Flags(1 << 12);

    const NAMES: [(Flags, &'static str); 9] = [
        (Flags::WRITE, "write"),
        (Flags::READONLY, "readonly"),
        (Flags::DENYOOM, "denyoom"),
        (Flags::LOADING, "loading"),
        (Flags::FAST, "fast"),
        (Flags::NO_AUTH, "no_auth"),
        (Flags::NO_MULTI, "no_multi"),
        (Flags::NO_SCRIPT, "noscript"),
        (Flags::MOVABLE_KEYS, "movablekeys"),
    ];

    pub(crate) const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub(crate) const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        Flags::NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }
}

impl CommandSpec {
    /// A command without group, flags and keys.
    pub(crate) const fn new(
        name: &'static str,
        arity: i8,
        since: &'static str,
        summary: &'static str,
    ) -> Self {
        CommandSpec {
            name,
            arity,
            since,
            summary,
            group: "",
            keys: (0, 0, 0),
            numkeys: 0,
            flags: Flags::NONE,
            index: 0,
        }
    }

    /// In the group `connection`.
    pub(crate) const fn connection(mut self) -> Self {
        self.group = "connection";
        self
    }

    /// In the group `server`.
    pub(crate) const fn server(mut self) -> Self {
        self.group = "server";
        self
    }

    /// In the group `generic`, without keys at fixed positions.
    pub(crate) const fn generic(mut self) -> Self {
        self.group = "generic";
        self
    }

    /// In the group `transactions`, and executed at once.
    pub(crate) const fn transaction(mut self) -> Self {
        self.group = "transactions";
        self.flag(Flags::NOT_QUEUED)
    }

    /// In the group `transactions`, and queued as any command.
    pub(crate) const fn transaction_queued(mut self) -> Self {
        self.group = "transactions";
        self
    }

    /// In the group `pubsub`.
    pub(crate) const fn pubsub(mut self) -> Self {
        self.group = "pubsub";
        self
    }

    /// In the group `scripting`.
    pub(crate) const fn scripting(mut self) -> Self {
        self.group = "scripting";
        self
    }

    /// Reads a string.
    pub(crate) const fn reads_string(mut self) -> Self {
        self.group = "string";
        self.flags = self.flags.with(Flags::READONLY);
        self
    }

    /// Writes a string and may need memory.
    pub(crate) const fn writes_string(mut self) -> Self {
        self.group = "string";
        self.flags = self.flags.with(Flags::WRITE).with(Flags::DENYOOM);
        self
    }

    /// Changes or removes a string and needs no memory.
    pub(crate) const fn updates_string(mut self) -> Self {
        self.group = "string";
        self.flags = self.flags.with(Flags::WRITE);
        self
    }

    /// Reads a sorted set.
    pub(crate) const fn reads_zset(mut self) -> Self {
        self.group = "sorted-set";
        self.flags = self.flags.with(Flags::READONLY);
        self
    }

    /// Writes a sorted set and may need memory.
    pub(crate) const fn writes_zset(self) -> Self {
        self.updates_zset().flag(Flags::DENYOOM)
    }

    /// Removes members of a sorted set and needs no memory.
    pub(crate) const fn updates_zset(mut self) -> Self {
        self.group = "sorted-set";
        self.flags = self.flags.with(Flags::WRITE);
        self
    }

    /// In the group `bitmap`, of commands on strings.
    pub(crate) const fn bitmap(mut self) -> Self {
        self.group = "bitmap";
        self
    }

    /// In the group `hyperloglog`, of commands on strings.
    pub(crate) const fn hyperloglog(mut self) -> Self {
        self.group = "hyperloglog";
        self
    }

    /// Reads a key of any type.
    pub(crate) const fn reads_key(mut self) -> Self {
        self.group = "generic";
        self.flags = self.flags.with(Flags::READONLY);
        self
    }

    /// Changes or removes a key of any type and needs no memory.
    pub(crate) const fn writes_key(mut self) -> Self {
        self.group = "generic";
        self.flags = self.flags.with(Flags::WRITE);
        self
    }

    /// Is allowed while the server loads its data. This server never does, but clients read the flag.
    pub(crate) const fn loading(self) -> Self {
        self.flag(Flags::LOADING)
    }

    /// Is refused in a script.
    pub(crate) const fn no_script(self) -> Self {
        self.flag(Flags::NO_SCRIPT)
    }

    /// In the group `scripting`: runs a script, whose keys follow their number.
    pub(crate) const fn runs_script(self) -> Self {
        self.scripting().no_script().numkeys(2).flag(Flags::ANY_KEYS)
    }

    /// Takes constant time per key.
    pub(crate) const fn fast(self) -> Self {
        self.flag(Flags::FAST)
    }

    pub(crate) const fn flag(mut self, flag: Flags) -> Self {
        self.flags = self.flags.with(flag);
        self
    }

    /// The first argument is the key.
    pub(crate) const fn one_key(self) -> Self {
        self.keys(1, 1, 1)
    }

    pub(crate) const fn keys(mut self, first: i8, last: i8, step: i8) -> Self {
        self.keys = (first, last, step);
        self
    }

    /// This argument is the number of keys that follow it.
    pub(crate) const fn numkeys(mut self, index: u8) -> Self {
        self.numkeys = index;
        self.flag(Flags::MOVABLE_KEYS)
    }

    /// Whether a pause of writes stops it.
    pub(crate) fn may_write(&self) -> bool {
        self.flags.contains(Flags::WRITE) || self.flags.contains(Flags::MAY_WRITE)
    }

    /// Whether a request has arguments that are keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.0 != 0 || self.numkeys != 0
    }

    /// The keys of a request; `None` if its number of keys is not valid.
    pub(crate) fn keys_of<'a>(&self, args: Args<'a>) -> Option<Vec<&'a [u8]>> {
        let (first, last, step) = self.keys;
        let last = if last < 0 { args.len() as isize + last as isize } else { last as isize };
        let fixed = if first == 0 { 0..0 } else { first as usize..(last + 1).max(0) as usize };
        let counted = match usize::from(self.numkeys) {
            0 => 0..0,
            at => {
                let count = parse_integer(args.get(at)?).and_then(|count| usize::try_from(count).ok())?;
                let may_be_none = self.group == "scripting";
                let end = (at + 1).checked_add(count).filter(|end| *end <= args.len());
                at + 1..end.filter(|_| count > 0 || may_be_none)?
            }
        };
        let indices = fixed.step_by((step as usize).max(1)).chain(counted);
        Some(indices.filter_map(|index| args.get(index)).collect())
    }

    /// Whether `f` is true for all keys of a request. A request without a valid number of keys uses none.
    #[cfg(feature = "scripts")]
    pub(crate) fn all_keys(&self, args: Args<'_>, f: impl Fn(&[u8]) -> bool) -> bool {
        match (self.keys, self.numkeys) {
            // Most commands.
            ((1, 1, 1), 0) => args.get(1).is_none_or(f),
            _ => self.keys_of(args).unwrap_or_default().into_iter().all(f),
        }
    }

    /// Whether this number of arguments, including the name, is valid.
    pub(crate) fn accepts(&self, arguments: usize) -> bool {
        let expected = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { arguments >= expected } else { arguments == expected }
    }

    /// The categories of Redis' access control by group and flags, without the `@`.
    pub(crate) fn categories(&self) -> impl Iterator<Item = &'static str> {
        let group = match self.group {
            "generic" => Some("keyspace"),
            "server" => None,
            "sorted-set" => Some("sortedset"),
            "transactions" => Some("transaction"),
            group => Some(group),
        };
        let flag = |flag, name| self.flags.contains(flag).then_some(name);
        let kind = flag(Flags::WRITE, "write").or(flag(Flags::READONLY, "read"));
        let speed = if self.flags.contains(Flags::FAST) { "fast" } else { "slow" };
        [kind, group, Some(speed), flag(Flags::DANGEROUS, "dangerous")].into_iter().flatten()
    }
}

impl std::fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandSpec")
            .field("name", &self.name)
            .field("arity", &self.arity)
            .finish_non_exhaustive()
    }
}
