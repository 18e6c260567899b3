//! A server with a tool for each thing that a test wants to see.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steadfast_engine::{Error, Reply, Result};
use steadfast_mcp::{
    CallResult, Content, Context, NoInput, Prompt, PromptMessage, Resource, Sample, Server,
    Structured, TaskSupport, Template, Tool, UrlReply, protocol_error,
};

/// Counts what happened outside the engine.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicU32>);

impl Count {
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn add(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    item: String,
    #[schemars(range(min = 1, max = 10))]
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Approval {
    approved: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    total: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Pair {
    a: i64,
    b: i64,
}

async fn approve(count: Count, ctx: Context, order: Order) -> Result<String> {
    ctx.step("reserve", || async { Ok::<_, Error>(count.add()) }).await?;
    let what =
        if order.count == 1 { order.item } else { format!("{} {}s", order.count, order.item) };
    let reply = ctx.ask::<Approval>(format!("Approve {what}?")).key("approval").await?;
    match reply {
        Reply::Accepted(answer) => Ok(format!("approved: {}", answer.approved)),
        Reply::Declined => Ok("declined".into()),
        Reply::Cancelled => Ok("dismissed".into()),
    }
}

async fn hang(count: Count, ctx: Context, _: NoInput) -> Result<String> {
    count.add();
    ctx.event::<String>("go").await
}

async fn two_questions(ctx: Context, _: NoInput) -> Result<String> {
    let first = ctx.ask::<Name>("First name?").key("first");
    let last = ctx.ask::<Name>("Last name?").key("last");
    let (first, last) = steadfast_engine::join(first.into_future(), last.into_future()).await;
    let text = |reply: Reply<Name>| reply.accepted().map_or("nobody".to_owned(), |name| name.name);
    Ok(format!("{} {}", text(first?), text(last?)))
}

async fn asks_first(ctx: Context, _: NoInput) -> Result<String> {
    let name = ctx.ask::<Name>("Who are you?").key("who").await?;
    let Some(name) = name.accepted() else { return Ok("nobody".into()) };
    ctx.immediate_response(format!("Working for {}.", name.name))?;
    let ok = ctx.ask::<Approval>("Go on?").key("go_on").await?;
    Ok(format!("{} {}", name.name, ok.accepted().is_some_and(|ok| ok.approved)))
}

async fn talks(ctx: Context, _: NoInput) -> Result<String> {
    ctx.progress(1.0, Some(3.0), Some("one"));
    ctx.log("debug", "quiet");
    ctx.log("warning", "loud");
    // Not more than before: dropped, as the protocol wants.
    ctx.progress(1.0, Some(3.0), None);
    ctx.progress(3.0, Some(3.0), Some("three"));
    ctx.step("work", || async { Ok::<_, Error>(()) }).await?;
    Ok("said".into())
}

async fn uses_client(ctx: Context, _: NoInput) -> Result<String> {
    let sample = ctx.sample(Sample::new("2 + 2?").max_tokens(10)).key("sample").await?;
    let roots = ctx.roots().key("roots").await?;
    Ok(format!("{} from {}, {} roots", sample.text(), sample.model, roots.len()))
}

async fn visits(ctx: Context, _: NoInput) -> Result<String> {
    let reply = ctx.ask_url("Please pay.", "https://pay.example.com/1").key("pay").await?;
    Ok(match reply {
        UrlReply::Accepted => "went there",
        UrlReply::Declined => "did not",
        UrlReply::Cancelled => "dismissed",
    }
    .into())
}

async fn who(ctx: Context, _: NoInput) -> Result<String> {
    let caller = ctx.caller();
    let client = caller.client_info.and_then(|info| info["name"].as_str().map(str::to_owned));
    let revision = caller.revision.map_or("none", |revision| revision.name());
    Ok(format!("{} {} {revision}", caller.principal.unwrap(), client.unwrap_or_default()))
}

fn with<I, O, F, Fut>(name: &str, count: &Count, function: F) -> Tool
where
    I: serde::de::DeserializeOwned + JsonSchema + Send + 'static,
    O: steadfast_mcp::Output,
    F: Fn(Count, Context, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
{
    let count = count.clone();
    Tool::new(name, move |ctx: Context, input: I| function(count.clone(), ctx, input))
}

pub(crate) fn server(count: &Count) -> Server {
    let required = Tool::new("required", |_: Context, _: NoInput| async { Ok("done") });
    let forbidden = Tool::new("forbidden", |_: Context, _: NoInput| async { Ok("done") });
    let panics = |_: Context, _: NoInput| async { if true { panic!("secret") } else { Ok(()) } };
    let plain_panic = |_: NoInput| async { if true { panic!("secret") } else { Ok(()) } };
    Server::new("test")
        .version("1.2.3")
        .instructions("Call them.")
        .tool(with("approve", count, approve).description("Approves an order.").title("Approve"))
        .tool(with("hang", count, hang))
        .tool(Tool::new("two_questions", two_questions))
        .tool(Tool::new("asks_first", asks_first).hands_itself_out())
        .tool(Tool::new("talks", talks))
        .tool(Tool::new("uses_client", uses_client))
        .tool(Tool::new("visits", visits))
        .tool(Tool::new("who", who))
        .tool(required.task_support(TaskSupport::Required))
        .tool(forbidden.task_support(TaskSupport::Forbidden))
        .tool(Tool::new("fails", |_: Context, _: NoInput| async {
            Err::<(), _>(Error::new("out of paper"))
        }))
        .tool(Tool::new("breaks", |_: Context, _: NoInput| async {
            Err::<(), _>(protocol_error(-31999, "the protocol is broken"))
        }))
        .tool(Tool::new("panics", panics))
        .tool(Tool::plain("plain_panic", plain_panic))
        .tool(Tool::plain("add", |pair: Pair| async move {
            Ok(Structured(Sum { total: pair.a + pair.b }))
        }))
        .tool(Tool::new("add_durably", |_: Context, pair: Pair| async move {
            Ok(Structured(Sum { total: pair.a + pair.b }))
        }))
        .tool(Tool::plain("list", |_: NoInput| async { Ok(Structured(vec![1, 2])) }))
        .tool(Tool::plain("plain_fail", |_: NoInput| async {
            Err::<(), _>(Error::new("out of ink"))
        }))
        .tool(Tool::plain("mixed", |_: NoInput| async {
            Ok(CallResult {
                content: vec![Content::text("one"), Content::image([1, 2], "image/png")],
                ..CallResult::default()
            })
        }))
        .prompt(
            Prompt::new("greet", |name: Name| async move { Ok(format!("Greet {}.", name.name)) })
                .description("Greets somebody.")
                .complete("name", |completing| async move {
                    let names = ["ada", "adam", "bob"].into_iter();
                    Ok(names.filter(|n| n.starts_with(&completing.value)).map(Into::into).collect())
                }),
        )
        .prompt(Prompt::durable("ask", |ctx: Context, _: NoInput| async move {
            let name = ctx.ask::<Name>("Who?").key("who").await?.accepted();
            Ok(PromptMessage::user(name.map_or("nobody".into(), |name| name.name)))
        }))
        .resource(Resource::new("test://text", "text", || async { Ok("hello") }))
        .resource(Resource::new("test://bytes", "bytes", || async { Ok(vec![0_u8, 255]) }))
        .template(Template::new("test://item/{id}", "item", |uri: String, values: Id| async move {
            match values.id.as_str() {
                "bad" => Err(Error::new("no such item")),
                id => Ok(format!("{uri} is {id}")),
            }
        }))
}

#[derive(Deserialize)]
struct Id {
    id: String,
}
