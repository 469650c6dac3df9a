//! Commands that talk to the admin port of a running Larder: `larder stats`, `larder explain` and `larder purge`.

mod client;
mod explain;
mod purge;
mod stats;

pub(crate) use explain::run as explain;
pub(crate) use purge::run as purge;
pub(crate) use stats::run as stats;

/// A text that clients of the running Larder may have chosen, without control characters: they could change the terminal, or
/// look like further lines.
fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, char| {
        match char.is_control() {
            true => shown.extend(char.escape_default()),
            false => shown.push(char),
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("café ± \u{1b}[31m\n\u{9b}x"), "café ± \\u{1b}[31m\\n\\u{9b}x");
    }
}
