//! Decompresses trace files. The first bytes identify the compression, because a pipe has no file name.

use std::io::{BufRead, BufReader, Cursor, Read, Result};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

const BUFFER_BYTES: usize = 1 << 16;

/// Reads the decompressed bytes of `raw`.
pub(super) fn reader(mut raw: impl Read + 'static) -> Result<Box<dyn BufRead>> {
    let mut head = Vec::with_capacity(XZ.len());
    raw.by_ref().take(XZ.len() as u64).read_to_end(&mut head)?;
    let is = |magic: &[u8]| head.starts_with(magic);
    let (gzip, zstd, xz) = (is(GZIP), is(ZSTD), is(XZ));
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(raw));
    Ok(if gzip {
        buffered(flate2::bufread::MultiGzDecoder::new(whole))
    } else if zstd {
        buffered(zstd::Decoder::with_buffer(whole)?)
    } else if xz {
        buffered(lzma_rust2::XzReader::new(whole, true))
    } else {
        Box::new(whole)
    })
}

fn buffered(plain: impl Read + 'static) -> Box<dyn BufRead> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, plain))
}
