//! Any text as a run.json.

#[path = "../../src/run_file.rs"]
#[allow(dead_code, reason = "only what decodes is called here")]
mod source;

use source::{RUN_SCHEMA, parse};

/// One case.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let run = match parse(text) {
        Ok(run) => run,
        Err(why) => return assert!(why.contains(": "), "no key is named: {why}"),
    };
    assert_eq!(run.schema, RUN_SCHEMA);
    assert!(run.run_id.as_ref().is_none_or(|id| id.len() == 16 && !id.contains(['/', '.', '\0'])));
    let again = serde_json::to_string(&run).expect("it was JSON before");
    // The same but for the last digit of a number, which serde_json rounds.
    let again = parse(&again).expect("it was just written");
    assert_eq!(
        (again.run_id, again.seed, again.instrument, again.output),
        (run.run_id, run.seed, run.instrument, run.output)
    );
    assert!(again.parameters.keys().eq(run.parameters.keys()));
    for behind in ["{}", "0", "\0", ","] {
        assert!(parse(&format!("{text}{behind}")).is_err(), "{behind:?} behind the document is taken");
    }
}
