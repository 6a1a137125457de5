//! The repository's own rules, checked where rules can be.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn files(dir: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != "fixtures" {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|found| found == ending) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root().join("crates"), "rs", &mut found);
    found
}

/// What `ARCHITECTURE.md` says about who may depend on whom.
#[test]
fn crates_depend_only_on_what_they_may() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("core", &[] as &[&str]),
        ("store", &["core"]),
        ("raft", &["core", "store", "protocol"]),
        ("sim", &["core", "store", "raft"]),
        ("backup", &["core", "store"]),
        ("trust", &[]),
        ("protocol", &[]),
        ("agent", &["protocol", "trust"]),
        ("worker", &["protocol", "agent", "trust"]),
        ("api", &["core"]),
        ("server", &["core", "store", "raft", "backup", "trust", "worker", "api", "protocol"]),
        ("client", &["api", "core", "trust"]),
        ("cli", &["core", "store", "backup", "api", "server", "client", "agent", "worker"]),
    ]);
    for (name, may) in allowed {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let text = std::fs::read_to_string(manifest).unwrap();
        let built_in = text.split("[dev-dependencies]").next().unwrap();
        for line in built_in.lines() {
            if let Some(rest) = line.strip_prefix("bellwether-") {
                let dependency = rest.split(['.', ' ', '=']).next().unwrap();
                assert!(may.contains(&dependency), "{name} must not depend on {dependency}");
            }
        }
    }
}

#[test]
fn files_are_of_a_size_one_can_read() {
    for path in sources() {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 600, "{} has {lines} lines; find the seam", path.display());
    }
}

#[test]
fn every_module_says_what_it_is() {
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        let documented = text.starts_with("//!") || text.starts_with("#![doc");
        assert!(documented, "{} has no module documentation", path.display());
    }
}

/// The requirements this version is to meet, each with a test that carries its number.
#[test]
fn every_requirement_has_a_test_with_its_number() {
    let wanted = [
        1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 17, 18, 19, 22, 23, 24, 25, 26, 27, 28, 29,
        32, 37, 39, 42, 44, 46, 47, 48, 49, 51, 52, 53, 54, 55, 56, 57, 58, 64, 65, 70, 71, 72, 73,
        66, 67, 68, 69, 74, 83, 84, 85, 91, 92, 93, 94, 96, 97, 98, 99, 101, 111, 112, 113, 114,
        115, 116, 117, 118, 120, 123, 125, 126, 129, 134,
    ];
    let mut named = BTreeSet::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| line.contains("fn r")) {
            let name = line.split("fn ").nth(1).unwrap_or("");
            for part in name.split('_') {
                if let Some(number) = part.strip_prefix('r').and_then(|n| n.parse::<u32>().ok()) {
                    named.insert(number);
                }
            }
        }
    }
    let missing: Vec<_> = wanted.into_iter().filter(|number| !named.contains(number)).collect();
    assert!(missing.is_empty(), "no test is named for R{missing:?}");
}

/// Codes are part of the interface: whoever meets one can look it up, and none is left behind.
#[test]
fn every_error_code_is_in_the_manual_and_the_other_way_round() {
    let manual = std::fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let anchors = manual.split("<a id=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let explained: BTreeSet<String> = anchors.map(str::to_owned).collect();
    let is_code = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let mut used = BTreeSet::new();
    let mut mentioned = BTreeSet::new();
    for path in sources().iter().filter(|path| !path.to_string_lossy().contains("/tests")) {
        let text = std::fs::read_to_string(path).unwrap();
        let parts: Vec<&str> = text.split('"').collect();
        for pair in parts.windows(2) {
            let (before, word) = (pair[0].trim_end(), pair[1]);
            if word.is_empty() || !is_code(word) {
                continue;
            }
            mentioned.insert(word.to_owned());
            let made = ["ScheduleError::new(", "invalid(", "conflict(", "bad(", "code:"];
            let numbered = before.rsplit_once("Problem::new(").is_some_and(|(_, rest)| {
                rest.len() <= 5 && rest.trim_end_matches(',').parse::<u16>().is_ok()
            });
            if numbered || made.iter().any(|end| before.ends_with(end)) {
                used.insert(word.to_owned());
            }
        }
    }
    let missing: Vec<_> = used.difference(&explained).collect();
    assert!(missing.is_empty(), "docs/errors.md does not explain {missing:?}");
    let stale: Vec<_> = explained.difference(&mentioned).collect();
    assert!(stale.is_empty(), "docs/errors.md explains {stale:?}, which nothing says");
    assert!(used.len() > 40, "the search for codes finds too little: {used:?}");
}

/// The page on guarantees names the tests that show them: they are there.
#[test]
fn guarantees_are_shown_by_tests_that_exist() {
    let page = std::fs::read_to_string(root().join("docs/guarantees.md")).unwrap();
    let words = page.split('`').skip(1).step_by(2);
    let named: BTreeSet<&str> = words.filter(|word| word.matches('_').count() > 4).collect();
    let code: Vec<String> =
        sources().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for name in &named {
        let start = format!("fn {name}(");
        assert!(code.iter().any(|text| text.contains(&start)), "there is no test {name}");
    }
    assert!(named.len() > 20, "{named:?}");
}

/// An alert on a metric that is not there would never tell anything.
#[test]
fn alert_rules_name_metrics_that_exist() {
    let page = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let code = std::fs::read_to_string(root().join("crates/server/src/metrics.rs")).unwrap();
    let rules = page.lines().filter(|line| line.trim_start().starts_with("expr:"));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named: BTreeSet<&str> = rules
        .flat_map(|rule| rule.split(|c| !is_name(c)))
        .filter_map(|word| word.strip_prefix("bellwether_"))
        .collect();
    for name in &named {
        // What the format puts behind a name: counters, histograms, units.
        let name = name.trim_end_matches("_total").trim_end_matches("_bucket");
        let bare = format!("\"{}\"", name.trim_end_matches("_seconds"));
        assert!(code.contains(&bare), "there is no metric bellwether_{name}");
    }
    assert!(named.len() > 6, "{named:?}");
}
