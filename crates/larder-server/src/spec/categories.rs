//! The categories of commands and of their subcommands, by which users get and lose rights.

use super::{CommandSpec, Flags};

/// All categories, in the order in which `ACL CAT` lists them.
pub(crate) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

impl CommandSpec {
    /// The categories of the command, without the `@`. One with subcommands leaves them to these.
    pub(crate) fn categories(&self) -> impl Iterator<Item = &'static str> {
        let (has_subcommands, is_script) = (!self.subcommands.is_empty(), self.is_script());
        let group = self.category_of_group().filter(|_| !has_subcommands && self.own_categories.is_empty());
        let kind = self.category_of_kind().filter(|_| !has_subcommands && !is_script);
        let flag = |flag, name| self.flags.contains(flag).then_some(name);
        let speed = if self.flags.contains(Flags::FAST) { "fast" } else { "slow" };
        let dangerous = flag(Flags::DANGEROUS, "dangerous").or(flag(Flags::ADMIN, "dangerous"));
        [kind, group, Some(speed), dangerous, flag(Flags::BLOCKS, "blocking"), flag(Flags::ADMIN, "admin")]
            .into_iter()
            .flatten()
            .chain(self.own_categories.iter().copied())
    }

    /// The categories of one of its subcommands.
    pub(crate) fn subcommand_categories(&self, subcommand: &str) -> impl Iterator<Item = &'static str> {
        let (is_help, is_admin) = (subcommand == "help", self.admin_subcommands.contains(&subcommand));
        let reads = self.keyed_subcommands.contains(&subcommand).then_some("read");
        let kind = self.category_of_kind().or(reads).filter(|_| !is_help);
        let admin = |name| is_admin.then_some(name);
        let group = self.category_of_group().filter(|_| self.own_categories.is_empty());
        [kind, group, Some("slow"), admin("admin"), admin("dangerous")]
            .into_iter()
            .flatten()
            .chain(self.own_categories.iter().copied())
    }

    fn category_of_kind(&self) -> Option<&'static str> {
        match () {
            () if self.flags.contains(Flags::WRITE) => Some("write"),
            () if self.flags.contains(Flags::READONLY) => Some("read"),
            () => None,
        }
    }

    fn category_of_group(&self) -> Option<&'static str> {
        match self.group {
            "generic" => Some("keyspace"),
            "server" | "cluster" => None,
            "sorted-set" => Some("sortedset"),
            "transactions" => Some("transaction"),
            group => Some(group),
        }
    }
}
