use steadfast::prelude::*;

#[tool(title = 3)]
async fn title(_: Context) -> Result<()> {
    Ok(())
}

#[tool(read_only = "yes")]
async fn hint(_: Context) -> Result<()> {
    Ok(())
}

#[tool(tags = "sales")]
async fn tags(_: Context) -> Result<()> {
    Ok(())
}

#[tool(task = "never")]
async fn task(_: Context) -> Result<()> {
    Ok(())
}

#[tool(version = "two")]
async fn version(_: Context) -> Result<()> {
    Ok(())
}

#[tool(version = 2, oldest_version = 3)]
async fn newer(_: Context) -> Result<()> {
    Ok(())
}

#[tool(oldest_version = 3)]
async fn alone(_: Context) -> Result<()> {
    Ok(())
}

fn main() {}
