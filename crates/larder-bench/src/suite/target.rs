//! Targets: limits for our figures, alone or relative to those of a peer in the same run.

use crate::result::text::format_number;
use crate::result::{Better, Relation, ResultFile, Spread, Verdict, with_unit};

/// The subject whose figures are judged.
const OURS: &str = "larder";

/// A limit for one of our figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    workload: &'static str,
    measure: &'static str,
    relation: Relation,
    /// The peer; empty if our figure is judged alone.
    versus: &'static str,
    limit: f64,
    /// Whether the limit applies to each round instead of the median.
    always: bool,
}

impl Target {
    /// A limit for our figure divided by that of `versus`.
    pub(crate) const fn ratio(
        workload: &'static str,
        measure: &'static str,
        versus: &'static str,
        limit: f64,
    ) -> Self {
        Target { workload, measure, relation: Relation::Ratio, versus, limit, always: false }
    }

    /// A limit for our figure minus that of `versus`.
    pub(crate) const fn lead(
        workload: &'static str,
        measure: &'static str,
        versus: &'static str,
        limit: f64,
    ) -> Self {
        Target { workload, measure, relation: Relation::Lead, versus, limit, always: false }
    }

    /// A limit for the median of our figure.
    pub(crate) const fn value(workload: &'static str, measure: &'static str, limit: f64) -> Self {
        Target { workload, measure, relation: Relation::None, versus: "", limit, always: false }
    }

    /// A limit for our figure in every round.
    pub(crate) const fn always(workload: &'static str, measure: &'static str, limit: f64) -> Self {
        Target { workload, measure, relation: Relation::None, versus: "", limit, always: true }
    }

    /// The workload and the measure that are judged.
    #[cfg(test)]
    pub(crate) fn workload_and_measure(&self) -> (&'static str, &'static str) {
        (self.workload, self.measure)
    }

    /// Compares the figures with the limit; `None` if one of them is missing or has no rounds, or if a ratio is to zero.
    pub(crate) fn judge(&self, file: &ResultFile) -> Option<Verdict> {
        let ours = file.find(self.workload, self.measure, OURS)?;
        let values = match self.relation {
            Relation::None => ours.rounds.clone(),
            Relation::Ratio | Relation::Lead => {
                ours.related(file.find(self.workload, self.measure, self.versus)?, self.relation)
            }
        };
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let value = Spread::of(values);
        let met = match (ours.better, self.always) {
            (Better::Lower, false) => value.median <= self.limit,
            (Better::Lower, true) => value.high <= self.limit,
            (Better::Higher, false) => value.median >= self.limit,
            (Better::Higher, true) => value.low >= self.limit,
        };
        Some(Verdict {
            workload: self.workload.to_owned(),
            measure: self.measure.to_owned(),
            relation: self.relation,
            versus: self.versus.to_owned(),
            unit: ours.unit.clone(),
            better: ours.better,
            limit: self.limit,
            value,
            met,
        })
    }
}

impl Verdict {
    /// The judged figure or ratio: `get-zipf time ÷ moka`, or `memory filled, B/entry`.
    pub(crate) fn label(&self) -> String {
        let Verdict { workload, measure, versus, unit, .. } = self;
        match self.relation {
            Relation::Ratio => format!("{workload} {measure} ÷ {versus}"),
            Relation::Lead => format!("{workload} {measure} − {versus}, points"),
            Relation::None => format!("{workload} {}", with_unit(measure, unit)),
        }
    }

    pub(crate) fn limit_text(&self) -> String {
        let sign = if self.better == Better::Lower { "≤" } else { "≥" };
        format!("{sign} {}", format_number(self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::{figure, file};

    #[test]
    fn ratio_is_computed_round_by_round() {
        let figures = vec![
            figure("get", "larder", "time", Better::Lower, &[10.0, 40.0, 12.0]),
            figure("get", "moka", "time", Better::Lower, &[20.0, 80.0, 20.0]),
        ];
        let file = file(figures);
        let verdict = Target::ratio("get", "time", "moka", 0.5).judge(&file).unwrap();
        assert_eq!(verdict.value, Spread { low: 0.5, median: 0.5, high: 0.6 });
        assert!(verdict.met);
        assert!(!Target::ratio("get", "time", "moka", 0.49).judge(&file).unwrap().met);
        assert!(Target::ratio("get", "time", "absent", 1.0).judge(&file).is_none());
        assert_eq!(Target::lead("get", "time", "moka", 0.0).judge(&file).unwrap().value.median, -10.0);
    }

    #[test]
    fn figures_without_common_rounds_or_with_a_ratio_to_zero_are_not_judged() {
        let figures = vec![
            figure("get", "larder", "time", Better::Lower, &[1.0]),
            figure("get", "empty", "time", Better::Lower, &[]),
            figure("get", "zero", "time", Better::Lower, &[0.0]),
            figure("set", "larder", "time", Better::Lower, &[]),
        ];
        let file = file(figures);
        for target in [
            Target::ratio("get", "time", "empty", 1.0),
            Target::lead("get", "time", "empty", 1.0),
            Target::ratio("get", "time", "zero", 1.0),
            Target::value("set", "time", 1.0),
        ] {
            assert_eq!(target.judge(&file), None, "{target:?}");
        }
    }

    #[test]
    fn limit_applies_to_the_better_direction_and_to_every_round() {
        let figures = vec![
            figure("fill", "larder", "throughput", Better::Higher, &[3.0, 1.0, 4.0]),
            figure("churn", "larder", "longest", Better::Lower, &[0.1, 2.0, 0.1]),
        ];
        let file = file(figures);
        assert!(Target::value("fill", "throughput", 3.0).judge(&file).unwrap().met);
        assert!(!Target::value("fill", "throughput", 3.1).judge(&file).unwrap().met);
        assert!(!Target::always("churn", "longest", 1.0).judge(&file).unwrap().met);
        assert!(Target::always("churn", "longest", 2.0).judge(&file).unwrap().met);
    }
}
