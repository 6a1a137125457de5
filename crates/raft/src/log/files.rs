//! Where segments are kept: a directory, or memory that forgets what was not synced.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// Segments by number. Only what has been synced is sure to be there after a crash.
pub trait Files: Send + Sync + 'static {
    /// The numbers of all segments, ascending.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn list(&self) -> io::Result<Vec<u64>>;

    /// Everything in a segment.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, segment: u64) -> io::Result<Bytes>;

    /// Some bytes of a segment.
    ///
    /// # Errors
    /// When they cannot be read.
    fn read_at(&self, segment: u64, at: u64, length: usize) -> io::Result<Bytes>;

    /// Begins a segment, which must not exist.
    ///
    /// # Errors
    /// When it cannot be made.
    fn create(&self, segment: u64) -> io::Result<()>;

    /// Adds bytes to the end of a segment.
    ///
    /// # Errors
    /// When they cannot be written. Some of them may have been.
    fn append(&self, segment: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything in a segment durable, and that it exists.
    ///
    /// # Errors
    /// When that failed: then nobody knows what is durable.
    fn sync(&self, segment: u64) -> io::Result<()>;

    /// Makes a segment durable to which nothing more will be added.
    ///
    /// # Errors
    /// When that failed: then nobody knows what is durable.
    fn finish(&self, segment: u64) -> io::Result<()> {
        self.sync(segment)
    }

    /// Cuts a segment off, durably.
    ///
    /// # Errors
    /// When that failed.
    fn cut(&self, segment: u64, length: u64) -> io::Result<()>;

    /// Removes a segment.
    ///
    /// # Errors
    /// When that failed.
    fn remove(&self, segment: u64) -> io::Result<()>;
}

/// Segments in a directory.
///
/// The one that is written is longer than what is in it, by zeros: a file that gets longer, or has new
/// blocks, with every write has to have that made durable with each of them, which takes a file
/// system longer than the bytes themselves.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Segments that are open, newest last: those being written and read.
    open: Mutex<Vec<(u64, Arc<File>)>>,
    writing: Mutex<Option<Writing>>,
}

/// The segment that is written.
#[derive(Clone, Copy, Debug)]
struct Writing {
    segment: u64,
    /// Where the next bytes go.
    end: u64,
    /// How far it is known to reach.
    length: u64,
}

/// Room is made up to the next multiple of this.
const ROOM: usize = 1024 * 1024;
/// Writes of this size make no room: the next may be as large, and room is written twice.
const LARGE: usize = ROOM / 4;

/// Files kept open.
const OPEN_MAX: usize = 16;
const ENDING: &str = ".log";

/// Bytes on disk of the files of a directory, as far as they can be seen.
#[must_use]
pub fn bytes_in(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = files.filter_map(|file| file.metadata().ok()).filter(fs::Metadata::is_file);
    files.map(|file| 512 * file.blocks()).sum()
}

impl Directory {
    /// A directory, made if need be.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Directory> {
        let path = path.into();
        fs::create_dir_all(&path)?;
        Ok(Directory { path, open: Mutex::default(), writing: Mutex::default() })
    }

    fn name(&self, segment: u64) -> PathBuf {
        self.path.join(format!("{segment:016x}{ENDING}"))
    }

    fn file(&self, segment: u64) -> io::Result<Arc<File>> {
        let mut open = self.open.lock();
        if let Some((_, file)) = open.iter().find(|(number, _)| *number == segment) {
            return Ok(file.clone());
        }
        let file = OpenOptions::new().read(true).write(true).open(self.name(segment))?;
        let file = Arc::new(file);
        if open.len() >= OPEN_MAX {
            open.remove(0);
        }
        open.push((segment, file.clone()));
        Ok(file)
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// Writes zeros behind what is in a file. How many: a disk that has no room for them may have it for
/// what matters.
fn make_room(file: &File, end: u64) -> u64 {
    static ZEROS: [u8; ROOM] = [0; ROOM];
    let room = end.next_multiple_of(ROOM as u64) - end;
    match file.write_all_at(&ZEROS[..room as usize], end) {
        Ok(()) => room,
        Err(_) => 0,
    }
}

impl Files for Directory {
    fn list(&self) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(ENDING));
            found.extend(number.and_then(|text| u64::from_str_radix(text, 16).ok()));
        }
        found.sort_unstable();
        Ok(found)
    }

    fn read(&self, segment: u64) -> io::Result<Bytes> {
        fs::read(self.name(segment)).map(Bytes::from)
    }

    fn read_at(&self, segment: u64, at: u64, length: usize) -> io::Result<Bytes> {
        let mut buffer = vec![0; length];
        self.file(segment)?.read_exact_at(&mut buffer, at)?;
        Ok(Bytes::from(buffer))
    }

    fn create(&self, segment: u64) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).open(self.name(segment))?;
        self.sync_directory()
    }

    fn append(&self, segment: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file(segment)?;
        let mut writing = self.writing.lock();
        let mut at = match *writing {
            Some(at) if at.segment == segment => at,
            _ => {
                let length = file.metadata()?.len();
                Writing { segment, end: length, length }
            }
        };
        file.write_all_at(bytes, at.end)?;
        at.end += bytes.len() as u64;
        if at.end > at.length {
            at.length = at.end;
            if bytes.len() < LARGE {
                at.length += make_room(&file, at.end);
            }
        }
        *writing = Some(at);
        Ok(())
    }

    fn sync(&self, segment: u64) -> io::Result<()> {
        self.file(segment)?.sync_data()
    }

    fn finish(&self, segment: u64) -> io::Result<()> {
        let file = self.file(segment)?;
        if let Some(at) = self.writing.lock().take_if(|at| at.segment == segment) {
            file.set_len(at.end)?;
        }
        file.sync_all()
    }

    fn cut(&self, segment: u64, length: u64) -> io::Result<()> {
        self.writing.lock().take_if(|at| at.segment == segment);
        let file = OpenOptions::new().write(true).open(self.name(segment))?;
        file.set_len(length)?;
        file.sync_all()
    }

    fn remove(&self, segment: u64) -> io::Result<()> {
        self.writing.lock().take_if(|at| at.segment == segment);
        self.open.lock().retain(|(number, _)| *number != segment);
        fs::remove_file(self.name(segment))?;
        self.sync_directory()
    }
}
