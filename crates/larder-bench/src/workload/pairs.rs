//! Slugs and their target addresses, as a URL shortener stores them.

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::path::Path;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The deciles of the lengths of real home page addresses; half have at most 38 characters.
const LENGTH_DECILES: [usize; 11] = [16, 26, 30, 33, 35, 38, 40, 43, 47, 54, 110];

/// Addresses, and a slug for each pair.
pub(crate) struct Pairs {
    urls: Vec<String>,
}

impl Pairs {
    /// Generated addresses of realistic lengths.
    pub(crate) fn generated(count: usize, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        Pairs { urls: (0..count).map(|_| generate_url(&mut random)).collect() }
    }

    /// Those of a file if there is one, else `count` generated ones.
    pub(crate) fn of(path: Option<&Path>, count: usize, seed: u64) -> Result<Self> {
        path.map_or_else(|| Ok(Pairs::generated(count, seed)), Pairs::read)
    }

    /// The addresses in the column `url` of a CSV file, as `larder links import` reads them. A row without one is left out.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut lines = text.lines();
        let heading = lines.next().unwrap_or_default();
        let column = heading.split(',').position(|name| name.trim().eq_ignore_ascii_case("url"));
        let column = column.with_context(|| format!("{} has no column url", path.display()))?;
        // A quoted name may contain commas, an address has none unquoted: count the columns from the right.
        let from_right = heading.split(',').count() - 1 - column;
        let url = |line: &str| line.rsplit(',').nth(from_right).map(|url| url.trim_matches('"').to_owned());
        let is_url = |text: &String| text.starts_with("http://") || text.starts_with("https://");
        let (urls, others): (Vec<String>, Vec<String>) = lines.filter_map(url).partition(is_url);
        let name = path.display();
        let other = others.iter().find(|text| !text.is_empty());
        match other {
            Some(other) if urls.is_empty() => {
                bail!("{name} has no address in the column url: {other:?}, expected http:// or https://")
            }
            _ => ensure!(!urls.is_empty(), "{name} has no addresses"),
        }
        Ok(Pairs { urls })
    }

    /// `count` pairs. The addresses repeat if there are fewer, the slugs do not.
    pub(crate) fn iter(&self, count: usize) -> impl Iterator<Item = (String, &str)> {
        let urls = self.urls.iter().cycle().take(count).map(String::as_str);
        urls.enumerate().map(|(n, url)| (slug(n as u64), url))
    }

    pub(crate) fn median_length(&self) -> usize {
        let mut lengths: Vec<usize> = self.urls.iter().map(String::len).collect();
        lengths.sort_unstable();
        lengths[lengths.len() / 2]
    }
}

fn generate_url(random: &mut SmallRng) -> String {
    let decile = random.random_range(0..10);
    let length = random.random_range(LENGTH_DECILES[decile]..=LENGTH_DECILES[decile + 1]);
    let mut url = String::with_capacity(length);
    url.push_str("https://");
    while url.len() < length {
        let letter = DIGITS[random.random_range(36..62)] as char;
        let separator = url.len() % 9 == 8;
        url.push(if separator && url.len() < length / 2 {
            '.'
        } else if separator {
            '/'
        } else {
            letter
        });
    }
    url
}

/// The `n`th slug: seven characters in no apparent order.
fn slug(n: u64) -> String {
    // The factor is coprime to 62, so that distinct numbers below 62^7 stay distinct.
    let mut rest = (n.wrapping_mul(2_305_843_009) + 1_000_003) % 62u64.pow(7);
    let digit = |_| {
        let digit = DIGITS[(rest % 62) as usize];
        rest /= 62;
        digit as char
    };
    (0..7).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::io::Write;

    #[test]
    fn generated_pairs_have_distinct_slugs_and_realistic_lengths() {
        let pairs = Pairs::generated(20_000, 3);
        let slugs: HashSet<String> = pairs.iter(50_000).map(|(slug, _)| slug).collect();
        assert_eq!(slugs.len(), 50_000);
        assert!(slugs.iter().all(|slug| slug.len() == 7));
        assert!((37..=39).contains(&pairs.median_length()), "{}", pairs.median_length());
    }

    #[test]
    fn read_of_a_csv_file_returns_its_addresses() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "name,url\n\"a, b\",https://a.example/\nc,\"https://c.example/\"\n\nd,").unwrap();
        let pairs = Pairs::read(file.path()).unwrap();
        let urls: Vec<&str> = pairs.iter(3).map(|(_, url)| url).collect();
        assert_eq!(urls, ["https://a.example/", "https://c.example/", "https://a.example/"]);
    }

    #[test]
    fn read_without_an_address_in_the_column_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "name,url\na,\nb,seven").unwrap();
        let error = Pairs::read(file.path()).err().unwrap().to_string();
        let expected = " has no address in the column url: \"seven\", expected http:// or https://";
        assert!(error.ends_with(expected), "{error}");
        writeln!(file, "c,https://c.example/").unwrap();
        let pairs = Pairs::read(file.path()).unwrap();
        assert!(pairs.iter(2).all(|(_, url)| url == "https://c.example/"));
    }

    #[test]
    fn read_without_column_url_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "name,link\na,b").unwrap();
        let error = Pairs::read(file.path()).err().unwrap().to_string();
        assert!(error.ends_with("has no column url"), "{error}");
    }
}
