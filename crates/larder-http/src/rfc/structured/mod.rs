//! Structured fields (RFC 9651): dictionaries and lists, parsed as strictly as the RFC asks. One invalid character makes the
//! field invalid. Parameters and the values of types that no field of this cache has are checked and dropped.

mod items;

use std::borrow::Cow;
use std::collections::HashMap;

use http::{HeaderMap, HeaderName};

use crate::rfc::structured::items::Items;

/// Longer fields are invalid. All parsers here take time in proportion to this.
const MAX_BYTES: usize = 16 * 1024;

/// A member of a dictionary or a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Member {
    /// One value.
    Item(Value),
    /// The values in parentheses.
    InnerList(Vec<Value>),
}

/// A bare item (RFC 9651, 3.3).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// At most fifteen digits.
    Integer(i64),
    /// `?0`, `?1`, or a key without a value.
    Boolean(bool),
    /// Without quotes and escapes. It is visible ASCII with spaces.
    String(String),
    /// A token, decimal, byte sequence, date or display string.
    Other,
}

/// All lines of a field, joined; `None` if it is absent, longer than [`MAX_BYTES`], or not ASCII (RFC 9651, 4.2).
pub(crate) fn field_text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Cow<'a, str>> {
    let mut lines = headers.get_all(name).iter();
    let mut text = Cow::Borrowed(lines.next()?.to_str().ok()?);
    for line in lines {
        if text.len() > MAX_BYTES {
            return None;
        }
        let text = text.to_mut();
        text.push_str(", ");
        text.push_str(line.to_str().ok()?);
    }
    (text.len() <= MAX_BYTES).then_some(text)
}

/// The members of a dictionary by their keys; `None` if it is invalid. Of a repeated key the last member counts
/// (RFC 9651, 4.2.2).
pub(crate) fn parse_dictionary(text: &str) -> Option<HashMap<&str, Member>> {
    let mut members = HashMap::new();
    parse_members(text, |items| {
        let key = items.key()?;
        let member = if items.skip(b'=') {
            items.member()?
        } else {
            items.parameters()?;
            Member::Item(Value::Boolean(true))
        };
        members.insert(key, member);
        Some(())
    })?;
    Some(members)
}

/// The members of a list; `None` if it is invalid (RFC 9651, 4.2.1).
pub(crate) fn parse_list(text: &str) -> Option<Vec<Member>> {
    let mut members = Vec::new();
    parse_members(text, |items| {
        members.push(items.member()?);
        Some(())
    })?;
    Some(members)
}

/// Parses what a dictionary and a list have in common: members that commas separate, none of them behind the last one.
fn parse_members<'a>(text: &'a str, mut member: impl FnMut(&mut Items<'a>) -> Option<()>) -> Option<()> {
    let mut items = Items::of(text);
    items.skip_spaces();
    if items.is_empty() {
        return Some(());
    }
    loop {
        member(&mut items)?;
        items.skip_spaces_and_tabs();
        if items.is_empty() {
            return Some(());
        }
        items.expect(b',')?;
        items.skip_spaces_and_tabs();
    }
}

#[cfg(test)]
mod tests;
