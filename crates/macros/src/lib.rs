//! The attributes of Steadfast: an async function becomes a tool, a prompt or a resource.
//!
//! Each turns `async fn name(..)` into two things of that name, so that it can be offered and still be
//! called:
//! * `name()`, a function that makes the `Tool` (or `Prompt`, `Resource`, `Template`). A server takes
//!   `name` itself as well as `name().title("..")`.
//! * `name::call(..)`, the function as it was written, for tests and for other tools.
//!
//! Neither gets in the way of parameters and variables of the same name.

mod about;
mod arguments;
mod durable;
mod duration;
mod expansion;
mod function;
mod input;
mod parameter;
mod prompt;
mod resource;
mod tool;
mod uri;

use proc_macro::TokenStream;

/// Makes a tool of an async function. With a first parameter of type `Context` it is durable; without
/// one it is plain, and dies with its request.
///
/// ```
/// use steadfast::prelude::*;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Order { item: String, amount: f64 }
///
/// /// Submit a purchase order.
/// #[tool(title = "Purchase order", retention = "30d", tags(team = "sales"))]
/// async fn purchase_order(ctx: Context, order: Order) -> Result<String> {
///     ctx.step("charge", || async { Ok::<_, std::io::Error>(()) }).await?;
///     Ok(format!("{} is on its way", order.item))
/// }
///
/// /// Add two numbers.
/// #[tool(read_only, open_world = false)]
/// async fn add(
///     /// The first number.
///     a: i64,
///     /// The second number.
///     #[default(1)]
///     b: i64,
/// ) -> Result<i64> {
///     Ok(a + b)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let server = Server::new("orders").tool(purchase_order).tool(add);
/// assert_eq!(add::call(2, 3).await, Ok(5));
/// # }
/// ```
///
/// # Input
/// * No parameter: the tool takes nothing.
/// * One parameter whose type is an object by its JSON schema, such as a struct: it is the input.
/// * Otherwise each parameter is a field of the input, under its own name. `Option<T>` may be left out;
///   so may one with `#[default]` or `#[default(expression)]`. A doc comment on it is its description.
///   `#[serde(..)]` and `#[schemars(..)]` do what they do on the field of a struct; a single parameter
///   with one of them or with a default is always a field.
///
/// # Result
/// `Result<T>` of anything that a tool can return. The error may be any that turns into
/// `steadfast::prelude::Error`.
///
/// # Arguments
/// | | |
/// |---|---|
/// | `name = ".."` | the function's name unless given |
/// | `title = ".."` | a name for people |
/// | `description = ".."` | the doc comment unless given |
/// | `icon = "https://.."` | may be repeated |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | annotations; `= false` says the opposite |
///
/// And for durable tools:
///
/// | | |
/// |---|---|
/// | `tags(key = "value", ..)`, `tag("key" = "value")` | tags that its tasks get |
/// | `retention = "7d"` or `ttl = "7d"` | how long its tasks are kept after they end |
/// | `max_age = "2h"` | a task of this age is cancelled |
/// | `poll_interval = "500ms"` | how often clients are to ask |
/// | `task = "forbidden"`, `"optional"` or `"required"` | whether it runs as a task that clients see |
/// | `version = 2` | the version of new tasks |
/// | `oldest_version = 1` | the oldest whose tasks this code can run: `version` unless given |
/// | `hands_itself_out` | the code says when the client gets the task |
///
/// A duration is a number and `ms`, `s`, `m`, `h` or `d`; or `"forever"`, but for `poll_interval`.
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expansion::run(tool::KIND, arguments.into(), item.into(), tool::expand).into()
}

/// Makes a prompt of an async function of texts. With a first parameter of type `Context` it is
/// durable, and can ask.
///
/// ```
/// use steadfast::prelude::*;
///
/// async fn languages(typed: Completing) -> Result<Vec<String>> {
///     let known = ["French", "German"].map(str::to_owned);
///     Ok(known.into_iter().filter(|name| name.starts_with(&typed.value)).collect())
/// }
///
/// /// Ask for a translation.
/// #[prompt(title = "Translate", complete(language = languages))]
/// async fn translate(text: String, language: Option<String>) -> Result<String> {
///     Ok(format!("Translate into {}: {text}", language.as_deref().unwrap_or("English")))
/// }
///
/// let server = Server::new("words").prompt(translate);
/// ```
///
/// Parameters are as those of [`macro@tool`], but their values are texts.
///
/// Arguments: `name`, `title`, `description` and `icon` as for a tool, and `complete(argument =
/// function, ..)` with functions of a `Completing`.
#[proc_macro_attribute]
pub fn prompt(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expansion::run(prompt::KIND, arguments.into(), item.into(), prompt::expand).into()
}

/// Makes a resource of an async function; or, if there are names in braces in the URI, a template whose
/// values are the parameters of these names.
///
/// ```
/// use steadfast::prelude::*;
///
/// /// How to pay.
/// #[resource("orders://terms", mime_type = "text/markdown")]
/// async fn terms() -> Result<&'static str> {
///     Ok("# Terms")
/// }
///
/// /// The invoice of an order.
/// #[resource("orders://{id}/invoice")]
/// async fn invoice(id: u64) -> Result<String> {
///     Ok(format!("Invoice of order {id}"))
/// }
///
/// let server = Server::new("orders").resource(terms).template(invoice);
/// ```
///
/// `{name}` is anything without a slash, `{+name}` anything at all. A value is a text; a parameter that
/// takes none gets it as a number or a truth value. A parameter `uri` gets the URI itself, unless the
/// template has a value of that name.
///
/// Arguments: `name`, `title`, `description` and `icon` as for a tool, `mime_type = ".."`, and for a
/// template `complete(value = function, ..)` with functions of a `Completing`.
#[proc_macro_attribute]
pub fn resource(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let braces = arguments.to_string().contains('{');
    let kind = if braces { resource::TEMPLATE } else { resource::KIND };
    expansion::run(kind, arguments.into(), item.into(), resource::expand).into()
}
