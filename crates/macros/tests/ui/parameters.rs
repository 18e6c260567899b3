use steadfast::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Order {
    item: String,
}

#[tool]
async fn pattern(Order { item }: Order) -> Result<String> {
    Ok(item)
}

#[tool]
async fn nameless(_: Context, _: Order) -> Result<()> {
    Ok(())
}

#[tool]
async fn borrowed(name: &str) -> Result<String> {
    Ok(name.to_owned())
}

#[tool]
async fn attribute(#[range(1..2)] n: u32) -> Result<u32> {
    Ok(n)
}

#[tool]
async fn default(#[default = 3] n: u32) -> Result<u32> {
    Ok(n)
}

#[prompt]
async fn number(n: u32) -> Result<String> {
    Ok(n.to_string())
}

fn main() {}
