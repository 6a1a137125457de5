//! Puts stored secrets where an edit says "as it was".

use std::collections::BTreeMap;

use bellwether_api::{BasicAuth, HttpAuth, HttpTarget, JobSpec, MASK, Problem};
use bellwether_core::record::{self, Definition, Target};

use super::problem::{invalid, path};
use super::publish;
use super::secret::Pieces;

/// For an edit: where the new spec has the mask in place of a secret, the stored value is taken.
///
/// A request that goes to another server than before must have its secrets given anew, or anyone
/// who may edit a job could have them sent to a server of their own.
///
/// # Errors
/// `masked_secret` for a mask where nothing is stored.
pub fn unmask(new: &mut JobSpec, old: &Definition) -> Result<(), Problem> {
    let (command, http) = match &old.target {
        Some(Target::Command(command)) => (Some(command), None),
        Some(Target::Http(http)) => (None, Some(http)),
        _ => (None, None),
    };
    for (name, value) in &mut new.env {
        let pieces = Pieces::of_value(name, value);
        if pieces.has_mask() {
            let stored = command.and_then(|command| command.env.get(name));
            let unmasked =
                stored.and_then(|stored| pieces.unmasked(&Pieces::of_value(name, stored)));
            *value = unmasked.ok_or_else(|| masked(path("env", name)))?;
        }
    }
    if let Some(new) = &mut new.publish {
        let old = match &old.target {
            Some(Target::Publish(old)) => Some(old),
            _ => None,
        };
        publish::unmask(new, old)?;
    }
    match &mut new.http {
        Some(new) => request(new, http),
        None => Ok(()),
    }
}

/// The problem of a mask that stands for nothing.
pub(super) fn masked(field: impl Into<String>) -> Problem {
    let detail = format!(
        "{MASK} stands for a secret in answers, and in an edit for the one that is stored; here \
         none is stored, so give the secret itself"
    );
    invalid("masked_secret", field, detail)
}

pub(super) fn moved(field: impl Into<String>) -> Problem {
    let detail = format!(
        "the request would go to another server than before; give the secret itself instead of \
         {MASK}"
    );
    invalid("masked_secret", field, detail)
}

fn request(new: &mut HttpTarget, old: Option<&record::HttpTarget>) -> Result<(), Problem> {
    let same_server = old.is_some_and(|old| origin(&old.url) == origin(&new.url));
    // The reason why a mask cannot be resolved.
    let refused = |field: String| match old {
        Some(_) if !same_server => moved(field),
        _ => masked(field),
    };
    let old = old.filter(|_| same_server);
    let pieces = Pieces::of_url(&new.url);
    if pieces.has_mask() {
        let unmasked = old.and_then(|old| pieces.unmasked(&Pieces::of_url(&old.url)));
        new.url = unmasked.ok_or_else(|| refused("http.url".to_owned()))?;
    }
    let stored = old.map(|old| old.headers.as_slice()).unwrap_or_default();
    headers(&mut new.headers, stored, |name| refused(path("http.headers", name)))?;
    let Some(HttpAuth { basic, bearer }) = &mut new.auth else {
        return Ok(());
    };
    if let Some(BasicAuth { password, .. }) = basic
        && password == MASK
    {
        let stored = old.and_then(|old| old.basic.as_ref()).map(|basic| basic.password.clone());
        *password = stored
            .filter(|stored| !stored.is_empty())
            .ok_or_else(|| refused("http.auth.basic.password".to_owned()))?;
    }
    if let Some(token) = bearer
        && token == MASK
    {
        *token = old
            .map(|old| old.bearer.clone())
            .filter(|stored| !stored.is_empty())
            .ok_or_else(|| refused("http.auth.bearer".to_owned()))?;
    }
    Ok(())
}

/// Puts stored values where headers have the mask.
pub(super) fn headers(
    new: &mut BTreeMap<String, String>,
    stored: &[record::Header],
    refused: impl Fn(&str) -> Problem,
) -> Result<(), Problem> {
    for (name, value) in new {
        let pieces = Pieces::of_value(name, value);
        if pieces.has_mask() {
            let unmasked = stored
                .iter()
                .find(|stored| stored.name.eq_ignore_ascii_case(name))
                .and_then(|stored| pieces.unmasked(&Pieces::of_value(name, &stored.value)));
            *value = unmasked.ok_or_else(|| refused(name))?;
        }
    }
    Ok(())
}

/// Scheme, host and port of a URL; `None` if it is not one.
fn origin(url: &str) -> Option<String> {
    let url = bellwether_worker::HttpTarget::new("GET", url).validate().ok()?;
    Some(url.origin().ascii_serialization())
}
