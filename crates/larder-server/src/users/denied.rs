//! Why a user may not do what a request asks for, in the words of Redis.

/// Why a request is denied. Where several sets of rights deny it, the last of these reasons counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    /// The user may not run the command.
    Command,
    /// The user may not access a key: its position among those of the request, and its name.
    Key(usize, Box<[u8]>),
    /// The user may not use a channel: its position, and its name.
    Channel(usize, Box<[u8]>),
}

impl Denied {
    /// The error of a command, by its full name.
    pub(crate) fn error(&self, command: &str) -> String {
        let what = match self {
            Denied::Command => return format!("this user has no permissions to run the '{command}' command"),
            Denied::Key(..) => "keys",
            Denied::Channel(..) => "channels",
        };
        format!("this user has no permissions to access one of the {what} used as arguments")
    }

    /// The error of a command that was allowed when it was queued.
    pub(crate) fn error_of_exec(&self) -> String {
        let reason = match self {
            Denied::Command => "no permission to execute the command or subcommand",
            Denied::Key(..) => "no permission to touch the specified keys",
            Denied::Channel(..) => "no permission to access one of the channels used as arguments",
        };
        format!(
            "ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is \
             no longer allowed for the following reason: {reason}"
        )
    }

    /// The error of a command in a script.
    #[cfg_attr(not(feature = "scripts"), allow(dead_code))]
    pub(crate) fn error_in_script(&self) -> &'static str {
        match self {
            Denied::Command => "ERR The user executing the script can't run this command or subcommand",
            Denied::Key(..) => {
                "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
            }
            Denied::Channel(..) => {
                "ERR The user executing the script can't publish to the channel mentioned in the command"
            }
        }
    }

    /// What `ACL DRYRUN` says of a command, by its full name.
    pub(crate) fn explanation(&self, command: &str) -> Vec<u8> {
        let (name, kind) = match self {
            Denied::Command => {
                return format!("This user has no permissions to run the '{command}' command").into_bytes();
            }
            Denied::Key(_, name) => (name, "key"),
            Denied::Channel(_, name) => (name, "channel"),
        };
        [b"This user has no permissions to access the '", &name[..], b"' ", kind.as_bytes()].concat()
    }
}
