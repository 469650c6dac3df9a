//! The readers with well-formed, compressed, truncated and foreign files.

use super::{Format, Request, read};
use std::io::{Cursor, Write};

fn parse(bytes: &[u8], format: Format) -> anyhow::Result<Vec<Request>> {
    read(Cursor::new(bytes.to_vec()), format, "the trace".to_owned())?.collect()
}

fn keys(bytes: &[u8], format: Format) -> Vec<u64> {
    parse(bytes, format).unwrap().iter().map(|request| request.key).collect()
}

fn error(bytes: &[u8], format: Format) -> String {
    format!("{:#}", parse(bytes, format).unwrap_err())
}

fn oracle_record(key: u64, bytes: u32) -> Vec<u8> {
    let mut record = 7u32.to_le_bytes().to_vec();
    record.extend(key.to_le_bytes());
    record.extend(bytes.to_le_bytes());
    record.extend((-1i64).to_le_bytes());
    record
}

#[test]
fn read_parses_every_format() {
    assert_eq!(keys(b"10 3 0 1\n7 1 0 2\n", Format::Arc), [10, 11, 12, 7]);
    assert_eq!(keys(b"5\r\n*\r\n\r\n6\r\n5", Format::Lirs), [5, 6, 5]);
    assert_eq!(keys(b"l 0x1fffff50 1\ns 0xA 0\n", Format::Address), [0x1fff_ff50, 10]);
    assert_eq!(
        keys(&[0, 0, 0, 0, 0, 0, 1, 2, 255, 0, 0, 0, 0, 0, 0, 1], Format::U64be),
        [258, (255 << 56) + 1]
    );
    assert_eq!(keys(&[0, 0, 1, 2, 255, 255, 255, 255], Format::I32be), [258, u64::from(u32::MAX)]);
    let records = [oracle_record(1, 4096), oracle_record(2, 0)].concat();
    let expected = [(1, 4096), (2, 0)].map(|(key, bytes)| Request { bytes, ..Request::of(key) });
    assert_eq!(parse(&records, Format::Oracle).unwrap(), expected);
}

#[test]
fn empty_file_has_no_requests() {
    for format in [Format::Arc, Format::Lirs, Format::U64be, Format::Oracle] {
        assert!(keys(b"", format).is_empty());
    }
}

#[test]
fn read_detects_compression_by_content() {
    let plain = b"1\n2\n3\n".repeat(1000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(&plain[..], 1).unwrap();
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(0)).unwrap();
    xz.write_all(&plain).unwrap();
    let xz = xz.finish().unwrap();

    for compressed in [&gzip, &zstd, &xz] {
        assert_eq!(keys(compressed, Format::Lirs).len(), 3000);
        assert!(
            parse(&compressed[..compressed.len() / 2], Format::Lirs).is_err(),
            "a truncated file must be an error"
        );
    }
}

#[test]
fn text_errors_name_the_line() {
    assert_eq!(
        error(b"1\n2\nx3\n", Format::Lirs),
        "the trace, line 3: the key is \"x3\", not a number from 0 to 2^64 - 1"
    );
    assert_eq!(error(b"1 1 0 1\n5\n", Format::Arc), "the trace, line 2: the number of keys is missing");
    assert_eq!(error(b"1 1 0\n", Format::Arc), "the trace, line 1: \"1 1 0\" should have four columns");
    assert!(
        error(b"1 99999999999 0 1\n", Format::Arc)
            .contains("99999999999 keys in one line; 16777216 are allowed")
    );
    assert!(error(b"18446744073709551615 2 0 1\n", Format::Arc).contains("pass 2^64"));
    assert_eq!(
        error(b"l 1ff 0", Format::Address),
        "the trace, line 1: \"1ff\" is not a hexadecimal address like 0x1ff"
    );
    assert_eq!(error(b"m 0x1 0", Format::Address), "the trace, line 1: \"m\" should be l or s");
    assert!(error(&[b'1'; 10_000], Format::Lirs).contains("longer than 4096 bytes"));
    assert!(error(&[200; 10], Format::Lirs).contains("not text"));
}

#[test]
fn binary_errors_name_the_offset() {
    assert_eq!(error(&[0; 20], Format::U64be), "the trace, byte 16: ends after 4 of the 8 bytes of a record");
    assert_eq!(
        error(&oracle_record(1, 1)[..23], Format::Oracle),
        "the trace, byte 0: ends after 23 of the 24 bytes of a record"
    );
}

#[test]
fn requests_end_after_an_error() {
    let mut requests = read(Cursor::new(b"1\nx\n2\n".to_vec()), Format::Lirs, "t".to_owned()).unwrap();
    assert_eq!(requests.next().unwrap().unwrap().key, 1);
    assert!(requests.next().unwrap().is_err());
    assert!(requests.next().is_none());
}
