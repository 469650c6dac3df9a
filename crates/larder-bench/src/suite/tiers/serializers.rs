//! Codecs and compressions: encoding a value for Redis, and decoding it.

use super::{Findings, ROUNDS, Scale};
use crate::measure::clock::Timing;
use crate::measure::rounds::{self, Runner, Sample, Value};
use crate::workload::{catalogue, map_of_26};
use anyhow::Result;
use indicatif::ProgressBar;
use larder::{Codec, Compression, Format, Raw, stored};
use std::sync::Arc;

const COMPRESSIONS: [(&str, Compression); 3] =
    [("", Compression::None), ("+lz4", Compression::Lz4), ("+zstd", Compression::Zstd)];

pub(super) fn measure(scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let many = 50 * scale.documents;
    measure_document("map-26", &map_of_26(), many, bar, findings)?;
    measure_document("json-600k", &catalogue(), scale.documents, bar, findings)
}

fn measure_document<V>(
    workload: &str,
    value: &V,
    times: usize,
    bar: &ProgressBar,
    findings: &mut Findings,
) -> Result<()>
where
    V: Clone + PartialEq + serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let value = Arc::new(value.clone());
    // The bytes that a program stores if it encodes its values itself.
    let json = Arc::new(serde_json::to_vec(&*value)?);
    let mut runners = Vec::new();
    for (suffix, compression) in COMPRESSIONS {
        let formats =
            [("postcard", Format::Postcard), ("JSON", Format::Json), ("MessagePack", Format::MessagePack)];
        for (name, format) in formats {
            runners.push(runner(format!("{name}{suffix}"), value.clone(), format, compression, times));
        }
        runners.push(runner(format!("raw{suffix}"), json.clone(), Raw, compression, times));
    }
    findings.figures.extend(rounds::run(workload, &mut runners, ROUNDS, bar)?);
    Ok(())
}

fn runner<V: PartialEq + 'static>(
    subject: String,
    value: Arc<V>,
    codec: impl Codec<V> + Copy,
    compression: Compression,
    times: usize,
) -> Runner {
    let round = move || {
        let seal = || stored::seal(&*value, &codec, compression).expect("the value can be encoded");
        let bytes = seal();
        let ((), sealing) = Timing::measure(|| (0..times).for_each(|_| drop(std::hint::black_box(seal()))));
        let open = || stored::open(&bytes, &codec).is_ok_and(|opened| opened == *value);
        let succeeded = u64::from(open());
        let ((), opening) = Timing::measure(|| {
            (0..times).for_each(|_| drop(std::hint::black_box(stored::open::<V>(&bytes, &codec))))
        });
        let each = |timing: Timing| timing.cpu.as_secs_f64() * 1e6 / times as f64;
        let values = vec![
            Value::low("encode", "µs", each(sealing)),
            Value::low("decode", "µs", each(opening)),
            Value::low("size", "KiB", bytes.len() as f64 / 1024.0),
        ];
        Sample { values, succeeded, expected: 1 }
    };
    // Leaks a few names per run of the program.
    Runner { subject: subject.leak(), round: Box::new(round) }
}
