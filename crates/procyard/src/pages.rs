//! The output side of a run: pages of output to the descriptors that they belong to.
//!
//! Not for reading them, nor for their pace.

use std::io;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use procyard_core::Stream;
use procyard_supervisor::Page;

/// Writes a page, each span to the descriptor of its stream, unbuffered and in order: both may be the same terminal.
/// Blocks for as long as a reader takes.
pub(crate) fn write_page(page: &Page, stdout: BorrowedFd<'_>, stderr: BorrowedFd<'_>) -> io::Result<()> {
    for span in &page.spans {
        let bytes = &page.bytes[span.offset..span.offset + span.len];
        match span.stream {
            Stream::Stdout | Stream::Terminal => write_all(stdout, bytes)?,
            Stream::Stderr => write_all(stderr, bytes)?,
        }
    }
    Ok(())
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match nix::unistd::write(to, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::EINTR) => {}
            // Whoever shares the descriptor has made it non-blocking.
            Err(Errno::EAGAIN) => await_ready(to, PollFlags::POLLOUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Blocks until a descriptor is ready, or has failed in a way that the next read or write will tell.
pub(crate) fn await_ready(descriptor: BorrowedFd<'_>, ready: PollFlags) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(descriptor, ready)], PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            polled => return polled.map(|_| ()).map_err(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use procyard_core::Timestamp;
    use procyard_supervisor::Span;

    use super::*;

    #[test]
    fn both_streams_on_one_descriptor_keep_their_order() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let span = |offset: usize, len, stream| Span {
            offset,
            cursor: offset as u64,
            len,
            stream,
            at: Timestamp::from_unix_micros(0),
        };
        let page = Page {
            spans: vec![span(0, 3, Stream::Stdout), span(3, 3, Stream::Stderr), span(6, 4, Stream::Stdout)],
            bytes: b"outerrout\n".to_vec(),
            ..Page::default()
        };
        write_page(&page, writer.as_fd(), writer.as_fd()).unwrap();
        drop(writer);
        let mut got = String::new();
        reader.read_to_string(&mut got).unwrap();
        assert_eq!(got, "outerrout\n");
    }
}
