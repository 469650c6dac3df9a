//! The texts of a small value, whichever buffer they are in.

use super::RdbError;
use super::listpack::ListpackReader;
use super::ziplist::ZiplistReader;

/// The texts of a listpack, or of a ziplist.
pub(super) enum PackedReader<'a> {
    Listpack(ListpackReader<'a>),
    Ziplist(ZiplistReader<'a>),
}

impl<'a> PackedReader<'a> {
    pub(super) fn new(is_ziplist: bool, bytes: &'a [u8]) -> Result<Self, RdbError> {
        match is_ziplist {
            true => ZiplistReader::new(bytes).map(PackedReader::Ziplist),
            false => ListpackReader::new(bytes).map(PackedReader::Listpack),
        }
    }

    /// The next text; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, RdbError> {
        match self {
            PackedReader::Listpack(reader) => reader.next(),
            PackedReader::Ziplist(reader) => reader.next(),
        }
    }
}
