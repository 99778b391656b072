//! What calls cost, by kind, and how often they were told to come again later.
//!
//! Not for calls of which nobody knows how long they are to take: a wait for a process is no latency.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use procyard_client::ClientError;

/// Times of calls, from the connection on to the last byte of the answer. Shared by all clients.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Guards the times; held to add one.
    calls: Mutex<BTreeMap<&'static str, Vec<Duration>>>,
    /// Guards the counts of refusals by kind and code; held to add one.
    refused: Mutex<BTreeMap<(&'static str, String), usize>>,
}

impl Tally {
    /// Calls until there is an answer that is not "later": a 429 is waited out as long as it says. Every other refusal, and a 429
    /// that does not say how long, fails the test.
    pub(crate) async fn call<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        kind: &'static str,
        mut call: impl FnMut() -> F,
    ) -> T {
        loop {
            let began = Instant::now();
            match call().await {
                Ok(answer) => {
                    self.took(kind, began.elapsed());
                    return answer;
                }
                Err(ClientError::Refused { status: 429, error, retry_after }) => {
                    let after =
                        retry_after.unwrap_or_else(|| panic!("{kind}: a 429 without Retry-After: {error:?}"));
                    *self.refused.lock().unwrap().entry((kind, error.code.to_string())).or_default() += 1;
                    tokio::time::sleep(after).await;
                }
                Err(error) => panic!("{kind}: {error:?}"),
            }
        }
    }

    pub(crate) fn took(&self, kind: &'static str, time: Duration) {
        self.calls.lock().unwrap().entry(kind).or_default().push(time);
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<22} {:>7} {:>9} {:>9} {:>9} {:>9}  ms", "call", "count", "p50", "p95", "p99", "max")?;
        for (kind, times) in &*self.calls.lock().unwrap() {
            let mut times = times.clone();
            times.sort_unstable();
            let at = |share: usize| times[(times.len() * share).div_ceil(100).clamp(1, times.len()) - 1];
            let [p50, p95, p99, max] = [50, 95, 99, 100].map(|share| at(share).as_secs_f64() * 1e3);
            writeln!(f, "{kind:<22} {:>7} {p50:>9.1} {p95:>9.1} {p99:>9.1} {max:>9.1}", times.len())?;
        }
        for ((kind, code), count) in &*self.refused.lock().unwrap() {
            writeln!(f, "{kind:<22} {count:>7} times told to come later: {code}")?;
        }
        Ok(())
    }
}
