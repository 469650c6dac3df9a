//! Writing terms as MessagePack.

use super::read::days_of;
use crate::erl::{Kind, Term, atom};
use larder_host::profile::{Encoder, Refused};

/// The MessagePack of a term.
pub(super) fn message_pack(
    term: Term<'_>,
    max_bytes: usize,
    mut encoder: Encoder,
) -> Result<Vec<u8>, Refused> {
    write(term, max_bytes, &mut encoder)?;
    encoder.finish()
}

/// The encoder bounds the depth.
fn write(term: Term<'_>, max_bytes: usize, out: &mut Encoder) -> Result<(), Refused> {
    match term.kind() {
        Kind::Atom => write_atom(term, out),
        Kind::Bitstring => match term.bytes() {
            // It is refused without a look at all of it.
            Some(bytes) if bytes.len() >= max_bytes => out.bytes(bytes),
            Some(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => out.text(text),
                Err(_) => out.bytes(bytes),
            },
            None => Err(out.unsupported("a bitstring that is no binary")),
        },
        Kind::Integer => match (term.integer(), term.unsigned()) {
            (Some(number), _) => out.integer(number),
            (None, Some(number)) => out.unsigned(number),
            (None, None) => Err(out.unsupported("an integer outside of -2^63 to 2^64 - 1")),
        },
        Kind::Float => match term.float() {
            Some(number) => out.float(number),
            None => Err(out.unsupported("a number that cannot be read")),
        },
        Kind::List => {
            // Each element has a byte at least, so that this one is refused without a walk over all of it.
            let length = if term.has_more_elements_than(max_bytes) {
                max_bytes
            } else {
                term.list_length().ok_or_else(|| out.unsupported("an improper list"))?
            };
            out.begin_list(length)?;
            for element in term.elements() {
                write(element, max_bytes, out)?;
            }
            out.end()
        }
        Kind::Map => match term.value_of(term.env().atom(&atom::STRUCT)) {
            None => write_map(term, max_bytes, out),
            Some(module) if module.is(&atom::DATE_TIME) => write_date_time(term, out),
            Some(module) => {
                let module = module.atom_text().unwrap_or_default();
                let module = module.strip_prefix("Elixir.").unwrap_or(&module);
                Err(out.unsupported(format!(
                    "a struct, %{module}{{}}: convert it, for instance with Map.from_struct/1"
                )))
            }
        },
        Kind::Tuple => match term.tuple() {
            Some([name, bytes]) if name.is(&atom::BYTES) => match bytes.bytes() {
                Some(bytes) => out.bytes(bytes),
                None => Err(out.unsupported("{:bytes, …} without a binary")),
            },
            _ => {
                Err(out
                    .unsupported("a tuple, which other languages do not have: convert it to a list or a map"))
            }
        },
        Kind::Other => Err(out.unsupported("a process, port, reference or function")),
    }
}

fn write_atom(term: Term<'_>, out: &mut Encoder) -> Result<(), Refused> {
    if term.is_nil() {
        return out.nil();
    }
    if let Some(value) = term.boolean() {
        return out.boolean(value);
    }
    for (atom, number) in
        [(&atom::NAN, f64::NAN), (&atom::INFINITY, f64::INFINITY), (&atom::NEG_INFINITY, f64::NEG_INFINITY)]
    {
        if term.is(atom) {
            return out.float(number);
        }
    }
    match term.atom_text() {
        Some(text) => out.text(&text),
        None => Err(out.unsupported("an atom without a text")),
    }
}

fn write_map(map: Term<'_>, max_bytes: usize, out: &mut Encoder) -> Result<(), Refused> {
    out.begin_map(map.map_size().unwrap_or_default())?;
    for (key, value) in map.entries() {
        match key.kind() {
            Kind::Bitstring => match key.text() {
                Some(text) => out.key(text)?,
                None => return Err(out.unsupported("a key of a map that is not UTF-8")),
            },
            Kind::Atom => {
                let text = key.atom_text().unwrap_or_default();
                // Others would see one of the two values, and not always the same one.
                if map.value_of(map.env().binary(text.as_bytes())).is_some() {
                    let message = format!("a map with both {text:?} and the atom of that name as keys");
                    return Err(out.unsupported(message));
                }
                out.key(&text)?;
            }
            _ => {
                let shown = key.shown();
                return Err(
                    out.unsupported(format!("a map with the key {shown}: keys are binaries or atoms"))
                );
            }
        }
        write(value, max_bytes, out)?;
    }
    out.end()
}

/// A `DateTime` of whatever zone, as a point in time.
fn write_date_time(term: Term<'_>, out: &mut Encoder) -> Result<(), Refused> {
    let invalid =
        |out: &Encoder| out.unsupported("a DateTime of another calendar than ISO, or an invalid one");
    let field = |name: &atom::Atom| term.value_of(term.env().atom(name));
    let number =
        |name: &atom::Atom| field(name).and_then(Term::integer).filter(|number| number.abs() < 1 << 32);
    let is_iso = field(&atom::CALENDAR).is_some_and(|calendar| calendar.is(&atom::ISO));
    let seconds = || {
        let days = days_of(number(&atom::YEAR)?, number(&atom::MONTH)?, number(&atom::DAY)?);
        let time = number(&atom::HOUR)? * 3_600 + number(&atom::MINUTE)? * 60 + number(&atom::SECOND)?;
        Some(days * 86_400 + time - number(&atom::UTC_OFFSET)? - number(&atom::STD_OFFSET)?)
    };
    let microseconds = || {
        let [microseconds, _] = field(&atom::MICROSECOND)?.tuple()?;
        microseconds.integer().filter(|number| (0..1_000_000).contains(number))
    };
    match (is_iso, seconds(), microseconds()) {
        (true, Some(seconds), Some(microseconds)) => out.timestamp(seconds, microseconds as u32 * 1_000),
        _ => Err(invalid(out)),
    }
}
