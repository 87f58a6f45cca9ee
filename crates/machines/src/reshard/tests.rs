//! Moves as scenarios: what happens, and what is done about it.

use super::{Action, Event, Phase, Reshard};

/// `event: what follows`, line by line.
fn play(from: Phase, events: &[Event]) -> String {
    let shown = |actions: Vec<Action>| {
        let one = |action: &Action| match action {
            Action::Enter(phase) => format!("enter {}", phase.name()),
            Action::Do(work) => format!("{work:?}").to_lowercase(),
            Action::Wait { ms } => format!("wait {ms}"),
            Action::Rest => "rest".to_owned(),
        };
        let all: Vec<String> = actions.iter().map(one).collect();
        all.join(", ")
    };
    let (mut machine, actions) = Reshard::start(from);
    let mut text = format!("start: {}\n", shown(actions));
    for event in events {
        let name = format!("{event:?}").to_lowercase();
        text.push_str(&format!("{name}: {}\n", shown(machine.step(*event))));
    }
    text
}

use Event::{Abort, Done, Failed, Gone, Late, Pause, Stuck};

#[test]
fn a_move_from_beginning_to_end() {
    let text = play(Phase::Prepare, &[Done; 8]);
    let wanted = "start: prepare\n\
                  done: enter copy, copy\n\
                  done: enter follow, follow\n\
                  done: verify\n\
                  done: enter cut, drain\n\
                  done: settle\n\
                  done: flip\n\
                  done: prune\n\
                  done: enter done, rest\n";
    assert_eq!(text, wanted);
}

#[test]
fn clients_wait_for_no_second_try() {
    let text = play(Phase::Follow, &[Done, Done, Late, Done, Done, Done, Failed]);
    let wanted = "start: follow\n\
                  done: verify\n\
                  done: enter cut, drain\n\
                  late: enter follow, wait 500, follow\n\
                  done: verify\n\
                  done: enter cut, drain\n\
                  done: settle\n\
                  failed: enter follow, wait 1000, follow\n";
    assert_eq!(text, wanted);
}

#[test]
fn it_is_taken_back_until_the_map_is_flipped() {
    for phase in [Phase::Prepare, Phase::Copy, Phase::Follow, Phase::Cut] {
        let text = play(phase, &[Abort, Failed, Done]);
        let last =
            "abort: enter clean, clean\nfailed: wait 500, clean\ndone: enter aborted, rest\n";
        assert!(text.ends_with(last), "{text}");
    }
    assert_eq!(
        play(Phase::Prune, &[Abort]),
        "start: prune\nabort: wait 500, prune\n"
    );
}

#[test]
fn a_crash_goes_on_where_it_was() {
    assert_eq!(
        play(Phase::Cut, &[Done, Done]),
        "start: enter follow, follow\ndone: verify\ndone: enter cut, drain\n"
    );
    assert_eq!(
        play(Phase::Prune, &[Done]),
        "start: prune\ndone: enter done, rest\n"
    );
    assert_eq!(
        play(Phase::Clean, &[Done]),
        "start: clean\ndone: enter aborted, rest\n"
    );
    assert_eq!(play(Phase::Done, &[]), "start: rest\n");
}

#[test]
fn what_stands_still_lets_clients_go_on() {
    let to_cut = "start: follow\ndone: verify\ndone: enter cut, drain\n";
    for event in [Pause, Stuck] {
        let text = play(Phase::Follow, &[Done, Done, event]);
        let name = format!("{event:?}").to_lowercase();
        assert_eq!(text, format!("{to_cut}{name}: enter follow, rest\n"));
    }
    assert_eq!(play(Phase::Copy, &[Pause]), "start: copy\npause: rest\n");
}

#[test]
fn a_purged_log_begins_anew() {
    let text = play(Phase::Follow, &[Gone]);
    assert_eq!(text, "start: follow\ngone: enter prepare, prepare\n");
}
