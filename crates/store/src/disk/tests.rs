//! Tests that need to look inside.
