use steadfast::prelude::*;

#[tool]
async fn last(name: String, ctx: Context) -> Result<String> {
    Ok(name)
}

#[tool]
async fn borrowed(ctx: &Context) -> Result<()> {
    Ok(())
}

#[resource("orders://terms")]
async fn terms(ctx: Context) -> Result<String> {
    Ok(String::new())
}

fn main() {}
