//! The directory of one attempt: all that worker and supervisor tell one another.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bellwether_agent::{boot_id, now_ms};
use bellwether_protocol::v1::assignment::Target::Command;
use bellwether_protocol::v1::{self as wire, Assignment, Held, Report};
use prost::Message;
use serde_json::{Value, json};

use super::files::{self, Durable};
use crate::control::StopReason;
use crate::executor::Executor;
use crate::output::Chunk;

/// Bytes before each piece of output: its stream and its length.
const PIECE_HEAD: usize = 5;

/// What an attempt is, apart from what it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Meta {
    pub(super) held: Held,
    /// The mark of its processes.
    pub(super) instance: String,
    /// Bytes of output to keep.
    pub(super) output_limit: usize,
    /// The start of the machine in which it was made.
    pub(super) boot: String,
}

/// The directory of one attempt.
#[derive(Clone, Debug)]
pub(super) struct AttemptDir {
    path: PathBuf,
}

impl AttemptDir {
    /// Makes the directory of a new attempt.
    pub(super) fn create(runs: &Path, meta: &Meta, job: Option<&Assignment>) -> io::Result<Self> {
        let dir = AttemptDir { path: runs.join(name(&meta.held)?) };
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).create(&dir.path)?;
        if let Some(assignment) = job {
            files::make_pipe(&dir.path.join("control"))?;
            dir.write("assignment", &assignment.encode_to_vec(), Durable::No)?;
        }
        // Last: a directory without it was never begun.
        let meta = json!({
            "run": meta.held.run, "token": meta.held.token.to_string(), "instance": meta.instance,
            "output_limit": meta.output_limit, "boot": boot_id(),
        });
        dir.write("meta", meta.to_string().as_bytes(), Durable::No)?;
        Ok(dir)
    }

    /// A directory that is there.
    pub(super) fn at(path: &Path) -> AttemptDir {
        AttemptDir { path: path.to_owned() }
    }

    /// Its name, by which the supervisor calls.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The worker's directory around it.
    pub(super) fn state(&self) -> &Path {
        self.path.parent().and_then(Path::parent).unwrap_or(&self.path)
    }

    fn write(&self, file: &str, contents: &[u8], durable: Durable) -> io::Result<()> {
        files::write(&self.path.join(file), contents, durable)
    }

    fn read(&self, file: &str) -> io::Result<Option<Vec<u8>>> {
        files::read(&self.path.join(file))
    }

    pub(super) fn meta(&self) -> Option<Meta> {
        let value: Value = serde_json::from_slice(&self.read("meta").ok()??).ok()?;
        let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
        Some(Meta {
            held: Held { run: text("run")?, token: text("token")?.parse().ok()? },
            instance: text("instance")?,
            output_limit: usize::try_from(value.get("output_limit")?.as_u64()?).ok()?,
            boot: text("boot")?,
        })
    }

    pub(super) fn assignment(&self) -> Option<Assignment> {
        Assignment::decode(self.read("assignment").ok()??.as_slice()).ok()
    }

    /// Takes the attempt over, unless somebody alive answers for it.
    pub(super) fn try_lock(&self) -> io::Result<Option<File>> {
        let file = files::private().truncate(false).open(self.path.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub(super) fn write_started(&self) -> io::Result<()> {
        self.write("started", now_ms().to_string().as_bytes(), Durable::No)
    }

    /// When it began, in milliseconds of the calendar.
    pub(super) fn started_ms(&self) -> Option<i64> {
        String::from_utf8(self.read("started").ok()??).ok()?.parse().ok()
    }

    pub(super) fn write_result(&self, report: &Report) -> io::Result<()> {
        self.write("result", &report.encode_to_vec(), Durable::Yes)
    }

    pub(super) fn has_result(&self) -> bool {
        self.path.join("result").exists()
    }

    pub(super) fn result(&self) -> Option<Report> {
        Report::decode(self.read("result").ok()??.as_slice()).ok()
    }

    /// Tells the supervisor to stop.
    pub(super) fn write_stop(
        &self,
        reason: StopReason,
        within: Option<Duration>,
    ) -> io::Result<()> {
        let within = within.map_or("-".to_owned(), |within| within.as_millis().to_string());
        self.write("stop", format!("{} {within}", reason.name()).as_bytes(), Durable::No)?;
        files::note(&self.path.join("control"), "!");
        Ok(())
    }

    pub(super) fn stop(&self) -> Option<(StopReason, Option<Duration>)> {
        let text = String::from_utf8(self.read("stop").ok()??).ok()?;
        let (reason, within) = text.split_once(' ')?;
        let all = [StopReason::Canceled, StopReason::Shutdown, StopReason::LeaseLost];
        let reason = all.into_iter().find(|known| known.name() == reason)?;
        Some((reason, within.parse().ok().map(Duration::from_millis)))
    }

    /// The pipe by which the supervisor is told to look.
    pub(super) fn control(&self) -> PathBuf {
        self.path.join("control")
    }

    /// Tells the worker that there is news.
    pub(super) fn notify(&self) {
        files::note(&self.state().join("notify"), &format!("{}\n", self.name()));
    }

    /// Adds pieces of output.
    pub(super) fn append_output(&self, chunks: &[Chunk]) -> io::Result<()> {
        let mut pieces = Vec::new();
        for chunk in chunks {
            let chunk = crate::wire::chunk_of(chunk, 0);
            let length = u32::try_from(chunk.data.len()).unwrap_or(u32::MAX);
            pieces.push(u8::try_from(chunk.stream).unwrap_or(0));
            pieces.extend_from_slice(&length.to_le_bytes());
            pieces.extend_from_slice(&chunk.data);
        }
        let mut file = files::private().append(true).open(self.path.join("output"))?;
        file.write_all(&pieces)
    }

    /// Removes all there is of an attempt that is over: its control group, now or when what it left
    /// behind has ended, and the directory. A supervisor ends before what its command left behind.
    pub(super) fn clear(&self, executor: &Executor) -> io::Result<()> {
        if let Some(Assignment { run, attempt, token, target: Some(Command(command)), .. }) =
            self.assignment()
            && command.memory_limit_bytes > 0
        {
            executor.remove_group(&run, attempt, token);
        }
        self.remove()
    }

    /// Removes it with all that is in it.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Reads output as it grows. The number of a piece in the file is its number in the attempt, also
/// for a worker that was restarted.
#[derive(Debug, Default)]
pub(super) struct OutputReader {
    at: u64,
    pub(super) sequence: u32,
}

impl OutputReader {
    /// The pieces that were added since, up to about `bytes_max`.
    pub(super) fn more(&mut self, dir: &AttemptDir, bytes_max: usize) -> Vec<wire::Chunk> {
        let Ok(mut file) = File::open(dir.path.join("output")) else { return Vec::new() };
        let mut contents = Vec::new();
        let limit = bytes_max.saturating_add(PIECE_HEAD) as u64;
        if file.seek(SeekFrom::Start(self.at)).is_err()
            || file.take(limit).read_to_end(&mut contents).is_err()
        {
            return Vec::new();
        }
        let mut chunks = Vec::new();
        let mut rest = contents.as_slice();
        while let Some((chunk, after)) = piece(rest) {
            self.at += (rest.len() - after.len()) as u64;
            chunks.push(chunk);
            rest = after;
        }
        self.sequence = self.sequence.saturating_add(u32::try_from(chunks.len()).unwrap_or(0));
        chunks
    }
}

/// The first piece, if it is complete.
fn piece(bytes: &[u8]) -> Option<(wire::Chunk, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<PIECE_HEAD>()?;
    let [stream, length @ ..] = *head;
    let (data, rest) = rest.split_at_checked(u32::from_le_bytes(length) as usize)?;
    let data = bytes::Bytes::copy_from_slice(data);
    Some((wire::Chunk { stream: u32::from(stream), data, dropped_before: 0 }, rest))
}

/// The name of an attempt's directory. Ids come from outside: they must not lead elsewhere.
pub(super) fn name(held: &Held) -> io::Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if held.run.is_empty() || held.run.len() > 128 || !held.run.chars().all(plain) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the run's id is none"));
    }
    Ok(format!("{}-{}", held.run, held.token))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::cgroup::Groups;
    use crate::output::{LiveOutput, Stream};

    fn dir() -> (tempfile::TempDir, AttemptDir) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("runs")).unwrap();
        let held = Held { run: "run_1-1".to_owned(), token: u64::MAX };
        let meta = Meta { held, instance: "s/w".to_owned(), output_limit: 100, boot: boot_id() };
        let assignment = Assignment { run: "run_1-1".to_owned(), ..Default::default() };
        let dir = AttemptDir::create(&root.path().join("runs"), &meta, Some(&assignment)).unwrap();
        assert_eq!(dir.meta(), Some(meta));
        assert_eq!(dir.assignment(), Some(assignment));
        (root, dir)
    }

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let (_root, dir) = dir();
        let mode = fs::metadata(dir.path().join("assignment")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "assignments may hold secrets");
        assert_eq!(dir.stop(), None);
        dir.write_stop(StopReason::Canceled, None).unwrap();
        assert_eq!(dir.stop(), Some((StopReason::Canceled, None)));
        let within = Some(Duration::from_millis(5));
        dir.write_stop(StopReason::LeaseLost, within).unwrap();
        assert_eq!(dir.stop(), Some((StopReason::LeaseLost, within)));
        let lock = dir.try_lock().unwrap();
        assert!(lock.is_some() && dir.try_lock().unwrap().is_none());
        drop(lock);
        assert!(dir.try_lock().unwrap().is_some());
        dir.remove().unwrap();
        dir.remove().unwrap();
    }

    #[test]
    fn r54_output_is_read_in_pieces_that_keep_their_numbers() {
        let (_root, dir) = dir();
        let output = LiveOutput::new(1 << 20);
        output.push(Stream::Stdout, b"one");
        output.push(Stream::Stderr, b"two");
        dir.append_output(&output.head_since(0)).unwrap();
        let mut reader = OutputReader::default();
        let texts = |chunks: Vec<wire::Chunk>| -> Vec<(u32, String)> {
            let text = |data: &[u8]| String::from_utf8(data.to_vec()).unwrap();
            chunks.iter().map(|chunk| (chunk.stream, text(&chunk.data))).collect()
        };
        assert_eq!(texts(reader.more(&dir, 3)), [(1, "one".to_owned())]);
        assert_eq!(reader.sequence, 1);
        assert_eq!(texts(reader.more(&dir, 1_000)), [(2, "two".to_owned())]);
        // A piece that is only half written is left for later.
        let path = dir.path().join("output");
        let before = fs::read(&path).unwrap();
        output.push(Stream::Stdout, b"three");
        dir.append_output(&output.head_since(6)).unwrap();
        let after = fs::read(&path).unwrap();
        fs::write(&path, &after[..after.len() - 1]).unwrap();
        assert!(after.len() > before.len() && reader.more(&dir, 1_000).is_empty());
        fs::write(&path, &after).unwrap();
        assert_eq!(texts(reader.more(&dir, 1_000)), [(1, "three".to_owned())]);
        let mut again = OutputReader::default();
        assert_eq!(again.more(&dir, 1_000).len(), 3);
        assert_eq!(again.sequence, 3);
    }

    #[test]
    fn what_is_over_is_cleared_away_with_its_control_group() {
        for memory_limit_bytes in [0, 1] {
            let (root, dir) = dir();
            let command = wire::Command { memory_limit_bytes, ..Default::default() };
            let mut assignment = dir.assignment().unwrap();
            (assignment.attempt, assignment.token) = (2, 7);
            assignment.target = Some(Command(command));
            dir.write("assignment", &assignment.encode_to_vec(), Durable::No).unwrap();
            let group = root.path().join("bellwether-run-run_1-1-2-7");
            fs::create_dir(&group).unwrap();
            let executor = Executor::with_groups(Groups::at(root.path().to_owned()));
            dir.clear(&executor).unwrap();
            assert!(!dir.path().exists());
            assert_eq!(group.exists(), memory_limit_bytes == 0, "only what may have one");
        }
    }

    #[test]
    fn ids_do_not_lead_out_of_the_directory() {
        for run in ["", "../x", "a/b", ".", "a\0"] {
            let held = Held { run: run.to_owned(), token: 1 };
            assert!(name(&held).is_err(), "{run:?}");
        }
    }
}
