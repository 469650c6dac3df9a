//! Encoded siblings of a stored response: its body in the codings br, zstd and gzip. Which bodies have them, and which of them
//! a client prefers.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName,
};
use http::{HeaderMap, HeaderValue};

use crate::headers::control::list_members;
use crate::stored::chunks::Chunks;

/// Shorter bodies are not encoded: the gain is less than a packet.
const MIN_BODY_BYTES: usize = 1024;
/// Longer bodies are not encoded: each would occupy a thread for about a second.
const MAX_BODY_BYTES: usize = 4 << 20;
/// Bodies that are encoded at the same time, of one cache.
const MAX_RUNNING: usize = 2;

/// A content coding of stored bodies (RFC 9110, 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Coding {
    /// `br` (RFC 7932), quality 5.
    Brotli,
    /// `zstd` (RFC 8878), level 6.
    Zstd,
    /// `gzip` (RFC 1952), level 6.
    Gzip,
}

impl Coding {
    const COUNT: usize = 3;

    /// The name of the coding in `Content-Encoding`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// Encodes a body.
    pub(crate) fn encode(self, body: &Chunks) -> io::Result<Vec<u8>> {
        let write = |encoder: &mut dyn Write| {
            let mut chunks = body.reader(0..body.len());
            chunks.try_for_each(|chunk| encoder.write_all(&chunk))
        };
        match self {
            Coding::Brotli => {
                let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
                write(&mut encoder)?;
                Ok(encoder.into_inner())
            }
            Coding::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), 6)?;
                write(&mut encoder)?;
                encoder.finish()
            }
            Coding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
                write(&mut encoder)?;
                encoder.finish()
            }
        }
    }
}

/// The codings that a cache offers, and how many bodies it encodes now.
#[derive(Debug, Default)]
pub(crate) struct Codings {
    pub(crate) offered: Vec<Coding>,
    running: Arc<AtomicUsize>,
}

impl Codings {
    pub(crate) fn new(offered: Vec<Coding>) -> Codings {
        Codings { offered, ..Codings::default() }
    }

    /// Counts another body that is being encoded. `None` if as many are as may be.
    pub(crate) fn start(&self) -> Option<RunningEncoding> {
        let running = RunningEncoding(self.running.clone());
        (running.0.fetch_add(1, Ordering::Relaxed) < MAX_RUNNING).then_some(running)
    }
}

/// A body that is being encoded.
pub(crate) struct RunningEncoding(Arc<AtomicUsize>);

impl Drop for RunningEncoding {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The siblings of one response, of type `R`.
#[derive(Debug)]
pub(crate) struct Siblings<R>([Sibling<R>; Coding::COUNT]);

#[derive(Debug)]
pub(crate) struct Sibling<R> {
    pub(crate) is_started: AtomicBool,
    /// `None` inside if the coding does not make the body at least a tenth smaller.
    pub(crate) response: OnceLock<Option<Arc<R>>>,
}

impl<R> Default for Siblings<R> {
    fn default() -> Self {
        let none = || Sibling { is_started: AtomicBool::new(false), response: OnceLock::new() };
        Siblings(std::array::from_fn(|_| none()))
    }
}

impl<R> Siblings<R> {
    pub(crate) fn of(&self, coding: Coding) -> &Sibling<R> {
        &self.0[coding as usize]
    }

    /// Those that exist.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &R> {
        self.0.iter().filter_map(|sibling| Some(&**sibling.response.get()?.as_ref()?))
    }
}

/// Whether siblings of a complete response are made. `varies` says that its handler chooses the coding itself.
pub(crate) fn is_encodable(headers: &HeaderMap, body_len: usize, varies: bool) -> bool {
    let no_transform = headers
        .get_all(CACHE_CONTROL)
        .iter()
        .flat_map(|line| list_members(line.as_bytes()))
        .any(|member| member.eq_ignore_ascii_case(b"no-transform"));
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    !varies
        && !no_transform
        && (MIN_BODY_BYTES..=MAX_BODY_BYTES).contains(&body_len)
        && !headers.contains_key(CONTENT_ENCODING)
        && !headers.contains_key(CONTENT_RANGE)
        && headers.get(ETAG).is_some_and(|etag| etag.as_bytes().ends_with(b"\""))
        && is_compressible(content_type)
}

fn is_compressible(content_type: &[u8]) -> bool {
    let media_type = content_type.split(|b| *b == b';').next().unwrap_or_default();
    let media_type = media_type.trim_ascii().to_ascii_lowercase();
    let exact: [&[u8]; 5] = [
        b"application/json",
        b"application/javascript",
        b"application/xml",
        b"application/wasm",
        b"application/x-ndjson",
    ];
    media_type.starts_with(b"text/")
        || media_type.ends_with(b"+json")
        || media_type.ends_with(b"+xml")
        || exact.contains(&&media_type[..])
}

/// The quality of a coding by `Accept-Encoding`, in thousandths; `None` if the field does not tell.
pub(crate) fn quality_of(request: &HeaderMap, name: &str) -> Option<u32> {
    let mut any = None;
    for member in request.get_all(ACCEPT_ENCODING).iter().flat_map(|line| list_members(line.as_bytes())) {
        let mut parts = member.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let coding = parts.next().unwrap_or_default();
        let quality = parts.next().map_or(1000, quality);
        if coding.eq_ignore_ascii_case(name.as_bytes()) {
            return Some(quality);
        }
        if coding == b"*" {
            any = Some(quality);
        }
    }
    any
}

/// The offered coding that the client prefers, unless it prefers none; of equals, the first offered one (RFC 9110,
/// 12.5.3).
pub(crate) fn preferred(request: &HeaderMap, offered: &[Coding]) -> Option<Coding> {
    let unencoded = quality_of(request, "identity").unwrap_or(0);
    let mut best = None;
    for coding in offered {
        let quality = quality_of(request, coding.as_str()).unwrap_or(0);
        if quality > 0 && quality >= unencoded && best.is_none_or(|(_, other)| quality > other) {
            best = Some((*coding, quality));
        }
    }
    best.map(|(coding, _)| coding)
}

/// A weight such as `q=0.5`, in thousandths; 0 if it is malformed.
fn quality(parameter: &[u8]) -> u32 {
    let value = parameter.strip_prefix(b"q=").or(parameter.strip_prefix(b"Q="));
    let value = value.and_then(|value| std::str::from_utf8(value).ok()?.parse::<f32>().ok());
    value.filter(|value| (0.0..=1.0).contains(value)).map_or(0, |value| (value * 1000.0) as u32)
}

/// Fields of the body that are not those of its encoded sibling.
pub(crate) const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// The entity tag of a sibling: each representation has its own.
pub(crate) fn sibling_etag(etag: &HeaderValue, coding: &str) -> Option<HeaderValue> {
    let opaque = etag.as_bytes().strip_suffix(b"\"")?;
    HeaderValue::from_bytes(&[opaque, b"-", coding.as_bytes(), b"\""].concat()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    #[test]
    fn preferred_coding_has_the_highest_quality() {
        for (accepted, coding) in [
            ("gzip, br, zstd", Some(Coding::Brotli)),
            ("gzip, br;q=0.9, zstd", Some(Coding::Zstd)),
            ("gzip", Some(Coding::Gzip)),
            ("GZIP; Q=0.1", Some(Coding::Gzip)),
            ("*", Some(Coding::Brotli)),
            ("br;q=0, *;q=0.5", Some(Coding::Zstd)),
            ("br;q=0", None),
            ("br;q=0.000", None),
            ("br;q=x", None),
            ("br;q=2", None),
            ("identity, br;q=0.5", None),
            ("identity;q=0.5, br", Some(Coding::Brotli)),
            ("deflate, brr", None),
            ("", None),
        ] {
            let mut request = HeaderMap::new();
            request.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            assert_eq!(preferred(&request, &OFFERED), coding, "{accepted}");
        }
        assert_eq!(preferred(&HeaderMap::new(), &OFFERED), None);
        let mut lines = HeaderMap::new();
        lines.append(ACCEPT_ENCODING, HeaderValue::from_static("deflate"));
        lines.append(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        assert_eq!(preferred(&lines, &OFFERED), Some(Coding::Gzip));
        assert_eq!(preferred(&lines, &[]), None);
    }

    #[test]
    fn only_text_of_medium_size_is_encodable() {
        let json = [("content-type", "application/json"), ("etag", "\"a\"")];
        let is_encodable = |fields: &[(&'static str, &'static str)], len| {
            let fields = fields
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            is_encodable(&fields.collect(), len, false)
        };
        for (len, expected) in [(1023, false), (1024, true), (4 << 20, true), ((4 << 20) + 1, false)] {
            assert_eq!(is_encodable(&json, len), expected, "{len}");
        }
        for (content_type, expected) in [
            ("Text/HTML; charset=utf-8", true),
            ("application/problem+json", true),
            ("image/svg+xml", true),
            ("image/png", false),
            ("application/octet-stream", false),
            ("text/event-stream", true),
        ] {
            let fields = [("content-type", content_type), ("etag", "W/\"a\"")];
            assert_eq!(is_encodable(&fields, 2000), expected, "{content_type}");
        }
        for field in [
            ("content-encoding", "gzip"),
            ("cache-control", "max-age=1, No-Transform"),
            ("content-range", "bytes 0-1/2"),
        ] {
            assert!(!is_encodable(&[json[0], json[1], field], 2000), "{field:?}");
        }
        assert!(!is_encodable(&json[..1], 2000), "no entity tag to derive one from");
    }
}
