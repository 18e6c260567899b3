use steadfast::prelude::*;

#[tool]
async fn last(name: String, ctx: Context) -> Result<String> {
    Ok(name)
}

#[tool]
async fn borrowed(ctx: &Context) -> Result<()> {
    Ok(())
}

#[resource("orders://{id}")]
async fn order(id: String, ctx: Context) -> Result<String> {
    Ok(id)
}

fn main() {}
