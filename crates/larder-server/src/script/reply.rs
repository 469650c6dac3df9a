//! Replies of commands as values of Lua, and the result of a script as a reply: the conversions of Redis.

use larder_resp::{Encoder, Protocol, parse_integer};

use super::lua::{Kind, Stack, Thrown};

/// Values of the stack that a level of nesting needs.
const LEVEL_VALUES: usize = 8;
/// Levels of tables in a result.
const MAX_DEPTH: usize = 1000;

/// Pushes a complete reply of a command as a value. Replies of commands are nested a few levels deep.
///
/// ```text
/// integer ─ number           null, RESP2 ─ false    double ─ {double = 1.5}      verbatim ─ {verbatim_string = {…}}
/// bulk ─ string              null, RESP3 ─ nil      map ─ {map = {key = value}}  big number ─ {big_number = "…"}
/// array ─ table              boolean ─ boolean      set ─ {set = {member = true}}
/// simple ─ {ok = "…"}        error ─ {err = "…"}
/// ```
pub(super) fn push(stack: &mut Stack<'_>, reply: &[u8]) -> Result<(), Thrown> {
    let mut reader = Reader { rest: reply };
    reader.push(stack)
}

/// Reads a reply that this server has written, so that it is complete and valid.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The bytes up to the end of the line.
    fn line(&mut self) -> &'a [u8] {
        let end = self.rest.windows(2).position(|pair| pair == b"\r\n").unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.skip(end + 2);
        line
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn push(&mut self, stack: &mut Stack<'_>) -> Result<(), Thrown> {
        if !stack.reserve(LEVEL_VALUES) {
            return Err(stack.throw("reached lua stack limit"));
        }
        let kind = self.rest.first().copied().unwrap_or(b'_');
        self.skip(1);
        let line = self.line();
        let number = || parse_integer(line).unwrap_or_default();
        match kind {
            b':' => stack.push_number(number() as f64),
            b'$' if number() >= 0 => self.push_bulk(stack, number() as usize)?,
            b'*' if number() >= 0 => self.push_array(stack, number() as usize)?,
            b'$' | b'*' => stack.push_boolean(false),
            b'+' => push_record(stack, "ok", line),
            b'-' => push_counted_error(stack, line),
            b'#' => stack.push_boolean(line == b"t"),
            b',' => {
                let double = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok());
                stack.push_table(0, 1);
                stack.push_number(double.unwrap_or_default());
                stack.set_field(-2, "double");
            }
            b'%' => {
                stack.push_table(0, 1);
                stack.push_table(0, number() as usize);
                for _ in 0..number() {
                    self.push(stack)?;
                    self.push(stack)?;
                    // A key of a reply is a text.
                    let _ = stack.set_pair(-3);
                }
                stack.set_field(-2, "map");
            }
            b'~' | b'>' => {
                stack.push_table(0, 1);
                stack.push_table(0, number() as usize);
                for _ in 0..number() {
                    self.push(stack)?;
                    stack.push_boolean(true);
                    let _ = stack.set_pair(-3);
                }
                stack.set_field(-2, "set");
            }
            b'=' => self.push_verbatim(stack, number() as usize),
            b'(' => push_record(stack, "big_number", line),
            _ => stack.push_nil(),
        }
        Ok(())
    }

    fn push_bulk(&mut self, stack: &mut Stack<'_>, length: usize) -> Result<(), Thrown> {
        stack.check_memory(length)?;
        stack.push_bytes(self.rest.get(..length).unwrap_or_default());
        self.skip(length + 2);
        Ok(())
    }

    fn push_array(&mut self, stack: &mut Stack<'_>, length: usize) -> Result<(), Thrown> {
        // A value needs 16 bytes in a table.
        stack.check_memory(16 * length)?;
        stack.push_table(length, 0);
        for index in 1..=length {
            self.push(stack)?;
            stack.set_item(-2, index as i32);
        }
        Ok(())
    }

    fn push_verbatim(&mut self, stack: &mut Stack<'_>, length: usize) {
        let content = self.rest.get(..length).unwrap_or_default();
        let (format, text) = content.split_at(content.len().min(4));
        stack.push_table(0, 1);
        stack.push_table(0, 2);
        stack.push_bytes(text);
        stack.set_field(-2, "string");
        stack.push_bytes(&format[..format.len().min(3)]);
        stack.set_field(-2, "format");
        stack.set_field(-2, "verbatim_string");
        self.skip(length + 2);
    }
}

/// The field of an error that `INFO` has counted: it is not counted again if the script replies with it. As in Redis.
pub(super) const COUNTED: &str = "ignore_error_stats_update";

/// Pushes the error of a command.
pub(super) fn push_counted_error(stack: &mut Stack<'_>, text: &[u8]) {
    push_record(stack, "err", text);
    stack.push_boolean(true);
    stack.set_field(-2, COUNTED);
}

/// Whether `INFO` has counted the error at this index of the stack.
pub(super) fn is_counted(stack: &mut Stack<'_>, index: i32) -> bool {
    let is_counted = stack.push_field(index, COUNTED) == Kind::Boolean && stack.boolean(-1);
    stack.pop(1);
    is_counted
}

/// Pushes a table with one field.
pub(super) fn push_record(stack: &mut Stack<'_>, name: &str, value: &[u8]) {
    stack.push_table(0, 1);
    stack.push_bytes(value);
    stack.set_field(-2, name);
}

/// Writes the result of a script as a reply.
pub(crate) struct Writer<'a> {
    out: Encoder<'a>,
    /// The version that the script has chosen: it decides what booleans are.
    script_protocol: Protocol,
    /// Above this size of the buffer nothing more is written: an error takes the place of the reply.
    max_bytes: u64,
    /// The levels of tables around the value.
    depth: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: Encoder<'a>, script_protocol: Protocol, max_bytes: u64) -> Self {
        Writer { out, script_protocol, max_bytes, depth: 0 }
    }

    /// Writes the result of a script, which is on the top of the stack, and pops it. Returns its text and whether it is
    /// counted if it is an error.
    pub(crate) fn write_result(&mut self, stack: &mut Stack<'_>) -> Option<(Vec<u8>, bool)> {
        let mut error = None;
        if stack.kind(-1) == Kind::Table {
            if stack.push_field(-1, "err") == Kind::String {
                error = Some(stack.bytes(-1).unwrap_or_default().to_vec());
            }
            stack.pop(1);
        }
        let error = error.map(|text| (text, is_counted(stack, -1)));
        self.write(stack);
        error
    }

    /// Writes the value on the top of the stack, and pops it.
    fn write(&mut self, stack: &mut Stack<'_>) {
        self.depth += 1;
        if self.depth > MAX_DEPTH || !stack.reserve(LEVEL_VALUES) {
            self.out.error("ERR reached lua stack limit");
        } else if self.out.buffer_len() as u64 <= self.max_bytes {
            self.write_value(stack);
        }
        self.depth -= 1;
        stack.pop(1);
    }

    fn write_value(&mut self, stack: &mut Stack<'_>) {
        match stack.kind(-1) {
            Kind::String => self.out.bulk(stack.bytes(-1).unwrap_or_default()),
            Kind::Number => self.out.integer(to_integer(stack.number(-1).unwrap_or_default())),
            Kind::Boolean => match (self.script_protocol, stack.boolean(-1)) {
                (Protocol::Resp3, value) => self.out.boolean(value),
                (Protocol::Resp2, true) => self.out.integer(1),
                (Protocol::Resp2, false) => self.out.null(),
            },
            Kind::Table => self.write_table(stack),
            _ => self.out.null(),
        }
    }

    /// Writes the table on the top of the stack. A field tells what it stands for, if it is no array.
    fn write_table(&mut self, stack: &mut Stack<'_>) {
        type WriteField = fn(&mut Writer<'_>, &mut Stack<'_>) -> bool;
        const FIELDS: [(&str, Kind, WriteField); 7] = [
            ("err", Kind::String, |writer, stack| {
                writer.out.error_bytes(stack.bytes(-1).unwrap_or_default());
                true
            }),
            ("ok", Kind::String, |writer, stack| {
                writer.out.simple_bytes(stack.bytes(-1).unwrap_or_default());
                true
            }),
            ("double", Kind::Number, |writer, stack| {
                writer.out.double(stack.number(-1).unwrap_or_default());
                true
            }),
            ("map", Kind::Table, |writer, stack| writer.write_map(stack)),
            ("set", Kind::Table, |writer, stack| writer.write_set(stack)),
            ("big_number", Kind::String, |writer, stack| writer.write_big_number(stack)),
            ("verbatim_string", Kind::Table, |writer, stack| writer.write_verbatim(stack)),
        ];
        for (name, kind, write) in FIELDS {
            let is_written = stack.push_field(-1, name) == kind && write(self, stack);
            stack.pop(1);
            if is_written {
                return;
            }
        }
        self.write_array(stack);
    }

    fn write_map(&mut self, stack: &mut Stack<'_>) -> bool {
        self.out.map(count_pairs(stack));
        stack.push_nil();
        while stack.next(-2) {
            // A copy of the key is written: the next step needs the key.
            stack.push_value(-2);
            self.write(stack);
            self.write(stack);
        }
        true
    }

    fn write_set(&mut self, stack: &mut Stack<'_>) -> bool {
        self.out.set(count_pairs(stack));
        stack.push_nil();
        while stack.next(-2) {
            stack.pop(1);
            stack.push_value(-1);
            self.write(stack);
        }
        true
    }

    fn write_big_number(&mut self, stack: &mut Stack<'_>) -> bool {
        let digits = String::from_utf8_lossy(stack.bytes(-1).unwrap_or_default());
        self.out.big_number(&digits.replace(['\r', '\n'], " "));
        true
    }

    /// Writes the table on the top as a text with a format. Returns false if it is none.
    fn write_verbatim(&mut self, stack: &mut Stack<'_>) -> bool {
        stack.push_field(-1, "format");
        stack.push_field(-2, "string");
        let is_text = stack.kind(-1) == Kind::String && stack.kind(-2) == Kind::String;
        if is_text {
            let mut format = *b"   ";
            let given = stack.bytes(-2).unwrap_or_default();
            let length = given.len().min(format.len());
            format[..length].copy_from_slice(&given[..length]);
            self.out.verbatim(&format, stack.bytes(-1).unwrap_or_default());
        }
        stack.pop(2);
        is_text
    }

    /// Writes the items up to the first one that is missing.
    fn write_array(&mut self, stack: &mut Stack<'_>) {
        let mut length = 0;
        while stack.push_item(-1, length + 1) != Kind::Nil {
            stack.pop(1);
            length += 1;
        }
        stack.pop(1);
        self.out.array(length as usize);
        for index in 1..=length {
            stack.push_item(-1, index);
            self.write(stack);
        }
    }
}

fn count_pairs(stack: &mut Stack<'_>) -> usize {
    let mut count = 0;
    stack.push_nil();
    while stack.next(-2) {
        stack.pop(1);
        count += 1;
    }
    count
}

/// As C converts a number: the fraction is dropped, and a number outside of the range is the lowest integer.
pub(super) fn to_integer(number: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&number) { number as i64 } else { i64::MIN }
}
