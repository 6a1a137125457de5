//! From the JSON of the API to stored definitions and back.
