//! Reports on their way: gathered into numbered messages, and kept until the server has them.

use std::collections::VecDeque;

use bellwether_protocol::v1::{Held, Report, Reports, report};
use prost::Message;

/// The most reports in one message.
const REPORTS_MAX: usize = 512;
/// A message is closed when it has this many bytes; one report more may go beyond.
const BYTES_MAX: usize = 1024 * 1024;

struct Sent {
    number: u64,
    reports: Vec<Report>,
    bytes: usize,
}

/// Reports that the server has not confirmed.
#[derive(Default)]
pub(crate) struct Outbox {
    last_number: u64,
    waiting: VecDeque<Report>,
    sent: VecDeque<Sent>,
    bytes: usize,
}

impl Outbox {
    /// Adds a report.
    pub(crate) fn push(&mut self, report: Report) {
        self.bytes += report.encoded_len();
        self.waiting.push_back(report);
    }

    /// Whether there is something to send.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether everything has been confirmed.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> Option<Reports> {
        let (mut reports, mut bytes) = (Vec::new(), 0);
        while reports.len() < REPORTS_MAX
            && bytes < BYTES_MAX
            && let Some(report) = self.waiting.pop_front()
        {
            bytes += report.encoded_len();
            reports.push(report);
        }
        if reports.is_empty() {
            return None;
        }
        self.last_number += 1;
        let number = self.last_number;
        self.sent.push_back(Sent { number, reports: reports.clone(), bytes });
        Some(Reports { number, reports })
    }

    /// The server has stored a message: the attempts whose end was in it.
    pub(crate) fn stored(&mut self, number: u64) -> Vec<Held> {
        let Some(at) = self.sent.iter().position(|sent| sent.number == number) else {
            return Vec::new();
        };
        let Some(sent) = self.sent.remove(at) else { return Vec::new() };
        self.bytes = self.bytes.saturating_sub(sent.bytes);
        let ends = sent.reports.into_iter().filter(is_end);
        ends.map(|report| Held { run: report.run, token: report.token }).collect()
    }

    /// After a broken connection: what was sent and not confirmed is to be sent again, first.
    pub(crate) fn rewind(&mut self) {
        while let Some(sent) = self.sent.pop_back() {
            for report in sent.reports.into_iter().rev() {
                self.waiting.push_front(report);
            }
        }
    }

    /// Drops what has not been sent about an attempt that nobody waits for.
    pub(crate) fn forget(&mut self, held: &Held) {
        self.waiting.retain(|report| report.run != held.run || report.token != held.token);
        let sent: usize = self.sent.iter().map(|sent| sent.bytes).sum();
        self.bytes = sent + self.waiting.iter().map(Message::encoded_len).sum::<usize>();
    }
}

/// Whether a report is the last of its attempt.
pub(crate) fn is_end(report: &Report) -> bool {
    matches!(report.what, Some(report::What::Finished(_) | report::What::HandedBack(_)))
}

#[cfg(test)]
mod tests {
    use bellwether_protocol::v1::{Chunk, HandedBack, Output, Started};

    use super::*;

    fn started(run: &str) -> Report {
        let what = Some(report::What::Started(Started { at_ms: 1 }));
        Report { run: run.to_owned(), token: 1, what }
    }

    fn ended(run: &str) -> Report {
        let what = Some(report::What::HandedBack(HandedBack {}));
        Report { run: run.to_owned(), token: 1, what }
    }

    fn runs(reports: &Reports) -> Vec<&str> {
        reports.reports.iter().map(|report| report.run.as_str()).collect()
    }

    #[test]
    fn r51_reports_are_kept_until_stored_and_sent_again_in_order() {
        let mut outbox = Outbox::default();
        outbox.push(started("a"));
        outbox.push(ended("a"));
        let first = outbox.next().unwrap();
        assert_eq!((first.number, runs(&first)), (1, vec!["a", "a"]));
        outbox.push(ended("b"));
        let second = outbox.next().unwrap();
        assert_eq!((second.number, runs(&second)), (2, vec!["b"]));
        outbox.push(ended("c"));
        assert!(outbox.next().is_some() && outbox.next().is_none());
        assert_eq!(outbox.stored(2), [Held { run: "b".to_owned(), token: 1 }]);
        assert!(outbox.stored(2).is_empty(), "it is confirmed once");
        outbox.rewind();
        let again = outbox.next().unwrap();
        assert_eq!((again.number, runs(&again)), (4, vec!["a", "a", "c"]));
        assert_eq!(outbox.stored(4).len(), 2);
        assert!(outbox.is_empty());
        assert_eq!(outbox.bytes(), 0);
    }

    #[test]
    fn messages_are_bounded_in_number_and_bytes() {
        let mut outbox = Outbox::default();
        for _ in 0..REPORTS_MAX + 1 {
            outbox.push(ended("a"));
        }
        assert_eq!(outbox.next().unwrap().reports.len(), REPORTS_MAX);
        assert_eq!(outbox.next().unwrap().reports.len(), 1);
        for _ in 0..5 {
            let chunk = Chunk { stream: 1, data: vec![0; 400_000].into(), dropped_before: 0 };
            let output = Output { sequence: 0, chunks: vec![chunk] };
            let what = Some(report::What::Output(output));
            outbox.push(Report { run: "b".to_owned(), token: 1, what });
        }
        assert_eq!(outbox.next().unwrap().reports.len(), 3);
        assert_eq!(outbox.next().unwrap().reports.len(), 2);
    }

    #[test]
    fn what_is_void_is_not_sent() {
        let mut outbox = Outbox::default();
        outbox.push(ended("a"));
        outbox.push(ended("b"));
        outbox.forget(&Held { run: "a".to_owned(), token: 1 });
        assert_eq!(runs(&outbox.next().unwrap()), ["b"]);
        outbox.stored(1);
        assert_eq!(outbox.bytes(), 0);
    }
}
