//! The lexical grammar of GraphQL (specification of October 2021, section 2.1, with the escapes of September 2025): the
//! tokens of a document, without what is insignificant. It is stricter than the specification where a server may
//! disagree about the end of a token, so that no text is a comment here and an operation there.

/// A lexical token, with its text as in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    pub(super) text: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// One of `! $ & ( ) : = @ [ ] { | }`.
    Punctuator(u8),
    /// `...`
    Spread,
    Name,
    /// An integer or a float.
    Number,
    /// A string or a block string, with its quotes.
    String,
}

/// The text at some position is not a token, or may be read in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LexError;

/// Reads tokens from the front of a document. Its cost is linear in the length of the text, and it does not recurse.
pub(super) struct Lexer<'a> {
    text: &'a str,
    position: usize,
}

const BOM: &[u8] = "\u{feff}".as_bytes();
const BLOCK_QUOTE: &[u8] = b"\"\"\"";
const ESCAPED_BLOCK_QUOTE: &[u8] = b"\\\"\"\"";
/// Characters that end a line for some parsers, and not in the specification.
const OTHER_LINE_ENDS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, position: 0 }
    }

    /// The next token; `None` at the end of the document.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>, LexError> {
        self.skip_ignored()?;
        let Some(first) = self.peek() else { return Ok(None) };
        let start = self.position;
        let kind = match first {
            b'!' | b'$' | b'&' | b'(' | b')' | b':' | b'=' | b'@' | b'[' | b']' | b'{' | b'|' | b'}' => {
                self.position += 1;
                TokenKind::Punctuator(first)
            }
            b'.' if self.rest().starts_with(b"...") => {
                self.position += 3;
                TokenKind::Spread
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                self.skip_while(is_name_byte);
                TokenKind::Name
            }
            b'-' | b'0'..=b'9' => {
                self.skip_number()?;
                TokenKind::Number
            }
            b'"' if self.rest().starts_with(BLOCK_QUOTE) => {
                self.skip_block_string()?;
                TokenKind::String
            }
            b'"' => {
                self.skip_string()?;
                TokenKind::String
            }
            _ => return Err(LexError),
        };
        Ok(Some(Token { kind, text: &self.text[start..self.position] }))
    }

    /// Skips white space, line ends, commas, byte order marks and comments.
    fn skip_ignored(&mut self) -> Result<(), LexError> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r' | b',') => self.position += 1,
                Some(b'#') => self.skip_comment()?,
                _ if self.rest().starts_with(BOM) => self.position += BOM.len(),
                _ => return Ok(()),
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), LexError> {
        let start = self.position;
        self.skip_while(|byte| byte != b'\n' && byte != b'\r');
        let comment = &self.text[start..self.position];
        let is_ambiguous = |c: char| (c.is_ascii_control() && c != '\t') || OTHER_LINE_ENDS.contains(&c);
        if comment.contains(is_ambiguous) { Err(LexError) } else { Ok(()) }
    }

    fn skip_number(&mut self) -> Result<(), LexError> {
        self.skip_byte(b'-');
        if !self.skip_byte(b'0') {
            self.skip_digits()?;
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.skip_digits()?;
        }
        if self.skip_byte(b'e') || self.skip_byte(b'E') {
            _ = self.skip_byte(b'+') || self.skip_byte(b'-');
            self.skip_digits()?;
        }
        // `0x1`, `00` and `1.2.3` are not two tokens.
        match self.peek() {
            Some(byte) if is_name_byte(byte) || byte == b'.' => Err(LexError),
            _ => Ok(()),
        }
    }

    fn skip_digits(&mut self) -> Result<(), LexError> {
        let start = self.position;
        self.skip_while(|byte| byte.is_ascii_digit());
        if self.position > start { Ok(()) } else { Err(LexError) }
    }

    fn skip_string(&mut self) -> Result<(), LexError> {
        self.position += 1;
        loop {
            match self.peek().ok_or(LexError)? {
                b'"' => {
                    self.position += 1;
                    return Ok(());
                }
                b'\\' => self.skip_escape()?,
                byte if byte.is_ascii_control() && byte != b'\t' => return Err(LexError),
                _ => self.position += 1,
            }
        }
    }

    /// Skips `\n`, `\u00e9` or `\u{e9}`.
    fn skip_escape(&mut self) -> Result<(), LexError> {
        self.position += 2;
        match self.text.as_bytes().get(self.position - 1).ok_or(LexError)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' if self.skip_byte(b'{') => {
                self.skip_while(|byte| byte.is_ascii_hexdigit());
                if self.skip_byte(b'}') { Ok(()) } else { Err(LexError) }
            }
            b'u' => {
                let digits = self.rest().get(..4).ok_or(LexError)?;
                self.position += 4;
                if digits.iter().all(u8::is_ascii_hexdigit) { Ok(()) } else { Err(LexError) }
            }
            _ => Err(LexError),
        }
    }

    fn skip_block_string(&mut self) -> Result<(), LexError> {
        self.position += BLOCK_QUOTE.len();
        loop {
            let rest = self.rest();
            if rest.starts_with(BLOCK_QUOTE) {
                self.position += BLOCK_QUOTE.len();
                return Ok(());
            }
            match rest.first().ok_or(LexError)? {
                b'\\' if rest.starts_with(ESCAPED_BLOCK_QUOTE) => self.position += ESCAPED_BLOCK_QUOTE.len(),
                b'\t' | b'\n' | b'\r' => self.position += 1,
                byte if byte.is_ascii_control() => return Err(LexError),
                _ => self.position += 1,
            }
        }
    }

    fn skip_byte(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.position += usize::from(is_next);
        is_next
    }

    fn skip_while(&mut self, is_skipped: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&is_skipped) {
            self.position += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.position..]
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Vec<&str>, LexError> {
        let mut lexer = Lexer::new(text);
        std::iter::from_fn(|| lexer.next().map(|token| token.map(|token| token.text)).transpose()).collect()
    }

    #[test]
    fn insignificant_characters_are_skipped() {
        let text = "\u{feff}query,Q\t(\r\n$a:Int=1)#comment {\n{a ...F}\u{feff}#end";
        let expected = ["query", "Q", "(", "$", "a", ":", "Int", "=", "1", ")", "{", "a", "...", "F", "}"];
        assert_eq!(tokens(text).unwrap(), expected);
        assert_eq!(tokens("# only\r# comments").unwrap(), [""; 0]);
    }

    #[test]
    fn strings_are_one_token_with_their_content() {
        for text in [
            r#""""#,
            r##""# no comment""##,
            r#""a\"b""#,
            r#""\\""#,
            r#""\u00e9\u{1F600}""#,
            "\"\u{2028}\"",
            r#""""""""#,
            r#""""a "quoted" part, \""" and # more""""#,
            "\"\"\"two\n\tlines\r\"\"\"",
        ] {
            let around = format!("a{text}b");
            assert_eq!(tokens(&around).unwrap(), ["a", text, "b"], "{text}");
        }
        assert_eq!(tokens(r#""" "a""#).unwrap(), [r#""""#, r#""a""#]);
    }

    #[test]
    fn numbers_follow_the_grammar() {
        for text in ["0", "-0", "12", "1.5", "-1.5e10", "1E-3", "1e+3"] {
            assert_eq!(tokens(text).unwrap(), [text]);
        }
        for text in
            ["00", "01", "0x1", "1a", "1.", "1.a", "1..2", "1...", ".5", "-", "-a", "1e", "1e+", "1_0"]
        {
            assert_eq!(tokens(text), Err(LexError), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_token_is_an_error() {
        for text in [
            "?",
            ";",
            "%",
            "..",
            "'a'",
            "`",
            "\\",
            "\u{e9}",
            "a\u{a0}b",
            "a\u{b}b",
            "a\0",
            "\"a",
            "\"a\nb\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u{12\"",
            "\"\\u12g4\"",
            "\"\0\"",
            "\"\"\"a\"\"",
            "\"\"\"a\\\"\"\"",
            "\"\"\"\0\"\"\"",
            r#""""\\""""#,
        ] {
            assert_eq!(tokens(text), Err(LexError), "{text:?}");
        }
    }

    /// A parser for which one of these characters ends the line would read what follows the comment.
    #[test]
    fn comment_with_ambiguous_line_end_is_an_error() {
        for end in ['\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}', '\0'] {
            assert_eq!(tokens(&format!("{{a}} # {end} mutation {{b}}")), Err(LexError), "{end:?}");
        }
    }
}
