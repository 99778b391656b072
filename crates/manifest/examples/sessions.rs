//! Lists the sessions below a data directory and the processes in them, touching nothing.
//!
//! `cargo run -p procyard-manifest --example sessions -- DATA_DIRECTORY`. It takes no lock, so it may be run while
//! supervisors live; what they are writing is seen as it was a moment ago.

use std::error::Error;
use std::path::Path;

use procyard_manifest::{ManifestStore, SessionRoot};
use procyard_store::FsDir;

fn main() -> Result<(), Box<dyn Error>> {
    let data = std::env::args().nth(1).ok_or("usage: sessions DATA_DIRECTORY")?;
    let data = Path::new(&data);
    for session in SessionRoot::list_sessions(data)? {
        println!("{session}");
        let dir = FsDir::open(&SessionRoot::path_of(data, session))?;
        let store = ManifestStore::new(dir.clone());
        for entry in dir.list()? {
            // A scan would sweep leftovers, which only the holder of the lock may do.
            let Some(handle) = entry.name.strip_suffix(".manifest.json").and_then(|name| name.parse().ok())
            else {
                continue;
            };
            match store.load(&handle) {
                Ok(manifest) => {
                    let argv = manifest.command.argv.map(|argv| argv.join(" "));
                    let command = manifest.command.line.or(argv).unwrap_or_default();
                    let (state, bytes) = (manifest.state, manifest.spool.total_bytes);
                    println!("  {handle:?}  {state:<16} {bytes:>12} bytes  {command}");
                }
                Err(error) => println!("  {handle:?}  {error}"),
            }
        }
    }
    Ok(())
}
