//! `cjson.encode`.

use larder_resp::format_float;

use super::super::super::lua::{Kind, Stack, Thrown};
use super::{InvalidNumbers, MAX_DEPTH, SETTINGS, Settings, to_int};

/// Values of the stack that a level needs.
const LEVEL_VALUES: usize = 5;

pub(super) fn encode(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    if stack.top() != 1 {
        return Err(stack.bad_argument(1, "expected 1 argument"));
    }
    let mut encoder = Encoder { settings: SETTINGS.get(), out: Vec::new() };
    encoder.write(stack, 0)?;
    stack.push_bytes(&encoder.out);
    Ok(1)
}

struct Encoder {
    settings: Settings,
    out: Vec<u8>,
}

impl Encoder {
    /// Writes the value on the top of the stack, which stays.
    fn write(&mut self, stack: &mut Stack<'_>, depth: i32) -> Result<(), Thrown> {
        match stack.kind(-1) {
            Kind::String => self.write_string(stack.bytes(-1).unwrap_or_default()),
            Kind::Number => self.write_number(stack, -1)?,
            Kind::Boolean if stack.boolean(-1) => self.out.extend_from_slice(b"true"),
            Kind::Boolean => self.out.extend_from_slice(b"false"),
            Kind::Nil => self.out.extend_from_slice(b"null"),
            Kind::LightUserdata if stack.address(-1).is_null() => self.out.extend_from_slice(b"null"),
            Kind::Table => self.write_table(stack, depth + 1)?,
            _ => return Err(refuse(stack, -1, "type not supported")),
        }
        stack.check_memory(self.out.len())
    }

    fn write_table(&mut self, stack: &mut Stack<'_>, depth: i32) -> Result<(), Thrown> {
        if depth > self.settings.max_encode_depth.min(MAX_DEPTH) || !stack.reserve(LEVEL_VALUES) {
            return Err(stack.throw_here(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_length(stack)? {
            length @ 1.. => self.write_array(stack, length, depth),
            _ => self.write_object(stack, depth),
        }
    }

    /// The highest index of the table on the top; -1 if it is no array.
    fn array_length(&self, stack: &mut Stack<'_>) -> Result<i32, Thrown> {
        let (mut last, mut items) = (0i32, 0i64);
        stack.push_nil();
        while stack.next(-2) {
            stack.pop(1);
            let key = stack.number(-1).filter(|_| stack.kind(-1) == Kind::Number);
            match key.filter(|key| key.floor() == *key && *key >= 1.0) {
                Some(key) if key > f64::from(last) => last = to_int(key),
                Some(_) => {}
                None => {
                    stack.pop(1);
                    return Ok(-1);
                }
            }
            items += 1;
        }
        let Settings { sparse_ratio, sparse_safe, converts_sparse, .. } = self.settings;
        let is_sparse =
            sparse_ratio > 0 && i64::from(last) > items * i64::from(sparse_ratio) && last > sparse_safe;
        match (is_sparse, converts_sparse) {
            (true, true) => Ok(-1),
            (true, false) => Err(refuse(stack, -1, "excessively sparse array")),
            (false, _) => Ok(last),
        }
    }

    fn write_array(&mut self, stack: &mut Stack<'_>, length: i32, depth: i32) -> Result<(), Thrown> {
        self.out.push(b'[');
        for index in 1..=length {
            if index > 1 {
                self.out.push(b',');
            }
            stack.push_item(-1, index);
            self.write(stack, depth)?;
            stack.pop(1);
        }
        self.out.push(b']');
        Ok(())
    }

    fn write_object(&mut self, stack: &mut Stack<'_>, depth: i32) -> Result<(), Thrown> {
        self.out.push(b'{');
        let mut is_first = true;
        stack.push_nil();
        while stack.next(-2) {
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match stack.kind(-2) {
                Kind::String => self.write_string(stack.bytes(-2).unwrap_or_default()),
                Kind::Number => {
                    self.out.push(b'"');
                    self.write_number(stack, -2)?;
                    self.out.push(b'"');
                }
                _ => return Err(refuse(stack, -2, "table key must be a number or string")),
            }
            self.out.push(b':');
            self.write(stack, depth)?;
            stack.pop(1);
        }
        self.out.push(b'}');
        Ok(())
    }

    fn write_number(&mut self, stack: &mut Stack<'_>, index: i32) -> Result<(), Thrown> {
        let number = stack.number(index).unwrap_or_default();
        match self.settings.encodes_invalid {
            _ if number.is_finite() => {}
            InvalidNumbers::Refused => return Err(refuse(stack, index, "must not be NaN or Inf")),
            InvalidNumbers::Null => {
                self.out.extend_from_slice(b"null");
                return Ok(());
            }
            InvalidNumbers::Written => {}
        }
        match number.is_nan() {
            true => self.out.extend_from_slice(b"nan"),
            false => {
                let digits = self.settings.precision as usize;
                self.out.extend_from_slice(format_float(number, digits).as_bytes());
            }
        }
        Ok(())
    }

    fn write_string(&mut self, text: &[u8]) {
        self.out.reserve(text.len() + 2);
        self.out.push(b'"');
        for byte in text {
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'/' => self.out.extend_from_slice(b"\\/"),
                0x08 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                0x0c => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                0..0x20 | 0x7f => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => self.out.push(*byte),
            }
        }
        self.out.push(b'"');
    }
}

/// The error of a value that has no form in JSON.
fn refuse(stack: &mut Stack<'_>, index: i32, reason: &str) -> Thrown {
    let kind = stack.kind(index).name();
    stack.throw_here(format!("Cannot serialise {kind}: {reason}"))
}
