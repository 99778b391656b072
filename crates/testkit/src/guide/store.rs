//! Testing a store of your own, or what is kept in one.
//!
//! `procyard-store` is a small trait, [`Dir`](procyard_store::Dir): who implements it for another medium can hold it against
//! [`LosingStore`](crate::LosingStore), call by call, with any sequence of calls; both must answer the same while the power
//! lasts.
//!
//! What keeps something in a `Dir`, a spool or a record of your own, is tested the other way round: over a store that
//! fails, and over one that forgets.
//!
//! ```
//! use procyard_store::{Dir, read_file, replace_file};
//! use procyard_testkit::{Failure, Fault, Faults, FaultyDir, LosingStore, Operation, PowerCuts};
//!
//! /// A counter that must never go back.
//! fn count(root: &dyn Dir) -> std::io::Result<u8> {
//!     let next = match read_file(root, "count", 1) {
//!         Ok(bytes) => bytes.first().copied().unwrap_or(0) + 1,
//!         Err(error) if error.kind() == std::io::ErrorKind::NotFound => 1,
//!         Err(error) => return Err(error),
//!     };
//!     replace_file(root, "count", &[next])?;
//!     Ok(next)
//! }
//!
//! // A full disk is an error, and what was counted is still there when there is room again.
//! let store = LosingStore::new();
//! let faults = Faults::none();
//! let root = FaultyDir::over(store.root(), &faults);
//! assert_eq!(count(&*root).unwrap(), 1);
//! faults.fail(Fault::on(&[Operation::Write]).with(Failure::NoSpace));
//! assert!(count(&*root).is_err());
//! faults.heal();
//! assert_eq!(count(&*root).unwrap(), 2);
//!
//! // Whenever the power goes and whatever it takes, nothing that was promised is gone.
//! PowerCuts { seed: 1, random_losses: 20 }.at_every_step(
//!     LosingStore::new,
//!     |store| {
//!         let promised = (0..3).map_while(|_| count(&*store.root()).ok()).last();
//!         // A number that came after the cut was promised to nobody.
//!         promised.unwrap_or(0)
//!     },
//!     |promised, after, cut| {
//!         let found = count(&*after.root()).unwrap();
//!         assert!(found > *promised, "{cut}: after {promised} came {found}");
//!     },
//! );
//! ```
//!
//! A panic in the scene or in the check is followed by the step and the loss, and the same seed gives them again.
