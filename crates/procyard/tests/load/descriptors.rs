//! A service that begins with a low limit of descriptors.
//!
//! Not for a machine that has none left.

use std::sync::Arc;

use futures_util::future::join_all;
use procyard_api::BashArguments;

use crate::commands::Kind;
use crate::jobs::Worker;
use crate::service::Place;
use crate::tally::Tally;

#[tokio::test(flavor = "multi_thread")]
async fn a_low_soft_limit_of_descriptors_is_the_commands_and_not_the_services() {
    let place = Place::new("");
    let service = place.serve_within(Some(64)).await;
    let loops = service.session(4).await;
    let command = Some("ulimit -S -n".to_owned());
    let shown = loops[0].client.start(&BashArguments { command, ..BashArguments::default() }, None).await;
    assert_eq!(shown.unwrap().result.output, "64\n", "what a command gets is what the service began with");
    let tally = Arc::new(Tally::default());
    let workers: Vec<_> = loops.iter().map(|one| Worker::new(one.clone(), &tally)).collect();
    // 32 at a time, with a pipe or two, a spool and a connection each.
    join_all(workers.iter().enumerate().map(async |(place, worker)| {
        join_all((0..8).map(|number| worker.carry_out(Kind::Followed, place * 8 + number))).await;
    }))
    .await;
    service.finish().await;
}
