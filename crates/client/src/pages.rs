//! Lists as streams over all of their pages.

use std::collections::VecDeque;

use bellwether_api::Page;
use futures::stream::{self, Stream};

use crate::ClientError;
use crate::filter::Paged;

/// Where a stream over pages stands.
struct State<F, T> {
    filter: F,
    ready: VecDeque<T>,
    /// Whether there may be another page.
    more: bool,
}

/// All items of a list, fetched page by page as they are asked for. An empty page is not the end:
/// only a missing cursor is.
pub(crate) fn all<F, T, Fetch, Fut>(
    filter: F,
    fetch: Fetch,
) -> impl Stream<Item = Result<T, ClientError>> + Send
where
    F: Paged + Send,
    T: Send,
    Fetch: Fn(F) -> Fut + Send,
    Fut: Future<Output = Result<Page<T>, ClientError>> + Send,
{
    let state = State { filter, ready: VecDeque::new(), more: true };
    stream::try_unfold((state, fetch), async |(mut state, fetch)| {
        loop {
            if let Some(item) = state.ready.pop_front() {
                return Ok(Some((item, (state, fetch))));
            }
            if !state.more {
                return Ok(None);
            }
            let page = fetch(state.filter.clone()).await?;
            state.ready = page.items.into();
            match page.next_cursor {
                Some(cursor) => state.filter.set_cursor(cursor),
                None => state.more = false,
            }
        }
    })
}
