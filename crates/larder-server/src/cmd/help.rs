//! `HELP` of the commands that have subcommands.

use super::{Context, Outcome};

/// Replies with the subcommands and what they do, in the form of Redis.
pub(super) fn help(cx: &mut Context<'_>, command: &str, subcommands: &[(&str, &str)]) -> Outcome {
    let mut reply = cx.reply();
    reply.array(1 + 2 * subcommands.len() + 2);
    reply.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for (usage, text) in subcommands.iter().chain(&[("HELP", "Prints this help.")]) {
        reply.simple(usage);
        reply.simple(&format!("    {text}"));
    }
    Ok(())
}
