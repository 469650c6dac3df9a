//! What is wrong, and what to do about it.

use crate::commands::remote::shown::printable;
use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Clients get errors or old values, or will soon.
    Critical,
    /// It works, but worse than it could.
    Warning,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// The part that it is wrong with, or another name for what was asked.
    pub(super) part: String,
    pub(super) finding: String,
    pub(super) advice: String,
}

impl Finding {
    pub(super) fn critical(part: &str, finding: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding {
            severity: Severity::Critical,
            part: part.to_owned(),
            finding: finding.into(),
            advice: advice.into(),
        }
    }

    pub(super) fn warning(part: &str, finding: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, ..Finding::critical(part, finding, advice) }
    }
}

/// For people: each finding with its advice below, in columns for severity and part.
pub(super) fn page(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.part.chars().count()).max().unwrap_or(0);
    let lines = findings.iter().map(|own| {
        let severity = match own.severity {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
        };
        let (finding, advice) = (printable(&own.finding), printable(&own.advice));
        let indent = " ".repeat(severity.len().max(8) + width + 4);
        format!("{severity:8}  {:width$}  {finding}\n{indent}→ {advice}\n", printable(&own.part))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_a_column_for_each_severity_and_part() {
        let findings = [
            Finding::critical("links", "Redis does not answer", "start it"),
            Finding::warning("api responses", "evil\u{1b}[31m\nname", "raise cache_bytes"),
        ];
        let expected = "critical  links          Redis does not answer\n                         → start it\n\
                        warning   api responses  evil\\u{1b}[31m\\nname\n                         → raise cache_bytes\n";
        assert_eq!(page(&findings), expected);
    }
}
