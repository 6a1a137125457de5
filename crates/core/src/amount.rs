//! Amounts of memory and processors as people write them: `512M`, `2G`, `0.5`.
//!
//! Units of memory are powers of 1024, whatever they are called. Processors are counted in
//! thousandths, exactly: what is written is what comes back.

const UNITS: [(u64, &str); 4] = [(1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];

/// Reads a number of bytes: `1024`, `64K`, `256M`, `2 GiB`.
///
/// # Errors
/// What sizes look like.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is not a size; write it like 1048576, 64K, 256M or 2G");
    let lower = text.trim().to_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let count: u64 = lower[..digits].parse().map_err(|_| bad())?;
    let unit: u64 = match lower[digits..].trim() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(bad()),
    };
    count.checked_mul(unit).ok_or_else(bad)
}

/// Writes a number of bytes in the largest unit that shows it exactly.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    match UNITS.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// The most processors anybody can have or ask for.
pub const CPUS_MAX: u32 = 1_000_000;

/// Reads a number of processors, in thousandths: `4`, `0.5`, `0.125`.
///
/// # Errors
/// What such numbers look like.
pub fn parse_cpus(text: &str) -> Result<u32, String> {
    let bad = || format!("'{text}' is not a number of processors; write it like 4, 0.5 or 0.125");
    let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && part.is_empty() || !digits(whole) || !digits(part) {
        return Err(bad());
    }
    let part = part.trim_end_matches('0');
    if part.len() > 3 {
        return Err(format!("'{text}' is too fine; a thousandth of a processor is the least part"));
    }
    let milli: u32 = format!("{part:0<3}").parse().map_err(|_| bad())?;
    let whole: u32 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| bad())? };
    if whole > CPUS_MAX {
        return Err(format!("'{text}' is more than {CPUS_MAX} processors"));
    }
    Ok(whole * 1_000 + milli)
}

/// Writes a number of processors that is given in thousandths.
#[must_use]
pub fn format_cpus(milli: u64) -> String {
    match (milli / 1_000, milli % 1_000) {
        (whole, 0) => whole.to_string(),
        (whole, part) => format!("{whole}.{}", format!("{part:03}").trim_end_matches('0')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_write() {
        for (text, bytes, written) in [
            ("1000", 1000, "1000"),
            ("64k", 65_536, "64K"),
            ("256 MiB", 256 << 20, "256M"),
            ("2G", 2 << 30, "2G"),
            ("1024M", 1 << 30, "1G"),
            ("0", 0, "0"),
        ] {
            let size = parse_size(text).unwrap();
            assert_eq!((size, format_size(size).as_str()), (bytes, written));
        }
        for text in ["", "M", "1.5G", "-1", "1X", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn processors_read_and_write() {
        for (text, milli, written) in [
            ("4", 4_000, "4"),
            ("0.5", 500, "0.5"),
            (".25", 250, "0.25"),
            ("1.", 1_000, "1"),
            ("0.125", 125, "0.125"),
            ("0.050", 50, "0.05"),
            ("1000000", 1_000_000_000, "1000000"),
            ("0", 0, "0"),
        ] {
            let cpus = parse_cpus(text).unwrap();
            assert_eq!((cpus, format_cpus(u64::from(cpus)).as_str()), (milli, written));
        }
        for text in ["", ".", "x", "-1", "+1", "1e3", "0.0001", "1000001", "1.2.3", "99999999999"] {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
    }
}
