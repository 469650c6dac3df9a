//! The links of document 0: those of a file, or generated ones.

use crate::suite::Plan;
use crate::workload::Pairs;
use anyhow::Result;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use std::path::PathBuf;

/// As many as the collection of real links has that the shortener is tested with.
const LINKS: usize = 29_588;
/// The lines of the file from which the users of siege choose.
const URLS: usize = 50_000;
const SKEW: f64 = 0.99;

/// Slugs and addresses, and what makes them again in another process.
pub(crate) struct Collection {
    /// The popular ones first.
    pub(crate) links: Vec<(String, String)>,
    file: Option<PathBuf>,
    seed: u64,
}

impl Collection {
    /// # Errors
    /// If the file that the plan names has no addresses.
    pub(crate) fn of(plan: &Plan) -> Result<Self> {
        let pairs = Pairs::of(plan.pairs.as_deref(), LINKS, plan.seed)?;
        let links = pairs.iter(LINKS).map(|(slug, address)| (slug, address.to_owned())).collect();
        Ok(Collection { links, file: plan.pairs.clone(), seed: plan.seed })
    }

    /// What a reader of the figures needs to know about the links.
    pub(crate) fn note(&self) -> String {
        let count = larder_terminal::grouped(self.links.len() as u64);
        match &self.file {
            Some(file) => {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                format!("The addresses of the {count} links come from the file {name}.")
            }
            None => format!(
                "The {count} links are generated from the seed, with the lengths of real addresses; --pairs FILE.csv uses others."
            ),
        }
    }

    /// What `bench serve` is told to serve the links in one of its designs.
    pub(super) fn arguments(&self, design: &str) -> Vec<String> {
        let (links, seed) = (self.links.len().to_string(), self.seed.to_string());
        let arguments = ["redirect", "--design", design, "--links", &links, "--seed", &seed];
        let file = self.file.iter().flat_map(|file| ["--pairs".to_owned(), file.display().to_string()]);
        arguments.map(str::to_owned).into_iter().chain(file).collect()
    }

    /// Slugs, the popular ones more often.
    pub(crate) fn zipf_slugs(&self) -> Vec<&str> {
        let mut random = SmallRng::seed_from_u64(self.seed);
        let ranks = Zipf::new(self.links.len() as f64, SKEW).expect("the parameters are in range");
        let slug = |_| self.links[random.sample::<f64, _>(ranks) as usize - 1].0.as_str();
        (0..URLS).map(slug).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write;

    pub(in crate::suite::documents) fn plan(pairs: Option<PathBuf>) -> Plan {
        Plan { quick: true, seed: 7, pairs, traces: None }
    }

    #[test]
    fn zipf_slugs_repeat_the_first_links() {
        let collection = Collection::of(&plan(None)).unwrap();
        let slugs = collection.zipf_slugs();
        let first = slugs.iter().filter(|slug| **slug == collection.links[0].0).count();
        assert!(slugs.len() == URLS && first > URLS / 20, "{first}");
    }

    #[test]
    fn note_tells_which_links_were_used() {
        let generated = Collection::of(&plan(None)).unwrap().note();
        assert!(generated.starts_with("The 29,588 links are generated from the seed"), "{generated}");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "name,url\na,https://a.example/").unwrap();
        let collection = Collection::of(&plan(Some(file.path().to_owned()))).unwrap();
        let name = file.path().file_name().unwrap().to_string_lossy();
        assert!(collection.note().ends_with(&format!("come from the file {name}.")));
        assert!(collection.arguments("direct").contains(&"--pairs".to_owned()));
        assert_eq!(collection.links[9].1, "https://a.example/");
    }
}
