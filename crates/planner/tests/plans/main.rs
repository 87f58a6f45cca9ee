//! Statements, where they go, and the texts that are made of them.

mod advised;
mod broadcast;
mod depth;
mod farm_of_views;
mod gathered;
mod keys;
mod made;
mod misplaced;
mod places;
mod reading;
mod scalars;
mod views;

/// Fails where the file of scenarios in `testdata` is not as `play` would write it. `HEDDLE_WRITE_GOLDEN=1` writes it
/// anew; read what has changed.
fn is_as_written_down(name: &str, play: impl Fn(&str) -> String) {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    let golden = std::fs::read_to_string(&path).expect("the scenarios are there");
    let played = play(&golden);
    if std::env::var_os("HEDDLE_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &played).expect("it can be written");
        return;
    }
    for (wanted, is) in golden.lines().zip(played.lines()) {
        assert_eq!(wanted, is);
    }
    assert_eq!(golden, played);
}
