//! Encodes replies, in the protocol version of the client.

/// The protocol version of a connection; clients choose it with `HELLO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// The default of a new connection.
    #[default]
    Resp2,
    /// Adds types for maps, sets, doubles, booleans and pushes.
    Resp3,
}

impl Protocol {
    /// The version number, as an argument and in the reply of `HELLO`.
    #[must_use]
    pub fn version(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}

/// Appends replies to a buffer. Types that RESP2 lacks are encoded as the nearest RESP2 type: a map as a flat array, a
/// double as a bulk string, a boolean as 1 or 0.
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> Encoder<'a> {
    /// An encoder that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Encoder { out, protocol }
    }

    /// The protocol version in which it encodes.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// `+text`; line ends in it become spaces.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `-text`, where the text starts with a prefix such as `ERR`; line ends in it become spaces.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text.as_bytes());
    }

    /// As [`simple`](Self::simple), of any bytes.
    pub fn simple_bytes(&mut self, text: &[u8]) {
        self.line(b'+', text);
    }

    /// As [`error`](Self::error), of any bytes.
    pub fn error_bytes(&mut self, text: &[u8]) {
        self.line(b'-', text);
    }

    /// The length of the buffer in bytes, with what was there before.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        self.out.len()
    }

    /// `:number`.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// A bulk string: `$length`, then the bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + 25);
        self.number(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// The header of a bulk string; `length` bytes and CR LF follow, which the caller sends.
    pub fn bulk_header(&mut self, length: usize) {
        self.header(b'$', length);
    }

    /// An integer as a bulk string, as in the reply to `MGET` of a counter.
    pub fn bulk_integer(&mut self, number: i64) {
        self.bulk(itoa::Buffer::new().format(number).as_bytes());
    }

    /// A missing value: `$-1`, in RESP3 `_`.
    #[inline]
    pub fn null(&mut self) {
        self.versioned(b"$-1\r\n", b"_\r\n");
    }

    /// A missing array: `*-1`, in RESP3 `_`.
    pub fn null_array(&mut self) {
        self.versioned(b"*-1\r\n", b"_\r\n");
    }

    /// The header of an array; `length` elements follow.
    #[inline]
    pub fn array(&mut self, length: usize) {
        self.header(b'*', length);
    }

    /// The header of a map; `length` pairs follow, key before value.
    pub fn map(&mut self, length: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', length * 2),
            Protocol::Resp3 => self.header(b'%', length),
        }
    }

    /// The header of a set; `length` elements follow.
    pub fn set(&mut self, length: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'~' } else { b'*' }, length);
    }

    /// The header of an out-of-band message; `length` elements follow.
    pub fn push(&mut self, length: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'>' } else { b'*' }, length);
    }

    /// A floating-point number with up to 17 significant digits, which parse to the same value.
    pub fn double(&mut self, number: f64) {
        with_double(number, |text| match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text),
        });
    }

    /// A floating-point number as a bulk string, in both versions, as in the reply to `ZSCAN`.
    pub fn bulk_double(&mut self, number: f64) {
        with_double(number, |text| self.bulk(text));
    }

    /// `#t` or `#f`; in RESP2 `:1` or `:0`.
    pub fn boolean(&mut self, value: bool) {
        match (self.protocol, value) {
            (Protocol::Resp2, _) => self.integer(i64::from(value)),
            (Protocol::Resp3, true) => self.out.extend_from_slice(b"#t\r\n"),
            (Protocol::Resp3, false) => self.out.extend_from_slice(b"#f\r\n"),
        }
    }

    /// An integer of any size, given as decimal digits; in RESP2 a bulk string.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Text with its format of three letters (`txt`, `mkd`); in RESP2 a bulk string without the format.
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        if self.protocol == Protocol::Resp2 {
            return self.bulk(text);
        }
        self.number(b'=', text.len() as i64 + 4);
        self.out.extend_from_slice(format);
        self.out.push(b':');
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn header(&mut self, kind: u8, length: usize) {
        self.number(kind, length as i64);
    }

    #[inline]
    fn number(&mut self, kind: u8, number: i64) {
        // Nearly all lengths have one or two digits.
        match number {
            0..=9 => self.out.extend_from_slice(&[kind, b'0' + number as u8, b'\r', b'\n']),
            10..=99 => {
                let (tens, ones) = (b'0' + number as u8 / 10, b'0' + number as u8 % 10);
                self.out.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']);
            }
            _ => self.any_number(kind, number),
        }
    }

    fn any_number(&mut self, kind: u8, number: i64) {
        let mut digits = itoa::Buffer::new();
        self.out.push(kind);
        self.out.extend_from_slice(digits.format(number).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn versioned(&mut self, resp2: &[u8], resp3: &[u8]) {
        self.out.extend_from_slice(if self.protocol == Protocol::Resp3 { resp3 } else { resp2 });
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Integers below this are exact in 17 digits.
const MAX_INTEGER: f64 = 1e17;

/// Calls `f` with the text of a number. Most scores are integers, which need no general method.
fn with_double(number: f64, f: impl FnOnce(&[u8])) {
    let integer = number as i64;
    if integer as f64 == number && number.abs() < MAX_INTEGER && (integer != 0 || number.is_sign_positive()) {
        f(itoa::Buffer::new().format(integer).as_bytes());
    } else {
        f(format_double(number).as_bytes());
    }
}

/// As C's `%.17g`, which Redis uses for scores. NaN has no sign.
fn format_double(number: f64) -> String {
    if number.is_nan() { "nan".to_owned() } else { format_float(number, 17) }
}

/// As C's `%.*g`: at most this number of significant digits, from 1 to 17, without trailing zeros, and in exponent
/// notation below 0.0001 and for numbers with more digits before the point. Infinity is `inf`, and NaN `nan` or `-nan`.
#[must_use]
pub fn format_float(number: f64, max_digits: usize) -> String {
    let sign = if number.is_sign_negative() { "-" } else { "" };
    let number = number.abs();
    if number.is_nan() {
        return format!("{sign}nan");
    }
    if number.is_infinite() || number == 0.0 {
        return format!("{sign}{number}");
    }
    let scientific = format!("{number:.*e}", max_digits - 1);
    let (digits, exponent) = scientific.split_once('e').expect("the notation has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    if !(-4..max_digits as i32).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{point}{rest}e{exponent_sign}{:02}", exponent.abs());
    }
    match usize::try_from(exponent + 1) {
        Ok(whole @ 1..) if whole < digits.len() => format!("{sign}{}.{}", &digits[..whole], &digits[whole..]),
        Ok(whole @ 1..) => format!("{sign}{digits:0<whole$}"),
        _ => format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(protocol: Protocol, write: impl FnOnce(&mut Encoder<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Encoder::new(&mut out, protocol));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_type_encodes_in_both_versions() {
        type Case = (fn(&mut Encoder<'_>), &'static str, &'static str);
        let cases: [Case; 15] = [
            (|e| e.simple("OK"), "+OK\r\n", "+OK\r\n"),
            (|e| e.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (|e| e.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (|e| e.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
            (|e| e.bulk_integer(-7), "$2\r\n-7\r\n", "$2\r\n-7\r\n"),
            (|e| e.null(), "$-1\r\n", "_\r\n"),
            (|e| e.null_array(), "*-1\r\n", "_\r\n"),
            (|e| e.array(2), "*2\r\n", "*2\r\n"),
            (|e| e.map(2), "*4\r\n", "%2\r\n"),
            (|e| e.set(1), "*1\r\n", "~1\r\n"),
            (|e| e.push(3), "*3\r\n", ">3\r\n"),
            (|e| e.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|e| e.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
            (|e| e.boolean(true), ":1\r\n", "#t\r\n"),
            (|e| e.verbatim(b"txt", b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
        ];
        for (write, resp2, resp3) in cases {
            assert_eq!(encoded(Protocol::Resp2, write), resp2);
            assert_eq!(encoded(Protocol::Resp3, write), resp3);
        }
    }

    /// The expected texts are those of `printf("%.17g")`.
    #[test]
    fn doubles_have_seventeen_digits() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (0.1, "0.10000000000000001"),
            (-0.5, "-0.5"),
            (1.0 / 3.0, "0.33333333333333331"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1234567.891, "1234567.8910000001"),
            (1700000000000001.5, "1700000000000001.5"),
            (12345678901234567.0, "12345678901234568"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_double(number), text);
            with_double(number, |bytes| assert_eq!(bytes, text.as_bytes()));
        }
    }

    #[test]
    fn floats_have_the_digits_that_were_asked_for() {
        for (number, digits, text) in [
            (0.1, 14, "0.1"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (-1.0 / 3.0, 3, "-0.333"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (12_345_678_901_230.4, 14, "12345678901230"),
            (99_999_999_999_999.9, 14, "1e+14"),
            (1e14, 14, "1e+14"),
            (100.0, 3, "100"),
            (1000.0, 3, "1e+03"),
            (0.00001, 14, "1e-05"),
            (-f64::NAN.abs(), 17, "-nan"),
            (-0.0, 14, "-0"),
        ] {
            assert_eq!(format_float(number, digits), text);
        }
    }
}
