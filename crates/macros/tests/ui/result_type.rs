use steadfast::prelude::*;

struct Mine;

#[tool]
async fn mine() -> Result<Mine> {
    Ok(Mine)
}

#[prompt]
async fn my_prompt() -> Result<Mine> {
    Ok(Mine)
}

#[resource(uri = "test://mine")]
async fn my_resource() -> Result<Mine> {
    Ok(Mine)
}

fn main() {}
