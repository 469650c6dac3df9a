//! `struct`: numbers and strings in binary form, by a format.

use super::super::lua::{Stack, Thrown};

const MAX_INTEGER_BYTES: usize = 32;
/// The alignment of `!` without a number.
const NATIVE_ALIGNMENT: usize = 8;
const INT_BYTES: usize = 4;
const TOO_SHORT: &str = "data string too short";

pub(super) fn push(stack: &mut Stack<'_>) {
    super::push_table(stack, &[("pack", pack), ("unpack", unpack), ("size", size)], &[]);
}

/// A format while it is read.
struct Format {
    text: Vec<u8>,
    position: usize,
    is_big_endian: bool,
    alignment: usize,
}

/// One item of a format.
#[derive(Clone, Copy)]
struct Item {
    option: u8,
    /// 0 if it depends on the value, or for an option that is no value.
    size: usize,
}

impl Format {
    /// The format that is the first argument; it ends at a zero byte.
    fn of(stack: &mut Stack<'_>) -> Result<Self, Thrown> {
        let text = stack.text_argument(1)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Ok(Format { text: text[..end].to_vec(), position: 0, is_big_endian: false, alignment: 1 })
    }

    /// The next item; `None` at the end.
    fn next(&mut self, stack: &mut Stack<'_>) -> Result<Option<Item>, Thrown> {
        let Some(option) = self.text.get(self.position).copied() else { return Ok(None) };
        self.position += 1;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'f' => 4,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'c' => self.number(stack, 1)?,
            b'i' | b'I' => {
                let size = self.number(stack, INT_BYTES)?;
                if size > MAX_INTEGER_BYTES {
                    let text = format!("integral size {size} is larger than limit of {MAX_INTEGER_BYTES}");
                    return Err(stack.throw_here(text));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item { option, size }))
    }

    /// The number at the position, if there is one.
    fn number(&mut self, stack: &mut Stack<'_>, default: usize) -> Result<usize, Thrown> {
        let digits = self.text[self.position..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let digits = &self.text[self.position..self.position + digits];
        self.position += digits.len();
        let number = digits
            .iter()
            .try_fold(0i32, |number, digit| number.checked_mul(10)?.checked_add(i32::from(digit - b'0')));
        number.map(|number| number as usize).ok_or_else(|| stack.throw_here("integral size overflow"))
    }

    /// Bytes before an item at this offset.
    fn padding(&self, offset: usize, item: Item) -> usize {
        if item.size == 0 || item.option == b'c' {
            return 0;
        }
        let alignment = item.size.min(self.alignment);
        alignment.wrapping_sub(offset & alignment.wrapping_sub(1)) & alignment.wrapping_sub(1)
    }

    /// Applies an option that is no value.
    fn control(&mut self, stack: &mut Stack<'_>, option: u8) -> Result<(), Thrown> {
        match option {
            b' ' => {}
            b'>' => self.is_big_endian = true,
            b'<' => self.is_big_endian = false,
            b'!' => {
                let alignment = self.number(stack, NATIVE_ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    return Err(stack.throw_here(format!("alignment {alignment} is not a power of 2")));
                }
                self.alignment = alignment;
            }
            _ => {
                let text = format!("invalid format option '{}'", char::from(option));
                return Err(stack.bad_argument(1, text));
            }
        }
        Ok(())
    }

    /// Puts bytes that begin with the lowest one into the chosen order.
    fn order(&self, bytes: &mut [u8]) {
        if self.is_big_endian {
            bytes.reverse();
        }
    }
}

fn pack(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let mut format = Format::of(stack)?;
    // A missing value is `nil` to the messages of errors.
    stack.push_nil();
    let (mut out, mut argument) = (Vec::new(), 2);
    while let Some(item) = format.next(stack)? {
        out.resize(out.len() + format.padding(out.len(), item), 0);
        match item.option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let mut bytes = [0; MAX_INTEGER_BYTES];
                bytes[..8].copy_from_slice(&to_bits(stack.number_argument(argument)?).to_le_bytes());
                argument += 1;
                format.order(&mut bytes[..item.size]);
                out.extend_from_slice(&bytes[..item.size]);
            }
            b'x' => out.push(0),
            b'f' => {
                let mut bytes = (stack.number_argument(argument)? as f32).to_le_bytes();
                argument += 1;
                format.order(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            b'd' => {
                let mut bytes = stack.number_argument(argument)?.to_le_bytes();
                argument += 1;
                format.order(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            b'c' | b's' => {
                let data = stack.text_argument(argument)?;
                argument += 1;
                let size = if item.size == 0 { data.len() } else { item.size };
                match data.get(..size) {
                    Some(data) => out.extend_from_slice(data),
                    None => return Err(stack.bad_argument(argument, "string too short")),
                }
                if item.option == b's' {
                    out.push(0);
                }
            }
            option => format.control(stack, option)?,
        }
        stack.check_memory(out.len())?;
    }
    stack.push_bytes(&out);
    Ok(1)
}

/// As C converts a number to a 64-bit integer, on the processors that Redis runs on.
fn to_bits(number: f64) -> u64 {
    const END: f64 = 18_446_744_073_709_551_616.0;
    match number {
        _ if number.is_nan() || number < -END / 2.0 => 1 << 63,
        ..0.0 => number as i64 as u64,
        _ if number < END => number as u64,
        _ => 0,
    }
}

fn unpack(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let mut format = Format::of(stack)?;
    let data = stack.text_argument(2)?.to_vec();
    let start = if stack.top() < 3 { 1 } else { stack.number_argument(3)? as i64 };
    if start == 0 {
        return Err(stack.bad_argument(3, "offset must be 1 or greater"));
    }
    let mut position = (start as usize).wrapping_sub(1);
    stack.set_top(2);
    while let Some(item) = format.next(stack)? {
        position = position.wrapping_add(format.padding(position, item));
        let mut bytes = part(stack, &data, position, item.size)?.to_vec();
        if !stack.reserve(4) {
            return Err(stack.throw_here("stack overflow (too many results)"));
        }
        let mut size = item.size;
        match item.option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                format.order(&mut bytes);
                stack.push_number(integer(&bytes, item.option.is_ascii_lowercase()));
            }
            b'x' => {}
            b'f' => {
                format.order(&mut bytes);
                stack.push_number(f32::from_le_bytes(bytes.try_into().unwrap_or_default()).into());
            }
            b'd' => {
                format.order(&mut bytes);
                stack.push_number(f64::from_le_bytes(bytes.try_into().unwrap_or_default()));
            }
            b'c' => {
                if size == 0 {
                    let Some(length) = stack.number(-1).filter(|_| stack.top() > 2) else {
                        return Err(stack.throw_here("format 'c0' needs a previous size"));
                    };
                    stack.pop(1);
                    size = length as i64 as usize;
                }
                let text = part(stack, &data, position, size)?.to_vec();
                stack.push_bytes(&text);
            }
            b's' => {
                let Some(length) = data[position..].iter().position(|byte| *byte == 0) else {
                    return Err(stack.throw_here("unfinished string in data"));
                };
                stack.push_bytes(&data[position..position + length]);
                size = length + 1;
            }
            option => format.control(stack, option)?,
        }
        position += size;
    }
    stack.push_number(position.wrapping_add(1) as f64);
    Ok(stack.top() - 2)
}

/// Bytes of the data at a position.
fn part<'d>(stack: &mut Stack<'_>, data: &'d [u8], position: usize, size: usize) -> Result<&'d [u8], Thrown> {
    let part = data.get(position..).and_then(|rest| rest.get(..size));
    part.ok_or_else(|| stack.bad_argument(2, TOO_SHORT))
}

/// The integer of bytes that begin with the lowest one. More than eight have the value of the first eight.
fn integer(bytes: &[u8], is_signed: bool) -> f64 {
    let bits = bytes.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    if !is_signed {
        return bits as f64;
    }
    let sign = u64::MAX.wrapping_shl((bytes.len() as u32).wrapping_mul(8).wrapping_sub(1));
    let bits = if bits & sign != 0 { bits | sign } else { bits };
    bits as i64 as f64
}

fn size(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let mut format = Format::of(stack)?;
    let mut size = 0usize;
    while let Some(item) = format.next(stack)? {
        size += format.padding(size, item);
        match item.option {
            b's' => return Err(stack.bad_argument(1, "option 's' has no fixed size")),
            b'c' if item.size == 0 => return Err(stack.bad_argument(1, "option 'c0' has no fixed size")),
            option if !option.is_ascii_alphanumeric() => format.control(stack, option)?,
            _ => {}
        }
        size += item.size;
    }
    stack.push_number(size as f64);
    Ok(1)
}
