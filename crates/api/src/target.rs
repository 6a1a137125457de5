//! What jobs do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Span;

/// A request to make.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpTarget {
    /// Where to.
    #[schema(example = "https://example.com/hook", max_length = 8192)]
    pub url: String,
    /// The method; POST if there is a body, else GET.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "POST", max_length = 32)]
    pub method: Option<String>,
    /// Headers. Values of those that carry secrets are masked in answers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: a text is sent as it is, any other JSON as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub body: Option<Box<serde_json::value::RawValue>>,
    /// User and password, or a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<HttpAuth>,
    /// Whether to follow redirects; they are not followed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_redirects: Option<bool>,
    /// How long connecting may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Span>,
}

/// How to authenticate. Exactly one field.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpAuth {
    /// User and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<BasicAuth>,
    /// A bearer token. Masked in answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 8192)]
    pub bearer: Option<String>,
}

/// User and password.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BasicAuth {
    /// The user.
    #[schema(max_length = 1024)]
    pub username: String,
    /// The password. Masked in answers.
    #[schema(max_length = 8192)]
    pub password: String,
}
