//! The items of a batch, read from a file line by line while they are sent.
//!
//! A thread reads and a bounded channel carries, so that a million lines need no more memory than a
//! few thousand, and a command that is over does not wait for somebody to type the next line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::Stream;
use indicatif::ProgressBar;
use tokio::sync::mpsc;

use crate::exit::usage;
use crate::spec::name_of;

/// Bytes that are sent at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Pieces that have been read and not sent.
const AHEAD_MAX: usize = 4;

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// JSON, sent as it stands.
    Json,
    /// A text.
    Texts,
}

/// Lines that have yet to be read.
pub struct Lines {
    reader: Box<dyn BufRead + Send>,
    /// What to call the file in messages.
    pub name: String,
    /// How many lines have been read.
    pub number: u64,
}

/// Why reading broke off, once it has.
pub type Fault = Arc<OnceLock<String>>;

/// Reading broke off, which has been told elsewhere.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unread(String);

impl Lines {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Lines> {
        let name = name_of(path);
        let reader: Box<dyn BufRead + Send> = if path.as_os_str() == "-" {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            let file = File::open(path)
                .map_err(|error| usage(format!("cannot read '{}': {error}", path.display())))?;
            Box::new(BufReader::with_capacity(PIECE_BYTES, file))
        };
        Ok(Lines { reader, name, number: 0 })
    }

    /// Where a line stands, for messages.
    pub fn place(&self, number: u64) -> String {
        format!("{}, line {number}", self.name)
    }

    /// The next line that is not empty.
    pub fn first(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        while self.next(&mut line).map_err(|error| usage(error.0))? {
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// Reads a line with its end. False if there is none.
    fn next(&mut self, line: &mut Vec<u8>) -> Result<bool, Unread> {
        line.clear();
        let read = self.reader.read_until(b'\n', line);
        let read = read.map_err(|error| Unread(format!("cannot read {}: {error}", self.name)))?;
        self.number += u64::from(read > 0);
        Ok(read > 0)
    }

    /// The rest, piece by piece as it is asked for; and why that came to an early end, if it did.
    pub fn stream(
        mut self,
        form: Form,
        bar: ProgressBar,
    ) -> Result<(impl Stream<Item = Result<Bytes, Unread>> + Send + 'static, Fault)> {
        let (sender, pieces) = mpsc::channel(AHEAD_MAX);
        let fault = Fault::default();
        let told = fault.clone();
        let read = move || {
            loop {
                let piece = self.piece(form, &bar);
                let last = match &piece {
                    Ok(piece) if piece.is_empty() => return,
                    Ok(_) => false,
                    Err(Unread(why)) => told.set(why.clone()).is_ok(),
                };
                // Nobody listens once the server has said no.
                if sender.blocking_send(piece).is_err() || last {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("items".to_owned())
            .spawn(read)
            .context("cannot start a thread")?;
        let stream = futures::stream::unfold(pieces, async |mut pieces| {
            pieces.recv().await.map(|piece| (piece, pieces))
        });
        Ok((stream, fault))
    }

    /// Some lines, as they are sent; nothing if there are no more. An empty line stays one, so that
    /// the server counts as the file does.
    fn piece(&mut self, form: Form, bar: &ProgressBar) -> Result<Bytes, Unread> {
        let mut piece = Vec::with_capacity(PIECE_BYTES + 1024);
        let mut line = Vec::new();
        let before = self.number;
        while piece.len() < PIECE_BYTES && self.next(&mut line)? {
            match form {
                Form::Json => piece.extend_from_slice(&line),
                Form::Texts => self.push_text(&mut piece, &line)?,
            }
        }
        bar.inc(self.number - before);
        Ok(Bytes::from(piece))
    }

    fn push_text(&self, piece: &mut Vec<u8>, line: &[u8]) -> Result<(), Unread> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            let wrong = |why: String| Unread(format!("{}: {why}", self.place(self.number)));
            let text = std::str::from_utf8(line)
                .map_err(|_| wrong("the line is not UTF-8, which items must be".to_owned()))?;
            serde_json::to_writer(&mut *piece, text).map_err(|error| wrong(error.to_string()))?;
        }
        piece.push(b'\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    fn lines(text: &'static [u8]) -> Lines {
        Lines { reader: Box::new(text), name: "f".to_owned(), number: 0 }
    }

    fn sent(lines: Lines, form: Form) -> (String, Option<String>) {
        let (stream, fault) = lines.stream(form, ProgressBar::hidden()).unwrap();
        let pieces: Vec<_> = futures::executor::block_on(stream.collect());
        let bytes: Vec<u8> = pieces.into_iter().filter_map(Result::ok).flatten().collect();
        (String::from_utf8(bytes).unwrap(), fault.get().cloned())
    }

    #[test]
    fn texts_become_json_and_json_stays() {
        let text = "a \"b\"\r\n\n 1\nlast".as_bytes();
        assert_eq!(sent(lines(text), Form::Texts).0, "\"a \\\"b\\\"\"\n\n\" 1\"\n\"last\"\n");
        assert_eq!(sent(lines(b"{}\n\n[1]"), Form::Json).0, "{}\n\n[1]");
        let mut rest = lines(b"\n {\"head\": 1}\nitem\n");
        assert_eq!(rest.first().unwrap().unwrap(), b" {\"head\": 1}\n");
        assert_eq!(rest.number, 2);
        assert_eq!(sent(rest, Form::Json).0, "item\n");
        assert!(lines(b"\n\n").first().unwrap().is_none());
    }

    #[test]
    fn a_line_that_is_no_text_is_named() {
        let (_, fault) = sent(lines(b"a\n\xff\n"), Form::Texts);
        assert_eq!(fault.unwrap(), "f, line 2: the line is not UTF-8, which items must be");
    }
}
