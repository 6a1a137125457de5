//! S3-compatible storage: how long it may take to answer, and what its refusals mean in plain words.
//!
//! Two clients speak with the same bucket. One asks what there is and removes things: whoever does
//! not answer such a request within seconds does not answer. The other carries objects, which take
//! as long as the way there does.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};

use crate::BackupError;

/// How long a request that carries nothing may take, and for how long it is tried again.
const ASK_WITHIN: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// The same for an object: 16 MB at 1 Mbit/s take 130 seconds.
const CARRY_WITHIN: Duration = Duration::from_secs(180);
const CARRY_AGAIN: Duration = Duration::from_secs(60);
/// How long to wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// The most characters of what the storage says that are told.
const SAID_MAX: usize = 200;

/// A bucket, and the two ways to it.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub name: String,
    /// Where the storage is, if that is not Amazon's.
    endpoint: Option<String>,
    pub asking: Arc<dyn ObjectStore>,
    pub carrying: Arc<dyn ObjectStore>,
}

impl Bucket {
    /// Makes the clients; nothing is asked yet.
    ///
    /// # Errors
    /// What is wrong with the environment.
    pub(crate) fn open(
        name: &str,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Bucket, String> {
        // Whoever was first has chosen; all of this program choose the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Not all storage knows how to remove many with one request.
        let mut builder = AmazonS3Builder::new().with_disable_bulk_delete(true);
        for (variable, value) in variables.filter(|(variable, _)| variable.starts_with("AWS_")) {
            // There are many that are for other programs.
            if let Ok(key) = variable.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        let builder = builder.with_bucket_name(name);
        let set = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
        let endpoint = set(AmazonS3ConfigKey::S3Endpoint).or(set(AmazonS3ConfigKey::Endpoint));
        let plain = set(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
        let plain = plain.is_some_and(|value| means_yes(&value));
        if let Some(endpoint) = &endpoint
            && endpoint.starts_with("http://")
            && !plain
        {
            return Err(format!(
                "{endpoint} (AWS_ENDPOINT_URL) speaks no TLS; set AWS_ALLOW_HTTP=true if that is meant"
            ));
        }
        let client = |within: Duration, again: Duration| {
            let within = format!("{} seconds", within.as_secs());
            let connect = format!("{} seconds", CONNECT_WITHIN.as_secs());
            let key = AmazonS3ConfigKey::Client;
            let backoff = BackoffConfig { max_backoff: PAUSE_MAX, ..BackoffConfig::default() };
            let client = builder
                .clone()
                .with_config(key(ClientConfigKey::Timeout), within)
                .with_config(key(ClientConfigKey::ConnectTimeout), connect)
                .with_retry(RetryConfig { backoff, max_retries: usize::MAX, retry_timeout: again });
            client.build().map(|client| Arc::new(client) as Arc<dyn ObjectStore>)
        };
        let asking = client(ASK_WITHIN, ASK_AGAIN).map_err(|error| error.to_string())?;
        let carrying = client(CARRY_WITHIN, CARRY_AGAIN).map_err(|error| error.to_string())?;
        Ok(Bucket { name: name.to_owned(), endpoint, asking, carrying })
    }

    /// What a failure means and what to do about it; `None` if that is not known.
    pub(crate) fn explain(&self, place: &str, error: &object_store::Error) -> Option<BackupError> {
        let text = error.to_string();
        let place = place.to_owned();
        let at = self.endpoint.as_deref().unwrap_or("Amazon S3");
        // Without keys, those of the machine's role are asked for at an address of its own.
        if text.contains("/latest/api/token") || text.contains("/latest/meta-data/") {
            let why = "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
                       or give the machine a role";
            return Some(BackupError::StorageRefuses { place, why: why.to_owned() });
        }
        if let Some(failed) = http_error(error) {
            let (kind, reason) = (failed.kind(), root_cause(failed));
            let what = match kind {
                HttpErrorKind::Timeout => "does not answer",
                HttpErrorKind::Connect => "cannot be reached",
                _ => "did not answer as storage does",
            };
            let check = if self.endpoint.is_some() { "AWS_ENDPOINT_URL" } else { "AWS_REGION" };
            let why = format!("{at} {what} ({reason}): check {check}, and that it is up");
            return Some(BackupError::StorageSilent { place, why });
        }
        let said = Said::of(&text);
        let quoted = said.quoted();
        match said.code {
            "NoSuchBucket" => {
                let why = format!(
                    "there is no bucket '{}' at {at}: create it, or check the name",
                    self.name
                );
                Some(BackupError::NoBucket { place, why })
            }
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "NotSignedUp"
            | "InvalidToken"
            | "ExpiredToken"
            | "TokenRefreshRequired" => {
                let why = format!(
                    "{at} does not accept the credentials ({quoted}): check AWS_ACCESS_KEY_ID, \
                     AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
                );
                Some(BackupError::StorageRefuses { place, why })
            }
            "RequestTimeTooSkewed" => {
                let why = format!("{at} refuses ({quoted}): set the clock of this machine");
                Some(BackupError::StorageRefuses { place, why })
            }
            "AuthorizationHeaderMalformed" | "PermanentRedirect" => {
                let why = format!("{at} refuses ({quoted}): check AWS_REGION and AWS_ENDPOINT_URL");
                Some(BackupError::StorageRefuses { place, why })
            }
            _ if text.contains("Received redirect without LOCATION") => {
                let why =
                    format!("the bucket '{}' is in another region: check AWS_REGION", self.name);
                Some(BackupError::StorageRefuses { place, why })
            }
            code if code == "AccessDenied" || is_forbidden(error, &text) => {
                let why = format!(
                    "{at} does not allow it ({quoted}): the credentials must be good for listing, \
                     reading, writing and deleting there"
                );
                Some(BackupError::StorageRefuses { place, why })
            }
            _ => None,
        }
    }
}

/// The words that the library takes for yes in the environment.
fn means_yes(value: &str) -> bool {
    ["1", "true", "on", "yes", "y"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether what was not found is the bucket itself.
pub(crate) fn lacks_bucket(error: &object_store::Error) -> bool {
    Said::of(&error.to_string()).code == "NoSuchBucket"
}

fn is_forbidden(error: &object_store::Error, text: &str) -> bool {
    use object_store::Error::{PermissionDenied, Unauthenticated};
    // Failures of lists do not tell their kind otherwise.
    let status = |status: &str| text.contains(&format!("status code: {status}"));
    matches!(error, PermissionDenied { .. } | Unauthenticated { .. })
        || status("403")
        || status("401")
}

/// What storage says in XML when it refuses.
struct Said<'a> {
    code: &'a str,
    message: &'a str,
}

impl Said<'_> {
    fn of(text: &str) -> Said<'_> {
        let between = |name: &str| {
            let (_, rest) = text.split_once(&format!("<{name}>"))?;
            Some(rest.split_once(&format!("</{name}>"))?.0.trim())
        };
        let code = between("Code").unwrap_or_default();
        Said { code, message: between("Message").unwrap_or_default() }
    }

    fn quoted(&self) -> String {
        let said = match (self.code, self.message) {
            ("", "") => "it gives no reason".to_owned(),
            (code, "") => code.to_owned(),
            (code, message) => format!("{code}: {message}"),
        };
        said.chars().take(SAID_MAX).collect()
    }
}

fn http_error(error: &object_store::Error) -> Option<&HttpError> {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(found) = cause {
        if let Some(found) = found.downcast_ref::<HttpError>() {
            return Some(found);
        }
        cause = found.source();
    }
    None
}

fn root_cause(error: &dyn Error) -> String {
    let mut last = error.to_string();
    let mut cause = error.source();
    while let Some(found) = cause {
        last = found.to_string();
        cause = found.source();
    }
    last
}
