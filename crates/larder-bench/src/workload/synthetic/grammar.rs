//! The text that describes a workload: `KIND` or `KIND:NAME=VALUE,NAME=VALUE…`. What is left out has its default.
//!
//! Every value is compared with its range here, before anything is allocated for it.

use super::Synthetic;
use super::kinds::{COMMON, KINDS, Kind, Parameter};
use std::str::FromStr;

impl FromStr for Synthetic {
    type Err = String;

    /// # Errors
    /// Which part is wrong, and what is allowed there.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let kind = KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
            format!("there is no workload {name:?}; there are {}", listed(KINDS.iter().map(|kind| kind.name)))
        })?;
        let mut synthetic = Synthetic {
            kind,
            values: parameters(kind).map(|parameter| (parameter, parameter.default)).collect(),
        };
        let mut seen = Vec::new();
        for setting in settings.split(',').filter(|_| !settings.is_empty()) {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(format!("{setting:?} is not of the form NAME=VALUE"));
            };
            if seen.contains(&name) {
                return Err(format!("{name} is given twice"));
            }
            seen.push(name);
            synthetic.set(name, value)?;
        }
        Ok(synthetic)
    }
}

impl Synthetic {
    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let Some((parameter, value)) = self.values.iter_mut().find(|(parameter, _)| parameter.name == name)
        else {
            let names = listed(parameters(self.kind).map(|parameter| parameter.name));
            return Err(format!("{} has no parameter {name:?}; it has {names}", self.kind.name));
        };
        *value = parameter.parse(text)?;
        Ok(())
    }
}

impl Parameter {
    fn parse(&self, text: &str) -> Result<f64, String> {
        let Parameter { name, least, most, whole, .. } = *self;
        // Digits alone: `1e3` is a number, but not a whole one in any command line.
        let value = if whole { text.parse::<u64>().ok().map(|n| n as f64) } else { text.parse::<f64>().ok() };
        value.filter(|value| (least..=most).contains(value)).ok_or_else(|| {
            let number = if whole { "a whole number" } else { "a number" };
            format!("{name}={text}: {name} is {number} from {least} to {most}")
        })
    }
}

fn parameters(kind: &'static Kind) -> impl Iterator<Item = &'static Parameter> {
    kind.parameters.iter().chain(COMMON)
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
