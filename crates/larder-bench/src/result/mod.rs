//! The result file of a suite: every round of every figure, and the conditions of the run.

pub(crate) mod grid;
pub(crate) mod text;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The version of the file format. Raise it if a file of an earlier version could be misread.
const FORM: u32 = 1;

/// The data of a report, in the folder of its result files.
pub(crate) const REPORT_FILE: &str = "report.json";

/// A load average above this at the start means that other processes were running.
const BUSY_LOAD: f64 = 0.5;

/// The unit of an event: 1 in a round in which it occurred, 0 in the others. In rounds with many keys, the share of those for
/// which it did.
pub(crate) const OCCURRED: &str = "occurred";

/// The results of one suite.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ResultFile {
    pub(crate) form: u32,
    pub(crate) suite: String,
    /// Whether workloads were shortened: such figures are only a first impression.
    pub(crate) quick: bool,
    pub(crate) seed: u64,
    pub(crate) date: String,
    /// The commit of the source, if it is known.
    pub(crate) commit: Option<String>,
    /// Whether the program was built without optimisation, which makes all times meaningless.
    pub(crate) debug_build: bool,
    pub(crate) machine: Machine,
    /// The crates that were measured.
    pub(crate) versions: BTreeMap<String, String>,
    /// Facts that a reader needs to judge the figures.
    pub(crate) notes: Vec<String>,
    pub(crate) figures: Vec<Figure>,
    /// What a number alone would not tell, for single figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<Remark>,
    /// The commands that measured, for a reader who wants to repeat one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) commands: Vec<String>,
    pub(crate) verdicts: Vec<Verdict>,
}

/// A remark on one subject in one workload, for example why it has no figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Remark {
    pub(crate) workload: String,
    pub(crate) subject: String,
    pub(crate) text: String,
}

/// The machine of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) threads: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    /// The load average of the last minute at the start of the run.
    pub(crate) load_average: f64,
}

/// One measure of one subject in one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) workload: String,
    pub(crate) subject: String,
    pub(crate) measure: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    /// The value of each round, in the order in which they were run. At least one, and all finite: a file with others is
    /// refused.
    #[serde(deserialize_with = "numbers")]
    pub(crate) rounds: Vec<f64>,
}

/// JSON has no number for what is not finite, and `null` is written instead. It is read as NaN, so that the check of the
/// figures can name the one that has it.
fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let numbers = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect())
}

/// Whether lower or higher values of a figure are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// What a target judges: our figure alone, or in relation to that of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Relation {
    /// Our figure alone.
    None,
    /// Our figure divided by the peer's.
    Ratio,
    /// Our figure minus the peer's.
    Lead,
}

/// A target, and the value that the figures have for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) workload: String,
    pub(crate) measure: String,
    pub(crate) relation: Relation,
    /// The peer; empty if our figure is judged alone.
    pub(crate) versus: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) limit: f64,
    pub(crate) value: Spread,
    pub(crate) met: bool,
}

/// The median of some values, their minimum and their maximum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// # Panics
    /// If `values` is empty.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Spread { low: values[0], median, high: values[values.len() - 1] }
    }
}

impl Figure {
    pub(crate) fn spread(&self) -> Spread {
        Spread::of(self.rounds.iter().copied())
    }

    /// The figure in relation to that of a peer, round by round: a disturbance of the machine affects both figures of a round.
    pub(crate) fn related(&self, theirs: &Figure, relation: Relation) -> Vec<f64> {
        let relate = |(ours, theirs): (&f64, &f64)| match relation {
            Relation::None => *ours,
            Relation::Ratio => ours / theirs,
            Relation::Lead => ours - theirs,
        };
        self.rounds.iter().zip(&theirs.rounds).map(relate).collect()
    }

    /// Checks what [`Figure::spread`] and the reports rely on.
    fn check(&self) -> Result<()> {
        ensure!(!self.rounds.is_empty(), "{} has no rounds", self.label());
        let is_finite = self.rounds.iter().all(|round| round.is_finite());
        ensure!(is_finite, "{} has a round that is no number", self.label());
        Ok(())
    }

    /// The figure in a sentence.
    pub(crate) fn label(&self) -> String {
        format!("{} {} of {}", self.workload, self.measure, self.subject)
    }

    /// Identifies the figure in its file.
    pub(crate) fn id(&self) -> (&str, &str, &str) {
        (&self.workload, &self.measure, &self.subject)
    }
}

impl ResultFile {
    /// The version of the file format.
    pub(crate) const fn form() -> u32 {
        FORM
    }

    pub(crate) fn find(&self, workload: &str, measure: &str, subject: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id() == (workload, measure, subject))
    }

    /// The workloads, in the order in which they were run.
    pub(crate) fn workloads(&self) -> Vec<&str> {
        distinct(self.figures.iter().map(|figure| figure.workload.as_str()))
    }

    /// The subjects of a workload.
    pub(crate) fn subjects(&self, workload: &str) -> Vec<&str> {
        distinct(self.figures_of(workload).map(|figure| figure.subject.as_str()))
    }

    /// The measures of a workload, with their units.
    pub(crate) fn measures(&self, workload: &str) -> Vec<(&str, &str)> {
        distinct(self.figures_of(workload).map(|figure| (figure.measure.as_str(), figure.unit.as_str())))
    }

    fn figures_of(&self, workload: &str) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(move |figure| figure.workload == workload)
    }

    /// Reasons why the figures may be unreliable.
    pub(crate) fn caveats(&self) -> Vec<String> {
        let mut caveats = Vec::new();
        if self.debug_build {
            caveats.push("Built without optimisation: the times are meaningless.".to_owned());
        }
        if self.quick {
            let targets = if self.verdicts.is_empty() { "" } else { " The targets are those of a full run." };
            caveats.push(format!("A quick run: workloads were shortened.{targets}"));
        }
        if self.machine.load_average > BUSY_LOAD {
            let load = self.machine.load_average;
            caveats.push(format!("The machine was busy before the run: load average {load}."));
        }
        caveats.extend(self.notes.iter().cloned());
        caveats
    }

    /// Writes the file as `<suite>.json` and returns its path.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf> {
        create_folder(folder)?;
        let path = folder.join(format!("{}.json", self.suite));
        let json = serde_json::to_string_pretty(self)?;
        std::fs::write(&path, json + "\n").with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let json = std::fs::read(path).with_context(|| format!("cannot open {name}"))?;
        let file: ResultFile =
            serde_json::from_slice(&json).with_context(|| format!("{name} is not a result file"))?;
        if file.form != FORM {
            bail!("{name} has format version {}; this program reads version {FORM}", file.form);
        }
        for figure in &file.figures {
            figure.check().with_context(|| format!("{name}"))?;
        }
        Ok(file)
    }

    /// Reads a result file, or all result files of a folder.
    pub(crate) fn read_all(path: &Path) -> Result<Vec<Self>> {
        if !path.is_dir() {
            return Ok(vec![Self::read(path)?]);
        }
        let mut paths: Vec<PathBuf> = std::fs::read_dir(path)
            .with_context(|| format!("cannot open {}", path.display()))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .filter(|path| path.file_name().is_some_and(|name| name != REPORT_FILE))
            .collect();
        paths.sort();
        if paths.is_empty() {
            bail!("{} has no result files", path.display());
        }
        paths.iter().map(|path| Self::read(path)).collect()
    }
}

/// The name of a measure with its unit, if it has one.
pub(crate) fn with_unit(measure: &str, unit: &str) -> String {
    if unit.is_empty() { measure.to_owned() } else { format!("{measure}, {unit}") }
}

/// Creates the folder of the result files, and writes a file into it that is removed at once. A run calls it first, so that it
/// does not measure what it cannot write.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    let name = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {name}"))?;
    let probed = tempfile::tempfile_in(folder).and_then(|mut file| file.write_all(b"probe"));
    probed.with_context(|| format!("cannot write into {name}"))
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::suite::Target;

    pub(crate) fn figure(
        workload: &str,
        subject: &str,
        measure: &str,
        better: Better,
        rounds: &[f64],
    ) -> Figure {
        let [workload, subject, measure] = [workload, subject, measure].map(str::to_owned);
        Figure { workload, subject, measure, unit: "ns".to_owned(), better, rounds: rounds.to_vec() }
    }

    pub(crate) fn file(figures: Vec<Figure>) -> ResultFile {
        ResultFile {
            form: FORM,
            suite: "engine".to_owned(),
            quick: false,
            seed: 1,
            date: "today".to_owned(),
            commit: None,
            debug_build: false,
            machine: crate::measure::machine::machine(),
            versions: BTreeMap::new(),
            notes: Vec::new(),
            figures,
            remarks: Vec::new(),
            commands: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    #[test]
    fn caveat_of_a_quick_run_says_for_which_runs_targets_are() {
        let mut file = file(vec![figure("get", "larder", "time", Better::Lower, &[1.0])]);
        file.quick = true;
        let has = |file: &ResultFile| file.caveats().iter().any(|caveat| caveat.contains("targets"));
        assert!(!has(&file));
        file.verdicts.extend(Target::value("get", "time", 1.0).judge(&file));
        assert!(has(&file));
    }

    #[test]
    fn median_of_an_even_count_is_the_mean_of_the_middle() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { low: 1.0, median: 2.0, high: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
    }

    #[test]
    fn folder_of_results_is_created_and_probed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a/b");
        create_folder(&folder).unwrap();
        create_folder(&folder).unwrap();
        assert_eq!(folder.read_dir().unwrap().count(), 0);
        let file = parent.path().join("file");
        std::fs::write(&file, "").unwrap();
        for wrong in [file.clone(), file.join("a")] {
            let message = create_folder(&wrong).unwrap_err().to_string();
            assert_eq!(message, format!("cannot create {}", wrong.display()));
        }
        // Nobody can write there, not even root.
        let message = create_folder(Path::new("/proc")).unwrap_err().to_string();
        assert_eq!(message, "cannot write into /proc");
    }

    #[test]
    fn read_of_a_foreign_file_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.json");
        std::fs::write(&path, "{}").unwrap();
        assert!(
            ResultFile::read(&path).unwrap_err().to_string().ends_with("engine.json is not a result file")
        );
        std::fs::remove_file(&path).unwrap();
        assert!(
            ResultFile::read_all(folder.path()).unwrap_err().to_string().ends_with("has no result files")
        );
    }
}
