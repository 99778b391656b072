//! Looks ahead of the search: says by one step for each new byte whether a match may have ended, so that a text that grows
//! by little is not searched again for each little.
//!
//! Not for where a match is, or whether it fits: what the scout reports is searched.

use regex_automata::Input;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};

/// Follows one text.
pub(super) struct Scout {
    cache: Cache,
    /// `None`: it follows no text, or cannot tell.
    state: Option<LazyStateID>,
}

impl Scout {
    pub(super) fn new(automaton: &DFA) -> Self {
        Self { cache: automaton.create_cache(), state: None }
    }

    /// Whether it has followed the text up to now.
    pub(super) fn follows(&self) -> bool {
        self.state.is_some()
    }

    /// Gives the text up.
    pub(super) fn leave(&mut self) {
        self.state = None;
    }

    /// Begins at `from` of a text, for matches from there on, and follows it to its end.
    pub(super) fn begin(&mut self, automaton: &DFA, text: &str, from: usize) {
        let input = Input::new(text).range(from..);
        self.state = automaton.start_state_forward(&mut self.cache, &input).ok();
        self.follow(automaton, &text.as_bytes()[from..]);
    }

    /// Whether a match ends in what comes next, or behind it if nothing else follows; also where that cannot be told.
    pub(super) fn reports(&mut self, automaton: &DFA, bytes: &[u8]) -> bool {
        let matched = self.follow(automaton, bytes);
        let Some(state) = self.state else { return true };
        let cleared = self.cache.clear_count();
        let end = automaton.next_eoi_state(&mut self.cache, state);
        if self.cache.clear_count() != cleared {
            // The state that it goes on from was cleared away, too.
            self.state = None;
        }
        matched || end.map_or(true, |end| end.is_match())
    }

    /// Steps on; whether a match was passed. A match is seen with the byte behind it.
    fn follow(&mut self, automaton: &DFA, bytes: &[u8]) -> bool {
        let mut matched = false;
        for &byte in bytes {
            let Some(state) = self.state else { break };
            self.state = automaton.next_state(&mut self.cache, state, byte).ok();
            if let Some(state) = self.state.filter(LazyStateID::is_tagged) {
                matched |= state.is_match();
                if state.is_quit() {
                    self.state = None;
                }
            }
        }
        matched
    }
}
