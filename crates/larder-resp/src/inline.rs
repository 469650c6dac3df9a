//! Inline commands: one line of words, as typed into telnet, with the quoting rules of `redis-cli`.

use crate::ProtocolError;
use crate::request::Span;

/// Splits `line` into words. Writes the unquoted words to `text` and their ranges to `spans`.
///
/// Escapes in double quotes are `\n \r \t \b \a \xHH`; a backslash before any other byte yields that byte. The only
/// escape in single quotes is `\'`. A closing quote must be followed by a space or the end of the line.
pub(crate) fn split(line: &[u8], text: &mut Vec<u8>, spans: &mut Vec<Span>) -> Result<(), ProtocolError> {
    text.clear();
    let mut rest = trim_start(line);
    while !rest.is_empty() {
        let start = text.len();
        rest = parse_word(rest, text)?;
        spans.push(Span::new(start, text.len()));
        rest = trim_start(rest);
    }
    Ok(())
}

fn parse_word<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match rest {
            [b'"', inner @ ..] => return after_closing_quote(double_quoted(inner, text)?),
            [b'\'', inner @ ..] => return after_closing_quote(single_quoted(inner, text)?),
            [byte, tail @ ..] if !is_space(*byte) => {
                text.push(*byte);
                rest = tail;
            }
            _ => return Ok(rest),
        }
    }
}

fn after_closing_quote(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !is_space(*byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..]
                if hex_digit(*high).is_some() && hex_digit(*low).is_some() =>
            {
                text.push(hex_digit(*high).unwrap_or(0) << 4 | hex_digit(*low).unwrap_or(0));
                tail
            }
            [b'\\', escaped, tail @ ..] => {
                text.push(unescape(*escaped));
                tail
            }
            [byte, tail @ ..] => {
                text.push(*byte);
                tail
            }
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        text.push(byte);
        rest = tail;
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn trim_start(mut rest: &[u8]) -> &[u8] {
    while let [byte, tail @ ..] = rest
        && is_space(*byte)
    {
        rest = tail;
    }
    rest
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (mut text, mut spans) = (Vec::new(), Vec::new());
        split(line, &mut text, &mut spans)?;
        Ok(spans.iter().map(|span| span.slice(&text, &[]).to_vec()).collect())
    }

    #[test]
    fn words_and_quotes_are_split() {
        let cases: [(&[u8], &[&[u8]]); 6] = [
            (b"  SET  k\tv ", &[b"SET", b"k", b"v"]),
            (b"", &[]),
            (b"SET \"a b\" ''", &[b"SET", b"a b", b""]),
            (br#"ECHO "\x41\n\\\"\q""#, &[b"ECHO", b"A\n\\\"q"]),
            (br"ECHO 'it\'s \n'", &[b"ECHO", br"it's \n"]),
            (br#"ECHO pre"fix""#, &[b"ECHO", b"prefix"]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line).unwrap(), expected, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn unbalanced_quotes_are_errors() {
        for line in [&b"GET \"k"[..], b"GET 'k", b"GET \"k\"x", b"GET 'k'x", b"\"\\"] {
            assert_eq!(words(line), Err(ProtocolError::UnbalancedQuotes), "{}", line.escape_ascii());
        }
    }
}
