//! Codecs and compressions: from a value to what lies in Redis, and back.

use super::documents::{catalogue, map_of_26};
use super::{Findings, ROUNDS, Scale};
use crate::clock::Took;
use crate::rounds::{self, Entrant, Sample, Value};
use anyhow::Result;
use indicatif::ProgressBar;
use larder::{Codec, Compression, Format, Raw, stored};
use std::sync::Arc;

const COMPRESSIONS: [(&str, Compression); 3] =
    [("", Compression::None), ("+lz4", Compression::Lz4), ("+zstd", Compression::Zstd)];

pub(super) fn measure(scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let many = 50 * scale.documents;
    of("map-26", &map_of_26(), many, bar, findings)?;
    of("json-600k", &catalogue(), scale.documents, bar, findings)
}

fn of<V>(workload: &str, value: &V, times: usize, bar: &ProgressBar, findings: &mut Findings) -> Result<()>
where
    V: Clone + PartialEq + serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let value = Arc::new(value.clone());
    // What a program that encodes its values itself would store.
    let json = Arc::new(serde_json::to_vec(&*value)?);
    let mut entrants = Vec::new();
    for (suffix, compression) in COMPRESSIONS {
        let formats =
            [("postcard", Format::Postcard), ("JSON", Format::Json), ("MessagePack", Format::MessagePack)];
        for (name, format) in formats {
            entrants.push(entrant(format!("{name}{suffix}"), value.clone(), format, compression, times));
        }
        entrants.push(entrant(format!("raw{suffix}"), json.clone(), Raw, compression, times));
    }
    findings.figures.extend(rounds::run(workload, &mut entrants, ROUNDS, bar)?);
    Ok(())
}

fn entrant<V: PartialEq + 'static>(
    subject: String,
    value: Arc<V>,
    codec: impl Codec<V> + Copy,
    compression: Compression,
    times: usize,
) -> Entrant {
    let round = move || {
        let seal = || stored::seal(&*value, &codec, compression).expect("the value can be encoded");
        let bytes = seal();
        let ((), sealing) = Took::by(|| (0..times).for_each(|_| drop(std::hint::black_box(seal()))));
        let open = || stored::open(&bytes, &codec).is_ok_and(|opened| opened == *value);
        let succeeded = (0..1).map(|_| u64::from(open())).sum();
        let ((), opening) = Took::by(|| {
            (0..times).for_each(|_| drop(std::hint::black_box(stored::open::<V>(&bytes, &codec))))
        });
        let each = |took: Took| took.cpu.as_secs_f64() * 1e6 / times as f64;
        let values = vec![
            Value::low("encode", "µs", each(sealing)),
            Value::low("decode", "µs", each(opening)),
            Value::low("size", "KiB", bytes.len() as f64 / 1024.0),
        ];
        Sample { values, succeeded, expected: 1 }
    };
    // A handful of names, for as long as the program runs.
    Entrant { subject: subject.leak(), round: Box::new(round) }
}
