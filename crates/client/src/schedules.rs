//! Schedules that need not belong to any job: `/v1/schedules`.

use bellwether_api::{Preview, PreviewRequest};

use crate::{Client, ClientError};

impl Client {
    /// A schedule in plain words, and its next times.
    ///
    /// # Errors
    /// A problem that says what is wrong with the schedule.
    pub async fn preview_schedule(&self, request: &PreviewRequest) -> Result<Preview, ClientError> {
        self.post(&["v1", "schedules:preview"], &Vec::new(), request).await
    }
}
