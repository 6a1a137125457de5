//! Where backups are: a directory, or a bucket of S3-compatible storage.
//!
//! Credentials come from the environment (`AWS_ACCESS_KEY_ID` and the others that every tool for S3
//! knows) and are never part of a place, so a place can be shown and logged.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use bellwether_core::time::Time;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::s3::{Bucket, lacks_bucket};
use crate::{BackupError, Result};

/// A place for backups.
#[derive(Clone, Debug)]
pub struct Place {
    /// What is asked, for lists and removals.
    store: Arc<dyn ObjectStore>,
    /// What carries objects there and back.
    carrying: Arc<dyn ObjectStore>,
    /// The bucket, unless it is a directory.
    bucket: Option<Bucket>,
    /// The directory, if it is one.
    directory: Option<PathBuf>,
    /// What stands before every name.
    prefix: Path,
    shown: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Place {
    /// Opens a place: the path of a directory, which is made if need be, `file:///…`, or
    /// `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// When it is neither, or cannot be had.
    pub fn open(text: &str) -> Result<Place> {
        let readable = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Place::open_with(text, std::env::vars_os().filter_map(readable))
    }

    /// Opens a place with these variables instead of those of the environment.
    ///
    /// # Errors
    /// As with [`Place::open`].
    pub fn open_with(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Place> {
        match Kind::of(text)? {
            Kind::Directory(dir) => Place::directory(text, &dir),
            Kind::S3 { bucket, prefix } => {
                let bucket = Bucket::open(&bucket, variables.into_iter());
                Place::s3(text, bucket.map_err(|why| bad(text, why))?, &prefix)
            }
        }
    }

    /// Opens a place that must be there already: it is to be read only.
    ///
    /// # Errors
    /// As with [`Place::open`], or when there is no such directory.
    pub fn open_existing(text: &str) -> Result<Place> {
        if let Kind::Directory(dir) = Kind::of(text)?
            && !FilePath::new(&dir).is_dir()
        {
            return Err(bad(text, "there is no such directory"));
        }
        Place::open(text)
    }

    /// Whether a text names a place, without looking at it: an absolute path, or a URL.
    ///
    /// # Errors
    /// When it does not.
    pub fn check(text: &str) -> Result<()> {
        match Kind::of(text)? {
            Kind::Directory(dir) if !dir.starts_with('/') => {
                Err(bad(text, "give the directory as an absolute path"))
            }
            _ => Ok(()),
        }
    }

    /// A place in memory, for tests.
    #[must_use]
    pub fn in_memory() -> Place {
        Place::plain(Arc::new(InMemory::new()), "memory")
    }

    fn plain(store: Arc<dyn ObjectStore>, shown: &str) -> Place {
        let (carrying, prefix) = (store.clone(), Path::default());
        let shown = shown.to_owned();
        Place { store, carrying, bucket: None, directory: None, prefix, shown }
    }

    fn directory(shown: &str, dir: &str) -> Result<Place> {
        make_private(FilePath::new(dir)).map_err(|error| bad(shown, error))?;
        let store = LocalFileSystem::new_with_prefix(dir).map_err(|error| bad(shown, error))?;
        let store = Arc::new(store.with_automatic_cleanup(true).with_fsync(true));
        Ok(Place { directory: Some(PathBuf::from(dir)), ..Place::plain(store, shown) })
    }

    fn s3(shown: &str, bucket: Bucket, prefix: &str) -> Result<Place> {
        let prefix = Path::parse(prefix).map_err(|error| bad(shown, error))?;
        let (store, carrying) = (bucket.asking.clone(), bucket.carrying.clone());
        let shown = shown.to_owned();
        Ok(Place { store, carrying, bucket: Some(bucket), directory: None, prefix, shown })
    }

    fn path(&self, name: &str) -> Path {
        Path::from_iter(self.prefix.parts().chain(Path::from(name).parts()))
    }

    fn failed(&self, source: object_store::Error) -> BackupError {
        tracing::debug!(place = self.shown, error = %source, "the storage failed");
        let explained =
            self.bucket.as_ref().and_then(|bucket| bucket.explain(&self.shown, &source));
        explained.unwrap_or_else(|| BackupError::Storage { place: self.shown.clone(), source })
    }

    /// Stores an object, whole or not at all. Nobody else of the machine can read those of a
    /// directory; who may read a bucket is for its owner to say.
    pub(crate) async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        if let Some(parent) =
            self.directory.as_ref().map(|dir| dir.join(name)).as_deref().and_then(FilePath::parent)
        {
            // If it cannot be made, nothing can be stored there, and that is told below.
            let _ = make_private(parent);
        }
        let put = self.carrying.put(&self.path(name), bytes.into()).await;
        put.map(drop).map_err(|error| self.failed(error))
    }

    /// An object's bytes; `None` if there is none.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let found = match self.carrying.get(&self.path(name)).await {
            Err(error @ object_store::Error::NotFound { .. }) if !lacks_bucket(&error) => {
                return Ok(None);
            }
            found => found.map_err(|error| self.failed(error))?,
        };
        found.bytes().await.map(Some).map_err(|error| self.failed(error))
    }

    /// The names directly under the place that are not objects themselves, in order.
    pub(crate) async fn directories(&self) -> Result<Vec<String>> {
        let found = self.store.list_with_delimiter(Some(&self.prefix)).await;
        let found = found.map_err(|error| self.failed(error))?;
        let names = found.common_prefixes.iter().filter_map(|path| path.filename());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// The objects under a name.
    async fn under(&self, name: &str) -> Result<Vec<ObjectMeta>> {
        let under = self.path(name);
        self.store.list(Some(&under)).try_collect().await.map_err(|error| self.failed(error))
    }

    /// The names of all objects under a name.
    pub(crate) async fn names_under(&self, name: &str) -> Result<BTreeSet<String>> {
        let prefix = self.prefix.parts().count();
        let all = self.under(name).await?;
        let relative = |meta: ObjectMeta| Path::from_iter(meta.location.parts().skip(prefix));
        Ok(all.into_iter().map(|meta| relative(meta).to_string()).collect())
    }

    /// When anything was last written under a name, by the clock of the place.
    pub(crate) async fn last_written(&self, name: &str) -> Result<Option<Time>> {
        let all = self.under(name).await?;
        Ok(all.iter().map(|meta| Time(meta.last_modified.timestamp_millis())).max())
    }

    /// Removes everything under a name; the manifest, by which it is a backup, first.
    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        let all = self.under(name).await?.into_iter().map(|meta| meta.location);
        let is_manifest = |path: &Path| path.filename() == Some(crate::manifest::NAME);
        let (manifest, rest): (Vec<Path>, Vec<Path>) = all.partition(is_manifest);
        for paths in [manifest, rest] {
            let mut gone = self.store.delete_stream(stream::iter(paths).map(Ok).boxed());
            while let Some(removed) = gone.next().await {
                match removed {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(self.failed(error)),
                }
            }
        }
        Ok(())
    }
}

/// Makes a directory that nobody but its owner may read, for definitions hold secrets in clear.
/// One that is there already stays as it is.
pub(crate) fn make_private(dir: &FilePath) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn bad(text: &str, why: impl fmt::Display) -> BackupError {
    BackupError::BadPlace(text.to_owned(), why.to_string())
}

enum Kind {
    Directory(String),
    S3 { bucket: String, prefix: String },
}

impl Kind {
    fn of(text: &str) -> Result<Kind> {
        if text.is_empty() || text.contains('\0') {
            return Err(bad(text, "give a directory, or s3://BUCKET/PREFIX"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Kind::Directory(text.to_owned()));
        };
        match scheme {
            "file" if rest.starts_with('/') => {
                let url = url::Url::parse(text).map_err(|error| bad(text, error))?;
                let path = url.to_file_path().map_err(|()| bad(text, "it is no path"))?;
                let path = path.to_str().ok_or_else(|| bad(text, "it is not UTF-8"))?;
                Ok(Kind::Directory(path.to_owned()))
            }
            "s3" => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                if bucket.is_empty() || bucket.contains(['@', ':', '?', '#']) {
                    let why = "it must be s3://BUCKET/PREFIX; credentials and endpoint come from \
                               the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …)";
                    return Err(bad("s3://…", why));
                }
                let prefix = prefix.trim_matches('/').to_owned();
                Ok(Kind::S3 { bucket: bucket.to_owned(), prefix })
            }
            _ => Err(bad(text, "only directories and s3://BUCKET/PREFIX are supported")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_directories_and_buckets() {
        for good in ["/var/backups", "file:///var/backups", "s3://bucket", "s3://bucket/a/b/"] {
            Place::check(good).unwrap();
        }
        for bad in ["", "backups", "ftp://host/x", "file://host/x", "s3://", "s3:///x", "a\0b"] {
            assert!(Place::check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_place_never_shows_credentials() {
        let error = Place::check("s3://key:secret@bucket/x").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn a_place_to_read_from_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        assert!(Place::open_existing(missing.to_str().unwrap()).is_err());
        assert!(!missing.exists());
        Place::open(missing.to_str().unwrap()).unwrap();
        Place::open_existing(missing.to_str().unwrap()).unwrap();
    }
}
