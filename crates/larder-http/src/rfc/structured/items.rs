//! The items of a structured field: keys, values, inner lists and parameters (RFC 9651, sections 4.2.1.1 to 4.2.10).

use crate::rfc::structured::{Member, Value};

/// The rest of a field. Each function takes what it names from its start, and returns `None` if that is invalid.
pub(super) struct Items<'a> {
    rest: &'a str,
}

impl<'a> Items<'a> {
    pub(super) fn of(text: &'a str) -> Items<'a> {
        Items { rest: text }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    pub(super) fn skip_spaces_and_tabs(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Skips the ASCII character if it is the next one, and returns whether it was.
    pub(super) fn skip(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        self.skip(byte).then_some(())
    }

    /// RFC 9651, 4.2.3.3.
    pub(super) fn key(&mut self) -> Option<&'a str> {
        let first = self.peek()?;
        if !first.is_ascii_lowercase() && first != b'*' {
            return None;
        }
        Some(
            self.take_while(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
            }),
        )
    }

    /// An item or an inner list, with its parameters (RFC 9651, 4.2.1.1).
    pub(super) fn member(&mut self) -> Option<Member> {
        if !self.skip(b'(') {
            return self.item().map(Member::Item);
        }
        let mut values = Vec::new();
        loop {
            self.skip_spaces();
            if self.skip(b')') {
                self.parameters()?;
                return Some(Member::InnerList(values));
            }
            values.push(self.item()?);
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    /// RFC 9651, 4.2.3.2.
    pub(super) fn parameters(&mut self) -> Option<()> {
        while self.skip(b';') {
            self.skip_spaces();
            self.key()?;
            if self.skip(b'=') {
                self.value()?;
            }
        }
        Some(())
    }

    fn item(&mut self) -> Option<Value> {
        let value = self.value()?;
        self.parameters()?;
        Some(value)
    }

    /// RFC 9651, 4.2.3.1.
    fn value(&mut self) -> Option<Value> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string().map(Value::String),
            b'?' => self.boolean(),
            b'a'..=b'z' | b'A'..=b'Z' | b'*' => {
                self.take_while(is_token_byte);
                Some(Value::Other)
            }
            b':' => self.byte_sequence(),
            b'@' => {
                self.expect(b'@')?;
                // A date is a number of seconds (RFC 9651, 4.2.9).
                matches!(self.number()?, Value::Integer(_)).then_some(Value::Other)
            }
            b'%' => self.display_string(),
            _ => None,
        }
    }

    /// An integer or a decimal (RFC 9651, 4.2.4).
    fn number(&mut self) -> Option<Value> {
        let is_negative = self.skip(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if self.skip(b'.') {
            let decimals = self.take_while(|byte| byte.is_ascii_digit());
            let is_valid = (1..=12).contains(&digits.len()) && (1..=3).contains(&decimals.len());
            return is_valid.then_some(Value::Other);
        }
        if digits.len() > 15 {
            return None;
        }
        let number: i64 = digits.parse().ok()?;
        Some(Value::Integer(if is_negative { -number } else { number }))
    }

    /// RFC 9651, 4.2.5.
    fn string(&mut self) -> Option<String> {
        self.expect(b'"')?;
        let mut string = String::new();
        loop {
            string += self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
            if self.skip(b'"') {
                return Some(string);
            }
            self.expect(b'\\')?;
            match self.peek()? {
                byte @ (b'"' | b'\\') => {
                    self.expect(byte)?;
                    string.push(char::from(byte));
                }
                _ => return None,
            }
        }
    }

    /// RFC 9651, 4.2.8.
    fn boolean(&mut self) -> Option<Value> {
        self.expect(b'?')?;
        match (self.skip(b'1'), self.skip(b'0')) {
            (is_true, is_false) if is_true != is_false => Some(Value::Boolean(is_true)),
            _ => None,
        }
    }

    /// RFC 9651, 4.2.7. Padding may be missing, and the unused bits of the last character may be set.
    fn byte_sequence(&mut self) -> Option<Value> {
        self.expect(b':')?;
        let text = self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        self.expect(b':')?;
        let digits = text.trim_end_matches('=');
        let padding = text.len() - digits.len();
        let is_valid = !digits.contains('=')
            && digits.len() % 4 != 1
            && (padding == 0 || padding <= 2 && text.len().is_multiple_of(4));
        is_valid.then_some(Value::Other)
    }

    /// RFC 9651, 4.2.10.
    fn display_string(&mut self) -> Option<Value> {
        self.expect(b'%')?;
        self.expect(b'"')?;
        let mut bytes = Vec::new();
        loop {
            let plain = self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'%');
            bytes.extend_from_slice(plain.as_bytes());
            if self.skip(b'"') {
                return String::from_utf8(bytes).is_ok().then_some(Value::Other);
            }
            self.expect(b'%')?;
            bytes.push(self.lower_hex_digit()? << 4 | self.lower_hex_digit()?);
        }
    }

    fn lower_hex_digit(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.rest = self.rest.get(1..)?;
        match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.rest.as_bytes().first().copied()
    }

    /// Takes the ASCII characters from the start for which the condition holds.
    fn take_while(&mut self, condition: impl Fn(u8) -> bool) -> &'a str {
        let end = self.rest.bytes().position(|byte| !byte.is_ascii() || !condition(byte));
        let (taken, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }
}

/// RFC 9651, 4.2.6.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}
