//! Slugs and addresses as the URL shortener stores them: the key in a `Box`, the value in an `Arc`.

use super::{Case, Findings, Plan, Scale, run_all, with_headroom};
use crate::measure::alloc;
use crate::measure::clock::Timing;
use crate::measure::rounds::Sample;
use crate::result::{Better, Figure};
use crate::subject::{LockedMap, Writable, each_cache};
use crate::workload::Pairs;
use anyhow::Result;
use indicatif::ProgressBar;
use std::sync::Arc;

type Slug = Box<str>;
type Url = Arc<str>;

pub(super) fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    bar.set_message("generating addresses");
    let pairs = match &plan.pairs {
        Some(path) => Pairs::read(path)?,
        None => Pairs::generated(scale.pairs, plan.seed),
    };
    let source: Arc<[(String, String)]> =
        pairs.iter(scale.pairs).map(|(slug, url)| (slug, url.to_owned())).collect();
    findings.notes.push(format!(
        "Pairs: slugs of 7 characters, addresses with a median of {} characters{}.",
        pairs.median_length(),
        if plan.pairs.is_some() { ", from a file" } else { ", generated" }
    ));

    let mut cases: Vec<Case> = each_cache!(inserts(&source));
    cases.push(inserts::<LockedMap<_, _>>(&source));
    run_all(cases, bar, findings)?;
    let mut figures: Vec<Option<Figure>> = each_cache!(bytes(&source));
    figures.push(bytes::<LockedMap<_, _>>(&source));
    findings.figures.extend(figures.into_iter().flatten());
    Ok(())
}

/// Each round fills an empty cache, which grows meanwhile.
fn inserts<S: Writable<Slug, Url>>(source: &Arc<[(String, String)]>) -> Case {
    let source = source.clone();
    Case::new("pairs", S::NAME, move || {
        let subject = S::new(with_headroom(source.len()));
        let ((), timing) = Timing::measure(|| fill(&subject, &source));
        let found = source.iter().filter(|(slug, _)| subject.get(&slug.as_str().into()).is_some()).count();
        Sample { expected: source.len() as u64, ..Sample::throughput(timing, source.len(), found as u64) }
    })
}

/// The total memory per pair: slug, address, and the overhead of the cache.
fn bytes<S: Writable<Slug, Url>>(source: &[(String, String)]) -> Option<Figure> {
    let (subject, bytes) = alloc::measure_growth(|| {
        let subject = S::new(with_headroom(source.len()));
        fill(&subject, source);
        subject.complete_deferred_work();
        subject
    })?;
    drop(subject);
    Some(Figure {
        workload: "pairs".to_owned(),
        subject: S::NAME.to_owned(),
        measure: "memory".to_owned(),
        unit: "B/pair".to_owned(),
        better: Better::Lower,
        rounds: vec![bytes as f64 / source.len() as f64],
    })
}

fn fill<S: Writable<Slug, Url>>(subject: &S, source: &[(String, String)]) {
    for (slug, url) in source {
        subject.insert(slug.as_str().into(), url.as_str().into());
    }
}
