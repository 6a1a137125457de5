//! The configuration file.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Values;
use crate::exit::usage;

/// Where a file is looked for, if none is named.
const PLACES: [&str; 2] = ["bellwether.toml", "/etc/bellwether/bellwether.toml"];

/// Reads the file that is named, or else the first of the usual ones that is there.
///
/// # Errors
/// If the file cannot be read, is no TOML, or holds what no setting is called; with the line.
pub fn load(named: Option<&Path>) -> Result<(Option<PathBuf>, Values)> {
    let path = match named {
        Some(path) => Some(path.to_owned()),
        None => PLACES.iter().map(PathBuf::from).find(|path| path.is_file()),
    };
    let Some(path) = path else { return Ok((None, Values::default())) };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        usage(format!("cannot read the configuration file '{}': {error}", path.display()))
    })?;
    let values = parse(&text).map_err(|why| {
        usage(format!("the configuration file '{}' is not valid: {why}", path.display()))
    })?;
    Ok((Some(path), values))
}

fn parse(text: &str) -> Result<Values, String> {
    toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_as_flags_are() {
        let values = parse(
            "listen = \"127.0.0.1:9000\"\nworker_queue = [\"a\", \"b\"]\nno_worker = true\n\
             cache_size = \"64M\"\noutput_limit = 1024\nlog_format = \"json\"\nhistory_age = \"30d\"\n",
        )
        .unwrap();
        assert_eq!(values.listen.unwrap().port(), 9000);
        assert_eq!(values.worker_queue.unwrap(), ["a", "b"]);
        assert_eq!(values.cache_size.unwrap().0, 64 << 20);
        assert_eq!(values.output_limit.unwrap().0, 1024);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error =
            parse("# settings\nlisten = \"127.0.0.1:9000\"\nlissten = \"x\"\n").unwrap_err();
        assert!(error.contains("line 3") && error.contains("unknown field `lissten`"), "{error}");
        let error = parse("shards = 16\ncache_size = \"lots\"\n").unwrap_err();
        assert!(error.contains("line 2") && error.contains("is not a size"), "{error}");
    }
}
