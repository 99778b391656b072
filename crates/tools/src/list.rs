//! `ProcessList`: the caller's own processes, newest first, a page at a time.
//!
//! Not for outcomes: a list teaches nobody how a process ended, so it suppresses no notice.

use std::cmp::Reverse;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use procyard_api::{ListArguments, ListEntry, ListResult};
use procyard_core::PublicError;
use procyard_supervisor::Snapshot;
use procyard_text::shorten;

use crate::notices::label;
use crate::output::stdin;
use crate::render;
use crate::reply::Answer;
use crate::toolbox::Toolbox;

/// Entries of a page when a call does not say.
const ENTRIES: u64 = 50;

/// Characters of a command line that are shown.
const COMMAND_SHOWN: usize = 400;

/// Carries a call out.
pub(crate) fn list(toolbox: &Toolbox, arguments: &ListArguments) -> Result<Answer, PublicError> {
    let result = page_of(toolbox, arguments)?;
    let text = render::list(&result);
    Answer::new(&result, text)
}

/// A page of the caller's own processes, for transports that list them in another form.
pub(crate) fn some(toolbox: &Toolbox, page: Option<&str>, limit: usize) -> Result<ListResult, PublicError> {
    let arguments = ListArguments {
        page: page.map(str::to_owned),
        limit: Some(limit as u64),
        ..ListArguments::default()
    };
    page_of(toolbox, &arguments)
}

fn page_of(toolbox: &Toolbox, arguments: &ListArguments) -> Result<ListResult, PublicError> {
    let (processes, next_page) = select(toolbox.supervisor().list(toolbox.owner()), arguments)?;
    let processes = processes.iter().map(entry).collect();
    Ok(ListResult { processes, next_page, notifications: Vec::new() })
}

/// The page that the arguments ask for, and where the next one begins. Newest first, and of what was admitted at the same
/// moment in an order of its own that stays: so whatever comes and goes, no page repeats or skips what stays.
pub(crate) fn select(
    mut processes: Vec<Snapshot>,
    arguments: &ListArguments,
) -> Result<(Vec<Snapshot>, Option<String>), PublicError> {
    let limit = usize::try_from(arguments.limit.unwrap_or(ENTRIES)).unwrap_or(usize::MAX);
    processes.retain(|snapshot| arguments.state.is_none_or(|state| state == snapshot.state));
    processes.sort_unstable_by_key(|snapshot| Reverse(Page::after(snapshot)));
    if let Some(shown) = arguments.page.as_deref().map(Page::parse).transpose()? {
        processes.retain(|snapshot| Page::after(snapshot) < shown);
    }
    let more = processes.len() > limit;
    processes.truncate(limit);
    let next_page = processes.last().filter(|_| more).map(|last| Page::after(last).to_text());
    Ok((processes, next_page))
}

pub(crate) fn entry(snapshot: &Snapshot) -> ListEntry {
    let ended = snapshot.state.is_terminal();
    ListEntry {
        process_id: snapshot.identity.handle,
        status: snapshot.state,
        command: shorten(&render::command_line(&snapshot.command), COMMAND_SHOWN),
        description: label(snapshot),
        tty: snapshot.terminal.is_some(),
        stdin: stdin(snapshot),
        started_at: snapshot.started_at.map(Into::into),
        finished_at: snapshot.finished_at.map(Into::into),
        exit_code: snapshot.outcome.as_ref().filter(|_| ended).and_then(|outcome| outcome.exit_code),
        total_bytes: snapshot.total_bytes,
        last_output_at: snapshot.last_output_at.map(Into::into),
    }
}

/// Where a page ended: behind this process. Made of what its owner knows anyway; the order of admission in the session
/// would tell that others exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Page {
    created_at: i64,
    handle: [u8; 16],
}

impl Page {
    fn after(snapshot: &Snapshot) -> Self {
        Self {
            created_at: snapshot.created_at.as_unix_micros(),
            handle: *snapshot.identity.handle.as_bytes(),
        }
    }

    fn to_text(self) -> String {
        let mut bytes = self.created_at.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.handle);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn parse(text: &str) -> Result<Self, PublicError> {
        let wrong = || PublicError::argument("page", "is not a `next_page` of an earlier list");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
        let (time, handle) = bytes.split_first_chunk().ok_or_else(wrong)?;
        let handle = handle.try_into().map_err(|_| wrong())?;
        Ok(Self { created_at: i64::from_be_bytes(*time), handle })
    }
}

#[cfg(test)]
mod tests {
    use procyard_core::{State, Timestamp};

    use super::*;
    use crate::testing;

    fn process(of: u8, state: State) -> Snapshot {
        let mut snapshot = testing::snapshot("sleep 5", state);
        snapshot.identity.handle = testing::handle(of);
        snapshot.created_at = Timestamp::from_unix_micros(i64::from(of));
        snapshot.sequence = u64::from(of);
        snapshot
    }

    fn newest_first(of: impl IntoIterator<Item = u8>) -> Vec<Snapshot> {
        of.into_iter().map(|of| process(of, State::Running)).collect()
    }

    fn ids(processes: &[Snapshot]) -> Vec<u8> {
        processes.iter().map(|snapshot| snapshot.identity.handle.as_bytes()[0]).collect()
    }

    #[test]
    fn pages_show_each_process_once() {
        let mut arguments = ListArguments { limit: Some(2), ..ListArguments::default() };
        let (first, next) = select(newest_first([5, 4, 3, 2, 1]), &arguments).unwrap();
        assert_eq!(ids(&first), [5, 4]);
        arguments.page = next;
        // A new process came and one that was shown is gone.
        let (second, next) = select(newest_first([6, 5, 3, 2, 1]), &arguments).unwrap();
        assert_eq!(ids(&second), [3, 2]);
        arguments.page = next;
        let (third, next) = select(newest_first([3, 2, 1]), &arguments).unwrap();
        assert_eq!((ids(&third), next), (vec![1], None));
    }

    #[test]
    fn what_began_at_one_moment_is_on_one_page_each_in_one_order() {
        let all: Vec<Snapshot> = (1..=9)
            .map(|of| Snapshot { created_at: Timestamp::from_unix_micros(5), ..process(of, State::Running) })
            .collect();
        let mut arguments = ListArguments { limit: Some(2), ..ListArguments::default() };
        let mut shown = Vec::new();
        for turn in 0.. {
            let mut there = all.clone();
            // They come in any order, and the last that was shown is evicted.
            there.rotate_left(turn);
            there.retain(|snapshot| Some(&snapshot.identity.handle.as_bytes()[0]) != shown.last());
            let (page, next) = select(there, &arguments).unwrap();
            shown.extend(ids(&page));
            arguments.page = next;
            if arguments.page.is_none() {
                break;
            }
        }
        assert_eq!(shown, [9, 8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn a_clock_that_was_set_back_changes_no_page_under_its_reader() {
        let mut arguments = ListArguments { limit: Some(2), ..ListArguments::default() };
        let (first, next) = select(newest_first([7, 6, 5]), &arguments).unwrap();
        assert_eq!(ids(&first), [7, 6]);
        arguments.page = next;
        // One was started since, at an earlier time, and the last one is gone.
        let (rest, _) = select(newest_first([4, 7, 5]), &arguments).unwrap();
        assert_eq!(ids(&rest), [5, 4]);
    }

    #[test]
    fn a_state_is_filtered_before_the_page_is_cut() {
        let processes =
            vec![process(3, State::Exited), process(2, State::Running), process(1, State::Exited)];
        let arguments =
            ListArguments { state: Some(State::Exited), limit: Some(2), ..ListArguments::default() };
        let (found, next) = select(processes, &arguments).unwrap();
        assert_eq!((ids(&found), next), (vec![3, 1], None));
    }

    #[test]
    fn a_page_that_was_not_given_out_is_refused() {
        for text in ["", "x", "AAAA", "%%%%"] {
            assert_eq!(Page::parse(text).unwrap_err().field.as_deref(), Some("page"), "{text:?}");
        }
    }
}
