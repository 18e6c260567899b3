//! Tools that change what the server offers.

use steadfast_engine::Error;
use steadfast_mcp::{NoInput, Prompt, Running, Tool, Unfit};

/// What comes and goes.
const NAME: &str = "test_comes_and_goes";
const ABOUT: &str = "Comes and goes.";

pub(crate) fn add_tools(running: &Running) -> Result<(), Unfit> {
    let server = running.clone();
    running.add_tool(
        Tool::plain("test_trigger_tool_change", move |_: NoInput| {
            let changed = change_tools(&server);
            async move { changed.map_err(Error::new).map(|()| "The tools have changed.") }
        })
        .description("Offers one more tool, or one less."),
    )?;
    let server = running.clone();
    running.add_tool(
        Tool::plain("test_trigger_prompt_change", move |_: NoInput| {
            let changed = change_prompts(&server);
            async move { changed.map_err(Error::new).map(|()| "The prompts have changed.") }
        })
        .description("Offers one more prompt, or one less."),
    )
}

fn change_tools(server: &Running) -> Result<(), Unfit> {
    match server.remove_tool(NAME) {
        true => Ok(()),
        false => server.add_tool(
            Tool::plain(NAME, |_: NoInput| async { Ok("Here for now.") }).description(ABOUT),
        ),
    }
}

fn change_prompts(server: &Running) -> Result<(), Unfit> {
    match server.remove_prompt(NAME) {
        true => Ok(()),
        false => server.add_prompt(
            Prompt::new(NAME, |_: NoInput| async { Ok("Here for now.") }).description(ABOUT),
        ),
    }
}
