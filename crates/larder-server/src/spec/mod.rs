//! The description of a command: its name, arguments and properties, without the function that executes it. So whoever
//! counts, lists or reports commands knows this file and not the commands.

mod access;
mod categories;
mod channels;
mod flags;

use larder_resp::{Args, parse_integer};

pub(crate) use access::Access;
pub(crate) use categories::CATEGORIES;
pub(crate) use channels::Channels;
pub(crate) use flags::Flags;

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
    /// The word behind which the first half of the arguments are keys; empty without.
    keyword: &'static str,
    /// The index of a further key of a request, behind an option.
    target: Option<fn(Args<'_>) -> Option<usize>>,
    /// Which requests use keys that are not at fixed positions, if not all of them do.
    uses_any_keys: Option<fn(Args<'_>) -> bool>,
    /// What a client has to know that uses it with a Redis: it is here in part only.
    pub in_part: Option<&'static str>,
    pub(crate) flags: Flags,
    /// What it does with its first key, and with the others.
    access: [Option<Access>; 2],
    /// Its subcommands, in lower case.
    pub(crate) subcommands: &'static [&'static str],
    /// Those whose first argument is a key.
    keyed_subcommands: &'static [&'static str],
    /// Those that administer the server: monitors are not told of them.
    admin_subcommands: &'static [&'static str],
    /// Whether the argument at an index of a request is a secret; `None` if no argument is.
    is_secret: Option<fn(Args<'_>, usize) -> bool>,
    /// Its categories, if that of its group is none of them.
    own_categories: &'static [&'static str],
    /// Which arguments are channels.
    pub(crate) channels: Channels,
    /// The event that is published when it stores or edits a value.
    pub(crate) event: &'static str,
    /// The event that is published when it removes one.
    pub(crate) removal_event: &'static str,
    /// Its position in the table of commands.
    pub(crate) index: u8,
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
            keyword: "",
            target: None,
            uses_any_keys: None,
            in_part: None,
            flags: Flags::NONE,
            access: [None; 2],
            subcommands: &[],
            keyed_subcommands: &[],
            admin_subcommands: &[],
            is_secret: None,
            own_categories: &[],
            channels: Channels::None,
            event: name,
            removal_event: "del",
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

    /// In the group `cluster`.
    pub(crate) const fn cluster(mut self) -> Self {
        self.group = "cluster";
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

    /// In the group `pubsub`: begins or ends subscriptions. Its replies are messages.
    pub(crate) const fn subscribes(self) -> Self {
        self.pubsub().flag(Flags::NO_MULTI).flag(Flags::TAKES_MAIL).flag(Flags::FOR_SUBSCRIBERS)
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

    /// Reads a hash.
    pub(crate) const fn reads_hash(mut self) -> Self {
        self.group = "hash";
        self.flag(Flags::READONLY)
    }

    /// Writes a hash and may need memory.
    pub(crate) const fn writes_hash(mut self) -> Self {
        self.group = "hash";
        self.flag(Flags::WRITE).flag(Flags::DENYOOM).flag(Flags::GROWS_IN_PLACE)
    }

    /// Changes or removes fields of a hash and needs little memory.
    pub(crate) const fn updates_hash(mut self) -> Self {
        self.group = "hash";
        self.flag(Flags::WRITE)
    }

    /// Reads a list.
    pub(crate) const fn reads_list(mut self) -> Self {
        self.group = "list";
        self.flag(Flags::READONLY)
    }

    /// Writes a list and may need memory.
    pub(crate) const fn writes_list(mut self) -> Self {
        self.group = "list";
        self.flag(Flags::WRITE).flag(Flags::DENYOOM).flag(Flags::GROWS_IN_PLACE)
    }

    /// Removes elements of a list and needs no memory.
    pub(crate) const fn updates_list(mut self) -> Self {
        self.group = "list";
        self.flag(Flags::WRITE).flag(Flags::REMOVES_MEMBERS)
    }

    /// Reads a set.
    pub(crate) const fn reads_set(mut self) -> Self {
        self.group = "set";
        self.flag(Flags::READONLY)
    }

    /// Writes a set and may need memory.
    pub(crate) const fn writes_set(mut self) -> Self {
        self.group = "set";
        self.flag(Flags::WRITE).flag(Flags::DENYOOM).flag(Flags::GROWS_IN_PLACE)
    }

    /// Removes members of a set and needs no memory.
    pub(crate) const fn updates_set(mut self) -> Self {
        self.group = "set";
        self.flag(Flags::WRITE).flag(Flags::REMOVES_MEMBERS)
    }

    /// Reads a sorted set.
    pub(crate) const fn reads_zset(mut self) -> Self {
        self.group = "sorted-set";
        self.flags = self.flags.with(Flags::READONLY);
        self
    }

    /// Writes a sorted set and may need memory.
    pub(crate) const fn writes_zset(mut self) -> Self {
        self.group = "sorted-set";
        self.flag(Flags::WRITE).flag(Flags::DENYOOM).flag(Flags::GROWS_IN_PLACE)
    }

    /// Removes members of a sorted set and needs no memory.
    pub(crate) const fn updates_zset(mut self) -> Self {
        self.group = "sorted-set";
        self.flag(Flags::WRITE).flag(Flags::REMOVES_MEMBERS)
    }

    /// In the group `stream`.
    pub(crate) const fn stream(mut self) -> Self {
        self.group = "stream";
        self
    }

    /// Reads a stream.
    pub(crate) const fn reads_stream(self) -> Self {
        self.stream().flag(Flags::READONLY)
    }

    /// Writes a stream and may need memory.
    pub(crate) const fn writes_stream(self) -> Self {
        self.stream().flag(Flags::WRITE).flag(Flags::DENYOOM).flag(Flags::GROWS_IN_PLACE)
    }

    /// Removes entries of a stream, which stays without any, and needs no memory.
    pub(crate) const fn updates_stream(self) -> Self {
        self.stream().flag(Flags::WRITE)
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

    /// In the group `scripting`: runs a script, whose keys follow their number. `named_by` says how.
    pub(crate) const fn runs_script(self, named_by: Flags) -> Self {
        self.scripting().no_script().numkeys(2).flag(Flags::ANY_KEYS).flag(Flags::TAKES_MAIL).flag(named_by)
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

    /// The first half of the arguments behind this word are keys.
    pub(crate) const fn keys_behind(mut self, keyword: &'static str) -> Self {
        self.keyword = keyword;
        self.flag(Flags::MOVABLE_KEYS)
    }

    /// Such a request uses keys that are not at fixed positions.
    pub(crate) const fn any_keys_if(mut self, uses: fn(Args<'_>) -> bool) -> Self {
        self.uses_any_keys = Some(uses);
        self.flag(Flags::ANY_KEYS)
    }

    /// An option of it is followed by a key, at this index.
    pub(crate) const fn target(mut self, index: fn(Args<'_>) -> Option<usize>) -> Self {
        self.target = Some(index);
        self.flag(Flags::MOVABLE_KEYS)
    }

    /// It does this with each of its keys.
    pub(crate) const fn access(self, access: Access) -> Self {
        self.accesses(access, access)
    }

    /// It does this with its first key, and that with the others.
    pub(crate) const fn accesses(mut self, first: Access, others: Access) -> Self {
        self.access = [Some(first), Some(others)];
        self
    }

    pub(crate) const fn subcommands(mut self, names: &'static [&'static str]) -> Self {
        self.subcommands = names;
        self
    }

    /// The first argument of these subcommands is a key.
    pub(crate) const fn keyed_subcommands(mut self, names: &'static [&'static str]) -> Self {
        self.keyed_subcommands = names;
        self
    }

    /// It is here in part only, and this is what a client has to know of it.
    pub(crate) const fn in_part(mut self, note: &'static str) -> Self {
        self.in_part = Some(note);
        self
    }

    /// These subcommands administer the server.
    pub(crate) const fn admin_subcommands(mut self, names: &'static [&'static str]) -> Self {
        self.admin_subcommands = names;
        self
    }

    /// Some of its arguments are secrets: monitors and the slow log do not show them.
    pub(crate) const fn hides(mut self, is_secret: fn(Args<'_>, usize) -> bool) -> Self {
        self.is_secret = Some(is_secret);
        self
    }

    /// These are its categories, and not that of its group.
    pub(crate) const fn categories_are(mut self, categories: &'static [&'static str]) -> Self {
        self.own_categories = categories;
        self
    }

    /// These arguments are channels.
    pub(crate) const fn channels(mut self, channels: Channels) -> Self {
        self.channels = channels;
        self
    }

    /// The event of a value that it stores or edits, if that is not its name.
    pub(crate) const fn event(mut self, event: &'static str) -> Self {
        self.event = event;
        self
    }

    /// The event of a key that it removes, if that is not `del`.
    pub(crate) const fn removal_event(mut self, event: &'static str) -> Self {
        self.removal_event = event;
        self
    }

    /// Whether it has this property.
    pub(crate) const fn is(&self, flags: Flags) -> bool {
        self.flags.contains(flags)
    }

    /// Whether it has this subcommand, in lower case.
    #[must_use]
    pub fn has_subcommand(&self, name: &str) -> bool {
        self.subcommands.contains(&name)
    }

    /// Whether it runs a script.
    const fn is_script(&self) -> bool {
        self.is(Flags::RUNS_BODY) || self.is(Flags::RUNS_DIGEST)
    }

    /// The key of a request whose subcommand has one.
    pub(crate) fn key_of_subcommand<'a>(&self, request: Args<'a>) -> Option<&'a [u8]> {
        let subcommand = request.get(1)?;
        let has_key =
            self.keyed_subcommands.iter().any(|name| subcommand.eq_ignore_ascii_case(name.as_bytes()));
        request.get(2).filter(|_| has_key)
    }

    /// Whether monitors are told of a request.
    pub(crate) fn is_shown(&self, request: Args<'_>) -> bool {
        let is_admin = |word: &[u8]| {
            self.admin_subcommands.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
        };
        !self.is(Flags::ADMIN) && !request.get(1).is_some_and(is_admin)
    }

    /// What monitors and the slow log show of the argument `arg` at `index` of a request.
    pub(crate) fn shown_argument<'a>(&self, request: Args<'_>, index: usize, arg: &'a [u8]) -> &'a [u8] {
        match self.is_secret {
            Some(is_secret) if is_secret(request, index) => b"(redacted)",
            _ => arg,
        }
    }

    /// Whether a call may take long, whatever its arguments are.
    pub(crate) fn may_be_slow(&self) -> bool {
        !self.is(Flags::FAST) && !self.is(Flags::SHORT) && self.group != "string"
    }

    /// What it does with the key at `index` of its keys. Without a request it is the most that it may do.
    pub(crate) fn key_access(&self, index: usize, request: Option<Args<'_>>) -> Access {
        if self.is(Flags::MAY_REPLACE) && request.is_some_and(|request| !reads_former(request)) {
            return Access::REPLACED;
        }
        let usual = if self.is(Flags::READONLY) { Access::READ } else { Access::READ_AND_UPDATED };
        self.access[index.min(1)].unwrap_or(usual)
    }

    /// Whether a pause of writes stops it.
    pub(crate) fn may_write(&self) -> bool {
        self.is(Flags::WRITE) || self.is(Flags::MAY_WRITE)
    }

    /// Whether it reads or writes keys.
    pub(crate) fn uses_keys(&self) -> bool {
        self.is(Flags::READONLY) || self.is(Flags::WRITE)
    }

    /// Whether a request may use keys that are not at fixed positions.
    pub(crate) fn has_other_keys(&self, args: Args<'_>) -> bool {
        self.is(Flags::ANY_KEYS) && self.uses_any_keys.is_none_or(|uses| uses(args))
            || self.uses_keys() && !self.has_keys()
    }

    /// Whether a request has arguments that are keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.0 != 0 || self.numkeys != 0 || !self.keyword.is_empty()
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
                let may_be_none = self.is_script();
                let end = (at + 1).checked_add(count).filter(|end| *end <= args.len());
                at + 1..end.filter(|_| count > 0 || may_be_none)?
            }
        };
        let named = match self.keyword {
            "" => 0..0,
            keyword => {
                let position = args.iter().position(|word| word.eq_ignore_ascii_case(keyword.as_bytes()))?;
                let (first, count) = (position + 1, (args.len() - position - 1) / 2);
                Some(first..first + count).filter(|keys| !keys.is_empty())?
            }
        };
        let target = self.target.and_then(|index| index(args));
        let indices = fixed.step_by((step as usize).max(1)).chain(counted).chain(named).chain(target);
        Some(indices.filter_map(|index| args.get(index)).collect())
    }

    /// Whether `f` is true for all keys of a request. A request without a valid number of keys uses none.
    #[cfg(feature = "scripts")]
    pub(crate) fn all_keys(&self, args: Args<'_>, f: impl Fn(&[u8]) -> bool) -> bool {
        match (self.keys, self.numkeys, self.target) {
            // Most commands.
            ((1, 1, 1), 0, None) => args.get(1).is_none_or(f),
            _ => self.keys_of(args).unwrap_or_default().into_iter().all(f),
        }
    }

    /// Whether this number of arguments, including the name, is valid.
    pub(crate) fn accepts(&self, arguments: usize) -> bool {
        let expected = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { arguments >= expected } else { arguments == expected }
    }
}

/// Whether a `SET` returns or compares the former value.
fn reads_former(request: Args<'_>) -> bool {
    let options = request.skip(3.min(request.len()));
    options.iter().any(|option| [&b"GET"[..], b"IFEQ"].iter().any(|name| option.eq_ignore_ascii_case(name)))
}

impl std::fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandSpec")
            .field("name", &self.name)
            .field("arity", &self.arity)
            .finish_non_exhaustive()
    }
}
