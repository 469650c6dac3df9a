//! `cmsgpack`: values in the format MessagePack, as far as lua-cmsgpack 0.4 knows it.

use super::super::lua::{Kind, Stack, Thrown};
use super::to_int;

/// Tables are packed to this depth; deeper ones are `nil`.
const MAX_PACKED_DEPTH: usize = 16;
/// Arrays and maps are unpacked to this depth.
const MAX_UNPACKED_DEPTH: usize = 2000;
/// Values of the stack that a level needs.
const LEVEL_VALUES: usize = 5;

pub(super) fn push(stack: &mut Stack<'_>) {
    super::push_table(
        stack,
        &[("pack", pack), ("unpack", unpack), ("unpack_one", unpack_one), ("unpack_limit", unpack_limit)],
        &[
            ("_NAME", "cmsgpack"),
            ("_VERSION", "lua-cmsgpack 0.4.0"),
            ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
            ("_DESCRIPTION", "MessagePack C implementation for Lua"),
        ],
    );
}

/// Packs each argument, and returns them one after the other.
fn pack(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let arguments = stack.top();
    if arguments == 0 {
        return Err(stack.bad_argument(0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for index in 1..=arguments as i32 {
        stack.push_value(index);
        pack_top(stack, &mut out, 0)?;
    }
    stack.push_bytes(&out);
    Ok(1)
}

/// Packs the value on the top of the stack, and pops it.
fn pack_top(stack: &mut Stack<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Thrown> {
    if !stack.reserve(LEVEL_VALUES) {
        return Err(stack.throw_here("stack overflow (in function mp_encode_lua_type)"));
    }
    match stack.kind(-1) {
        Kind::String => pack_string(out, stack.bytes(-1).unwrap_or_default()),
        Kind::Boolean => out.push(if stack.boolean(-1) { 0xc3 } else { 0xc2 }),
        Kind::Number => pack_number(out, stack.number(-1).unwrap_or_default()),
        Kind::Table if depth < MAX_PACKED_DEPTH => match array_length(stack) {
            Some(length) => pack_array(stack, out, length, depth)?,
            None => pack_map(stack, out, depth)?,
        },
        _ => out.push(0xc0),
    }
    stack.pop(1);
    stack.check_memory(out.len())
}

fn pack_string(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        length @ 0..32 => out.push(0xa0 | length as u8),
        length @ ..0x100 => out.extend([0xd9, length as u8]),
        length @ ..0x1_0000 => append(out, 0xda, &(length as u16).to_be_bytes()),
        length => append(out, 0xdb, &(length as u32).to_be_bytes()),
    }
    out.extend_from_slice(text);
}

fn append(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

fn pack_number(out: &mut Vec<u8>, number: f64) {
    let integer = number as i64;
    // The highest integers are not exact as numbers, and C converts them to the lowest one.
    if integer as f64 != number || integer == i64::MAX {
        return match number as f32 {
            short if f64::from(short) == number => append(out, 0xca, &short.to_be_bytes()),
            _ => append(out, 0xcb, &number.to_be_bytes()),
        };
    }
    match integer {
        -32..0x80 => out.push(integer as u8),
        0x80..0x100 => out.extend([0xcc, integer as u8]),
        0x100..0x1_0000 => append(out, 0xcd, &(integer as u16).to_be_bytes()),
        0x1_0000..0x1_0000_0000 => append(out, 0xce, &(integer as u32).to_be_bytes()),
        0x1_0000_0000.. => append(out, 0xcf, &integer.to_be_bytes()),
        -0x80..-32 => out.extend([0xd0, integer as u8]),
        -0x8000..-0x80 => append(out, 0xd1, &(integer as i16).to_be_bytes()),
        -0x8000_0000..-0x8000 => append(out, 0xd2, &(integer as i32).to_be_bytes()),
        ..-0x8000_0000 => append(out, 0xd3, &integer.to_be_bytes()),
    }
}

/// The length of the table on the top, if its keys are the numbers from 1 on.
fn array_length(stack: &mut Stack<'_>) -> Option<i32> {
    let (mut count, mut last) = (0, 0);
    stack.push_nil();
    while stack.next(-2) {
        stack.pop(1);
        let key = stack.number(-1).filter(|_| stack.kind(-1) == Kind::Number);
        match key.filter(|key| *key > 0.0 && f64::from(to_int(*key)) == *key) {
            Some(key) => last = last.max(to_int(key)),
            None => {
                stack.pop(1);
                return None;
            }
        }
        count += 1;
    }
    (last == count).then_some(count)
}

fn pack_array(stack: &mut Stack<'_>, out: &mut Vec<u8>, length: i32, depth: usize) -> Result<(), Thrown> {
    pack_length(out, length as usize, 0x90, 0xdc);
    for index in 1..=length {
        stack.push_item(-1, index);
        pack_top(stack, out, depth + 1)?;
    }
    Ok(())
}

fn pack_map(stack: &mut Stack<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Thrown> {
    let mut count = 0;
    stack.push_nil();
    while stack.next(-2) {
        stack.pop(1);
        count += 1;
    }
    pack_length(out, count, 0x80, 0xde);
    stack.push_nil();
    while stack.next(-2) {
        // The key is packed from a copy: the next step needs it.
        stack.push_value(-2);
        pack_top(stack, out, depth + 1)?;
        pack_top(stack, out, depth + 1)?;
    }
    Ok(())
}

/// The length of an array or a map: within the tag, or behind one of two other tags.
fn pack_length(out: &mut Vec<u8>, length: usize, short_tag: u8, tag: u8) {
    match length {
        0..16 => out.push(short_tag | length as u8),
        16..0x1_0000 => append(out, tag, &(length as u16).to_be_bytes()),
        _ => append(out, tag + 1, &(length as u32).to_be_bytes()),
    }
}

fn unpack(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let data = stack.text_argument(1)?.to_vec();
    unpack_values(stack, &data, None)
}

/// Unpacks one value from an offset on. Returns the next offset, too.
fn unpack_one(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let data = stack.text_argument(1)?.to_vec();
    let offset = optional_integer(stack, 2)?;
    unpack_values(stack, &data, Some((1, offset)))
}

/// Unpacks at most so many values from an offset on. Returns the next offset, too.
fn unpack_limit(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let data = stack.text_argument(1)?.to_vec();
    let limit = to_int(stack.number_argument(2)?);
    let offset = optional_integer(stack, 3)?;
    // As without a limit.
    unpack_values(stack, &data, Some((limit, offset)).filter(|both| *both != (0, 0)))
}

fn optional_integer(stack: &mut Stack<'_>, index: usize) -> Result<i32, Thrown> {
    match stack.kind(index as i32) {
        Kind::None | Kind::Nil => Ok(0),
        _ => stack.number_argument(index).map(to_int),
    }
}

/// Pushes the values, after the next offset if there is a limit and an offset.
fn unpack_values(stack: &mut Stack<'_>, data: &[u8], part: Option<(i32, i32)>) -> Result<usize, Thrown> {
    let length = data.len();
    let (limit, offset) = part.unwrap_or((i32::MAX, 0));
    let (Ok(limit), Ok(start)) = (usize::try_from(limit), usize::try_from(offset)) else {
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {length}.");
        return Err(stack.throw_here(text));
    };
    let Some(rest) = data.get(start..) else {
        return Err(stack.throw_here(format!("Start offset {start} greater than input length {length}.")));
    };
    stack.set_top(1);
    let mut reader = Reader { rest };
    if part.is_some() {
        stack.push_nil();
    }
    let mut count = 0;
    while !reader.rest.is_empty() && count < limit {
        reader.push(stack, 0)?;
        count += 1;
    }
    if part.is_some() {
        let next = if reader.rest.is_empty() { -1.0 } else { (length - reader.rest.len()) as f64 };
        stack.push_number(next);
        stack.replace(2);
    }
    Ok(stack.top() - 1)
}

/// What is left of packed values.
struct Reader<'d> {
    rest: &'d [u8],
}

impl<'d> Reader<'d> {
    fn take(&mut self, stack: &mut Stack<'_>, bytes: usize) -> Result<&'d [u8], Thrown> {
        match self.rest.split_at_checked(bytes) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(stack.throw_here("Missing bytes in input.")),
        }
    }

    fn array<const N: usize>(&mut self, stack: &mut Stack<'_>) -> Result<[u8; N], Thrown> {
        self.take(stack, N).map(|bytes| bytes.try_into().unwrap_or([0; N]))
    }

    /// Pushes the next value.
    fn push(&mut self, stack: &mut Stack<'_>, depth: usize) -> Result<(), Thrown> {
        if depth > MAX_UNPACKED_DEPTH || !stack.reserve(LEVEL_VALUES) {
            return Err(stack.throw_here("stack overflow (in function mp_decode_to_lua_array)"));
        }
        stack.check_memory(0)?;
        let [tag] = self.array(stack)?;
        let number = match tag {
            0x00..0x80 => f64::from(tag),
            0x80..0x90 => return self.push_map(stack, usize::from(tag & 0xf), depth),
            0x90..0xa0 => return self.push_array(stack, usize::from(tag & 0xf), depth),
            0xa0..0xc0 => return self.push_string(stack, usize::from(tag & 0x1f)),
            0xc0 => {
                stack.push_nil();
                return Ok(());
            }
            0xc2 | 0xc3 => {
                stack.push_boolean(tag == 0xc3);
                return Ok(());
            }
            0xca => f32::from_be_bytes(self.array(stack)?).into(),
            0xcb => f64::from_be_bytes(self.array(stack)?),
            0xcc => u8::from_be_bytes(self.array(stack)?).into(),
            0xcd => u16::from_be_bytes(self.array(stack)?).into(),
            0xce => u32::from_be_bytes(self.array(stack)?).into(),
            // Without a sign in the format, but not in Redis.
            0xcf | 0xd3 => i64::from_be_bytes(self.array(stack)?) as f64,
            0xd0 => i8::from_be_bytes(self.array(stack)?).into(),
            0xd1 => i16::from_be_bytes(self.array(stack)?).into(),
            0xd2 => i32::from_be_bytes(self.array(stack)?).into(),
            0xd9..=0xdf => return self.push_long(stack, tag, depth),
            0xe0.. => f64::from(tag as i8),
            _ => return Err(stack.throw_here("Bad data format in input.")),
        };
        stack.push_number(number);
        Ok(())
    }

    /// Pushes a string, an array or a map whose length follows the tag.
    fn push_long(&mut self, stack: &mut Stack<'_>, tag: u8, depth: usize) -> Result<(), Thrown> {
        let length = match tag {
            0xd9 => u8::from_be_bytes(self.array(stack)?).into(),
            0xda | 0xdc | 0xde => u16::from_be_bytes(self.array(stack)?).into(),
            _ => u32::from_be_bytes(self.array(stack)?) as usize,
        };
        match tag {
            0xd9..0xdc => self.push_string(stack, length),
            0xdc | 0xdd => self.push_array(stack, length, depth),
            _ => self.push_map(stack, length, depth),
        }
    }

    fn push_string(&mut self, stack: &mut Stack<'_>, length: usize) -> Result<(), Thrown> {
        let text = self.take(stack, length)?;
        stack.check_memory(length)?;
        stack.push_bytes(text);
        Ok(())
    }

    fn push_array(&mut self, stack: &mut Stack<'_>, length: usize, depth: usize) -> Result<(), Thrown> {
        stack.push_table(0, 0);
        for index in 1..=length {
            self.push(stack, depth + 1)?;
            stack.set_item(-2, index as i32);
        }
        Ok(())
    }

    fn push_map(&mut self, stack: &mut Stack<'_>, length: usize, depth: usize) -> Result<(), Thrown> {
        stack.push_table(0, 0);
        for _ in 0..length {
            self.push(stack, depth + 1)?;
            self.push(stack, depth + 1)?;
            if let Err(text) = stack.set_pair(-3) {
                return Err(stack.throw(text));
            }
        }
        Ok(())
    }
}
