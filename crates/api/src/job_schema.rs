//! The schema of a job: one object with the fields of its two parts.
//!
//! A derived one would say that both parts hold at once. But what callers ask for has no further
//! fields, so no job could be both.

use std::borrow::Cow;

use utoipa::openapi::schema::{Object, Schema};
use utoipa::openapi::{ObjectBuilder, RefOr, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::{Job, JobInfo, JobSpec};

impl PartialSchema for Job {
    fn schema() -> RefOr<Schema> {
        let mut whole: Object = ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("A job as the server has it"))
            .build();
        for part in [JobInfo::schema(), JobSpec::schema()] {
            if let RefOr::T(Schema::Object(part)) = part {
                whole.properties.extend(part.properties);
                whole.required.extend(part.required);
            }
        }
        whole.into()
    }
}

impl ToSchema for Job {
    fn name() -> Cow<'static, str> {
        "Job".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        JobInfo::schemas(schemas);
        JobSpec::schemas(schemas);
    }
}
