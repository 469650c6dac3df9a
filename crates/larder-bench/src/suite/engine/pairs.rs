//! Slugs and addresses as the URL shortener keeps them: the key in a box, the value behind an `Arc`.

use super::{Entry, Findings, Plan, Scale, run_all, with_headroom};
use crate::alloc;
use crate::clock::Took;
use crate::result::{Better, Figure};
use crate::rounds::Sample;
use crate::subject::{LockedMap, Writable, each_cache};
use crate::workload::Pairs;
use anyhow::Result;
use indicatif::ProgressBar;
use std::sync::Arc;

type Slug = Box<str>;
type Url = Arc<str>;

pub(super) fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    bar.set_message("making addresses");
    let pairs = match &plan.pairs {
        Some(path) => Pairs::read(path)?,
        None => Pairs::made(scale.pairs, plan.seed),
    };
    let source: Arc<[(String, String)]> =
        pairs.iter(scale.pairs).map(|(slug, url)| (slug, url.to_owned())).collect();
    findings.notes.push(format!(
        "Pairs: slugs of 7 characters, addresses of {} in the median{}.",
        pairs.median_length(),
        if plan.pairs.is_some() { ", from a file" } else { ", made ones" }
    ));

    let mut entries: Vec<Entry> = each_cache!(inserts(&source));
    entries.push(inserts::<LockedMap<_, _>>(&source));
    run_all(entries, bar, findings)?;
    let mut figures: Vec<Option<Figure>> = each_cache!(bytes(&source));
    figures.push(bytes::<LockedMap<_, _>>(&source));
    findings.figures.extend(figures.into_iter().flatten());
    Ok(())
}

/// Each round fills an empty cache that grows on the way.
fn inserts<S: Writable<Slug, Url>>(source: &Arc<[(String, String)]>) -> Entry {
    let source = source.clone();
    Entry::new("pairs", S::NAME, move || {
        let subject = S::new(with_headroom(source.len()));
        let ((), took) = Took::by(|| fill(&subject, &source));
        let found = source.iter().filter(|(slug, _)| subject.get(&slug.as_str().into()).is_some()).count();
        Sample { expected: source.len() as u64, ..Sample::throughput(took, source.len(), found as u64) }
    })
}

/// Everything that a pair takes: slug, address, and what the cache adds.
fn bytes<S: Writable<Slug, Url>>(source: &[(String, String)]) -> Option<Figure> {
    let (subject, bytes) = alloc::growth(|| {
        let subject = S::new(with_headroom(source.len()));
        fill(&subject, source);
        subject.settle();
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
