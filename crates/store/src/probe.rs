//! What the disk itself can do, so that an engine's figures can be read against it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const APPEND_BYTES: usize = 4096;
const STREAM_CHUNK_BYTES: usize = 1 << 20;
const STREAM_BYTES_MAX: u64 = 256 << 20;

/// The limits of a disk, measured in a directory.
#[derive(Clone, Copy, Debug)]
pub struct DiskLimits {
    /// Appends of 4 KiB, each followed by `fdatasync`, per second.
    pub syncs_per_second: f64,
    /// The median of such a sync.
    pub sync_median: Duration,
    /// The slowest hundredth of such syncs starts here.
    pub sync_p99: Duration,
    /// Bytes written in sequence, and synced at the end, per second.
    pub stream_bytes_per_second: f64,
}

/// Measures for about `budget` in a temporary file in `dir`, which is removed again.
///
/// # Errors
/// When the file cannot be created, written or synced.
pub fn disk_probe(dir: &Path, budget: Duration) -> io::Result<DiskLimits> {
    let path = dir.join(format!(".probe-{}", std::process::id()));
    let result = measure(&path, budget);
    let removed = std::fs::remove_file(&path);
    let limits = result?;
    removed?;
    Ok(limits)
}

fn measure(path: &Path, budget: Duration) -> io::Result<DiskLimits> {
    let mut file = File::create(path)?;
    // Zeros could be compressed or skipped by the layers below.
    let noise: Vec<u8> = (0..STREAM_CHUNK_BYTES as u64)
        .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect();
    let mut syncs = sync_times(&mut file, &noise[..APPEND_BYTES], budget * 2 / 3)?;
    let stream_bytes_per_second = stream_rate(&mut file, &noise, budget / 3)?;
    syncs.sort_unstable();
    let total: Duration = syncs.iter().sum();
    let at = |fraction: f64| syncs[((syncs.len() - 1) as f64 * fraction) as usize];
    Ok(DiskLimits {
        syncs_per_second: syncs.len() as f64 / total.as_secs_f64(),
        sync_median: at(0.5),
        sync_p99: at(0.99),
        stream_bytes_per_second,
    })
}

/// One measurement at least, however slow the disk is.
fn sync_times(file: &mut File, block: &[u8], budget: Duration) -> io::Result<Vec<Duration>> {
    let started = Instant::now();
    let mut times = Vec::new();
    while times.is_empty() || started.elapsed() < budget {
        let append = Instant::now();
        file.write_all(block)?;
        file.sync_data()?;
        times.push(append.elapsed());
    }
    Ok(times)
}

fn stream_rate(file: &mut File, chunk: &[u8], budget: Duration) -> io::Result<f64> {
    let started = Instant::now();
    let mut written = 0u64;
    while written == 0 || (started.elapsed() < budget && written < STREAM_BYTES_MAX) {
        file.write_all(chunk)?;
        written += chunk.len() as u64;
    }
    file.sync_data()?;
    Ok(written as f64 / started.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probing_measures_something_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let limits = disk_probe(dir.path(), Duration::from_millis(60)).unwrap();
        assert!(limits.syncs_per_second > 0.0);
        assert!(limits.sync_p99 >= limits.sync_median);
        assert!(limits.stream_bytes_per_second > 0.0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
