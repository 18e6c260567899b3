use steadfast::prelude::*;

#[tool(nam = "hello")]
async fn a() -> Result<()> {
    Ok(())
}

#[tool("hello")]
async fn b() -> Result<()> {
    Ok(())
}

#[tool(title = "a", title = "b")]
async fn c() -> Result<()> {
    Ok(())
}

#[prompt(read_only)]
async fn d() -> Result<String> {
    Ok(String::new())
}

#[resource("a:b", size = 3)]
async fn e() -> Result<String> {
    Ok(String::new())
}

fn main() {}
