use steadfast::prelude::*;

#[tool]
async fn show<T: Serialize>(value: T) -> Result<String> {
    Ok(serde_json::to_string(&value)?)
}

#[tool]
async fn print(value: impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(&value)?)
}

fn main() {}
