//! The properties of commands. What the server does differently for a command hangs on one of these, and never on its name.

/// Properties of a command, for clients and for dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    pub(super) const NONE: Flags = Flags(0);
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
    /// Takes about as long as one that is `FAST`, although Redis does not say so.
    pub(crate) const SHORT: Flags = Flags(1 << 13);
    /// Never waits for the end of a pause, which it may end itself.
    pub(crate) const NOT_PAUSED: Flags = Flags(1 << 14);
    /// Does not end the effect of `CLIENT CACHING`.
    pub(crate) const KEEPS_CACHING: Flags = Flags(1 << 15);
    /// Its subcommand `REPLY` chooses which commands get replies.
    pub(crate) const SETS_REPLIES: Flags = Flags(1 << 16);
    /// Executes the queued commands of a transaction.
    pub(crate) const EXECUTES_QUEUE: Flags = Flags(1 << 17);
    /// Ends a transaction without executing it, which frees memory: it is not refused because memory is used up.
    pub(crate) const ENDS_TRANSACTION: Flags = Flags(1 << 18);
    /// Takes messages by itself, and decides whether it is muted: while it holds its locks, or because they are its reply.
    pub(crate) const TAKES_MAIL: Flags = Flags(1 << 19);
    /// A subscriber with RESP2 may use it: messages look like replies there.
    pub(crate) const FOR_SUBSCRIBERS: Flags = Flags(1 << 20);
    /// Its argument is the database of later commands.
    pub(crate) const SELECTS_DATABASE: Flags = Flags(1 << 21);
    /// Runs the script that is its first argument.
    pub(crate) const RUNS_BODY: Flags = Flags(1 << 22);
    /// Runs the script whose SHA-1 is its first argument.
    pub(crate) const RUNS_DIGEST: Flags = Flags(1 << 23);
    /// Lets a value grow in place, so that it cannot be refused once it has begun.
    pub(crate) const GROWS_IN_PLACE: Flags = Flags(1 << 24);
    /// Removes members of a sorted set, and the key with the last one.
    pub(crate) const REMOVES_MEMBERS: Flags = Flags(1 << 25);
    /// Removes the former entry of a key before it stores another one.
    pub(crate) const REMOVES_FORMER: Flags = Flags(1 << 26);
    /// What it edits is a result that the value keeps: nobody is told.
    pub(crate) const EDITS_SILENTLY: Flags = Flags(1 << 27);
    /// Replaces a value without reading it, unless an option says otherwise.
    pub(crate) const MAY_REPLACE: Flags = Flags(1 << 28);
    /// May wait for members of its keys.
    pub(crate) const BLOCKS: Flags = Flags(1 << 29);
    /// Administers the server: monitors are not told of it. Reported as categories and not as a flag.
    pub(crate) const ADMIN: Flags = Flags(1 << 30);

    const NAMES: [(Flags, &'static str); 11] = [
        (Flags::WRITE, "write"),
        (Flags::READONLY, "readonly"),
        (Flags::DENYOOM, "denyoom"),
        (Flags::ADMIN, "admin"),
        (Flags::LOADING, "loading"),
        (Flags::FAST, "fast"),
        (Flags::NO_AUTH, "no_auth"),
        (Flags::NO_MULTI, "no_multi"),
        (Flags::NO_SCRIPT, "noscript"),
        (Flags::MOVABLE_KEYS, "movablekeys"),
        (Flags::BLOCKS, "blocking"),
    ];

    pub(crate) const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub(crate) const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of those that clients know.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        Flags::NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }
}
