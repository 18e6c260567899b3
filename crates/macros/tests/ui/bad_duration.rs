use steadfast::prelude::*;

#[tool(retention = "7 weeks")]
async fn weeks(_: Context) -> Result<()> {
    Ok(())
}

#[tool(max_age = 7)]
async fn number(_: Context) -> Result<()> {
    Ok(())
}

#[tool(poll_interval = "forever")]
async fn never(_: Context) -> Result<()> {
    Ok(())
}

#[tool(retention = "1d", ttl = "1d")]
async fn both(_: Context) -> Result<()> {
    Ok(())
}

fn main() {}
