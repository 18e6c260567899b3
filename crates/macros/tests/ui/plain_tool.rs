use steadfast::prelude::*;

#[tool(retention = "7d")]
async fn greet(name: String) -> Result<String> {
    Ok(name)
}

fn main() {}
