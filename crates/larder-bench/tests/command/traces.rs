//! Published hit ratios of published traces. The traces are not part of the project: `LARDER_TRACES` names their
//! folder. Without it nothing is checked.

use crate::{bench, text};
use std::path::{Path, PathBuf};

fn folder() -> Option<PathBuf> {
    std::env::var_os("LARDER_TRACES").map(PathBuf::from)
}

/// The row of one of our policies, in one shard.
fn row(trace: &Path, format: &str, capacity: u64, more: &[&str]) -> serde_json::Value {
    let capacity = capacity.to_string();
    let flags =
        ["hit-ratio", "--trace", trace.to_str().unwrap(), "--format", format, "--capacity", &capacity];
    let output = bench(&[&flags[..], &["--shards", "1", "--json"], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_str(text(&output.stdout)).unwrap()
}

/// Misses of a plain LRU by bytes, as libCacheSim counts them.
#[test]
fn lru_by_bytes_has_the_published_misses() {
    let Some(folder) = folder() else { return };
    let trace = folder.join("cloudphysics/cloudPhysicsIO.oracleGeneral.bin.xz");
    for (mebibytes, misses) in [(128, 93_374), (256, 89_783), (512, 81_722), (1024, 71_704)] {
        let row = row(&trace, "oracle", mebibytes << 20, &["--bytes", "--policy", "lru"]);
        let missed = row["requests"].as_u64().unwrap() - row["hits"].as_u64().unwrap();
        assert_eq!(missed, misses, "at {mebibytes} MiB");
    }
}

/// Hit ratios of LRU and of the optimum, in percent.
#[test]
fn lru_and_optimum_have_the_published_hit_ratios() {
    let Some(folder) = folder() else { return };
    for (trace, format, capacity, lru, optimum) in [
        ("arc/OLTP.lis.zst", "arc", 250, 16.47, 38.44),
        ("arc/OLTP.lis.zst", "arc", 2000, 42.47, 60.40),
        ("lirs/gli.trace.gz", "lirs", 1500, 36.56, 57.96),
        ("lirs/zigzag.trace.gz", "lirs", 1600, 76.87, 76.88),
        ("lirs/cpp.trace.gz", "lirs", 100, 69.71, 82.56),
        ("cache2k/web07.trace.xz", "i32be", 1024, 50.56, 63.72),
        ("corda/trace_vaultservice.gz", "u64be", 512, 33.33, 33.33),
        ("cloudphysics/cloudPhysicsIO.oracleGeneral.bin.xz", "oracle", 4096, 18.58, 35.00),
    ] {
        let row = row(&folder.join(trace), format, capacity, &["--policy", "lru"]);
        let percent = |field: &str| 100.0 * row[field].as_f64().unwrap();
        assert!((percent("hit_ratio") - lru).abs() < 0.1, "{trace} at {capacity}: {row}");
        assert!((percent("bound_hit_ratio") - optimum).abs() < 0.1, "{trace} at {capacity}: {row}");
    }
}
