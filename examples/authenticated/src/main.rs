//! A server that knows its callers. Their tokens are checked by `users.rs`, which is to be replaced by your
//! identity provider; what they may do is in their claims; and the key that the bank behind this server
//! knows them by is still there when an invoice is confirmed, next week and after a crash.

mod bank;
mod users;

use std::{fs::OpenOptions, io::Write, path::PathBuf};

use steadfast::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    /// Whether it is to be paid
    confirmed: bool,
}

/// Pay an invoice from the caller's bank account. For payers only, who have to confirm it.
#[tool(destructive, open_world)]
async fn pay_invoice(
    ctx: Context,
    /// The invoice's number
    invoice: String,
    /// In dollars
    amount: f64,
) -> Result<String> {
    // As it was when the call was made, in every replay.
    let caller = ctx.caller();
    let roles = caller.claims.get("roles").and_then(|roles| roles.as_array());
    if !roles.is_some_and(|roles| roles.iter().any(|role| role == "payer")) {
        return Err(Error::new("Only payers may pay invoices.").code("forbidden"));
    }
    let question = format!("Pay invoice {invoice} over ${amount}?");
    let reply = ctx.ask::<Confirmation>(question).key("confirmation").await?;
    if !reply.accepted().is_some_and(|answer| answer.confirmed) {
        return Ok("Not paid.".into());
    }
    // The credential is got where it is used, and goes nowhere else: what a step returns is recorded.
    let pay = |attempt: Attempt| {
        let (ctx, invoice) = (&ctx, &invoice);
        async move { bank::pay(&ctx.credential("bank")?, attempt.key(), invoice, amount).await }
    };
    let account = ctx.step("pay", pay).await?;
    Ok(format!("Paid invoice {invoice} over ${amount} from {account}."))
}

/// So that the example runs with one command. A real key comes from where your other secrets do.
fn key_for_trying() -> Result<PathBuf> {
    let file = std::env::temp_dir().join("steadfast-authenticated.key");
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(&file) {
        Ok(mut made) => {
            let mut key = [0_u8; 32];
            getrandom::fill(&mut key)?;
            let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(made, "{text}")?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.into()),
    }
    eprintln!("no --credential-key-file was given: trying it with {}", file.display());
    Ok(file)
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut flags = Flags::of_process("authenticated");
    if flags.credential_key_file.is_none() {
        flags.credential_key_file = Some(key_for_trying()?);
    }
    eprintln!("To try it, in another terminal:");
    eprintln!("  cargo run --release --bin samples-client -- --token {} \\", users::USERS[0].token);
    eprintln!("    call pay_invoice '{{\"invoice\": \"R-17\", \"amount\": 40}}'");
    eprintln!("Kill the server while it waits for you, start it again, and confirm.");
    eprintln!(
        "{} may call, and not pay. Other tokens get no further than the door.",
        users::USERS[2].token
    );
    eprintln!();
    Server::new("authenticated")
        .version(env!("CARGO_PKG_VERSION"))
        .auth(Auth::hook(users::check).attaches_credentials())
        .tool(pay_invoice)
        .run_with(flags)
        .await
}
