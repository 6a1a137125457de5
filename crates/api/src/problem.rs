//! What is wrong, as RFC 9457 has it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A problem document (`application/problem+json`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A page about this kind of problem, relative to the documentation.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A stable word for programs.
    pub code: String,
    /// What is wrong and what to do, for people.
    pub detail: String,
    /// The field that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl Problem {
    /// A problem of a status with a stable code.
    #[must_use]
    pub fn new(status: u16, code: &str, detail: impl Into<String>) -> Problem {
        let title = match status {
            400 => "The request is not valid",
            401 => "A token is needed",
            403 => "Not allowed",
            404 => "Not found",
            405 => "No such method here",
            409 => "In conflict with what is there",
            413 => "Too large",
            415 => "Content type not supported",
            422 => "The request is not valid",
            503 => "Not now",
            _ => "Something went wrong",
        };
        Problem {
            kind: format!("/docs/errors#{code}"),
            title: title.to_owned(),
            status,
            code: code.to_owned(),
            detail: detail.into(),
            field: None,
        }
    }

    /// The same, with the field that is wrong.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Problem {
        self.field = Some(field.into());
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field}: {} ({})", self.detail, self.code),
            None => write!(f, "{} ({})", self.detail, self.code),
        }
    }
}
