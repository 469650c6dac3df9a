//! `cjson.decode`: JSON, and the numbers beyond it that C's `strtod` reads.

use super::super::super::lua::{Stack, Thrown};
use super::{MAX_DEPTH, SETTINGS, Settings, push_null};

/// Values of the stack that a level needs.
const LEVEL_VALUES: usize = 5;

pub(super) fn decode(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    if stack.top() != 1 {
        return Err(stack.bad_argument(1, "expected 1 argument"));
    }
    let data = stack.text_argument(1)?.to_vec();
    if data.len() >= 2 && data[..2].contains(&0) {
        return Err(stack.throw_here("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut parser = Parser { data: &data, position: 0, token_start: 0, settings: SETTINGS.get(), depth: 0 };
    let token = parser.next();
    parser.push_value(stack, token)?;
    match parser.next() {
        Token::End => Ok(1),
        token => Err(parser.expected(stack, "the end", &token)),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Colon,
    Comma,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    End,
    Invalid(&'static str),
}

impl Token {
    /// As in the messages of the library.
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectStart => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayStart => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::End => "T_END",
            Token::Invalid(reason) => reason,
        }
    }
}

struct Parser<'d> {
    data: &'d [u8],
    position: usize,
    /// Where the last token starts, or its error is.
    token_start: usize,
    settings: Settings,
    depth: i32,
}

impl Parser<'_> {
    fn expected(&self, stack: &mut Stack<'_>, expected: &str, found: &Token) -> Thrown {
        let (found, position) = (found.name(), self.token_start + 1);
        stack.throw_here(format!("Expected {expected} but found {found} at character {position}"))
    }

    fn rest(&self) -> &[u8] {
        &self.data[self.position..]
    }

    /// The byte at a distance from the position; zero behind the end.
    fn peek(&self, distance: usize) -> u8 {
        self.data.get(self.position + distance).copied().unwrap_or(0)
    }

    fn next(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.position += 1;
        }
        self.token_start = self.position;
        let token = match self.peek(0) {
            0 => return Token::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' if !self.settings.decodes_invalid && self.is_invalid_number() => {
                return Token::Invalid("invalid number");
            }
            b'-' | b'0'..=b'9' => return self.number(),
            b'{' => Token::ObjectStart,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayStart,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            _ => return self.word(),
        };
        self.position += 1;
        token
    }

    fn word(&mut self) -> Token {
        const WORDS: [(&[u8], Token); 3] =
            [(b"true", Token::Boolean(true)), (b"false", Token::Boolean(false)), (b"null", Token::Null)];
        for (word, token) in WORDS {
            if self.rest().starts_with(word) {
                self.position += word.len();
                return token;
            }
        }
        match self.settings.decodes_invalid && self.is_invalid_number() {
            true => self.number(),
            false => Token::Invalid("invalid token"),
        }
    }

    /// Whether a number starts here that JSON does not allow: with a plus or a leading zero, hexadecimal, infinite or NaN.
    fn is_invalid_number(&self) -> bool {
        if self.peek(0) == b'+' {
            return true;
        }
        let at = usize::from(self.peek(0) == b'-');
        match self.peek(at) {
            b'0' => matches!(self.peek(at + 1), b'x' | b'X' | b'0'..=b'9'),
            ..=b'9' => false,
            _ => [&b"inf"[..], b"nan"].iter().any(|word| has_word(&self.rest()[at..], word)),
        }
    }

    fn number(&mut self) -> Token {
        match parse_number(self.rest()) {
            Some((number, length)) => {
                self.position += length;
                Token::Number(number)
            }
            None => Token::Invalid("invalid number"),
        }
    }

    fn string(&mut self) -> Token {
        self.position += 1;
        let mut text = Vec::new();
        loop {
            let plain = self.rest().iter().take_while(|byte| !matches!(byte, 0 | b'"' | b'\\')).count();
            text.extend_from_slice(&self.rest()[..plain]);
            self.position += plain;
            let failure = match self.peek(0) {
                b'"' => {
                    self.position += 1;
                    return Token::String(text);
                }
                0 => "unexpected end of string",
                _ if self.peek(1) == b'u' => match self.unicode_escape() {
                    Some((character, length)) => {
                        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                        self.position += length;
                        continue;
                    }
                    None => "invalid unicode escape code",
                },
                _ => match escaped(self.peek(1)) {
                    Some(byte) => {
                        text.push(byte);
                        self.position += 2;
                        continue;
                    }
                    None => "invalid escape code",
                },
            };
            self.token_start = self.position;
            return Token::Invalid(failure);
        }
    }

    /// The character of an escape such as `\u00e9`, or of two that are a surrogate pair, and the length of the escape.
    fn unicode_escape(&self) -> Option<(char, usize)> {
        let unit = |at: usize| {
            let digits = self.rest().get(at..at + 4)?;
            digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
        };
        let first = unit(2)?;
        if first & 0xf800 != 0xd800 {
            return char::from_u32(first).map(|character| (character, 6));
        }
        let has_second = self.peek(6) == b'\\' && self.peek(7) == b'u';
        let second =
            unit(8).filter(|second| has_second && first & 0x400 == 0 && second & 0xfc00 == 0xdc00)?;
        char::from_u32(0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff)).map(|character| (character, 12))
    }

    /// Pushes the value that starts with a token.
    fn push_value(&mut self, stack: &mut Stack<'_>, token: Token) -> Result<(), Thrown> {
        stack.check_memory(0)?;
        match token {
            Token::String(text) => stack.push_bytes(&text),
            Token::Number(number) => stack.push_number(number),
            Token::Boolean(value) => stack.push_boolean(value),
            Token::Null => push_null(stack),
            Token::ObjectStart => {
                self.descend(stack)?;
                self.push_object(stack)?;
                self.depth -= 1;
            }
            Token::ArrayStart => {
                self.descend(stack)?;
                self.push_array(stack)?;
                self.depth -= 1;
            }
            token => return Err(self.expected(stack, "value", &token)),
        }
        Ok(())
    }

    fn descend(&mut self, stack: &mut Stack<'_>) -> Result<(), Thrown> {
        self.depth += 1;
        if self.depth <= self.settings.max_decode_depth.min(MAX_DEPTH) && stack.reserve(LEVEL_VALUES) {
            return Ok(());
        }
        let text =
            format!("Found too many nested data structures ({}) at character {}", self.depth, self.position);
        Err(stack.throw_here(text))
    }

    fn push_object(&mut self, stack: &mut Stack<'_>) -> Result<(), Thrown> {
        stack.push_table(0, 0);
        let mut token = self.next();
        if token == Token::ObjectEnd {
            return Ok(());
        }
        loop {
            match token {
                Token::String(key) => stack.push_bytes(&key),
                token => return Err(self.expected(stack, "object key string", &token)),
            }
            token = self.next();
            if token != Token::Colon {
                return Err(self.expected(stack, "colon", &token));
            }
            token = self.next();
            self.push_value(stack, token)?;
            // A string is a valid key.
            let _ = stack.set_pair(-3);
            match self.next() {
                Token::ObjectEnd => return Ok(()),
                Token::Comma => token = self.next(),
                token => return Err(self.expected(stack, "comma or object end", &token)),
            }
        }
    }

    fn push_array(&mut self, stack: &mut Stack<'_>) -> Result<(), Thrown> {
        stack.push_table(0, 0);
        let mut token = self.next();
        if token == Token::ArrayEnd {
            return Ok(());
        }
        for index in 1.. {
            self.push_value(stack, token)?;
            stack.set_item(-2, index);
            match self.next() {
                Token::ArrayEnd => break,
                Token::Comma => token = self.next(),
                token => return Err(self.expected(stack, "comma or array end", &token)),
            }
        }
        Ok(())
    }
}

fn escaped(byte: u8) -> Option<u8> {
    match byte {
        b'"' | b'\\' | b'/' => Some(byte),
        b'b' => Some(0x08),
        b'f' => Some(0x0c),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        _ => None,
    }
}

fn has_word(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The number at the start of a text, and its length, as `strtod` reads it.
fn parse_number(text: &[u8]) -> Option<(f64, usize)> {
    let signs = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let sign = if text.first() == Some(&b'-') { -1.0 } else { 1.0 };
    let digits = &text[signs..];
    let (number, length) = if has_word(digits, b"infinity") {
        (f64::INFINITY, 8)
    } else if has_word(digits, b"inf") {
        (f64::INFINITY, 3)
    } else if has_word(digits, b"nan") {
        (f64::NAN, 3)
    } else if has_word(digits, b"0x") && digits.get(2).is_some_and(u8::is_ascii_hexdigit) {
        parse_hexadecimal(&digits[2..])
    } else {
        parse_decimal(digits)?
    };
    Some((sign * number, signs + length))
}

/// Digits, with or without a fraction and an exponent.
fn parse_decimal(text: &[u8]) -> Option<(f64, usize)> {
    let count = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = count(0);
    let mut length = whole;
    if text.get(length) == Some(&b'.') {
        length += 1 + count(length + 1);
    }
    if whole == 0 && length < 2 {
        return None;
    }
    if matches!(text.get(length), Some(b'e' | b'E')) {
        let exponent = length + 1 + usize::from(matches!(text.get(length + 1), Some(b'-' | b'+')));
        let digits = text.get(exponent..).map_or(0, |_| count(exponent));
        if digits > 0 {
            length = exponent + digits;
        }
    }
    std::str::from_utf8(&text[..length]).ok()?.parse().ok().map(|number| (number, length))
}

/// Hexadecimal digits after `0x`. Fractions and exponents are not read.
fn parse_hexadecimal(text: &[u8]) -> (f64, usize) {
    let digits = text.iter().map_while(|byte| char::from(*byte).to_digit(16));
    let (number, length) =
        digits.fold((0.0, 0), |(number, length), digit| (number * 16.0 + f64::from(digit), length + 1));
    (number, 2 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_by_c() {
        for (text, expected) in [
            ("1", Some((1.0, 1))),
            ("-1.5e3,", Some((-1500.0, 6))),
            ("1.", Some((1.0, 2))),
            (".5", Some((0.5, 2))),
            ("1e", Some((1.0, 1))),
            ("1e+", Some((1.0, 1))),
            ("0x1F]", Some((31.0, 4))),
            ("0xg", Some((0.0, 1))),
            ("+Infinityx", Some((f64::INFINITY, 9))),
            (".", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(parse_number(text.as_bytes()), expected, "{text}");
        }
    }
}
