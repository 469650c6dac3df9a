//! Envelopes of this version stay readable. All other bytes are a miss with a reason.

use super::*;
use crate::value::codec::{self, Codec, Format, Raw};
use crate::value::compression::Compression;
use crate::value::schema;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Page {
    title: String,
    visits: u64,
    draft: Option<bool>,
    body: String,
}

/// A value of a shared schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Product {
    name: String,
    price_cents: u32,
    in_stock: bool,
}

const SCHEMA: u64 = 0x0123_4567_89ab_cdef;

fn page() -> Page {
    Page { title: "größer".into(), visits: 300, draft: Some(false), body: "shelf ".repeat(400) }
}

fn meta() -> Meta {
    Meta {
        id: Id(std::array::from_fn(|at| at as u8)),
        deadline_ms: 1_700_000_300_000,
        codec: 0,
        negative: false,
        schema: SCHEMA,
        clock: 1_700_000_000_000_000,
        ttl: Duration::from_secs(300),
        grace: Duration::from_secs(3_600),
        cost: Duration::from_millis(42),
        tags: vec!["user:7".into(), "größe".into()],
    }
}

fn packing(compression: Compression) -> Packing {
    Packing { compression, ..Packing::default() }
}

/// The file of each kind, codec and flag.
fn golden(name: &str) -> &'static [u8] {
    match name {
        "lease" => include_bytes!("golden/v2-lease.bin"),
        "postcard" => include_bytes!("golden/v2-postcard.bin"),
        "json" => include_bytes!("golden/v2-json.bin"),
        "messagepack" => include_bytes!("golden/v2-messagepack.bin"),
        "raw" => include_bytes!("golden/v2-raw.bin"),
        "negative" => include_bytes!("golden/v2-negative.bin"),
        "lz4" => include_bytes!("golden/v2-lz4.bin"),
        // Written by a program in Python, from the description of the format and of the schema alone.
        "shared" => include_bytes!("golden/v2-shared.bin"),
        "zstd" => include_bytes!("golden/v2-zstd.bin"),
        _ => unreachable!("no such file"),
    }
}

/// Opens a file, and compares it with a newly sealed envelope. Compressed bytes may differ between compressor versions.
fn assert_readable<V: PartialEq + std::fmt::Debug + 'static>(
    name: &str,
    value: V,
    codec: impl Codec<V>,
    meta: Meta,
    compression: Compression,
) {
    let packing = packing(compression);
    let (read, decoded) = codec::open(golden(name), &codec, meta.schema, &packing)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(decoded, value, "{name}");
    assert_eq!(read, Meta { codec: codec.id(), ..meta.clone() }, "{name}");
    let written = codec::seal(&value, &codec, meta, &packing).expect("encodes");
    if compression == Compression::None {
        assert_eq!(written, golden(name), "{name}");
    } else {
        assert!(written.len() < 1_000, "{name} is compressed");
        let (_, again) = codec::open(&written, &codec, SCHEMA, &packing).expect("reads its own");
        assert_eq!(again, value, "{name}");
    }
}

#[test]
fn version_2_stays_readable() {
    let none = Compression::None;
    assert_readable("postcard", page(), Format::Postcard, meta(), none);
    assert_readable("json", page(), Format::Json, meta(), none);
    assert_readable("messagepack", page(), Format::MessagePack, meta(), none);
    assert_readable("raw", b"\x00\xff as it is".to_vec(), Raw, meta(), none);
    assert_readable("lz4", page(), Format::Postcard, meta(), Compression::Lz4);
    assert_readable("zstd", page(), Format::Postcard, meta(), Compression::Zstd);
    let absence = Meta { negative: true, tags: Vec::new(), ..meta() };
    assert_readable("negative", None::<u32>, Format::Postcard, absence, none);

    let product = Product { name: "größer shelf".into(), price_cents: 12_900, in_stock: true };
    let shared = Meta { schema: schema::shared("product", 3), ..meta() };
    assert_readable("shared", product, Format::MessagePack, shared, none);

    let lease = Head::Lease(meta().id);
    assert_eq!(Head::parse(golden("lease")), Ok(lease));
    assert_eq!(lease.to_bytes(), golden("lease"));
    assert_eq!(parse(golden("lease")).err(), Some(Unreadable::Lease));
}

#[test]
fn version_1_is_a_miss() {
    for bytes in [&include_bytes!("golden/v1-lease.bin")[..], include_bytes!("golden/v1-postcard.bin")] {
        assert_eq!(Head::parse(bytes), Err(Unreadable::Version(1)));
        assert_eq!(parse(bytes).err(), Some(Unreadable::Version(1)));
    }
}

/// A touch overwrites the deadline in place.
#[test]
fn deadline_is_readable_after_it_was_overwritten() {
    let mut bytes = golden("postcard").to_vec();
    set_deadline(&mut bytes, 7);
    assert_eq!(parse(&bytes).expect("readable").0, Meta { deadline_ms: 7, codec: 1, ..meta() });
}

#[test]
fn head_is_readable_without_the_rest() {
    let bytes = golden("postcard");
    assert_eq!(Head::parse(bytes), Ok(Head::Value(meta().id)));
    assert_eq!(Head::parse(&bytes[..HEAD_BYTES]), Ok(Head::Value(meta().id)), "readable without the rest");
}

fn open_page(bytes: &[u8]) -> Result<Page, Unreadable> {
    codec::open(bytes, &Format::Postcard, SCHEMA, &Packing::default()).map(|(_, page)| page)
}

/// The file with other bytes and a valid checksum.
fn forged(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = golden(name).to_vec();
    change(&mut bytes);
    let checksum = XxHash3_64::oneshot(&bytes[CHECKSUM.end..]);
    bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn unreadable_bytes_have_a_reason() {
    let set = |at: usize, byte: u8| open_page(&forged("postcard", |bytes| bytes[at] = byte)).unwrap_err();
    assert_eq!(open_page(b"plain text of another program, long enough"), Err(Unreadable::Foreign));
    assert_eq!(open_page(b""), Err(Unreadable::Foreign));
    assert_eq!(open_page(golden("lease")), Err(Unreadable::Lease));
    assert_eq!(set(0, b'l'), Unreadable::Foreign);
    assert_eq!(set(2, 9), Unreadable::Version(9));
    assert_eq!(set(3, 9), Unreadable::Kind(9));
    assert_eq!(set(36, 200), Unreadable::Codec(200));
    assert_eq!(set(37, 0b1000), Unreadable::Flags(0b1000));
    assert_eq!(set(37, 3), Unreadable::Compression(3));
    assert_eq!(set(38, 0), Unreadable::Schema);
    assert_eq!(set(74, 0), Unreadable::Length, "without compression both lengths are one");
    assert_eq!(set(78, 0), Unreadable::Length);
    assert_eq!(set(82, 65), Unreadable::Length, "more tags than allowed");
    assert_eq!(set(84, 0xff), Unreadable::Damaged, "a tag that is not UTF-8");
    let longer = forged("postcard", |bytes| bytes.push(0));
    assert_eq!(open_page(&longer), Err(Unreadable::Length));
    let one_more = forged("postcard", |bytes| {
        bytes.push(0);
        for length in [RAW_LENGTH, PAYLOAD_LENGTH] {
            bytes[length.start] += 1;
        }
    });
    assert_eq!(open_page(&one_more), Err(Unreadable::Decode), "bytes after the value");
}

#[test]
fn damaged_or_truncated_envelope_is_unreadable() {
    for name in ["postcard", "lz4", "zstd"] {
        let whole = golden(name);
        for at in CHECKSUM.start..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x10;
            assert_eq!(open_page(&bytes), Err(Unreadable::Damaged), "{name}, byte {at}");
        }
        for length in 0..whole.len() {
            assert!(open_page(&whole[..length]).is_err(), "{name}, cut to {length} bytes");
        }
    }
}

#[test]
fn codec_reads_only_codecs_that_it_accepts() {
    for name in ["postcard", "json", "messagepack"] {
        assert_eq!(open_page(golden(name)), Ok(page()), "{name}");
    }
    assert_eq!(open_page(golden("raw")), Err(Unreadable::Codec(4)));
    let raw = codec::open::<Vec<u8>>(golden("postcard"), &Raw, SCHEMA, &Packing::default());
    assert_eq!(raw.map(|(_, value)| value), Err(Unreadable::Codec(1)));
}

#[test]
fn decompression_bomb_is_refused_before_allocation() {
    let zeros = "0".repeat(1 << 20);
    for compression in [Compression::Lz4, Compression::Zstd] {
        let wide = packing(compression);
        let bomb = codec::seal(&zeros, &Format::Postcard, meta(), &wide).expect("encodes");
        assert!(bomb.len() < 10_000);
        let narrow = Packing { max_bytes: 1 << 16, ..wide };
        let opened = codec::open::<String>(&bomb, &Format::Postcard, SCHEMA, &narrow);
        assert!(matches!(opened, Err(Unreadable::TooLarge { limit: 0x1_0000, .. })), "{opened:?}");

        // With a false length, the buffer has that length.
        let mut forged = bomb;
        forged[RAW_LENGTH].copy_from_slice(&1_000_u32.to_le_bytes());
        let checksum = XxHash3_64::oneshot(&forged[CHECKSUM.end..]);
        forged[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        let opened = codec::open::<String>(&forged, &Format::Postcard, SCHEMA, &narrow);
        assert_eq!(opened.map(|_| ()), Err(Unreadable::Damaged));
    }
}

#[test]
fn too_large_values_and_tags_are_refused() {
    let narrow = Packing { max_bytes: 10, ..Packing::default() };
    let refused = codec::seal(&"eleven bytes".to_owned(), &Raw, meta(), &narrow);
    assert!(matches!(refused, Err(EncodeError::TooLarge { bytes: 12, limit: 10 })));
    let sealed = |tags| codec::seal(&1u8, &Format::Postcard, Meta { tags, ..meta() }, &Packing::default());
    assert!(sealed(vec!["t".into(); MAX_TAGS]).is_ok());
    assert!(matches!(sealed(vec!["t".into(); 65]), Err(EncodeError::Tags(65))));
    assert!(sealed(vec!["x".repeat(255).into()]).is_ok());
    assert!(matches!(sealed(vec!["x".repeat(256).into()]), Err(EncodeError::Tag(_))));
}

#[test]
fn incompressible_payload_is_stored_uncompressed() {
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..4_096)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    for compression in [Compression::Lz4, Compression::Zstd] {
        let flags = |value: &Vec<u8>| {
            codec::seal(value, &Raw, meta(), &packing(compression)).expect("encodes")[FLAGS_AT]
        };
        assert_eq!(flags(&noise), 0);
        assert_eq!(flags(&vec![0; 1_023]), 0, "shorter than the minimum");
        assert_ne!(flags(&vec![0; 1_024]), 0);
    }
}

proptest! {
    #[test]
    fn random_bytes_cause_no_panic(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
        _ = open_page(&noise);
        _ = Head::parse(&noise);
    }

    /// A forged envelope makes the reader allocate no more than its limit.
    #[test]
    fn forged_envelope_causes_no_panic_and_bounded_allocation(
        name in prop::sample::select(vec!["postcard", "json", "messagepack", "negative", "lz4", "zstd"]),
        changes in prop::collection::vec((CHECKSUM.end..200_usize, any::<u8>()), 0..6),
        cut in 0..120_usize,
    ) {
        let bytes = forged(name, |bytes| {
            let length = bytes.len().saturating_sub(cut).max(CHECKSUM.end + 1);
            bytes.truncate(length);
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at.max(CHECKSUM.end)] = byte;
            }
        });
        let limit = 8 << 10;
        if let Ok((_, packed)) = parse(&bytes)
            && let Ok(raw) = packed.unpack(limit)
        {
            prop_assert!(raw.len() <= limit);
            if let std::borrow::Cow::Owned(raw) = raw {
                prop_assert!(raw.capacity() <= limit);
            }
        }
        _ = open_page(&bytes);
        _ = codec::open::<Option<u32>>(&bytes, &Format::Json, SCHEMA, &Packing::default());
    }

    #[test]
    fn opened_envelope_equals_sealed_value(
        title in ".{0,40}", visits: u64, draft: Option<bool>, body in "[a-c]{0,3000}",
        format in prop::sample::select(vec![Format::Postcard, Format::Json, Format::MessagePack]),
        compression in prop::sample::select(vec![Compression::None, Compression::Lz4, Compression::Zstd]),
        clock: u64, ttl: u32, tags in prop::collection::vec("[a-z]{0,20}", 0..5),
    ) {
        let page = Page { title, visits, draft, body };
        let tags = tags.into_iter().map(String::into_boxed_str).collect();
        let meta = Meta { clock, ttl: Duration::from_millis(ttl.into()), tags, ..meta() };
        let bytes = codec::seal(&page, &format, meta.clone(), &packing(compression)).expect("encodes");
        let (read, opened) = codec::open::<Page>(&bytes, &format, SCHEMA, &Packing::default()).expect("opens");
        prop_assert_eq!(opened, page);
        prop_assert_eq!(read, Meta { codec: <Format as Codec<Page>>::id(&format), ..meta });
    }
}
