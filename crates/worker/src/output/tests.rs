//! Bounds, gaps and readers of [`LiveOutput`].

use super::*;

fn text(chunks: &[Chunk]) -> String {
    chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.bytes).into_owned()).collect()
}

#[test]
fn r37_short_output_is_kept_whole_with_its_streams_in_order() {
    let output = LiveOutput::new(1000);
    output.push(Stream::Stdout, b"one ");
    output.push(Stream::Stdout, b"two ");
    output.push(Stream::Stderr, b"three ");
    output.push(Stream::Stdout, b"four");
    output.end();
    let captured = output.captured();
    let streams: Vec<_> = captured.head.iter().map(|chunk| chunk.stream).collect();
    assert_eq!(streams, [Stream::Stdout, Stream::Stderr, Stream::Stdout]);
    assert_eq!(text(&captured.head), "one two three four");
    assert_eq!((captured.total_bytes, captured.dropped_bytes), (18, 0));
    assert_eq!(captured.text(Some(Stream::Stderr)), "three ");
}

#[test]
fn r53_long_output_keeps_head_and_tail_and_counts_the_rest() {
    for limit in [0usize, 1, 7, 100, 200_000] {
        let output = LiveOutput::new(limit);
        let mut all = Vec::new();
        for number in 0..60_000 {
            let line = format!("{number}\n");
            all.extend_from_slice(line.as_bytes());
            let stream = if number % 3 == 0 { Stream::Stderr } else { Stream::Stdout };
            output.push(stream, line.as_bytes());
        }
        let captured = output.captured();
        assert_eq!(captured.total_bytes, all.len() as u64);
        let head = text(&captured.head);
        let tail = text(&captured.tail);
        assert_eq!(head.len(), limit - limit / 2, "limit {limit}");
        assert_eq!(tail.len(), limit / 2, "limit {limit}");
        assert_eq!(head.as_bytes(), &all[..head.len()]);
        assert_eq!(tail.as_bytes(), &all[all.len() - tail.len()..]);
        assert_eq!(captured.dropped_bytes, (all.len() - limit) as u64);
    }
}

#[tokio::test]
async fn r37_a_slow_reader_is_told_what_it_missed() {
    let output = LiveOutput::new(20);
    let mut follower = output.follow();
    output.push(Stream::Stdout, b"0123456789");
    let Some(Event::Output(chunk)) = follower.next().await else { panic!("no output") };
    assert_eq!(&chunk.bytes[..], b"0123456789");
    let flood = vec![b'x'; LIVE_TAIL_BYTES_MIN * 3];
    output.push(Stream::Stdout, &flood);
    output.end();
    let skipped = flood.len() as u64 - LIVE_TAIL_BYTES_MIN as u64;
    assert_eq!(follower.next().await, Some(Event::Skipped { offset: 10, bytes: skipped }));
    let mut rest = 0;
    while let Some(Event::Output(chunk)) = follower.next().await {
        rest += chunk.bytes.len();
    }
    assert_eq!(rest, LIVE_TAIL_BYTES_MIN);
    assert_eq!(follower.offset(), output.total_bytes());
}

#[tokio::test]
async fn r37_readers_wait_for_more_and_see_the_end() {
    let output = LiveOutput::new(1 << 20);
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let mut follower = output.follow();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while let Some(event) = follower.next().await {
                    let Event::Output(chunk) = event else { panic!("a gap: {event:?}") };
                    seen.extend_from_slice(&chunk.bytes);
                }
                seen
            })
        })
        .collect();
    for number in 0..1000u32 {
        output.push(Stream::Stdout, &number.to_be_bytes());
        if number % 10 == 0 {
            tokio::task::yield_now().await;
        }
    }
    output.end();
    let expected: Vec<u8> = (0..1000u32).flat_map(u32::to_be_bytes).collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap(), expected);
    }
}

#[test]
fn r37_a_persister_takes_the_head_piece_by_piece() {
    let output = LiveOutput::new(10);
    output.push(Stream::Stdout, b"abc");
    let first = output.head_since(0);
    assert_eq!(text(&first), "abc");
    output.push(Stream::Stderr, b"defghijkl");
    let second = output.head_since(first.last().unwrap().end());
    assert_eq!(text(&second), "de");
    assert!(output.head_since(second.last().unwrap().end()).is_empty());
    assert_eq!(text(&output.captured().tail), "hijkl");
    assert_eq!(output.captured().dropped_bytes, 2);
}
